//! The whole stack in axum, in plain hyper and over HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use mcp_layers::body::Body;
use mcp_layers::dispatch::{Dispatch, Tool};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::auth::{AuthLayer, JwtVerifier, ProtectedResource, StaticKeys};
use mcp_layers::layers::scope::{ScopeLayer, ScopeRules};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::{Layer as _, Service, ServiceBuilder, service_fn};

use crate::issuer::{ISSUER, ME, METADATA, Signer, claims, eddsa, jwks, serve};

/// Tokens here are looked at with the system's clock.
fn token(signer: &Signer, scope: &str) -> String {
    signer.sign(&claims(|claims| {
        claims["exp"] = 4_000_000_000_u64.into();
        claims["scope"] = scope.into();
    }))
}

fn auth(signer: &Signer) -> AuthLayer<JwtVerifier> {
    let keys = StaticKeys::from_jwks(jwks(&[signer])).expect("keys");
    AuthLayer::new(JwtVerifier::new(ISSUER, ME, keys), &resource())
}

fn resource() -> ProtectedResource {
    ProtectedResource::new(ME, [ISSUER])
        .and_then(|resource| resource.with_scopes(["mcp"]))
        .expect("a resource")
}

fn dispatch() -> (Dispatch, ScopeLayer) {
    let tool = |name: &str| Tool::raw(name, json!({"type": "object"}), |_, _| async { Ok("done") });
    let server = Dispatch::builder("s", "1.0.0")
        .tool(tool("read"))
        .tool(tool("write").with_scopes("files:write"))
        .build()
        .expect("a server");
    let rules = ScopeRules::new().with_endpoint("mcp").with_catalog(server.clone());
    (server, ScopeLayer::new(rules).expect("rules"))
}

macro_rules! stack {
    ($signer:expr) => {{
        let (server, scopes) = dispatch();
        ServiceBuilder::new().layer(auth($signer)).layer(EndpointLayer::new()).layer(scopes).service(server)
    }};
}

struct Answered {
    status: u16,
    challenges: Vec<String>,
    body: Value,
}

async fn post(
    address: SocketAddr,
    version: Version,
    token: Option<&str>,
    method: &str,
    params: Value,
) -> Answered {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut request = Request::post(format!("http://{address}/mcp"))
        .version(version)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(token) = token {
        request = request.header("authorization", format!("bearer  {token}"));
    }
    let client = Client::builder(TokioExecutor::new())
        .http2_only(version == Version::HTTP_2)
        .build_http::<Full<Bytes>>();
    let response = client.request(request.body(body.into()).unwrap()).await.expect("an answer");
    assert_eq!(response.version(), version);
    let challenges = response.headers().get_all("www-authenticate").iter();
    let challenges = challenges.map(|value| value.to_str().unwrap().to_owned()).collect();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answered { status, challenges, body: serde_json::from_slice(&body).expect("JSON") }
}

/// 401, step-up, a filtered list and a 200.
async fn walk(address: SocketAddr, version: Version, signer: &Signer) {
    let call = json!({"name": "write"});
    let none = post(address, version, None, "tools/call", call.clone()).await;
    assert_eq!(none.status, 401);
    assert_eq!(none.challenges, [format!("Bearer scope=\"mcp\", resource_metadata=\"{METADATA}\"")]);
    assert_eq!(none.body["error"]["code"], 401);

    let some = token(signer, "mcp");
    let less = post(address, version, Some(&some), "tools/call", call.clone()).await;
    assert_eq!(less.status, 403);
    assert_eq!(
        less.challenges,
        [format!(
            "Bearer error=\"insufficient_scope\", error_description=\"this operation needs the scopes mcp \
             files:write\", scope=\"mcp files:write\", resource_metadata=\"{METADATA}\""
        )]
    );
    assert_eq!((&less.body["id"], &less.body["error"]["code"]), (&json!(1), &json!(403)));

    let list = post(address, version, Some(&some), "tools/list", json!({})).await;
    assert_eq!((list.status, list.body["result"]["tools"].as_array().unwrap().len()), (200, 1));
    assert_eq!(list.body["result"]["cacheScope"], "private");

    let more = token(signer, "mcp files:write");
    for _ in 0..2 {
        let done = post(address, version, Some(&more), "tools/call", call.clone()).await;
        assert_eq!((done.status, &done.body["result"]["content"][0]["text"]), (200, &json!("done")));
    }
    let unknown = post(address, version, Some(&some), "tools/call", json!({"name": "rm"})).await;
    assert_eq!((unknown.status, unknown.challenges.len()), (400, 0));
    assert_eq!(unknown.body["error"]["code"], -32602);
}

#[tokio::test]
async fn in_plain_hyper_over_http_1_and_http_2() {
    let signer = eddsa("d", 1);
    let address = serve(stack!(&signer)).await;
    walk(address, Version::HTTP_11, &signer).await;
    walk(address, Version::HTTP_2, &signer).await;
}

#[tokio::test]
async fn in_axum_with_the_metadata_of_two_resources() {
    let signer = eddsa("d", 1);
    let other = ProtectedResource::new("https://mcp.example.com/other", [ISSUER]).unwrap();
    let router = axum::Router::new()
        .route_service(resource().path(), resource())
        .route_service(other.path(), other.clone())
        .route_service("/mcp", stack!(&signer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    walk(address, Version::HTTP_11, &signer).await;
    walk(address, Version::HTTP_2, &signer).await;

    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    for (resource, name) in [(resource(), ME), (other, "https://mcp.example.com/other")] {
        let url = format!("http://{address}{}", resource.path()).parse().unwrap();
        let body = client.get(url).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["resource"], name);
    }
}

fn counted<B: Send + 'static>(
    calls: &Arc<AtomicUsize>,
) -> impl Service<Request<B>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    let calls = Arc::clone(calls);
    service_fn(move |_: Request<B>| {
        calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Response::new(Body::from(Bytes::from("inner")))))
    })
}

/// Something behind authentication that counts.
async fn counting(in_axum: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let layer = auth(&eddsa("d", 1));
    let address = if in_axum {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().route_service("/mcp", layer.layer(counted(&calls)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    } else {
        serve(layer.layer(counted(&calls))).await
    };
    (address, calls)
}

/// A socket of our own, because a client would not send such a thing. Returns what came back.
async fn send_token(address: SocketAddr, length: usize) -> String {
    let (mut read, mut write) = tokio::net::TcpStream::connect(address).await.unwrap().into_split();
    let token = "a".repeat(length);
    // The server need not read it all, and need not wait for it.
    let sending = tokio::spawn(async move {
        let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n";
        let text = format!("{head}authorization: Bearer {token}\r\n\r\n");
        let _ = write.write_all(text.as_bytes()).await;
        write
    });
    let mut answer = Vec::new();
    let _ = read.read_to_end(&mut answer).await;
    drop(sending.await);
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_token_of_a_megabyte_is_refused_before_anything_looks_at_it() {
    for in_axum in [false, true] {
        let (address, calls) = counting(in_axum).await;
        // The server itself refuses a head of that length, with this status and without a body.
        let answer = send_token(address, 1 << 20).await;
        assert!(answer.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        // What it lets through is refused by us.
        let answer = send_token(address, 17 << 10).await;
        assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{answer}");
        assert!(answer.contains("error=\"invalid_token\""), "{answer}");
        assert_eq!(calls.load(Ordering::Relaxed), 0, "{in_axum}");
    }
}

#[tokio::test]
async fn over_http_2_a_token_of_a_megabyte_is_refused_as_well() {
    for in_axum in [false, true] {
        let (address, calls) = counting(in_axum).await;
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<Bytes>>();
        let send = async |length: usize| {
            let request = Request::post(format!("http://{address}/mcp"))
                .version(Version::HTTP_2)
                .header("authorization", format!("Bearer {}", "a".repeat(length)));
            client.request(request.body(Full::default()).unwrap()).await
        };
        assert_eq!(send(17 << 10).await.expect("an answer").status(), 431);
        // The pieces of such a head are so many that the server closes the connection.
        let error = send(1 << 20).await.expect_err("no answer");
        assert!(format!("{error:?}").contains("ENHANCE_YOUR_CALM"), "{error:?}");
        assert_eq!(calls.load(Ordering::Relaxed), 0, "{in_axum}");
    }
}

#[tokio::test]
async fn in_front_of_a_plain_route_of_axum() {
    let signer = eddsa("d", 1);
    let hello = |principal: axum::Extension<mcp_layers::principal::Principal>| async move {
        principal.subject().to_owned()
    };
    let router = axum::Router::new().route("/", axum::routing::get(hello)).layer(auth(&signer));
    let get = async |authorization: String| {
        let request =
            Request::get("/").header("authorization", authorization).body(axum::body::Body::empty());
        let response = tower::ServiceExt::oneshot(router.clone(), request.unwrap()).await.unwrap();
        (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes())
    };
    assert_eq!(get(format!("Bearer {}", token(&signer, ""))).await, (200, "ada".into()));
    assert_eq!(get("Bearer x".to_owned()).await.0, 401);
}
