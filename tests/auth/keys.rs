//! Keys that are fetched: rotation, outages, and an issuer that does not behave.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use mcp_layers::layers::auth::{JwtVerifier, RemoteKeys};
use serde_json::json;

use crate::issuer::{
    Guarded, ISSUER, Issuer, Log, ME, Mode, NOW, claims, eddsa, es256, good, hang_up, jwks, rs256,
};

const UNKNOWN: &str = "the token is signed with a key that the issuer does not publish";

fn remote(issuer: &Issuer) -> RemoteKeys {
    RemoteKeys::new(format!("{}/keys", issuer.url)).expect("on this machine")
}

fn guarded(keys: RemoteKeys) -> Guarded<JwtVerifier> {
    Guarded::new(JwtVerifier::new(ISSUER, ME, keys))
}

#[tokio::test]
async fn a_new_key_is_fetched_when_the_first_token_names_it() {
    let (old, new) = (rs256("old", 0), eddsa("new", 2));
    let issuer = Issuer::with_keys(&[&old]).await;
    let server = guarded(remote(&issuer));
    server.show(&old.sign(&good())).await.passed();
    issuer.asked(1).await;
    issuer.set(Mode::Text(jwks(&[&old, &new])));
    let token = new.sign(&good());
    server.show(&token).await.refused(UNKNOWN);
    issuer.asked(1).await;
    server.later(10);
    server.show(&token).await.passed();
    server.show(&old.sign(&good())).await.passed();
    issuer.asked(2).await;
}

#[tokio::test]
async fn a_thousand_unknown_keys_at_once_are_one_fetch() {
    let signer = eddsa("known", 1);
    let issuer = Issuer::with_keys(&[&signer]).await;
    let server = Arc::new(guarded(remote(&issuer)));
    server.show(&signer.sign(&good())).await.passed();
    issuer.asked(1).await;
    server.later(10);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..1000 {
        let (server, signer) = (Arc::clone(&server), signer.clone());
        tasks.spawn(async move {
            let token = signer.sign_with(|header| header["kid"] = format!("unknown {n}").into(), &good());
            server.show(&token).await.refused(UNKNOWN);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("refused");
    }
    issuer.asked(2).await;
}

#[tokio::test]
async fn the_tokens_of_a_withdrawn_key_are_refused_after_the_next_refresh() {
    let (leaked, fine) = (eddsa("leaked", 1), eddsa("fine", 2));
    let issuer = Issuer::with_keys(&[&leaked, &fine]).await;
    let server = guarded(remote(&issuer));
    let long = claims(|claims| claims["exp"] = (NOW + 100_000).into());
    let (bad, good) = (leaked.sign(&long), fine.sign(&long));
    server.show(&bad).await.passed();
    server.show(&good).await.passed();
    issuer.set(Mode::Text(jwks(&[&fine])));
    server.show(&bad).await.passed();
    // Everything is remembered by now; that keys get old is seen all the same.
    server.later(600);
    server.show(&good).await.passed();
    issuer.asked(2).await;
    server.show(&bad).await.refused(UNKNOWN);
    server.show(&good).await.passed();
    // The same name for another key is another key.
    issuer.set(Mode::Text(jwks(&[&eddsa("fine", 3)])));
    server.later(600);
    server.show(&good).await.passed();
    issuer.asked(3).await;
    server.show(&good).await.refused("the token's signature is wrong");
}

#[tokio::test]
async fn an_outage_is_bridged_for_a_while_and_is_never_a_401() {
    let signer = eddsa("d", 1);
    let token = signer.sign(&claims(|claims| claims["exp"] = (NOW + 100_000).into()));
    let issuer = Issuer::with_keys(&[&signer]).await;
    let server = guarded(remote(&issuer));
    server.show(&token).await.passed();
    issuer.set(Mode::Status(StatusCode::INTERNAL_SERVER_ERROR, ""));
    server.later(600);
    server.show(&token).await.passed();
    issuer.asked(2).await;
    server.show(&eddsa("new", 2).sign(&good())).await.unavailable("10");
    server.later(2999);
    server.show(&token).await.passed();
    issuer.asked(3).await;
    server.later(1);
    server.show(&token).await.unavailable("10");
    server.show(&token).await.unavailable("10");
    issuer.set(Mode::Text(jwks(&[&signer])));
    server.later(10);
    server.show(&token).await.passed();
}

#[tokio::test]
async fn answers_that_are_no_keys_are_an_outage() {
    let signer = eddsa("d", 1);
    let elsewhere = Issuer::with_keys(&[&signer]).await;
    let location: &'static str = format!("{}/keys", elsewhere.url).leak();
    for mode in [
        Mode::Text("<!doctype html><title>Sign in</title>".to_owned()),
        Mode::Text(String::new()),
        Mode::Text(json!({"keys": {}}).to_string()),
        Mode::Text(json!({"keys": [{"kty": "oct", "k": "AAAA", "kid": "d"}]}).to_string()),
        Mode::Text(format!("{}{}", jwks(&[&signer]), " ".repeat(256 * 1024))),
        Mode::Status(StatusCode::FOUND, location),
        Mode::Status(StatusCode::NOT_FOUND, ""),
    ] {
        let issuer = Issuer::start(mode).await;
        let server = guarded(remote(&issuer));
        server.show(&signer.sign(&good())).await.unavailable("10");
        server.show(&signer.sign(&good())).await.unavailable("10");
        issuer.asked(1).await;
    }
    assert_eq!(elsewhere.requests().len(), 0, "redirects are not followed");
}

#[tokio::test]
async fn an_issuer_that_hangs_is_given_up_on_and_holds_nobody_else() {
    let signer = eddsa("d", 1);
    let issuer = Issuer::with_keys(&[&signer]).await;
    let server = Arc::new(guarded(remote(&issuer)));
    let token = signer.sign(&good());
    server.show(&token).await.passed();
    issuer.set(Mode::Hang);
    server.later(10);
    // From here on nothing is left to happen but that time passes, and it does once nothing else can.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let waiting = tokio::spawn({
        let (server, token) = (Arc::clone(&server), eddsa("new", 2).sign(&good()));
        async move { server.show(&token).await }
    });
    tokio::task::yield_now().await;
    let other = signer.sign(&claims(|claims| claims["sub"] = "bob".into()));
    server.show(&other).await.passed();
    assert!(!waiting.is_finished(), "known keys wait for no fetch");
    assert_eq!(start.elapsed(), Duration::ZERO);
    waiting.await.expect("an answer").unavailable("10");
    // The runtime's timers tick in milliseconds.
    let waited = start.elapsed();
    assert!(Duration::from_secs(5) <= waited && waited < Duration::from_millis(5_005), "{waited:?}");
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_stop_the_fetch_of_the_others() {
    let signer = eddsa("d", 1);
    let issuer = Issuer::with_keys(&[&signer]).await;
    let server = guarded(remote(&issuer));
    let token = signer.sign(&good());
    hang_up(server.show(&token)).await;
    server.show(&token).await.passed();
    issuer.asked(1).await;
}

#[tokio::test]
async fn tokens_of_each_kind_are_verified_with_keys_that_are_fetched() {
    let signers = [rs256("r", 0), es256("e"), eddsa("d", 1)];
    let issuer = Issuer::with_keys(&signers.each_ref()).await;
    let server = guarded(remote(&issuer));
    for signer in &signers {
        server.show(&signer.sign(&good())).await.passed();
    }
    issuer.asked(1).await;
}

#[tokio::test]
async fn odd_keys_are_skipped_and_the_others_are_good() {
    Log::begin();
    let signer = eddsa("d", 1);
    let issuer = Issuer::start(Mode::Text(
        json!({"keys": [7, {}, {"kty": "EC", "crv": "P-521"}, {"kty": "RSA", "n": "AQAB", "e": "AQAB"}, signer.jwk()]})
            .to_string(),
    ))
    .await;
    let server = guarded(remote(&issuer));
    server.show(&signer.sign(&good())).await.passed();
    assert_eq!(issuer.connections.load(Ordering::Relaxed), 1);
    let log = Log::text();
    assert_eq!(log.matches("skipped a key of a JWK set").count(), 4, "{log}");
}

#[tokio::test]
async fn an_issuer_is_discovered_by_its_metadata() {
    let signer = eddsa("d", 1);
    let keys = Issuer::with_keys(&[&signer]).await;
    let issuer = Issuer::start(Mode::Hang).await;
    let name = format!("{}/tenant", issuer.url);
    let metadata = |issuer: &str| {
        Mode::Text(json!({"issuer": issuer, "jwks_uri": format!("{}/keys", keys.url)}).to_string())
    };
    issuer.set(metadata(&name));
    let server = |name: &str| {
        Guarded::new(JwtVerifier::new(name, ME, RemoteKeys::discovered(name).expect("on this machine")))
    };
    let token = signer.sign(&claims(|claims| claims["iss"] = name.as_str().into()));
    server(&name).show(&token).await.passed();
    assert_eq!(issuer.requests(), ["GET /.well-known/oauth-authorization-server/tenant - "]);

    issuer.set(metadata(&format!("{name}/")));
    server(&name).show(&token).await.unavailable("10");
    assert_eq!(
        issuer.requests()[1..],
        [
            "GET /.well-known/oauth-authorization-server/tenant - ",
            "GET /.well-known/openid-configuration/tenant - ",
            "GET /tenant/.well-known/openid-configuration - ",
        ]
    );
    assert_eq!(keys.requests().len(), 1);
}
