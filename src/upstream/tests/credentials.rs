//! Who the upstream is told asks.

use serde_json::Map;

use super::*;
use crate::principal::Principal;

fn ok() -> Response<Frames> {
    reply(200, "application/json", Frames::of([RESULT]))
}

fn asked_by(principal: Option<Principal>) -> Request<Message> {
    let mut request = message(LIST);
    if let Some(principal) = principal {
        request.extensions_mut().insert(principal);
    }
    request
}

fn ada() -> Principal {
    let claims = json!({"email": "ada@example.com", "groups": ["a", "b"], "n": 1.5, "none": null,
        "name": "Zoë", "line": "a\r\nx-admin: 1", "padded": " a", "odd": ["a,b"], "deep": {"a": 1}});
    let claims: Map<String, Value> = claims.as_object().unwrap().clone();
    Principal::new("https://issuer.example", "ada").with_scopes(["w", "r"]).with_claims(claims)
}

#[tokio::test]
async fn a_fixed_header_replaces_what_came_and_cannot_describe_the_message() {
    let layer = UpstreamLayer::new()
        .with_forwarded_headers([name("x-api-key")])
        .with_header(name("x-api-key"), value("ours"))
        .with_header(name("authorization"), value("Bearer ours"))
        .with_header(name("mcp-method"), value("tools/call"))
        .with_header(name("content-length"), value("1"));
    let mut request = asked_by(None);
    request.headers_mut().append("x-api-key", value("theirs"));
    request.headers_mut().append("x-api-key", value("theirs too"));
    let (_, seen) = ask(&layer, request, ok).await;
    let received = seen.one();
    assert_eq!(received.line("x-api-key"), Some("ours"));
    assert_eq!(received.line("authorization"), Some("Bearer ours"));
    assert!(received.head.headers["authorization"].is_sensitive());
    assert_eq!(received.line("mcp-method"), Some("tools/list"));
    assert_eq!(received.line("content-length"), Some(LIST.len().to_string().as_str()));
    assert!(!format!("{layer:?}").contains("ours"), "{layer:?}");
}

#[tokio::test]
async fn claims_are_told_and_cannot_be_made_up() {
    let header = name("x-claim");
    for (claim, told) in [
        ("sub", Some("ada")),
        ("iss", Some("https://issuer.example")),
        ("scope", Some("r w")),
        ("client_id", None),
        ("email", Some("ada@example.com")),
        ("groups", Some("a,b")),
        ("n", Some("1.5")),
        ("none", None),
        ("absent", None),
    ] {
        let layer =
            UpstreamLayer::new().with_forwarded_headers([header.clone()]).with_claim(claim, header.clone());
        for principal in [Some(ada()), None] {
            let told = told.filter(|_| principal.is_some());
            let mut request = asked_by(principal);
            request.headers_mut().insert(&header, value("made up"));
            let (_, seen) = ask(&layer, request, ok).await;
            assert_eq!(seen.one().line("x-claim"), told, "{claim}");
        }
    }
}

#[tokio::test]
async fn a_claim_that_no_header_can_tell_is_refused() {
    for claim in ["name", "line", "padded", "odd", "deep"] {
        let layer = UpstreamLayer::new().with_claim(claim, name("x-claim"));
        let (response, seen) = ask(&layer, asked_by(Some(ada())), ok).await;
        assert!(seen.all().is_empty());
        let message = format!("the claim `{claim}` of the token cannot be told to the upstream server");
        assert_refused(&got(response).await, 403, &message);
    }
}

/// Takes a while, and exchanges one token for another.
struct Exchange;

impl Credentials for Exchange {
    async fn headers(&self, request: &Request<Message>) -> Result<HeaderMap, Rejection> {
        tokio::task::yield_now().await;
        let Some(principal) = request.extensions().get::<Principal>() else {
            return Err(Rejection::unavailable("no token now", std::time::Duration::from_secs(3)));
        };
        let inbound = request.headers()["authorization"].to_str().unwrap();
        let token = format!("Bearer for {} by {inbound}", principal.subject());
        let mut headers = HeaderMap::new();
        headers.insert("authorization", token.parse().unwrap());
        headers.append("x-many", value("1"));
        headers.append("x-many", value("2"));
        headers.insert("mcp-method", value("forged"));
        headers.insert("transfer-encoding", value("chunked"));
        Ok(headers)
    }
}

#[tokio::test]
async fn credentials_may_be_waited_for_and_see_the_request() {
    let layer = UpstreamLayer::new().with_credentials(Exchange);
    let mut request = asked_by(Some(ada()));
    request.headers_mut().insert("authorization", value("Bearer inbound"));
    let (response, seen) = ask(&layer, request, ok).await;
    assert_eq!(response.status(), StatusCode::OK);
    let received = seen.one();
    assert_eq!(received.line("authorization"), Some("Bearer for ada by Bearer inbound"));
    assert!(received.head.headers["authorization"].is_sensitive());
    assert_eq!(received.head.headers.get_all("x-many").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(received.line("mcp-method"), Some("tools/list"));
    assert_eq!(received.line("transfer-encoding"), None);
}

#[tokio::test]
async fn without_credentials_the_upstream_is_not_asked() {
    let layer = UpstreamLayer::new().with_credentials(Exchange);
    let (response, seen) = ask(&layer, asked_by(None), ok).await;
    assert!(seen.all().is_empty());
    let got = got(response).await;
    assert_refused(&got, 503, "no token now");
    assert_eq!(got.headers["retry-after"], "3");
}
