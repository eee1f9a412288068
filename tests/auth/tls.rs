//! Issuers over TLS. One that cannot prove who it is counts as one that does not answer.

use mcp_layers::layers::auth::{Introspection, IntrospectionVerifier, JwtVerifier, RemoteKeys};
use serde_json::json;

use crate::issuer::{Guarded, ISSUER, Issuer, ME, Mode, NOW, eddsa, good, jwks};

fn keys(issuer: &Issuer) -> RemoteKeys {
    RemoteKeys::new(format!("{}/keys", issuer.url)).expect("https")
}

fn introspection(issuer: &Issuer) -> Introspection {
    Introspection::new(format!("{}/introspect", issuer.url), ISSUER, ME)
}

fn by_keys(keys: RemoteKeys) -> Guarded<JwtVerifier> {
    Guarded::new(JwtVerifier::new(ISSUER, ME, keys))
}

fn by_asking(introspection: Introspection) -> Guarded<IntrospectionVerifier> {
    Guarded::new(introspection.build().expect("https"))
}

fn active() -> Mode {
    Mode::Text(json!({"active": true, "sub": "ada", "aud": ME, "exp": NOW + 300}).to_string())
}

#[tokio::test]
async fn keys_are_fetched_over_tls_from_an_issuer_that_a_given_authority_vouches_for() {
    let signer = eddsa("d", 1);
    let (issuer, root) = Issuer::start_over_tls(Mode::Text(jwks(&[&signer])), "localhost").await;
    let server = by_keys(keys(&issuer).with_authorities(root.as_bytes()).expect("a certificate"));
    assert_eq!(server.show(&signer.sign(&good())).await.passed().subject(), "ada");
    assert_eq!(issuer.requests(), ["GET /keys - "]);
}

#[tokio::test]
async fn an_issuer_is_discovered_over_tls() {
    let signer = eddsa("d", 1);
    let (issuer, root) = Issuer::start_over_tls(Mode::Text(String::new()), "localhost").await;
    let metadata = json!({"issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url)});
    issuer.set(Mode::Text(metadata.to_string()));
    let discovered = RemoteKeys::discovered(&issuer.url).expect("https");
    let discovered = discovered.with_authorities(root.as_bytes()).expect("a certificate");
    // The metadata is no set of keys; that both were asked for is what is looked at.
    by_keys(discovered).show(&signer.sign(&good())).await.unavailable("10");
    assert_eq!(issuer.requests(), ["GET /.well-known/oauth-authorization-server - ", "GET /keys - "]);
}

#[tokio::test]
async fn tokens_are_asked_about_over_tls_at_an_issuer_that_a_given_authority_vouches_for() {
    let (issuer, root) = Issuer::start_over_tls(active(), "localhost").await;
    let server = by_asking(introspection(&issuer).with_authorities(root.as_bytes()).expect("a certificate"));
    assert_eq!(server.show("t").await.passed().subject(), "ada");
    assert_eq!(issuer.requests().len(), 1);
}

#[tokio::test]
async fn an_issuer_that_is_not_trusted_is_an_outage_and_learns_nothing() {
    let signer = eddsa("d", 1);
    let token = signer.sign(&good());
    let (other, _) = Issuer::start_over_tls(Mode::Hang, "localhost").await;
    let (_, foreign) = Issuer::start_over_tls(Mode::Hang, "localhost").await;
    let (misnamed, misnamed_root) = Issuer::start_over_tls(active(), "other.example").await;
    let cases = [
        // The authorities of the system do not know this one.
        (&other, None),
        // Authorities of the same name, with different keys.
        (&other, Some(&foreign)),
        // A certificate that is good, for another name.
        (&misnamed, Some(&misnamed_root)),
    ];
    for (issuer, root) in cases {
        let (mut keys, mut introspection) = (keys(issuer), introspection(issuer));
        if let Some(root) = root {
            keys = keys.with_authorities(root.as_bytes()).expect("a certificate");
            introspection = introspection.with_authorities(root.as_bytes()).expect("a certificate");
        }
        by_keys(keys).show(&token).await.unavailable("10");
        by_asking(introspection).show(&token).await.unavailable("5");
        assert_eq!(issuer.requests(), [""; 0]);
        assert!(issuer.connections.load(std::sync::atomic::Ordering::Relaxed) >= 2, "it was tried");
    }
}

#[test]
fn what_is_no_certificate_is_an_error() {
    let keys = || RemoteKeys::new("https://issuer.example/keys").expect("https");
    let introspection = || Introspection::new("https://issuer.example/introspect", ISSUER, ME);
    let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----";
    for bad in ["", "MIIB", "-----BEGIN CERTIFICATE-----", empty].map(str::as_bytes) {
        assert!(keys().with_authorities(bad).is_err(), "{bad:?}");
        assert!(introspection().with_authorities(bad).is_err(), "{bad:?}");
    }
}
