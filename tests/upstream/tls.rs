//! TLS, and the version of HTTP that is agreed on there.

use std::sync::{Arc, Mutex};

use http::Version;
use mcp_layers::upstream::{HttpUpstream, InvalidAuthorities};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::support::*;

/// A server that agrees to these protocols, and says which versions its requests had.
async fn secure(protocols: &[&str]) -> (std::net::SocketAddr, Count, String, Arc<Mutex<Vec<Version>>>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let versions = Arc::new(Mutex::new(Vec::new()));
    let (address, connections) = raw({
        let versions = Arc::clone(&versions);
        move |socket| {
            let (acceptor, versions) = (acceptor.clone(), Arc::clone(&versions));
            async move {
                let Ok(socket) = acceptor.accept(socket).await else { return };
                let service = move |request: http::Request<_>| {
                    versions.lock().unwrap().push(request.version());
                    async { Ok(full("application/json", RESULT)) }
                };
                serve(socket, service).await;
            }
        }
    })
    .await;
    (address, connections, made.cert.pem(), versions)
}

#[tokio::test]
async fn the_version_is_agreed_on_and_one_connection_carries_all_of_http_2() {
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (address, connections, pem, versions) = secure(protocols).await;
        let client = HttpUpstream::new().with_authorities(pem.as_bytes()).unwrap();
        let service = client.at(&format!("https://localhost:{}/mcp", address.port())).unwrap();
        for _ in 0..3 {
            assert_eq!(ask(&service).await.status(), 200);
        }
        assert_eq!(connections.all(), 1);
        if version == Version::HTTP_2 {
            let asked: Vec<_> = (0..50)
                .map(|_| {
                    let service = service.clone();
                    tokio::spawn(async move { ask(&service).await.status().as_u16() })
                })
                .collect();
            for asked in asked {
                assert_eq!(asked.await.unwrap(), 200);
            }
            assert_eq!(connections.all(), 1);
        }
        assert!(versions.lock().unwrap().iter().all(|found| *found == version), "{protocols:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_502() {
    let (address, _, _, versions) = secure(&["h2"]).await;
    let (_, _, other, _) = secure(&["h2"]).await;
    let url = format!("https://localhost:{}/mcp", address.port());
    for client in [HttpUpstream::new(), HttpUpstream::new().with_authorities(other.as_bytes()).unwrap()] {
        let (status, code, _) = refused(&ask(&client.at(&url).unwrap()).await);
        assert_eq!((status, code), (502, 502));
    }
    assert!(versions.lock().unwrap().is_empty());
}

#[test]
fn authorities_are_certificates_in_pem() {
    for pem in [&b""[..], b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert_eq!(HttpUpstream::new().with_authorities(pem).unwrap_err(), InvalidAuthorities);
    }
}
