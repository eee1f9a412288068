//! Whom this crate's clients trust.

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

/// The authorities that the system trusts.
pub(crate) fn of_system() -> ClientConfig {
    match builder().with_native_roots() {
        Ok(builder) => builder.with_no_client_auth(),
        Err(error) => {
            // Loopback works without, and that may be all that is asked for.
            tracing::warn!(%error, "the system has no certificates that can be used: nobody can be asked over https");
            builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    }
}

/// These authorities and no others.
#[cfg(feature = "upstream")]
pub(crate) fn of(roots: RootCertStore) -> ClientConfig {
    builder().with_root_certificates(roots).with_no_client_auth()
}

/// The provider is named, because rustls panics where two crates have chosen two.
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring supports the versions of TLS that rustls has")
}
