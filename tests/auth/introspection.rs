//! Opaque tokens.

use std::time::Duration;

use http::StatusCode;
use mcp_layers::layers::auth::{Introspection, IntrospectionVerifier};
use serde_json::{Value, json};

use crate::issuer::{Guarded, ISSUER, Issuer, ME, Mode, NOW};

fn introspection(issuer: &Issuer) -> Introspection {
    Introspection::new(format!("{}/introspect", issuer.url), ISSUER, ME)
}

fn guarded(introspection: Introspection) -> Guarded<IntrospectionVerifier> {
    Guarded::new(introspection.build().expect("on this machine"))
}

fn active(change: impl FnOnce(&mut Value)) -> Mode {
    let mut answer = json!({"active": true, "sub": "ada", "client_id": "app", "scope": "a b", "aud": ME, "exp": NOW + 300});
    change(&mut answer);
    Mode::Text(answer.to_string())
}

#[tokio::test]
async fn the_issuer_is_asked_once_in_a_while() {
    let issuer = Issuer::start(active(|_| {})).await;
    let server = guarded(introspection(&issuer).with_client("me:1", "s p"));
    for _ in 0..3 {
        let principal = server.show("opaque+1").await.passed();
        assert_eq!(
            (principal.issuer(), principal.subject(), principal.client()),
            (ISSUER, "ada", Some("app"))
        );
        assert_eq!(principal.scopes(), ["a", "b"]);
    }
    let asked = "POST /introspect Basic bWUlM0ExOnMlMjBw token=opaque%2B1&token_type_hint=access_token";
    assert_eq!(issuer.requests(), [asked]);
    issuer.set(Mode::Text(r#"{"active":false}"#.to_owned()));
    server.later(30);
    server.show("opaque+1").await.refused("the token is not active");
    server.show("opaque+1").await.refused("the token is not active");
    assert_eq!(issuer.requests().len(), 2, "a refusal is remembered");
    server.later(5);
    server.show("opaque+1").await.refused("the token is not active");
    assert_eq!(issuer.requests().len(), 3);
}

#[tokio::test]
async fn what_the_issuer_says_is_checked() {
    let issuer = Issuer::start(Mode::Hang).await;
    let other = "the token is meant for another server (aud)";
    let cases: [(&str, Value, &str); 7] = [
        ("active", json!("true"), "the token is not active"),
        ("active", json!(1), "the token is not active"),
        ("aud", json!("https://other.example"), other),
        ("aud", json!(null), other),
        (
            "iss",
            json!("https://other.example"),
            "the token is from an issuer that this server does not trust (iss)",
        ),
        ("exp", json!(NOW - 60), "the token has expired"),
        ("exp", json!(null), "the token's times are not numbers (exp, nbf)"),
    ];
    for (at, (name, value, reason)) in cases.into_iter().enumerate() {
        issuer.set(active(|answer| answer[name] = value));
        guarded(introspection(&issuer)).show(&format!("t{at}")).await.refused(reason);
    }
    issuer.set(Mode::Text(json!({"active": true, "sub": "ada"}).to_string()));
    guarded(introspection(&issuer)).show("t").await.refused("the token does not say when it expires (exp)");
    let open = introspection(&issuer).with_any_audience().with_optional_expiry();
    guarded(open).show("t").await.passed();
}

#[tokio::test]
async fn an_issuer_that_cannot_be_asked_is_not_the_callers_fault() {
    for mode in [
        Mode::Hang,
        Mode::Status(StatusCode::UNAUTHORIZED, ""),
        Mode::Status(StatusCode::TEMPORARY_REDIRECT, "http://127.0.0.1:1/"),
        Mode::Text("<html>".to_owned()),
        Mode::Text("[]".to_owned()),
    ] {
        let issuer = Issuer::start(mode).await;
        let server = guarded(introspection(&issuer).with_timeout(Duration::from_millis(200)));
        server.show("t").await.unavailable("5");
        issuer.set(active(|_| {}));
        server.show("t").await.passed();
    }
}

#[test]
fn tokens_are_not_sent_where_others_can_listen() {
    for url in ["http://issuer.example/", "http://127.0.0.1:80.evil.com/", "ftp://127.0.0.1/", ""] {
        assert!(Introspection::new(url, ISSUER, ME).build().is_err(), "{url}");
    }
    assert!(Introspection::new("https://i.example", ISSUER, ME).with_bearer("a\nb").build().is_err());
}
