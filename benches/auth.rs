//! What a verified token costs a `tools/call`: without auth, with a token that is remembered, and with one that is
//! verified every time.
//!
//! `cargo bench --all-features --bench auth`. A remembered token is to cost at most 1.3 times the call without auth,
//! measured over a socket, which is how a call arrives; `in_process` leaves the socket out and shows more of it. What it
//! is in instructions, `benches/layers.rs` says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::LazyLock;

use bytes::Bytes;
use divan::{AllocProfiler, Bencher};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use mcp_layers::body::Body;
use mcp_layers::dispatch::{Dispatch, Tool};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::auth::{AuthLayer, JwtVerifier, ProtectedResource, StaticKeys};
use rsa::Generate as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use serde_json::json;
use tokio::runtime::Runtime;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, Service as _, ServiceBuilder, ServiceExt as _};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const ISSUER: &str = "https://issuer.example";
const ME: &str = "https://mcp.example.com/mcp";
const CASES: [&str; 3] = ["none", "remembered", "verified"];

fn main() {
    divan::main();
}

static KEY: LazyLock<EncodingKey> = LazyLock::new(|| {
    let der = rsa::PrivateKey::generate().to_pkcs1_der().expect("a key");
    EncodingKey::from_rsa_der(der.as_bytes())
});

/// A token of the usual size, about 800 bytes.
static TOKEN: LazyLock<String> = LazyLock::new(|| {
    let claims = json!({
        "iss": ISSUER, "aud": ME, "sub": "auth0|5f7c8ec7c33c6c004bbafe82", "client_id": "my-client-application",
        "iat": 1_700_000_000, "exp": 4_000_000_000_u64, "jti": "b7a3f5b2-8f7d-4a3e-9a55-0f1c9be1b9d2",
        "scope": "openid profile email files:read files:write tools:call",
    });
    let header = Header { kid: Some("key-2026-01".to_owned()), ..Header::new(Algorithm::RS256) };
    jsonwebtoken::encode(&header, &claims, &KEY).expect("a token")
});

type Stack = BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, Infallible>;
type Net = BoxCloneSyncService<Request<hyper::body::Incoming>, Response<Body>, Infallible>;

fn server() -> Dispatch {
    let tool = Tool::raw("t", json!({"type": "object"}), |_, _| async { Ok("done") });
    Dispatch::builder("s", "1.0.0").tool(tool).build().expect("a server")
}

fn auth(case: &str) -> AuthLayer<JwtVerifier> {
    let mut jwk = json!(Jwk::from_encoding_key(&KEY, Algorithm::RS256).expect("a public key"));
    jwk["kid"] = "key-2026-01".into();
    let keys = StaticKeys::from_jwks(json!({"keys": [jwk]}).to_string()).expect("keys");
    let resource = ProtectedResource::new(ME, [ISSUER]).expect("a resource");
    let capacity = if case == "verified" { 0 } else { 10_000 };
    AuthLayer::new(JwtVerifier::new(ISSUER, ME, keys), &resource).with_capacity(capacity)
}

macro_rules! stack {
    ($case:expr, $boxed:ty) => {{
        let endpoint = ServiceBuilder::new().layer(EndpointLayer::new()).service(server());
        if $case == "none" { <$boxed>::new(endpoint) } else { <$boxed>::new(auth($case).layer(endpoint)) }
    }};
}

/// The token is sent in every case: what differs is who looks at it.
fn request(uri: &str) -> Request<Full<Bytes>> {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{}},"_meta":{meta}}}}}"#
    );
    Request::post(uri)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("authorization", format!("Bearer {}", *TOKEN))
        .body(body.into())
        .expect("a request")
}

async fn call(mut stack: Stack, request: Request<Full<Bytes>>) {
    let response = stack.ready().await.expect("infallible").call(request).await.expect("infallible");
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.expect("a body");
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[divan::bench(args = CASES)]
fn in_process(bencher: Bencher<'_, '_>, case: &str) {
    let (runtime, stack) = (runtime(), stack!(case, Stack));
    runtime.block_on(call(stack.clone(), request("/mcp")));
    bencher
        .with_inputs(|| request("/mcp"))
        .bench_values(|request| runtime.block_on(call(stack.clone(), request)));
}

/// Serves a stack on the same thread as the client, so that the time of a call is that of both.
async fn serve(stack: Net) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper_util::service::TowerToHyperService::new(stack.clone());
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

#[divan::bench(args = CASES)]
fn over_a_socket(bencher: Bencher<'_, '_>, case: &str) {
    let runtime = runtime();
    let address = runtime.block_on(serve(stack!(case, Net)));
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let uri = format!("http://{address}/mcp");
    let send = async |request| {
        let response = client.request(request).await.expect("an answer");
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.expect("a body");
    };
    runtime.block_on(send(request(&uri)));
    bencher.with_inputs(|| request(&uri)).bench_values(|request| runtime.block_on(send(request)));
}
