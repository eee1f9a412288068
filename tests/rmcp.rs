//! The stack in front of a server of rmcp's, in the same process.
//!
//! Each test of a gap shows what rmcp does alone, and that it does not happen behind the stack.
#![cfg(feature = "cache")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use mcp_layers::body::Body;
use mcp_layers::catalog::StaticCatalog;
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::auth::{AuthLayer, ProtectedResource, Token, TokenVerifier, Verified, VerifyError};
use mcp_layers::layers::cache::{CacheLayer, ResponseCache};
use mcp_layers::layers::request_state::{StateKey, StateKeys};
use mcp_layers::layers::{
    CapabilityLayer, HeadersLayer, OriginLayer, ParamsLayer, RequestStateLayer, ScopeLayer, ScopeRules,
    VersionLayer,
};
use mcp_layers::principal::Principal;
use mcp_layers::upstream::UpstreamLayer;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, InputRequest, InputRequests, InputRequiredResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tower::util::BoxCloneService;
use tower::{ServiceBuilder, ServiceExt as _};

/// Counts how often the server is asked for anything.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<AtomicUsize>,
}

fn shard_schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}})
}

fn tool(name: &'static str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { unreachable!() };
    Tool::new(name, name, Arc::new(schema))
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text.into())]).into()
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "shard").then(|| tool("shard", shard_schema()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let object = || json!({"type": "object"});
        let tools = vec![tool("whoami", object()), tool("shard", shard_schema()), tool("ask", object())];
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(60_000).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match &*call.name {
            "whoami" => {
                let head = context.extensions.get::<http::request::Parts>().expect("the head of the request");
                let principal = head.extensions.get::<Principal>();
                Ok(text(principal.map_or("nobody", Principal::subject)))
            }
            "shard" => Ok(text(format!("{}", call.arguments.unwrap_or_default()["n"]))),
            "ask" => match call.request_state.as_deref() {
                None => {
                    let question = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
                        meta: None,
                        message: "Name?".into(),
                        requested_schema: serde_json::from_value(json!({"type": "object", "properties": {}}))
                            .expect("is a schema"),
                    });
                    let mut requests = InputRequests::new();
                    requests.insert("name".to_owned(), InputRequest::Elicitation(question));
                    Ok(InputRequiredResult::new(Some(requests), Some("rmcp's own state".into())).into())
                }
                Some(state) => Ok(text(state)),
            },
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }
}

type Gateway = BoxCloneService<Request<Body>, http::Response<Body>, Infallible>;
type Rmcp = StreamableHttpService<Server, NeverSessionManager>;

fn rmcp(server: &Server, json: bool) -> Rmcp {
    let server = server.clone();
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(json);
    StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config)
}

/// rmcp as it is.
fn alone(server: &Server) -> Gateway {
    let service = ServiceBuilder::new().map_response(|response: http::Response<_>| response.map(Body::new));
    Gateway::new(service.service(rmcp(server, true)))
}

/// Tokens are who they stand for, and everybody may do everything but `ask`.
struct Names;

impl TokenVerifier for Names {
    async fn verify(&self, token: &Token) -> Result<Verified, VerifyError> {
        let scopes = if token.as_str() == "ada" { vec!["mcp", "ask"] } else { vec!["mcp"] };
        Ok(Principal::new("https://issuer.example", token.as_str()).with_scopes(scopes).into())
    }
}

/// rmcp behind everything that this crate has.
fn behind(server: &Server, json: bool) -> Gateway {
    let resource = ProtectedResource::new("https://mcp.example/mcp", ["https://issuer.example"]).unwrap();
    let schema = shard_schema();
    let catalog = StaticCatalog::new([("shard", &schema)]).unwrap();
    let rules = ScopeRules::new().with_endpoint("mcp").with_tool("ask", "ask");
    let keys = StateKeys::new([StateKey::new(b"thirty-two bytes from a real RNG").unwrap()]).unwrap();
    let stack = ServiceBuilder::new()
        .layer(OriginLayer::new())
        .layer(AuthLayer::new(Names, &resource))
        .layer(EndpointLayer::new())
        .layer(VersionLayer::new())
        .layer(HeadersLayer::new().with_catalog(catalog.clone()))
        .layer(ScopeLayer::new(rules).unwrap())
        .layer(CapabilityLayer::new())
        .layer(ParamsLayer::new())
        .layer(CacheLayer::new(ResponseCache::new("rmcp")))
        .layer(RequestStateLayer::new(keys, "https://mcp.example/mcp"))
        .layer(UpstreamLayer::new().with_catalog(catalog))
        .service(rmcp(server, json));
    Gateway::new(stack)
}

const VERSION: &str = "2026-07-28";

/// A request of Ada's that is right in every way.
fn request(method: &str, params: Value) -> Request<Body> {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let name = params["name"].as_str().map(str::to_owned);
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
    let mut request = Request::post("http://localhost/mcp")
        .header("host", "localhost")
        .header("authorization", "Bearer ada")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", method);
    if let Some(name) = name {
        request = request.header("mcp-name", name);
    }
    request.body(body.into()).unwrap()
}

fn call(name: &str, arguments: Value) -> Request<Body> {
    request("tools/call", json!({"name": name, "arguments": arguments}))
}

fn with(mut request: Request<Body>, name: &'static str, value: &'static str) -> Request<Body> {
    request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
    request
}

/// Status and message; the last message of a stream.
async fn ask(gateway: &Gateway, request: Request<Body>) -> (StatusCode, Value) {
    let response = gateway.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(text);
    (status, serde_json::from_str(last).unwrap_or_else(|_| text.into()))
}

#[track_caller]
fn assert_text(answer: &(StatusCode, Value), text: &str) {
    assert_eq!(
        (answer.0.as_u16(), &answer.1["result"]["content"][0]["text"]),
        (200, &json!(text)),
        "{answer:?}"
    );
}

#[track_caller]
fn assert_refused(answer: &(StatusCode, Value), status: u16, code: i64) {
    assert_eq!((answer.0.as_u16(), &answer.1["error"]["code"]), (status, &json!(code)), "{answer:?}");
}

#[tokio::test]
async fn the_principal_reaches_the_tool_and_the_token_does_not() {
    for json in [true, false] {
        let gateway = behind(&Server::default(), json);
        assert_text(&ask(&gateway, call("whoami", json!({}))).await, "ada");
        let mut bob = call("whoami", json!({}));
        bob.headers_mut().insert("authorization", HeaderValue::from_static("Bearer bob"));
        assert_text(&ask(&gateway, bob).await, "bob");
    }
}

#[tokio::test]
async fn scopes_decide_what_is_called_and_what_is_listed() {
    for json in [true, false] {
        let server = Server::default();
        let gateway = behind(&server, json);
        let as_bob = |mut request: Request<Body>| {
            request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer bob"));
            request
        };
        assert_refused(&ask(&gateway, as_bob(call("ask", json!({})))).await, 403, 403);
        assert_eq!(server.asked.load(Ordering::Relaxed), 0);
        let names = |answer: (StatusCode, Value)| -> Vec<String> {
            let tools =
                answer.1["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(ask(&gateway, request("tools/list", json!({}))).await), ["whoami", "shard", "ask"]);
        assert_eq!(names(ask(&gateway, as_bob(request("tools/list", json!({})))).await), ["whoami", "shard"]);
    }
}

#[tokio::test]
async fn headers_that_do_not_agree_are_refused_before_the_server_is_asked() {
    let server = Server::default();
    let gateway = behind(&server, true);
    let mut other = call("whoami", json!({}));
    other.headers_mut().insert("mcp-name", HeaderValue::from_static("ask"));
    assert_refused(&ask(&gateway, other).await, 400, -32020);
    assert_refused(&ask(&gateway, call("shard", json!({"n": 1}))).await, 400, -32020);
    assert_eq!(server.asked.load(Ordering::Relaxed), 0);
    assert_text(&ask(&gateway, with(call("shard", json!({"n": 1})), "mcp-param-n", "1")).await, "1");
}

#[tokio::test]
async fn a_list_is_asked_for_once() {
    for json in [true, false] {
        let server = Server::default();
        let gateway = behind(&server, json);
        for _ in 0..3 {
            let (status, answer) = ask(&gateway, request("tools/list", json!({}))).await;
            assert_eq!((status, &answer["id"]), (StatusCode::OK, &json!(7)));
        }
        assert_eq!(server.asked.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_state_of_the_servers_is_sealed_and_opened() {
    for json in [true, false] {
        let server = Server::default();
        let gateway = behind(&server, json);
        let (status, answer) = ask(&gateway, call("ask", json!({}))).await;
        assert_eq!((status, &answer["result"]["resultType"]), (StatusCode::OK, &json!("input_required")));
        let state = answer["result"]["requestState"].as_str().unwrap().to_owned();
        assert!(state.starts_with("v1."), "{state}");
        let retry = |state: &str, arguments: Value| {
            let responses = json!({"name": {"action": "accept", "content": {}}});
            request(
                "tools/call",
                json!({"name": "ask", "arguments": arguments, "requestState": state, "inputResponses": responses}),
            )
        };
        assert_text(&ask(&gateway, retry(&state, json!({}))).await, "rmcp's own state");
        let asked = server.asked.load(Ordering::Relaxed);
        for (state, arguments) in [
            ("rmcp's own state", json!({})),
            (&*state, json!({"other": 1})),
            (&state[..state.len() - 1], json!({})),
        ] {
            assert_refused(&ask(&gateway, retry(state, arguments)).await, 400, -32602);
        }
        assert_eq!(server.asked.load(Ordering::Relaxed), asked);
    }
}

#[tokio::test]
async fn an_origin_that_rmcp_does_not_check() {
    let server = Server::default();
    let evil = || with(call("whoami", json!({})), "origin", "https://evil.example");
    assert_eq!(ask(&alone(&server), evil()).await.0, StatusCode::OK);
    assert_eq!(server.asked.swap(0, Ordering::Relaxed), 1);
    assert_refused(&ask(&behind(&server, true), evil()).await, 403, 403);
    assert_eq!(server.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_number_in_another_notation_that_rmcp_takes_for_another_number() {
    for (argument, header) in [(json!(42), "42.0"), (json!(42.0), "42"), (json!(42), "042")] {
        let server = Server::default();
        let shard = || with(call("shard", json!({"n": argument})), "mcp-param-n", header);
        assert_refused(&ask(&alone(&server), shard()).await, 400, -32020);
        assert_text(&ask(&behind(&server, true), shard()).await, &argument.to_string());
    }
    let differs = with(call("shard", json!({"n": 42})), "mcp-param-n", "43");
    assert_refused(&ask(&behind(&Server::default(), true), differs).await, 400, -32020);
}

#[tokio::test]
async fn a_version_header_that_comes_twice_of_which_rmcp_takes_the_first() {
    let server = Server::default();
    let twice = || with(call("whoami", json!({})), "mcp-protocol-version", "2025-11-25");
    assert_eq!(ask(&alone(&server), twice()).await.0, StatusCode::OK);
    assert_eq!(server.asked.swap(0, Ordering::Relaxed), 1);
    assert_refused(&ask(&behind(&server, true), twice()).await, 400, -32020);
    assert_eq!(server.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_question_that_rmcp_puts_to_a_client_that_cannot_answer() {
    let server = Server::default();
    let unable = async || {
        let (head, body) = call("ask", json!({})).into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Request::from_parts(head, Body::from(text.replace(r#"{"elicitation":{}}"#, "{}")))
    };
    let (status, answer) = ask(&alone(&server), unable().await).await;
    assert_eq!((status, &answer["result"]["resultType"]), (StatusCode::OK, &json!("input_required")));
    let answer = ask(&behind(&server, true), unable().await).await;
    assert_refused(&answer, 400, -32021);
    assert_eq!(answer.1["error"]["data"], json!({"requiredCapabilities": {"elicitation": {"form": {}}}}));
    // In a stream the status has been sent before.
    let answer = ask(&behind(&server, false), unable().await).await;
    assert_refused(&answer, 200, -32021);
    assert!(answer.1.get("result").is_none());
}

#[tokio::test]
async fn parameters_of_a_wrong_shape_for_which_rmcp_says_that_there_is_no_such_method() {
    let server = Server::default();
    let wrong = || request("tools/call", json!({"name": "whoami", "arguments": [1]}));
    let (status, answer) = ask(&alone(&server), wrong()).await;
    assert_eq!(answer["error"]["code"], -32601, "{status} {answer}");
    assert_refused(&ask(&behind(&server, true), wrong()).await, 400, -32602);
    assert_eq!(server.asked.load(Ordering::Relaxed), 0);
}
