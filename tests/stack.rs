//! The stack that the builder assembles: its order of failures, and where it fits.
#![cfg(feature = "cache")]

use std::any::type_name_of_val;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mcp_layers::body::Body;
use mcp_layers::catalog::NoCatalog;
use mcp_layers::dispatch::{Context, Dispatch, HandlerError, InputRequired, Tool, ToolResult};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::auth::{AuthLayer, ProtectedResource, Token, TokenVerifier, Verified, VerifyError};
use mcp_layers::layers::cache::ResponseCache;
use mcp_layers::layers::request_state::{StateKey, StateKeys};
use mcp_layers::layers::{
    LearnedCatalog, LimitsLayer, OriginLayer, RequestStateLayer, ScopeRules, VersionLayer,
};
use mcp_layers::message::{Message, RawObject};
use mcp_layers::principal::Principal;
use mcp_layers::protocol::{ClientCapabilities, Scopes};
use mcp_layers::stack::Stack;
use serde_json::{Value, json};
use tower::layer::util::Identity;
use tower::{Service, ServiceBuilder, ServiceExt as _};

/// A token is the name of its owner and the owner's scopes.
#[derive(Clone)]
struct Plain;

impl TokenVerifier for Plain {
    async fn verify(&self, token: &Token) -> Result<Verified, VerifyError> {
        let mut parts = token.as_str().split('-');
        let name = parts.next().filter(|name| *name != "nobody").ok_or(VerifyError::invalid("unknown"))?;
        Ok(Principal::new("https://issuer.example", name).with_scopes(parts).into())
    }
}

fn auth() -> AuthLayer<Plain> {
    let resource = ProtectedResource::new("https://mcp.example/mcp", ["https://issuer.example"]).unwrap();
    AuthLayer::new(Plain, &resource)
}

fn state() -> RequestStateLayer {
    let key = StateKey::new(&[7; 32]).unwrap();
    RequestStateLayer::new(StateKeys::new([key]).unwrap(), "https://mcp.example/mcp")
}

fn limits() -> LimitsLayer {
    LimitsLayer::new().with_max_elements(NonZeroUsize::new(2)).with_protocol_errors(true)
}

/// A server with a public tool and one that needs a scope, a capability and a header; counts what its tools do.
fn server() -> (Dispatch, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer"},
    }});
    let drop_table = move |_, context: Context| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if context.request_state::<String>().is_none() {
                let asked = InputRequired::new().with_state(&"asked");
                return Ok::<_, HandlerError>(ToolResult::from(asked.list_roots("where")));
            }
            Ok("dropped".into())
        }
    };
    let server = Dispatch::builder("s", "1.0.0")
        .tool(Tool::raw("open", json!({"type": "object"}), |_, _| async { Ok("open") }))
        .tool(
            Tool::raw("drop", schema, drop_table)
                .with_scopes("admin")
                .with_required_capabilities(ClientCapabilities::new().with_roots()),
        )
        .build()
        .unwrap();
    (server, calls)
}

/// A call of `drop` in which nothing is wrong.
#[derive(Clone)]
struct Call {
    headers: Vec<(&'static str, &'static str)>,
    method: http::Method,
    body: Value,
}

impl Call {
    fn right() -> Self {
        let headers = vec![
            ("host", "localhost"),
            ("authorization", "Bearer ada-admin"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "drop"),
            ("mcp-param-region", "eu"),
        ];
        let body = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {
            "name": "drop",
            "arguments": {"region": "eu"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
            },
        }});
        Self { headers, method: http::Method::POST, body }
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value));
        self
    }

    fn list(mut self) -> Self {
        self.body["method"] = "tools/list".into();
        let params = self.body["params"].as_object_mut().unwrap();
        params.remove("name");
        params.remove("arguments");
        self.header("mcp-method", "tools/list")
    }

    async fn send<S>(self, service: &S) -> (u16, Value)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<Body>, Error = Infallible> + Clone,
    {
        let mut request = Request::builder().method(self.method).uri("/mcp");
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let body = match self.body {
            Value::String(text) => text,
            body => body.to_string(),
        };
        let response = service.clone().oneshot(request.body(Full::from(body)).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// Takes one fault out of a request; the second is one without any.
type Mend = Box<dyn Fn(&mut Call, &Call)>;

fn mend_header(name: &'static str) -> impl Fn(&mut Call, &Call) {
    move |call, right| {
        call.headers.retain(|(other, _)| *other != name);
        call.headers.extend(right.headers.iter().filter(|(other, _)| *other == name));
    }
}

#[tokio::test]
async fn a_request_that_is_wrong_in_every_way_is_told_one_fault_after_the_other() {
    let (server, calls) = server();
    let service = Stack::new(server.clone())
        .with_endpoint(EndpointLayer::new().with_max_body_bytes(2000))
        .with_auth(auth())
        .with_scopes(ScopeRules::new())
        .unwrap()
        .with_limits(limits())
        .with_cache(ResponseCache::new("test"))
        .with_request_state(state())
        .service(server);
    let right = Call::right();
    let mut call = right
        .clone()
        .header("origin", "https://evil.example")
        .header("authorization", "Bearer nobody")
        .header("content-type", "text/plain")
        .header("accept", "text/html")
        .header("mcp-protocol-version", "1999-01-01")
        .header("mcp-method", "tools/list")
        .header("mcp-name", "open")
        .header("mcp-param-region", "us");
    call.method = http::Method::GET;
    call.body["jsonrpc"] = "1.0".into();
    call.body["method"] = "tools/dance".into();
    let meta = call.body["params"]["_meta"].take();
    call.body["params"]["requestState"] = "forged".into();
    call.body["params"]["arguments"] = json!({"region": "eu", "n": 1, "m": 2});
    let text = call.body.to_string();
    call.body = format!("{text}{}", " ".repeat(2000)).into();

    let steps: [(u16, i64, Mend); 17] = [
        (403, 403, Box::new(mend_header("origin"))),
        (401, 401, Box::new(|call, _| *call = call.clone().header("authorization", "Bearer ada-nothing"))),
        (413, 413, Box::new(move |call, _| call.body = format!("{text},").into())),
        (405, 405, Box::new(|call, _| call.method = http::Method::POST)),
        (415, 415, Box::new(mend_header("content-type"))),
        (406, 406, Box::new(mend_header("accept"))),
        (
            400,
            -32700,
            Box::new(|call, _| {
                let text = call.body.as_str().unwrap().trim_end_matches(',').to_owned();
                call.body = serde_json::from_str(&text).unwrap();
            }),
        ),
        (400, -32600, Box::new(|call, _| call.body["jsonrpc"] = "2.0".into())),
        (400, -32602, Box::new(move |call, _| call.body["params"]["_meta"] = meta.clone())),
        (
            400,
            -32020,
            Box::new(|call, _| {
                call.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1999-01-01".into();
            }),
        ),
        (
            400,
            -32022,
            Box::new(|call, right| {
                call.body["params"]["_meta"] = right.body["params"]["_meta"].clone();
                call.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
                mend_header("mcp-protocol-version")(call, right);
            }),
        ),
        (400, -32020, Box::new(|call, _| *call = call.clone().header("mcp-method", "tools/dance"))),
        (
            404,
            -32601,
            Box::new(|call, right| {
                call.body["method"] = "tools/call".into();
                mend_header("mcp-method")(call, right);
            }),
        ),
        (400, -32020, Box::new(mend_header("mcp-name"))),
        (400, -32020, Box::new(mend_header("mcp-param-region"))),
        (403, 403, Box::new(mend_header("authorization"))),
        (
            400,
            -32021,
            Box::new(|call, right| call.body["params"]["_meta"] = right.body["params"]["_meta"].clone()),
        ),
    ];
    for (step, (status, code, mend)) in steps.iter().enumerate() {
        let (found, body) = call.clone().send(&service).await;
        assert_eq!((found, body["error"]["code"].as_i64()), (*status, Some(*code)), "step {step}: {body}");
        // Nothing has been read of what comes before the parser; behind it the id is known.
        assert_eq!(body.get("id").is_some(), step >= 7, "step {step}: {body}");
        mend(&mut call, &right);
    }
    let (status, body) = call.clone().send(&service).await;
    assert_eq!((status, body["error"]["code"].as_i64()), (400, Some(-32602)), "too many elements: {body}");
    call.body["params"]["arguments"] = json!({"region": "eu"});
    let (status, body) = call.clone().send(&service).await;
    assert_eq!((status, &body["error"]["data"]["reason"]), (400, &json!("invalid_request_state")), "{body}");
    assert_eq!(calls.load(Ordering::Relaxed), 0);

    call.body["params"].as_object_mut().unwrap().remove("requestState");
    let (status, body) = call.clone().send(&service).await;
    assert_eq!((status, &body["result"]["resultType"]), (200, &json!("input_required")), "{body}");
    call.body["params"]["requestState"] = body["result"]["requestState"].clone();
    let (status, body) = call.send(&service).await;
    assert_eq!((status, &body["result"]["content"][0]["text"]), (200, &json!("dropped")), "{body}");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_order_of_the_calls_does_not_matter() {
    let (server, _) = server();
    let one = Stack::new(server.clone())
        .with_auth(auth())
        .with_scopes(ScopeRules::new())
        .unwrap()
        .with_limits(limits())
        .with_cache(ResponseCache::new("test"))
        .with_request_state(state());
    let other = Stack::new(server)
        .with_request_state(state())
        .with_cache(ResponseCache::new("test"))
        .with_limits(limits())
        .with_scopes(ScopeRules::new())
        .unwrap()
        .with_auth(auth());
    assert_eq!(type_name_of_val(&one.build()), type_name_of_val(&other.build()));
}

#[tokio::test]
async fn what_is_not_asked_for_is_no_layer() {
    let built = Stack::new(NoCatalog).build();
    let (
        _,
        _auth @ Identity { .. },
        _,
        _,
        _,
        _scopes @ Identity { .. },
        _,
        _,
        _,
        _,
        _state @ Identity { .. },
    ) = built;
}

#[tokio::test]
async fn a_list_that_is_kept_for_all_is_filtered_for_each() {
    let (server, _) = server();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let inner = server.clone();
    let service = Stack::new(server)
        .with_cache(ResponseCache::new("test"))
        .with_auth(auth())
        .with_scopes(ScopeRules::new())
        .unwrap()
        .service(tower::service_fn(move |request: Request<Message>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = inner.clone().oneshot(request);
            async {
                let mut response = answer.await?;
                response.body_mut().edit_answer(|answer| {
                    let result = answer.result_mut().expect("a list");
                    result.set("ttlMs", &60_000).expect("a number");
                    result.set("cacheScope", "public").expect("a string");
                });
                Ok::<_, Infallible>(response)
            }
        }));
    for _ in 0..2 {
        for (token, names, scope) in [
            ("Bearer ada-admin", json!(["open", "drop"]), "private"),
            ("Bearer bob", json!(["open"]), "private"),
        ] {
            let (status, body) = Call::right().list().header("authorization", token).send(&service).await;
            assert_eq!(status, 200, "{body}");
            let tools = body["result"]["tools"].as_array().unwrap();
            let found: Value = tools.iter().map(|tool| tool["name"].clone()).collect();
            assert_eq!((found, &body["result"]["cacheScope"]), (names, &json!(scope)));
        }
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_hidden_tool_is_told_by_no_layer() {
    let (server, calls) = server();
    let service = Stack::new(server.clone())
        .with_auth(auth())
        .with_scopes(ScopeRules::new().with_hidden_denials(true))
        .unwrap()
        .service(server);
    let hidden = Call::right().header("authorization", "Bearer bob");
    // Neither by its headers nor by the capabilities that it needs.
    let mut poor = hidden.clone();
    poor.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let calls_of_it = [hidden.clone(), hidden.clone().header("mcp-param-region", "us"), poor];
    assert_told_like_an_unknown_tool(&service, hidden, calls_of_it).await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// `calls` of the tool `drop` are answered as one of a tool that does not exist is, which is else like `hidden`.
async fn assert_told_like_an_unknown_tool(
    service: &impl McpService,
    hidden: Call,
    calls: impl IntoIterator<Item = Call>,
) {
    let mut unknown = hidden.header("mcp-name", "none");
    unknown.body["params"]["name"] = "none".into();
    let (status, body) = unknown.send(service).await;
    assert_eq!((status, body["error"]["code"].as_i64()), (400, Some(-32602)));
    let expected = (status, body.to_string().replace("none", "drop"));
    for call in calls {
        let (status, body) = call.send(service).await;
        assert_eq!((status, body.to_string()), expected);
    }
}

/// What a server that somebody else wrote has been asked.
type Seen = Arc<Mutex<Vec<String>>>;

/// The same server behind a stack that learns what it has. It lists its tools with a hint at the scope of `drop`.
fn learning(catalog: LearnedCatalog, rules: ScopeRules) -> (impl McpService, Seen) {
    let (server, _) = server();
    let seen = Seen::default();
    let asked = Arc::clone(&seen);
    let upstream = tower::service_fn(move |request: Request<Message>| {
        asked.lock().unwrap().push(request.body().method().to_owned());
        let answer = server.clone().oneshot(request);
        async {
            let mut response = answer.await?;
            response.body_mut().edit_answer(|answer| {
                let Ok(result) = answer.outcome() else { return };
                let text =
                    result.to_string().replace(r#""name":"drop""#, r#""name":"drop","x-scope":"admin""#);
                *answer.result_mut().unwrap() = RawObject::parse(text).unwrap();
            });
            Ok::<_, Infallible>(response)
        }
    });
    let stack = Stack::learning(catalog)
        .with_request_state(state())
        .with_limits(limits())
        .with_scopes(rules)
        .unwrap()
        .with_auth(auth());
    (stack.service(upstream), seen)
}

trait McpService:
    Service<Request<Full<Bytes>>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
{
}
impl<S> McpService for S where
    S: Service<Request<Full<Bytes>>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
{
}

fn hints() -> LearnedCatalog {
    LearnedCatalog::new(ResponseCache::new("upstream")).with_scopes(|tool| {
        let hint = tool.members().find(|(name, _)| name == "x-scope");
        hint.and_then(|(_, scope)| scope.to_str()).map_or_else(Scopes::none, |scope| Scopes::from(&*scope))
    })
}

#[tokio::test]
async fn what_is_learned_serves_headers_and_scopes_and_what_is_refused_anyway_is_not_looked_up() {
    let (service, seen) = learning(hints(), ScopeRules::new().with_endpoint("mcp"));
    let right = Call::right().header("authorization", "Bearer ada-mcp-admin");
    let code = async |call: Call| {
        let (status, body) = call.send(&service).await;
        (status, body["error"]["code"].as_i64().unwrap_or_default())
    };
    // By the head, by the message, and by the rules.
    assert_eq!(code(right.clone().header("authorization", "Bearer nobody")).await, (401, 401));
    assert_eq!(code(right.clone().header("mcp-name", "open")).await, (400, -32020));
    assert_eq!(code(right.clone().header("authorization", "Bearer ada-admin")).await, (403, 403));
    assert_eq!(*seen.lock().unwrap(), [""; 0]);
    // By what has been looked up, once.
    assert_eq!(code(right.clone().header("mcp-param-region", "us")).await, (400, -32020));
    assert_eq!(code(right.clone().header("authorization", "Bearer bob-mcp")).await, (403, 403));
    let mut unknown = right.clone().header("mcp-name", "rm");
    unknown.body["params"]["name"] = "rm".into();
    assert_eq!(code(unknown).await, (400, -32602));
    let mut large = right.clone();
    large.body["params"]["arguments"] = json!({"region": "eu", "n": 1, "m": 2});
    assert_eq!(code(large).await, (400, -32602));
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), ["tools/list"; 2]);
    // What is right passes, and its state is sealed.
    let (status, body) = right.clone().send(&service).await;
    assert_eq!((status, &body["result"]["resultType"]), (200, &json!("input_required")), "{body}");
    assert!(body["result"]["requestState"].as_str().unwrap().len() > "asked".len());
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), ["tools/call"]);
    // And lists are filtered for each.
    let (_, body) = right.header("authorization", "Bearer bob-mcp").list().send(&service).await;
    assert_eq!(body["result"]["tools"].as_array().map(Vec::len), Some(1), "{body}");
}

#[tokio::test]
async fn a_learned_tool_that_is_hidden_is_told_by_no_layer() {
    let (service, _) = learning(hints(), ScopeRules::new().with_hidden_denials(true));
    let hidden = Call::right().header("authorization", "Bearer bob");
    let calls_of_it = [hidden.clone(), hidden.clone().header("mcp-param-region", "us")];
    assert_told_like_an_unknown_tool(&service, hidden, calls_of_it).await;
}

#[tokio::test]
async fn the_order_of_the_calls_does_not_matter_to_a_stack_that_learns_either() {
    let rules = ScopeRules::new;
    let one = Stack::learning(hints()).with_auth(auth()).with_scopes(rules()).unwrap().with_limits(limits());
    let other =
        Stack::learning(hints()).with_limits(limits()).with_scopes(rules()).unwrap().with_auth(auth());
    assert_eq!(type_name_of_val(&one.build()), type_name_of_val(&other.build()));
}

/// Compiles for what hyper serves.
fn serves<S>(_: &S)
where
    S: hyper::service::Service<Request<hyper::body::Incoming>, Response = Response<Body>>,
{
}

#[tokio::test]
async fn it_fits_axum_hyper_and_the_service_builder() {
    let (server, _) = server();
    let call = || Call::right().list();
    let built = ServiceBuilder::new()
        .layer(tower_http::timeout::TimeoutLayer::with_status_code(
            StatusCode::GATEWAY_TIMEOUT,
            std::time::Duration::from_secs(5),
        ))
        .layer(Stack::new(server.clone()).with_auth(auth()).build())
        .service(server.clone());
    assert_eq!(call().send(&built).await.0, 200);

    let service = Stack::new(server.clone()).with_auth(auth()).service(server);
    serves(&hyper_util::service::TowerToHyperService::new(service.clone()));

    let app = axum::Router::new().route_service("/mcp", service);
    let request = Request::post("/mcp").header("host", "localhost").body(axum::body::Body::empty()).unwrap();
    assert_eq!(app.oneshot(request).await.unwrap().status(), StatusCode::UNAUTHORIZED);
}

#[test]
fn every_setting_reaches_its_layer() {
    let origin = OriginLayer::new().with_allowed_hosts(["mcp.example"]).unwrap();
    let (origin, _, endpoint, version, ..) = Stack::new(NoCatalog)
        .with_origin(origin)
        .with_endpoint(EndpointLayer::new().with_max_body_bytes(17))
        .with_version(VersionLayer::new().with_supported([]))
        .build();
    assert!(format!("{origin:?}").contains("mcp.example"), "{origin:?}");
    assert!(format!("{endpoint:?}").contains("max_body_bytes: 17"), "{endpoint:?}");
    assert!(format!("{version:?}").contains("supported: []"), "{version:?}");
}

#[tokio::test]
async fn without_a_catalog_tools_need_what_the_rules_say_and_nothing_else() {
    for hide in [false, true] {
        let (server, calls) = server();
        let rules = || ScopeRules::new().with_tool("drop", "admin").with_hidden_denials(hide);
        let catalog =
            mcp_layers::layers::ScopeLayer::new(rules().with_catalog(NoCatalog)).unwrap().visible_tools();
        // What is passed on by another layer of scopes is no more a catalog than what it was given.
        let services = [
            ServiceBuilder::new().boxed_clone().service(
                Stack::new(NoCatalog).with_auth(auth()).with_scopes(rules()).unwrap().service(server.clone()),
            ),
            ServiceBuilder::new().boxed_clone().service(
                Stack::new(catalog).with_auth(auth()).with_scopes(rules()).unwrap().service(server.clone()),
            ),
        ];
        for service in services {
            let drop = Call::right();
            let open = || {
                let mut call = Call::right().header("authorization", "Bearer ada").header("mcp-name", "open");
                call.body["params"]["name"] = "open".into();
                call
            };
            let (status, body) = open().send(&service).await;
            assert_eq!((status, &body["result"]["content"][0]["text"]), (200, &json!("open")), "{body}");
            let (status, body) = drop.clone().header("authorization", "Bearer ada").send(&service).await;
            let (code, refused) = if hide { (-32602, 400) } else { (403, 403) };
            assert_eq!((status, &body["error"]["code"], &body["id"]), (refused, &json!(code), &json!("a")));
            assert_eq!(calls.load(Ordering::Relaxed), 0);
            for (token, expected) in
                [("Bearer ada", json!(["open"])), ("Bearer ada-admin", json!(["open", "drop"]))]
            {
                let (_, body) = drop.clone().list().header("authorization", token).send(&service).await;
                let tools = body["result"]["tools"].as_array().unwrap();
                assert_eq!(
                    tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(),
                    expected.as_array().unwrap().iter().collect::<Vec<_>>()
                );
            }
            drop.send(&service).await;
            assert_eq!(calls.swap(0, Ordering::Relaxed), 1);
        }
    }
}

#[tokio::test]
async fn an_unknown_tool_is_that_however_large_its_arguments_are() {
    for protocol_errors in [false, true] {
        let (server, _) = server();
        let service = Stack::new(server.clone())
            .with_limits(limits().with_protocol_errors(protocol_errors))
            .service(server);
        let mut call = Call::right().header("mcp-name", "none");
        call.body["params"]["name"] = "none".into();
        call.body["params"]["arguments"] = json!({"a": 1, "b": 2, "c": 3});
        let (status, body) = call.send(&service).await;
        assert_eq!(
            (status, &body["error"]["code"], &body["id"]),
            (400, &json!(-32602), &json!("a")),
            "{body}"
        );
        assert_eq!(body["error"]["data"], Value::Null);
    }
}
