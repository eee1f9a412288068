//! How often the path of a request allocates. Counts repeat exactly; times do not.

use std::num::NonZeroUsize;

use http::Request;
use mcp_layers::catalog::StaticCatalog;
use mcp_layers::layers::guard::Guard;
use mcp_layers::layers::request_state::{Binding, StateKey, StateKeys, StateSealer};
use mcp_layers::layers::scope::{ScopeLayer, ScopeRules};
use mcp_layers::layers::{
    CapabilityLayer, HeadersLayer, LimitsLayer, OriginLayer, RequestStateLayer, VersionLayer,
};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use mcp_layers::policy::Policy;
use mcp_layers::principal::Principal;
use mcp_layers::protocol::ClientCapabilities;
use serde_json::json;

fn call(arguments: &str) -> bytes::Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments},"_meta":{{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
    .into()
}

fn allocations<T>(work: impl FnOnce() -> T) -> u64 {
    let mut kept = None;
    let info = allocation_counter::measure(|| kept = Some(work()));
    drop(kept);
    info.count_total
}

#[test]
fn parsing_a_call_allocates_the_same_few_times_whatever_its_arguments_are() {
    let members: Vec<_> = (0..5_000).map(|n| format!("\"k{n}\\u0041\": [{n}, {{\"x\": null}}]")).collect();
    let shapes = [
        "{}".to_owned(),
        r#"{"a":1}"#.to_owned(),
        format!("{{{}}}", members.join(",")),
        format!("{{\"a\":{}1{}}}", "[".repeat(120), "]".repeat(120)),
        format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20)),
    ];
    for shape in shapes {
        let body = call(&shape);
        // What the clones share.
        assert_eq!(allocations(|| Message::parse(body.clone()).unwrap()), 1, "{shape:.60}");
    }
}

#[test]
fn looking_at_a_message_and_cloning_it_allocates_nothing() {
    let message = Message::parse(call(r#"{"a": [1, 2]}"#)).unwrap();
    let count = allocations(|| {
        let copy = message.clone();
        assert_eq!((copy.method(), copy.target()), ("tools/call", Some("t")));
        assert!(copy.meta().is_some_and(|meta| meta.protocol_version().is_some()));
        assert_eq!(copy.arguments().map(|raw| raw.text().len()), Some(13));
        assert!(copy.id().is_some() && !copy.bytes().is_empty());
    });
    assert_eq!(count, 0);
}

/// A call that every layer lets pass.
fn request() -> Request<Message> {
    Request::post("/mcp")
        .header("host", "localhost:3000")
        .header("origin", "http://[::1]:5173")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "t")
        .header("mcp-param-region", "eu")
        .body(Message::parse(call(r#"{"region": "eu", "of": [1, {"a": "b\u00e9"}]}"#)).unwrap())
        .unwrap()
}

#[test]
fn layers_that_only_look_allocate_nothing_for_what_they_let_pass() {
    let (mut head, message) = request().into_parts();
    let origin = OriginLayer::new();
    assert_eq!(allocations(|| origin.guard().check(&mut head).unwrap()), 0);

    let mut request = Request::from_parts(head, message);
    let schema = json!({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let headers = HeadersLayer::new().with_catalog(StaticCatalog::new([("t", &schema)]).unwrap());
    assert_eq!(allocations(|| headers.policy().on_request(&mut request).unwrap()), 0);

    let many = NonZeroUsize::new(100);
    let limits = LimitsLayer::new().with_max_elements(many).with_max_depth(many).with_max_string_bytes(many);
    assert_eq!(allocations(|| limits.policy().on_request(&mut request).unwrap()), 0);
}

#[test]
fn the_version_layer_allocates_for_the_revision_that_it_leaves_only() {
    let version = VersionLayer::new();
    let mut request = request();
    // The map of the extensions, its table and the value; where there are extensions already, the value alone.
    assert!(allocations(|| version.policy().on_request(&mut request).unwrap()) <= 3);
    assert!(allocations(|| version.policy().on_request(&mut request).unwrap()) <= 1);
}

fn keys() -> StateKeys {
    StateKeys::new([StateKey::new(&[7; 32]).unwrap()]).unwrap()
}

/// What the request half and the reply half of a layer allocate for a call that needs nothing of it.
fn both_halves<P: Policy>(policy: &P, request: &mut Request<Message>) -> (u64, u64) {
    let reply = r#"{"content":[],"resultType":"complete"}"#;
    let answer = Answer::result(Some(1.into()), RawObject::parse(reply).unwrap());
    let mut response = http::Response::new(Reply::Answer(answer));
    let mut memo = None;
    let on_request = allocations(|| memo = Some(policy.on_request(request).unwrap()));
    (on_request, allocations(|| policy.on_reply(memo.take().unwrap(), &mut response)))
}

#[test]
fn capabilities_and_scopes_allocate_nothing_for_what_they_let_pass() {
    let mut request = request();
    let capability = CapabilityLayer::new()
        .with_tool("other", &ClientCapabilities::new().with_roots())
        .with_offered(["tools"]);
    assert_eq!(both_halves(capability.policy(), &mut request), (0, 0));

    request.extensions_mut().insert(Principal::new("i", "ada").with_scopes(["a", "b"]));
    let rules = ScopeRules::new().with_endpoint("a").with_tool("t", "b").with_resource_prefix("x://", "c");
    let scope = ScopeLayer::new(rules).unwrap();
    assert_eq!(both_halves(scope.policy(), &mut request), (0, 0));
}

#[test]
fn request_state_allocates_nothing_for_a_call_without_state() {
    use tower::{Layer as _, Service as _, service_fn};

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let inner = service_fn(async |_: Request<Message>| {
        let answer = Answer::result(Some(1.into()), RawObject::new());
        Ok::<_, std::convert::Infallible>(http::Response::new(Reply::Answer(answer)))
    });
    let request = || {
        let mut request = request();
        request.extensions_mut().insert(Principal::new("i", "ada"));
        request
    };
    let (mut bare, mut sealing) = (inner, RequestStateLayer::new(keys(), "a").layer(inner));
    let without = request();
    let without = allocations(|| runtime.block_on(bare.call(without)).unwrap());
    let with = request();
    let with = allocations(|| runtime.block_on(sealing.call(with)).unwrap());
    assert_eq!(with, without);
}

#[test]
fn sealing_takes_two_allocations_and_opening_one_whatever_the_size() {
    let message = Message::parse(call(r#"{"a":1}"#)).unwrap();
    let sealer = StateSealer::new(keys(), "a");
    let binding = Binding::new(&message, None).unwrap();
    for size in [0, 100, 10_000] {
        let state = "s".repeat(size);
        let mut text = String::new();
        // What is authenticated, and the text that it is written as.
        assert_eq!(allocations(|| text = sealer.seal(&state, &binding, None).unwrap()), 2);
        // The bytes, which become the state.
        assert_eq!(allocations(|| sealer.open(&text, &binding).unwrap()), 1);
    }
    // What is digested, the objects that are open, and the members of the one.
    assert_eq!(allocations(|| Binding::new(&message, None).unwrap()), 3);
}

/// One call through the whole stack, from the bytes of the request to those of the response.
#[test]
fn a_call_through_the_stack_allocates_a_bounded_number_of_times() {
    use http::Request;
    use http_body_util::{BodyExt as _, Full};
    use mcp_layers::dispatch::{Dispatch, Tool};
    use mcp_layers::endpoint::EndpointLayer;
    use mcp_layers::layers::{HeadersLayer, OriginLayer, VersionLayer};
    use tower::{Service as _, ServiceBuilder};

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let count = |tools: usize| {
        let server = (0..tools)
            .map(|n| {
                let name = if n == 0 { "t".to_owned() } else { format!("t{n}") };
                Tool::raw(name, serde_json::json!({"type": "object"}), |_, _| async { Ok("done") })
            })
            .fold(Dispatch::builder("s", "1.0.0"), mcp_layers::dispatch::Builder::tool)
            .build()
            .unwrap();
        let mut stack = ServiceBuilder::new()
            .layer(OriginLayer::new())
            .layer(EndpointLayer::new())
            .layer(VersionLayer::new())
            .layer(HeadersLayer::new().with_catalog(server.clone()))
            .service(server);
        let request = || {
            Request::post("/mcp")
                .header("host", "localhost:3000")
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", "t")
                .body(Full::new(call(r#"{"a":1}"#)))
                .unwrap()
        };
        let mut once = || {
            let request = request();
            allocations(|| {
                let response = runtime.block_on(stack.call(request)).unwrap();
                assert_eq!(response.status(), 200);
                runtime.block_on(response.into_body().collect()).unwrap().to_bytes().len()
            })
        };
        once();
        once()
    };
    let one = count(1);
    assert!(one <= 22, "{one}");
    assert_eq!(count(1000), one, "the number of tools makes no difference");
}

/// A list through the whole stack, answered from the cache: every layer remembers what it found out about it.
#[cfg(feature = "cache")]
#[test]
fn a_hit_on_a_list_of_600_kb_allocates_no_more_than_one_of_6_kb() {
    use http_body_util::{BodyExt as _, Full};
    use mcp_layers::dispatch::{CacheHint, Dispatch, Tool};
    use mcp_layers::layers::auth::{
        AuthLayer, ProtectedResource, Token, TokenVerifier, Verified, VerifyError,
    };
    use mcp_layers::layers::cache::ResponseCache;
    use mcp_layers::stack::Stack;
    use std::time::Duration;
    use tower::Service as _;

    struct Reader;

    impl TokenVerifier for Reader {
        async fn verify(&self, _: &Token) -> Result<Verified, VerifyError> {
            Ok(Principal::new("https://issuer.example", "ada").with_scopes(["weather:read"]).into())
        }
    }

    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // How often a hit allocates, and how long the answer is.
    let hit = |tools: usize, hidden: bool| {
        let mut server =
            Dispatch::builder("s", "1.0.0").with_list_cache(CacheHint::public(Duration::from_secs(60)));
        for n in 0..tools {
            let needed = if hidden && n == 0 { "weather:write" } else { "weather:read" };
            let tool =
                Tool::raw(format!("weather-{n}"), json!({"type": "object"}), |_, _| async { Ok("done") })
                    .with_description("Tells the weather of tomorrow for any place that has a name or will have one, as far as it is known today in the office")
                    .with_scopes(needed);
            server = server.tool(tool);
        }
        let server = server.build().unwrap();
        let cache = ResponseCache::new("s");
        let resource = ProtectedResource::new("https://s.example/mcp", ["https://issuer.example"]).unwrap();
        let mut stack = Stack::new(server.clone())
            .with_auth(AuthLayer::new(Reader, &resource))
            .with_scopes(ScopeRules::new())
            .unwrap()
            .with_limits(LimitsLayer::new().with_max_depth(NonZeroUsize::new(32)))
            .with_cache(cache.clone())
            .with_request_state(RequestStateLayer::new(keys(), "https://s.example/mcp"))
            .service(server);
        let request = || {
            Request::post("/mcp")
                .header("host", "localhost:3000")
                .header("authorization", "Bearer token")
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/list")
                .body(Full::new(bytes::Bytes::from_static(LIST.as_bytes())))
                .unwrap()
        };
        // Up to the frames of the body, which are not put together here.
        let mut once = || {
            let (request, mut length) = (request(), 0);
            let count = allocations(|| {
                let response = runtime.block_on(stack.call(request)).unwrap();
                assert_eq!(response.status(), 200);
                let mut body = response.into_body();
                while let Some(frame) = runtime.block_on(body.frame()) {
                    length += frame.unwrap().into_data().unwrap().len();
                }
            });
            (count, length)
        };
        // The first fills the cache, the second is the first look at what the cache has.
        let _ = (once(), once());
        let hit = once();
        assert_eq!((cache.statistics().misses, cache.statistics().hits), (1, 2));
        hit
    };
    for hidden in [false, true] {
        let ((few, short), (many, long)) = (hit(32, hidden), hit(3200, hidden));
        assert!((5_500..8_000).contains(&short) && long > 600_000, "{short} and {long} bytes");
        assert_eq!(many, few, "hidden: {hidden}");
        assert!(few <= 24, "{few}");
    }
}
