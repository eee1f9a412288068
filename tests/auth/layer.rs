//! The layer itself: what it reads, what it answers, what it lets nobody see.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use mcp_layers::layers::auth::{AuthLayer, ProtectedResource, Token, TokenVerifier, Verified, VerifyError};
use mcp_layers::principal::Principal;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::issuer::{Guarded, Log, METADATA, resource};

/// Knows the token `good`, and counts how often it is asked.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl TokenVerifier for Counting {
    async fn verify(&self, token: &Token) -> Result<Verified, VerifyError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        let ada = Principal::new("i", "ada");
        match token.as_str() {
            "good" => Ok(ada.into()),
            "kept" => Ok(Verified::from(ada).kept_until(token.received_at() + Duration::from_secs(10))),
            "down" => Err(VerifyError::unavailable(Duration::from_millis(1500))),
            _ => Err(VerifyError::invalid("no such token")),
        }
    }
}

impl Counting {
    fn asked(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

const INNER: &str =
    "Bearer error=\"insufficient_scope\", scope=\"a\", resource_metadata=\"https://evil.example\"";

fn request(lines: &[&str]) -> Request<()> {
    let mut builder = Request::post("/mcp?access_token=good");
    for line in lines {
        builder = builder.header("authorization", *line);
    }
    builder.body(()).expect("a request")
}

#[tokio::test]
async fn without_credentials_no_error_is_named() {
    let server = Guarded::new(Counting::default());
    for lines in [&[][..], &["Basic YTpi"], &[""], &["good"]] {
        let sent = server.send(request(lines)).await;
        assert_eq!((sent.status, sent.calls), (401, 0));
        assert_eq!(sent.challenge, Some(format!("Bearer resource_metadata=\"{METADATA}\"")));
        let message = "this server needs a bearer token; `WWW-Authenticate` tells where to get one";
        assert_eq!(sent.body, format!(r#"{{"jsonrpc":"2.0","error":{{"code":401,"message":"{message}"}}}}"#));
    }
}

#[tokio::test]
async fn every_method_needs_a_token() {
    let server = Guarded::new(Counting::default());
    for method in [Method::GET, Method::DELETE, Method::OPTIONS, Method::HEAD, Method::PUT] {
        let mut request = request(&[]);
        *request.method_mut() = method;
        assert_eq!(server.send(request).await.status, 401);
    }
}

#[tokio::test]
async fn challenges_ask_for_scopes() {
    let resource = resource().with_scopes(["a", "b"]).unwrap();
    let of = async |layer: AuthLayer<Counting>| {
        let guarded = Guarded { layer, ..Guarded::new(Counting::default()) };
        (guarded.send(request(&[])).await.challenge.unwrap(), guarded.show("bad").await.challenge.unwrap())
    };
    let layer = AuthLayer::new(Counting::default(), &resource);
    let (none, bad) = of(layer.clone()).await;
    assert_eq!(none, format!("Bearer scope=\"a b\", resource_metadata=\"{METADATA}\""));
    assert_eq!(
        bad,
        format!(
            "Bearer error=\"invalid_token\", error_description=\"no such token\", scope=\"a b\", \
             resource_metadata=\"{METADATA}\""
        )
    );
    let (none, _) = of(layer.with_challenged_scopes(["c"])).await;
    assert_eq!(none, format!("Bearer scope=\"c\", resource_metadata=\"{METADATA}\""));
}

#[tokio::test]
async fn several_authorization_lines_are_a_bad_request() {
    let verifier = Counting::default();
    let server = Guarded::new(verifier.clone());
    for lines in [["Bearer good", "Bearer good"], ["Bearer good", "Basic x"]] {
        let sent = server.send(request(&lines)).await;
        assert_eq!((sent.status, sent.calls), (400, 0));
        let challenge = format!("Bearer error=\"invalid_request\", resource_metadata=\"{METADATA}\"");
        assert_eq!(sent.challenge, Some(challenge));
        let message = "the header `Authorization` comes several times: send it once";
        assert_eq!(sent.body, format!(r#"{{"jsonrpc":"2.0","error":{{"code":400,"message":"{message}"}}}}"#));
    }
    assert_eq!(verifier.asked(), 0);
}

#[tokio::test]
async fn a_malformed_token_reaches_no_verifier() {
    let verifier = Counting::default();
    let server = Guarded::new(verifier.clone());
    for line in ["Bearer", "Bearer a b", "Bearer good, Bearer good", "Bearer \"good\"", "Bearer\tgood"] {
        server.send(request(&[line])).await.refused("the token is malformed or too long");
    }
    server.show(&"a".repeat(16 * 1024 + 1)).await.refused("the token is malformed or too long");
    assert_eq!(verifier.asked(), 0);
    server.show(&"a".repeat(16 * 1024)).await.refused("no such token");
}

#[tokio::test]
async fn what_is_said_of_a_token_is_remembered_as_long_as_the_verifier_allows() {
    let verifier = Counting::default();
    let server = Guarded::new(verifier.clone());
    for _ in 0..2 {
        server.show("good").await.passed();
    }
    assert_eq!(verifier.asked(), 2, "nobody said that it may be remembered");
    for _ in 0..2 {
        server.show("kept").await.passed();
    }
    assert_eq!(verifier.asked(), 3);
    server.later(10);
    server.show("kept").await.passed();
    assert_eq!(verifier.asked(), 4);
    for _ in 0..2 {
        server.show("down").await.unavailable("2");
    }
    assert_eq!(verifier.asked(), 6);
    for _ in 0..2 {
        server.show("bad").await.refused("no such token");
    }
    assert_eq!(verifier.asked(), 7);
    let off = Guarded { layer: server.layer.clone().with_capacity(0), ..Guarded::new(verifier.clone()) };
    for _ in 0..2 {
        off.show("kept").await.passed();
    }
    assert_eq!(verifier.asked(), 9);
}

#[tokio::test]
async fn who_brings_no_token_passes_only_where_that_is_allowed() {
    let server = Guarded::new(Counting::default());
    let open = Guarded { layer: server.layer.clone().with_anonymous(true), ..server };
    let sent = open.send(request(&["Basic x"])).await;
    assert_eq!((sent.status, sent.calls), (200, 1));
    assert!(sent.principal.is_none());
    open.show("good").await.passed();
    open.show("bad").await.refused("no such token");
}

#[tokio::test]
async fn the_token_goes_on_only_where_that_is_asked_for() {
    let inner = service_fn(|request: Request<()>| async move {
        let seen = request.headers().get("authorization").map_or("none", |value| value.to_str().unwrap());
        Ok::<_, Infallible>(Response::new(Bytes::copy_from_slice(seen.as_bytes())))
    });
    let layer = AuthLayer::new(Counting::default(), &resource());
    for (forward, seen) in [(false, "none"), (true, "Bearer good")] {
        let service = layer.clone().with_forwarded_token(forward).layer(inner);
        let response = service.oneshot(request(&["Bearer good"])).await.unwrap();
        assert_eq!(response.body(), seen);
    }
}

#[tokio::test]
async fn an_inner_challenge_is_settled_and_others_are_kept() {
    let send = async |status: StatusCode, challenges: &'static [&'static str]| {
        let inner = service_fn(move |_: Request<()>| async move {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = status;
            for challenge in challenges {
                response.headers_mut().append("www-authenticate", challenge.parse().unwrap());
            }
            Ok::<_, Infallible>(response)
        });
        let service = AuthLayer::new(Counting::default(), &resource()).layer(inner);
        let response = service.oneshot(request(&["Bearer good"])).await.unwrap();
        let lines = response.headers().get_all("www-authenticate").iter();
        lines.map(|line| line.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ours = format!("Bearer resource_metadata=\"{METADATA}\"");
    let step_up =
        format!("Bearer error=\"insufficient_scope\", scope=\"a\", resource_metadata=\"{METADATA}\"");
    assert_eq!(send(StatusCode::FORBIDDEN, &[INNER, "Bearer error=\"x\""]).await, [step_up]);
    assert_eq!(send(StatusCode::UNAUTHORIZED, &[]).await, [ours.as_str()]);
    assert_eq!(
        send(StatusCode::UNAUTHORIZED, &["Negotiate, Basic realm=\"x\""]).await,
        [&ours, "Negotiate", "Basic realm=\"x\""]
    );
    assert!(send(StatusCode::OK, &[]).await.is_empty());
    assert!(send(StatusCode::FORBIDDEN, &[]).await.is_empty());
}

#[tokio::test]
async fn nothing_shows_a_token() {
    Log::begin();
    let server = Guarded::new(Counting::default());
    for token in ["sesame", "down", "sesame"] {
        let sent = server.show(token).await;
        assert!(!format!("{sent:?}").contains("sesame"));
    }
    let token = Token::new("sesame", std::time::SystemTime::UNIX_EPOCH);
    assert!(!format!("{token:?} {:?}", server.layer).contains("sesame"));
    let log = Log::text();
    assert!(log.contains("refused a bearer token") && !log.contains("sesame"), "{log}");
}

#[tokio::test]
async fn metadata_is_told_to_everybody() {
    let resource =
        ProtectedResource::new("https://mcp.example.com/mcp", ["https://i.example/", "http://localhost:9"])
            .unwrap()
            .with_scopes(["a"])
            .unwrap();
    let send = async |method: &str| {
        let request =
            Request::builder().method(method).header("access-control-request-headers", "mcp-method, x");
        resource.clone().oneshot(request.body(()).unwrap()).await.unwrap()
    };
    let document = r#"{"resource":"https://mcp.example.com/mcp","authorization_servers":["https://i.example/","http://localhost:9"],"bearer_methods_supported":["header"],"scopes_supported":["a"]}"#;
    let get = send("GET").await;
    assert_eq!(
        (get.status().as_u16(), &get.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    assert_eq!(get.headers()["access-control-allow-origin"], "*");
    let body = http_body_util::BodyExt::collect(get.into_body()).await.unwrap().to_bytes();
    assert_eq!(body, document);
    let head = send("HEAD").await;
    assert_eq!(head.headers()["content-length"], document.len().to_string());
    assert!(http_body::Body::is_end_stream(head.body()));
    let options = send("OPTIONS").await;
    assert_eq!(options.status(), 204);
    assert_eq!(options.headers()["access-control-allow-headers"], "mcp-method, x");
    assert_eq!(options.headers()["access-control-allow-methods"], "GET, HEAD, OPTIONS");
    let post = send("POST").await;
    assert_eq!(
        (post.status().as_u16(), &post.headers()["allow"]),
        (405, &"GET, HEAD, OPTIONS".parse().unwrap())
    );
}

#[test]
fn metadata_has_the_path_of_its_resource() {
    let path = |resource: &str| {
        let resource = ProtectedResource::new(resource, ["https://i.example"]).unwrap();
        (resource.path().to_owned(), resource.metadata_url())
    };
    let root = "/.well-known/oauth-protected-resource";
    for (resource, path_of, url) in [
        ("https://h", "", "https://h"),
        ("https://h/", "", "https://h"),
        ("https://h/mcp", "/mcp", "https://h"),
        ("https://h/mcp/", "/mcp/", "https://h"),
        ("https://h:8443/a/b", "/a/b", "https://h:8443"),
    ] {
        assert_eq!(
            path(resource),
            (format!("{root}{path_of}"), format!("{url}{root}{path_of}")),
            "{resource}"
        );
    }
    assert_eq!(path("https://h/mcp?t=1").1, format!("https://h{root}/mcp?t=1"));
    let both = ProtectedResource::new("https://h/mcp", ["https://i.example"]).unwrap().with_root(true);
    assert_eq!(both.paths().collect::<Vec<_>>(), [&format!("{root}/mcp"), root]);
}

#[test]
fn metadata_that_makes_no_sense_is_an_error_at_build() {
    for bad in [
        "",
        "mcp.example.com",
        "https://h#f",
        "https://u@h/",
        "ftp://h",
        "https://",
        "https://h/\"",
        "https://h/ ",
    ] {
        assert!(ProtectedResource::new(bad, ["https://i.example"]).is_err(), "{bad}");
    }
    assert!(ProtectedResource::new("https://h", [""; 0]).is_err());
    for bad in
        ["", "http://i.example", "https://i.example#f", "https://i.example?q", "http://127.0.0.1:80.evil.com"]
    {
        assert!(ProtectedResource::new("https://h", [bad]).is_err(), "{bad}");
    }
    for bad in ["offline_access", "a b", ""] {
        assert!(resource().with_scopes([bad]).is_err(), "{bad}");
    }
}
