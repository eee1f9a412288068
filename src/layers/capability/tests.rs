use serde_json::{Value, json};

use super::super::testing::{Outcome, logged, request, send, send_to, streamed};
use super::*;
use crate::message::{Answer, RawObject};
use crate::protocol::{ExtensionId, Revision};

const CAPS: &str = "io.modelcontextprotocol/clientCapabilities";
const PV: &str = "io.modelcontextprotocol/protocolVersion";

fn body(method: &str, name: &str, capabilities: Value) -> String {
    let meta = json!({CAPS: capabilities});
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"name": name, "_meta": meta}}).to_string()
}

fn call(name: &str, capabilities: Value) -> Request<Message> {
    request(&body("tools/call", name, capabilities), [])
}

#[expect(clippy::unnecessary_wraps, reason = "as the assertions take it")]
fn missing(required: Value) -> Option<Value> {
    Some(json!({ "requiredCapabilities": required }))
}

fn asks(requests: Value) -> Value {
    json!({"resultType": "input_required", "inputRequests": requests})
}

fn reply(result: &Value) -> Reply {
    Reply::Answer(Answer::result(Some(7.into()), RawObject::from_value(result).unwrap()))
}

/// What leaves when the server answers `method` with `result`.
async fn emit_as(layer: &CapabilityLayer, method: &str, capabilities: Value, result: Value) -> Outcome {
    send_to(layer, request(&body(method, "t", capabilities), []), move |_| reply(&result)).await
}

async fn emit(capabilities: Value, result: Value) -> Outcome {
    emit_as(&CapabilityLayer::new(), "tools/call", capabilities, result).await
}

/// Asserts that the answer was replaced by this error, after the inner service was called.
#[track_caller]
fn replaced(outcome: &Outcome, status: u16, code: i64, data: Option<Value>) {
    let error = &outcome.body["error"];
    assert_eq!((outcome.status, outcome.calls), (status, 1), "{outcome:?}");
    assert_eq!((&outcome.body["id"], error["code"].as_i64()), (&json!(7), Some(code)), "{outcome:?}");
    assert_eq!(error.get("data"), data.as_ref());
}

fn form() -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "?", "requestedSchema": {}}})
}

fn url() -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "url", "message": "?", "url": "https://example.com"}})
}

fn sample(more: Value) -> Value {
    let mut params = json!({"messages": [], "maxTokens": 1});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"method": "sampling/createMessage", "params": params})
}

fn roots() -> Value {
    json!({"method": "roots/list"})
}

#[tokio::test]
async fn a_call_needs_what_the_tool_and_the_method_need() {
    let layer = CapabilityLayer::new()
        .with_tool("t", &ClientCapabilities::new().with_sampling_tools())
        .with_tool("t", &ClientCapabilities::new().with_roots())
        .with_method("tools/call", &ClientCapabilities::new().with_elicitation_form());
    send(&layer, call("t", json!({"sampling": {"tools": {}}, "roots": {}, "elicitation": {}})))
        .await
        .passed();
    send(&layer, call("t", json!({}))).await.refused(
        400,
        -32021,
        missing(json!({"sampling": {"tools": {}}, "roots": {}, "elicitation": {"form": {}}})),
    );
    send(&layer, call("t", json!({"sampling": {}, "roots": {}, "elicitation": {"form": {}}}))).await.refused(
        400,
        -32021,
        missing(json!({"sampling": {"tools": {}}})),
    );
    let other = send(&layer, call("other", json!({"sampling": {"tools": {}}}))).await;
    other.refused(400, -32021, missing(json!({"elicitation": {"form": {}}})));
    send(&layer, request(&body("prompts/get", "t", json!({})), [])).await.passed();
}

#[tokio::test]
async fn without_meta_nothing_is_declared() {
    let layer = CapabilityLayer::new().with_tool("t", &ClientCapabilities::new().with_roots());
    for body in [
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":[]}}}"#,
    ] {
        send(&layer, request(body, [])).await.refused(400, -32021, missing(json!({"roots": {}})));
    }
}

#[tokio::test]
async fn the_catalog_says_what_a_tool_needs() {
    let tool =
        |name| crate::dispatch::Tool::raw(name, json!({"type": "object"}), |_, _| async { Ok("done") });
    let server = crate::dispatch::Dispatch::builder("s", "1")
        .tool(tool("t").with_required_capabilities(ClientCapabilities::new().with_sampling()))
        .tool(tool("free"))
        .build()
        .unwrap();
    let layer =
        CapabilityLayer::new().with_tool("t", &ClientCapabilities::new().with_roots()).with_catalog(server);
    send(&layer, call("free", json!({}))).await.passed();
    send(&layer, call("t", json!({"sampling": {}, "roots": {}}))).await.passed();
    send(&layer, call("t", json!({}))).await.refused(
        400,
        -32021,
        missing(json!({"roots": {}, "sampling": {}})),
    );
}

#[tokio::test]
async fn a_method_whose_capability_is_not_offered_is_not_found() {
    let layer = CapabilityLayer::new()
        .with_offered(["tools"])
        .with_method("prompts/get", &ClientCapabilities::new().with_roots());
    send(&layer, call("t", json!({}))).await.passed();
    for method in
        ["prompts/get", "prompts/list", "resources/read", "resources/templates/list", "completion/complete"]
    {
        send(&layer, request(&body(method, "t", json!({})), [])).await.refused(404, -32601, None);
    }
    for method in ["server/discover", "subscriptions/listen", "com.example/print"] {
        send(&layer, request(&body(method, "t", json!({})), [])).await.passed();
    }
}

#[tokio::test]
async fn notifications_need_nothing() {
    let layer = CapabilityLayer::new()
        .with_offered(["prompts"])
        .with_tool("t", &ClientCapabilities::new().with_roots());
    let body = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}"#;
    send(&layer, request(body, [])).await.passed();
}

#[tokio::test]
async fn each_kind_of_input_needs_its_capability() {
    let tools = || sample(json!({"tools": []}));
    let cases = [
        (json!({}), form(), Some(json!({"elicitation": {"form": {}}}))),
        (json!({"elicitation": {}}), form(), None),
        (json!({"elicitation": {"form": {}}}), form(), None),
        (json!({"elicitation": {"url": {}}}), form(), Some(json!({"elicitation": {"form": {}}}))),
        (json!({"elicitation": {}}), url(), Some(json!({"elicitation": {"url": {}}}))),
        (json!({"elicitation": {"url": {}}}), url(), None),
        (json!({}), url(), Some(json!({"elicitation": {"url": {}}}))),
        (json!({}), sample(json!({})), Some(json!({"sampling": {}}))),
        (json!({"sampling": {}}), sample(json!({})), None),
        (json!({"sampling": {}}), tools(), Some(json!({"sampling": {"tools": {}}}))),
        (json!({"sampling": {"tools": {}}}), tools(), None),
        (json!({"sampling": {}}), sample(json!({"tools": null})), Some(json!({"sampling": {"tools": {}}}))),
        (
            json!({"sampling": {}}),
            sample(json!({"toolChoice": null})),
            Some(json!({"sampling": {"tools": {}}})),
        ),
        (json!({}), tools(), Some(json!({"sampling": {"tools": {}}}))),
        (json!({"sampling": {}}), sample(json!({"includeContext": "allServers"})), None),
        (json!({}), roots(), Some(json!({"roots": {}}))),
        (json!({"roots": {"listChanged": true}}), roots(), None),
    ];
    for (capabilities, asked, expected) in cases {
        let outcome = emit(capabilities, asks(json!({ "k": asked }))).await;
        match expected {
            None => outcome.passed(),
            Some(required) => replaced(&outcome, 400, -32021, missing(required)),
        }
    }
    let no_mode = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
    emit(json!({"elicitation": {}}), asks(json!({ "k": no_mode }))).await.passed();
}

#[tokio::test]
async fn what_clients_are_asked_has_what_the_schema_requires() {
    let everything =
        || json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}});
    let with = |mut asked: Value, name: &str, value: Value| {
        asked["params"][name] = value;
        asked
    };
    let without = |mut asked: Value, name: &str| {
        asked["params"].as_object_mut().unwrap().remove(name);
        asked
    };
    for asked in [
        json!({"method": "elicitation/create"}),
        json!({"method": "elicitation/create", "params": {}}),
        with(form(), "mode", json!("qr")),
        with(form(), "mode", json!(1)),
        with(form(), "mode", json!(null)),
        with(form(), "mode", json!("url")),
        with(form(), "message", json!(5)),
        without(form(), "message"),
        with(form(), "requestedSchema", json!(5)),
        without(form(), "requestedSchema"),
        with(url(), "mode", json!("form")),
        with(url(), "url", json!({})),
        without(url(), "url"),
        without(url(), "mode"),
        without(url(), "message"),
        json!({"method": "sampling/createMessage"}),
        json!({"method": "sampling/createMessage", "params": {}}),
        sample(json!({"messages": 5})),
        sample(json!({"maxTokens": "x"})),
        without(sample(json!({})), "messages"),
        without(sample(json!({})), "maxTokens"),
        json!({"method": "roots/list", "params": []}),
    ] {
        let outcome = emit(everything(), asks(json!({ "k": asked, "r": roots() }))).await;
        replaced(&outcome, 200, -32603, None);
    }
    for asked in [
        form(),
        without(form(), "mode"),
        url(),
        sample(json!({})),
        roots(),
        json!({"method": "roots/list", "params": {}}),
    ] {
        emit(everything(), asks(json!({ "k": asked }))).await.passed();
    }
}

#[tokio::test]
async fn all_that_is_missing_is_told_at_once() {
    let requests = json!({
        "a": form(), "b": url(), "c": sample(json!({"tools": []})), "d": roots(), "e": sample(json!({})),
    });
    let outcome = emit(json!({"elicitation": {}, "sampling": {}}), asks(requests)).await;
    replaced(
        &outcome,
        400,
        -32021,
        missing(json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}, "roots": {}})),
    );
}

#[tokio::test]
async fn the_context_of_servers_needs_its_own_capability_if_strict() {
    let strict = CapabilityLayer::new().with_strict_context(true);
    let ask = |context: &str| asks(json!({ "k": sample(json!({ "includeContext": context })) }));
    for context in ["thisServer", "allServers"] {
        let outcome = emit_as(&strict, "tools/call", json!({"sampling": {}}), ask(context)).await;
        replaced(&outcome, 400, -32021, missing(json!({"sampling": {"context": {}}})));
        emit_as(&strict, "tools/call", json!({"sampling": {"context": {}}}), ask(context)).await.passed();
    }
    emit_as(&strict, "tools/call", json!({"sampling": {}}), ask("none")).await.passed();
}

#[tokio::test]
async fn only_three_methods_may_be_answered_by_asking() {
    for method in ["tools/call", "prompts/get", "resources/read"] {
        emit_as(&CapabilityLayer::new(), method, json!({"roots": {}}), asks(json!({ "k": roots() })))
            .await
            .passed();
    }
    for method in ["tools/list", "completion/complete", "server/discover", "com.example/print"] {
        let outcome =
            emit_as(&CapabilityLayer::new(), method, json!({"roots": {}}), asks(json!({ "k": roots() })))
                .await;
        replaced(&outcome, 200, -32603, None);
    }
}

#[tokio::test]
async fn what_the_server_asks_wrongly_does_not_leave() {
    let input_required = |more: Value| {
        let mut result = json!({"resultType": "input_required"});
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        result
    };
    for more in [
        json!({}),
        json!({"inputRequests": {}}),
        json!({"inputRequests": null}),
        json!({"inputRequests": []}),
        json!({"inputRequests": null, "requestState": "s"}),
        json!({"requestState": null}),
        json!({"requestState": 1}),
        json!({"inputRequests": {"k": null}}),
        json!({"inputRequests": {"k": "roots/list"}}),
        json!({"inputRequests": {"k": {}}}),
        json!({"inputRequests": {"k": {"method": 1}}}),
        json!({"inputRequests": {"k": {"method": "ping"}}}),
        json!({"inputRequests": {"k": {"method": "tools/call", "params": {}}}}),
        json!({"inputRequests": {"k": {"method": "roots/list", "params": []}}}),
        json!({"inputRequests": {"k": {"method": "elicitation/create"}}}),
        json!({"inputRequests": {"k": {"method": "sampling/createMessage"}}}),
        json!({"inputRequests": {"k": roots(), "l": {"method": "ping"}}}),
    ] {
        // The client has declared nothing: the server's mistake is told first.
        replaced(&emit(json!({}), input_required(more)).await, 200, -32603, None);
    }
    for more in [json!({"requestState": "s"}), json!({"requestState": "s", "inputRequests": {}})] {
        emit(json!({}), input_required(more)).await.passed();
    }
}

#[test]
fn the_log_tells_all_mistakes_and_the_caller_none() {
    let message = Message::parse(body("tools/list", "t", json!({}))).unwrap();
    let result = asks(json!({"one": {"method": "ping"}, "two": 1}));
    let mut result = RawObject::from_value(&result).unwrap();
    let mut refused = None;
    let log = logged(|| refused = emission::check(&message, &mut result, Emission::default()).err());
    for part in ["`tools/list` may not", "request `one`", "request `two`"] {
        assert!(log.contains(part), "{log}");
    }
    let refused = refused.unwrap();
    assert_eq!(refused.message(), "internal error: the server asked for input wrongly");
}

#[tokio::test]
async fn other_results_and_errors_pass() {
    for result in [
        json!({"resultType": "complete", "inputRequests": {"k": roots()}}),
        json!({"resultType": "task"}),
        json!({"inputRequests": 1}),
        json!({"resultType": 1}),
    ] {
        let outcome = emit(json!({}), result.clone()).await;
        outcome.passed();
        assert_eq!(outcome.body["result"], result);
    }
    let error = || crate::message::ErrorObject::new(-32602, "no");
    let outcome = send_to(&CapabilityLayer::new(), call("t", json!({})), move |_| {
        Reply::Answer(Answer::error(Some(7.into()), error()))
    })
    .await;
    assert_eq!((outcome.status, outcome.body["error"]["code"].as_i64()), (200, Some(-32602)));
}

#[tokio::test]
async fn the_answer_at_the_end_of_a_stream_is_checked_as_well() {
    for (capabilities, passes) in [(json!({}), false), (json!({"roots": {}}), true)] {
        let outcome = send_to(&CapabilityLayer::new(), call("t", capabilities), |_| {
            let result = RawObject::from_value(&asks(json!({ "k": roots() }))).unwrap();
            streamed(Answer::result(Some(7.into()), result))
        })
        .await;
        assert_eq!((outcome.status, outcome.streamed, outcome.calls), (200, true, 1));
        assert_eq!(outcome.body["id"], json!(7));
        if passes {
            assert_eq!(outcome.body["result"]["resultType"], json!("input_required"));
        } else {
            assert_eq!(outcome.body["error"]["code"], json!(-32021));
            assert_eq!(outcome.body["error"]["data"], json!({"requiredCapabilities": {"roots": {}}}));
        }
    }
}

#[tokio::test]
async fn an_extensions_methods_need_its_revisions_first_and_then_the_extension() {
    let layer = RequireExtensionLayer::new(ExtensionId::new("com.x/y").unwrap())
        .with_method("com.x/do", [Revision::V2026_07_28]);
    let ask = |method: &str, version: Option<&str>, capabilities: Value| {
        let mut meta = json!({CAPS: capabilities});
        if let Some(version) = version {
            meta[PV] = json!(version);
        }
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": meta}});
        request(&body.to_string(), [])
    };
    let declared = || json!({"extensions": {"com.x/y": {}}});
    let required = || missing(json!({"extensions": {"com.x/y": {}}}));
    send(&layer, ask("com.x/do", Some("2026-07-28"), declared())).await.passed();
    send(&layer, ask("com.x/other", None, json!({}))).await.passed();
    for capabilities in [json!({}), json!({"extensions": {}}), json!({"extensions": {"com.x/z": {}}})] {
        send(&layer, ask("com.x/do", Some("2026-07-28"), capabilities)).await.refused(
            400,
            -32021,
            required(),
        );
    }
    for version in [Some("2025-11-25"), Some("banana"), None] {
        send(&layer, ask("com.x/do", version, json!({}))).await.refused(404, -32601, None);
        send(&layer, ask("com.x/do", version, declared())).await.refused(404, -32601, None);
    }
    // What the layer above has found out counts.
    let mut request = ask("com.x/do", None, declared());
    request.extensions_mut().insert(Revision::V2026_07_28);
    send(&layer, request).await.passed();
}

#[tokio::test]
async fn what_is_not_declared_is_left_out_on_request_as_long_as_something_is_left() {
    let layer = CapabilityLayer::new().with_undeclared_left_out(true);
    let asked = json!({"a": form(), "b": roots(), "c": url()});
    let outcome = emit_as(&layer, "tools/call", json!({"roots": {}}), asks(asked.clone())).await;
    outcome.passed();
    assert_eq!(outcome.body["result"], asks(json!({ "b": roots() })));
    // All of them pass untouched, and of none that could be asked there is no state alone.
    let all = json!({"roots": {}, "elicitation": {"form": {}, "url": {}}});
    let outcome = emit_as(&layer, "tools/call", all, asks(asked.clone())).await;
    assert_eq!(outcome.body["result"], asks(asked));
    let mut result = asks(json!({"a": form()}));
    result["requestState"] = json!("s");
    let outcome = emit_as(&layer, "tools/call", json!({"roots": {}}), result).await;
    replaced(&outcome, 400, -32021, missing(json!({"elicitation": {"form": {}}})));
    // A malformed one is a mistake of the server's, and not left out.
    let outcome =
        emit_as(&layer, "tools/call", json!({"roots": {}}), asks(json!({"a": 5, "b": roots()}))).await;
    replaced(&outcome, 200, -32603, None);
}

#[tokio::test]
async fn many_requests_that_are_left_out_stop_nobody_for_long() {
    let layer = CapabilityLayer::new().with_undeclared_left_out(true);
    let mut requests: serde_json::Map<_, _> = (0..40_000).map(|at| (format!("x{at}"), roots())).collect();
    requests.insert("ok".to_owned(), sample(json!({})));
    let start = std::time::Instant::now();
    let outcome = emit_as(&layer, "tools/call", json!({"sampling": {}}), asks(requests.into())).await;
    // With work that grows with the square of their number it would be minutes.
    assert!(start.elapsed() < std::time::Duration::from_secs(15), "{:?}", start.elapsed());
    assert_eq!(outcome.body["result"]["inputRequests"], json!({"ok": sample(json!({}))}));
}
