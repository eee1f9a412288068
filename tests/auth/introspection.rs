//! Opaque tokens.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use mcp_layers::layers::auth::{Introspection, IntrospectionVerifier};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::issuer::{Guarded, ISSUER, Issuer, Log, ME, Mode, NOW, hang_up};

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
        Mode::Status(StatusCode::UNAUTHORIZED, ""),
        Mode::Status(StatusCode::TEMPORARY_REDIRECT, "http://127.0.0.1:1/"),
        Mode::Text("<html>".to_owned()),
        Mode::Text("[]".to_owned()),
    ] {
        let issuer = Issuer::start(mode).await;
        let server = guarded(introspection(&issuer));
        server.show("t").await.unavailable("5");
        issuer.set(active(|_| {}));
        server.show("t").await.passed();
    }
}

#[tokio::test]
async fn an_issuer_that_hangs_is_given_up_on() {
    let issuer = Issuer::start(Mode::Hang).await;
    let server = guarded(introspection(&issuer));
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    server.show("t").await.unavailable("5");
    // The runtime's timers tick in milliseconds.
    let waited = start.elapsed();
    assert!(Duration::from_secs(5) <= waited && waited < Duration::from_millis(5_005), "{waited:?}");
    tokio::time::resume();
    issuer.set(active(|_| {}));
    server.show("t").await.passed();
}

#[tokio::test]
async fn requests_with_one_token_at_one_time_share_one_question() {
    let issuer = Issuer::start(active(|_| {})).await;
    // Not remembered: what is shared is the question.
    let server = Arc::new(guarded(introspection(&issuer).with_kept_for(Duration::ZERO)));
    let mut tasks = JoinSet::new();
    for n in 0..1_000 {
        let server = Arc::clone(&server);
        tasks.spawn(async move { server.show(["t", "u"][n % 2]).await.passed() });
    }
    assert_eq!(tasks.join_all().await.len(), 1_000);
    let mut asked = issuer.requests();
    asked.sort();
    let about = |token: &str| format!("POST /introspect - token={token}&token_type_hint=access_token");
    assert_eq!(asked, [about("t"), about("u")]);
    server.show("t").await.passed();
    assert_eq!(issuer.requests().len(), 3, "what was said to those is not kept");
}

#[tokio::test]
async fn what_is_refused_or_cannot_be_told_is_shared_as_well() {
    let issuer = Issuer::start(Mode::Text(r#"{"active":false}"#.to_owned())).await;
    let server = guarded(introspection(&issuer));
    let (one, other) = tokio::join!(server.show("t"), server.show("t"));
    for sent in [one, other] {
        sent.refused("the token is not active");
    }
    assert_eq!(issuer.requests().len(), 1);
    issuer.set(Mode::Status(StatusCode::INTERNAL_SERVER_ERROR, ""));
    let (one, other) = tokio::join!(server.show("u"), server.show("u"));
    for sent in [one, other] {
        sent.unavailable("5");
    }
    assert_eq!(issuer.requests().len(), 2);
}

#[tokio::test]
async fn a_caller_that_hangs_up_takes_the_question_from_nobody() {
    let issuer = Issuer::start(active(|_| {})).await;
    let server = Arc::new(guarded(introspection(&issuer)));
    let show = || {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.show("t").await })
    };
    let (leader, follower) = (show(), show());
    // Both have begun to wait, the first of them with the question in its hands.
    tokio::task::yield_now().await;
    assert!(!leader.is_finished() && !follower.is_finished());
    leader.abort();
    assert!(leader.await.expect_err("was stopped").is_cancelled());
    follower.await.expect("an answer").passed();
    assert_eq!(issuer.requests().len(), 1);

    // Where all hang up, nothing is left behind that the next would wait for.
    let server = guarded(introspection(&issuer));
    hang_up(server.show("u")).await;
    server.show("u").await.passed();
}

#[tokio::test]
async fn nothing_shows_the_token_or_the_secret_that_it_is_asked_about_with() {
    Log::begin();
    for (mode, line) in [
        (Mode::Text("sesame, open".to_owned()), "cannot ask the issuer about a token"),
        (Mode::Status(StatusCode::UNAUTHORIZED, ""), "answered with status 401"),
        (Mode::Text(r#"{"active":false}"#.to_owned()), "the token is not active"),
    ] {
        let issuer = Issuer::start(mode).await;
        let asking = introspection(&issuer).with_client("me", "hush");
        assert!(!format!("{asking:?}").contains("hush"));
        let server = guarded(asking);
        let sent = server.show("sesame").await;
        assert!(!format!("{sent:?} {:?}", server.layer).contains("sesame"));
        let log = Log::text();
        assert!(log.contains(line), "{log}");
        // `bWU6aHVzaA==` is what both are sent as.
        assert!(!["sesame", "hush", "bWU6aHVzaA"].iter().any(|secret| log.contains(secret)), "{log}");
    }
}

#[test]
fn tokens_are_not_sent_where_others_can_listen() {
    for url in ["http://issuer.example/", "http://127.0.0.1:80.evil.com/", "ftp://127.0.0.1/", ""] {
        assert!(Introspection::new(url, ISSUER, ME).build().is_err(), "{url}");
    }
    assert!(Introspection::new("https://i.example", ISSUER, ME).with_bearer("a\nb").build().is_err());
}
