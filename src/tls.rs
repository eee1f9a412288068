//! Whom this crate's clients trust.

use hyper_rustls::ConfigBuilderExt as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

/// The authorities that the system trusts.
pub(crate) fn of_system() -> ClientConfig {
    match builder().with_native_roots() {
        Ok(builder) => builder.with_no_client_auth(),
        Err(error) => {
            // Loopback works without, and that may be all that is asked for.
            tracing::warn!(%error, "the system has no certificates that can be used: nobody can be asked over https without \
                 `with_authorities`");
            builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    }
}

/// The authorities whose certificates are in `pem`, and no others; `None` if there are none, or one cannot be read.
pub(crate) fn of(pem: &[u8]) -> Option<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.ok()?).ok()?;
    }
    (!roots.is_empty()).then(|| builder().with_root_certificates(roots).with_no_client_auth())
}

/// The provider is named, because rustls panics where two crates have chosen two.
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring supports the versions of TLS that rustls has")
}
