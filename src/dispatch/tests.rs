//! The whole dispatcher, without HTTP.

mod listed;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_core::Stream;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;
use crate::message::{Event, ReplyStream};
use crate::protocol::{CacheScope, Content, LogLevel, PromptMessage, ResourceContents, Revision};

fn tool(name: &str) -> Tool {
    Tool::raw(name, json!({"type": "object"}), |_, _| async { Ok("done") })
}

fn request(method: &str, params: Value) -> Request<Message> {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    Request::new(Message::parse(body.to_string()).unwrap())
}

async fn respond(server: &Dispatch, method: &str, params: Value) -> Response<Reply> {
    server.clone().call(request(method, params)).await.unwrap()
}

/// Status and JSON of an answer that is no stream.
async fn ask(server: &Dispatch, method: &str, params: Value) -> (u16, Value) {
    let response = respond(server, method, params).await;
    let answer = response.body().answer().expect("no stream");
    (response.status().as_u16(), serde_json::from_str(&answer.to_string()).unwrap())
}

async fn result(server: &Dispatch, method: &str, params: Value) -> Value {
    let (status, mut answer) = ask(server, method, params).await;
    assert_eq!((status, &answer["id"]), (200, &json!(7)), "{answer}");
    answer["result"].take()
}

/// Status, code and message of an error.
async fn error(server: &Dispatch, method: &str, params: Value) -> (u16, i64, String) {
    let (status, answer) = ask(server, method, params).await;
    assert_eq!(answer["id"], json!(7));
    let error = &answer["error"];
    (status, error["code"].as_i64().expect("an error"), error["message"].as_str().unwrap().to_owned())
}

async fn next(stream: &mut ReplyStream) -> Option<Value> {
    let event = poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await?;
    let text = match event {
        Event::Notification(message) => String::from_utf8(message.bytes().to_vec()).unwrap(),
        Event::Answer(answer) => answer.to_string(),
    };
    Some(serde_json::from_str(&text).unwrap())
}

fn stream(response: Response<Reply>) -> ReplyStream {
    match response.into_body() {
        Reply::Stream(stream) => stream,
        other => panic!("not a stream: {other:?}"),
    }
}

#[tokio::test]
async fn discovery_tells_what_was_registered() {
    let server = Dispatch::builder("s", "1.2.3")
        .with_title("S")
        .with_instructions("Be nice")
        .tool(tool("t"))
        .prompt(Prompt::new("p", |_, _| async { Ok(PromptMessage::user("hi")) }))
        .with_logging()
        .build()
        .unwrap();
    assert_eq!(
        result(&server, "server/discover", json!({})).await,
        json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {}},
            "instructions": "Be nice",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1.2.3", "title": "S"}},
        })
    );
}

#[tokio::test]
async fn what_is_not_offered_is_not_found() {
    let server = Dispatch::builder("s", "1").tool(tool("t")).build().unwrap();
    for method in [
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "completion/complete",
        "initialize",
        "ping",
        "tasks/get",
        "x",
        "TOOLS/LIST",
        "",
    ] {
        let (status, code, _) = error(&server, method, json!({"name": "t", "uri": "a://b"})).await;
        assert_eq!((status, code), (404, -32601), "{method}");
    }
    let empty = Dispatch::builder("s", "1").build().unwrap();
    assert_eq!(error(&empty, "tools/list", json!({})).await.1, -32601);
    assert_eq!(error(&empty, "subscriptions/listen", json!({"notifications": {}})).await.1, -32601);
}

#[tokio::test]
async fn what_is_announced_is_offered_before_anything_is_registered() {
    let server = Dispatch::builder("s", "1").with_tools().with_prompts().with_resources().build().unwrap();
    for (method, member) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        assert_eq!(result(&server, method, json!({})).await[member], json!([]), "{method}");
    }
}

#[tokio::test]
async fn a_notification_is_accepted_and_reaches_no_handler() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let server = Dispatch::builder("s", "1")
        .tool(Tool::raw("t", json!({"type": "object"}), move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok("done") }
        }))
        .build()
        .unwrap();
    for body in [
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
        r#"{"jsonrpc":"2.0","method":"nobody/knows"}"#,
    ] {
        let response = server.clone().call(Request::new(Message::parse(body).unwrap())).await.unwrap();
        assert_eq!(response.status(), 202);
        assert!(matches!(response.body(), Reply::Accepted));
    }
    assert_eq!(called.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn tools_are_listed_as_they_were_registered() {
    let server = Dispatch::builder("s", "1")
        .tool(
            tool("b")
                .with_description("B")
                .with_title("The B")
                .with_annotations(json!({"readOnlyHint": true})),
        )
        .tool(tool("42"))
        .tool(tool("a").with_output_schema(json!({"type": "array"})).with_meta("k", 1))
        .with_list_cache(CacheHint::public(std::time::Duration::from_secs(1)))
        .build()
        .unwrap();
    let list = result(&server, "tools/list", json!({})).await;
    assert_eq!(
        list["tools"],
        json!([
            {"name": "b", "inputSchema": {"type": "object"}, "description": "B", "title": "The B",
             "annotations": {"readOnlyHint": true}},
            {"name": "42", "inputSchema": {"type": "object"}},
            {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}, "_meta": {"k": 1}},
        ])
    );
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(1000), &json!("public")));
}

#[tokio::test]
async fn a_call_gives_what_the_tool_returns() {
    let server = Dispatch::builder("s", "1")
        .tool(Tool::raw("echo", json!({"type": "object"}), |arguments, _| async move {
            Ok(arguments.raw().text().to_owned())
        }))
        .build()
        .unwrap();
    let big = r#"{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"echo","arguments":{"n": 1.00}}}"#;
    let response = server.clone().call(Request::new(Message::parse(big).unwrap())).await.unwrap();
    assert_eq!(
        response.body().answer().unwrap().to_string(),
        concat!(
            r#"{"jsonrpc":"2.0","id":"a\u0062","result":{"resultType":"complete","#,
            r#""content":[{"type":"text","text":"{\"n\": 1.00}"}],"#,
            r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}"#
        )
    );
    let absent = result(&server, "tools/call", json!({"name": "echo"})).await;
    assert_eq!(absent["content"][0]["text"], "{}");
}

#[tokio::test]
async fn a_call_of_a_wrong_shape_or_of_an_unknown_tool_is_an_error_of_the_protocol() {
    let server = Dispatch::builder("s", "1").tool(tool("t")).tool(tool("off")).build().unwrap();
    assert!(server.set_tool_enabled("off", false));
    for params in [
        json!({}),
        json!({"name": 1}),
        json!({"name": "t", "arguments": []}),
        json!({"name": "t", "arguments": null}),
        json!({"name": "t", "arguments": "{}"}),
        json!({"name": "nobody"}),
        json!({"name": "off"}),
        json!({"name": "T"}),
    ] {
        let (status, code, message) = error(&server, "tools/call", params.clone()).await;
        assert_eq!((status, code), (400, -32602), "{params}");
        assert!(message.contains('`'), "{message}");
    }
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn arguments_that_do_not_match_are_shown_to_the_model() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 3}},
        "required": ["n"],
        "additionalProperties": false,
    });
    let server = Dispatch::builder("s", "1")
        .tool(Tool::raw("t", schema, move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok("done") }
        }))
        .build()
        .unwrap();
    for arguments in
        [json!({}), json!({"n": "secret"}), json!({"n": 2}), json!({"n": 3.5}), json!({"n": 3, "m": 1})]
    {
        let result = result(&server, "tools/call", json!({"name": "t", "arguments": arguments})).await;
        assert_eq!(
            (&result["isError"], &result["resultType"]),
            (&json!(true), &json!("complete")),
            "{arguments}"
        );
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("the arguments of tool `t` are not valid: "), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    assert_eq!(called.load(Ordering::Relaxed), 0);
    for arguments in [json!({"n": 3}), json!({"n": 3.0})] {
        let result = result(&server, "tools/call", json!({"name": "t", "arguments": arguments})).await;
        assert_eq!(result.get("isError"), None, "{arguments}");
    }
    assert_eq!(called.load(Ordering::Relaxed), 2);
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn typed_arguments_are_read_and_their_faults_shown() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Add {
        a: u8,
        #[schemars(range(max = 10))]
        b: i64,
    }
    let server = Dispatch::builder("s", "1")
        .tool(Tool::new("add", |Add { a, b }, _| async move { Ok((i64::from(a) + b).to_string()) }))
        .tool(Tool::new("unit", |(): (), _| async { Ok("unit") }))
        .build()
        .unwrap();
    let list = result(&server, "tools/list", json!({})).await;
    assert_eq!(list["tools"][0]["inputSchema"]["properties"]["b"]["maximum"], json!(10));
    assert_eq!(list["tools"][1]["inputSchema"]["type"], "object");
    for arguments in [json!({}), json!({"more": 1})] {
        let call = json!({"name": "unit", "arguments": arguments});
        assert_eq!(result(&server, "tools/call", call).await["content"][0]["text"], "unit");
    }
    let call = |arguments: Value| json!({"name": "add", "arguments": arguments});
    assert_eq!(result(&server, "tools/call", call(json!({"a": 1, "b": 2}))).await["content"][0]["text"], "3");
    for arguments in [json!({"a": 256, "b": 1}), json!({"a": 1}), json!({"a": 1, "b": 11})] {
        assert_eq!(
            result(&server, "tools/call", call(arguments.clone())).await["isError"],
            true,
            "{arguments}"
        );
    }
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn arguments_are_a_type_that_can_be_an_object() {
    use std::collections::HashMap;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(tag = "kind")]
    enum Tagged {
        Both { a: u8, b: u8 },
    }

    let server = Dispatch::builder("s", "1")
        .tool(Tool::new("nothing", |Nothing, _| async { Ok("done") }))
        .tool(Tool::new("tagged", |Tagged::Both { a, b }, _| async move { Ok((a + b).to_string()) }))
        .tool(Tool::new("maybe", |map: Option<HashMap<String, u8>>, _| async move {
            Ok(map.map_or(0, |map| map.len()).to_string())
        }))
        .build()
        .unwrap();
    for (name, arguments, text) in [
        ("nothing", json!({}), "done"),
        ("tagged", json!({"kind": "Both", "a": 1, "b": 2}), "3"),
        ("maybe", json!({"x": 1}), "1"),
    ] {
        let call = json!({"name": name, "arguments": arguments});
        assert_eq!(result(&server, "tools/call", call).await["content"][0]["text"], text, "{name}");
    }

    let built = |tool: Tool| Dispatch::builder("s", "1").tool(tool).build().map(drop);
    for tool in [
        Tool::new("t", |_: Vec<u8>, _| async { Ok("") }),
        Tool::new("t", |_: u8, _| async { Ok("") }),
        Tool::new("t", |_: String, _| async { Ok("") }),
        Tool::new("t", |_: Option<bool>, _| async { Ok("") }),
    ] {
        assert!(matches!(built(tool), Err(BuildError::Schema { name, .. }) if name == "t"));
    }
}

#[test]
fn the_catalog_tells_the_output_schema() {
    let server = Dispatch::builder("s", "1")
        .tool(tool("a").with_output_schema(json!({"type": "array"})))
        .tool(tool("b"))
        .build()
        .unwrap();
    let schema = |name| server.tool(name, &Extensions::new()).unwrap().output_schema.clone();
    assert_eq!((schema("a").as_deref(), schema("b")), (Some(r#"{"type":"array"}"#), None));
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn structured_content_is_checked_against_the_output_schema() {
    let result_of = |schema: Value, returned: fn() -> ToolResult| async move {
        let tool = Tool::raw("t", json!({"type": "object"}), move |_, _| async move { Ok(returned()) });
        let server = Dispatch::builder("s", "1").tool(tool.with_output_schema(schema)).build().unwrap();
        result(&server, "tools/call", json!({"name": "t"})).await
    };
    let nullable = || json!({"type": ["object", "null"]});
    assert_eq!(result_of(nullable(), || "text".into()).await["isError"], true);
    let null = result_of(nullable(), || ToolResult::json(&Value::Null)).await;
    assert_eq!((null.get("isError"), null.get("structuredContent")), (None, Some(&Value::Null)));
    let is_false = result_of(json!({"type": "boolean"}), || ToolResult::json(&false)).await;
    assert_eq!((is_false.get("isError"), &is_false["structuredContent"]), (None, &json!(false)));
    let zero = result_of(json!({"type": "object"}), || ToolResult::json(&0)).await;
    assert_eq!((&zero["isError"], zero.get("structuredContent")), (&json!(true), None));
    assert_eq!(zero["content"].as_array().unwrap().len(), 1);
    let failed = result_of(json!({"type": "object"}), || ToolResult::from("no").with_error()).await;
    assert_eq!((&failed["isError"], &failed["content"][0]["text"]), (&json!(true), &json!("no")));
    let asked = result_of(json!({"type": "object"}), || InputRequired::new().list_roots("r").into()).await;
    assert_eq!(asked["resultType"], "input_required");
}

#[tokio::test]
async fn structured_content_is_also_given_as_text() {
    let server = Dispatch::builder("s", "1")
        .tool(Tool::raw("json", json!({"type": "object"}), |_, _| async {
            Ok(ToolResult::json(&json!([1.0])))
        }))
        .tool(Tool::raw("both", json!({"type": "object"}), |_, _| async {
            Ok(ToolResult::json(&1).with_content("one").with_meta("k", "v"))
        }))
        .build()
        .unwrap();
    let json = result(&server, "tools/call", json!({"name": "json"})).await;
    assert_eq!((&json["structuredContent"], &json["content"][0]["text"]), (&json!([1.0]), &json!("[1.0]")));
    let both = result(&server, "tools/call", json!({"name": "both"})).await;
    assert_eq!(both["content"], json!([{"type": "text", "text": "one"}]));
    assert_eq!(both["_meta"]["k"], "v");
    assert_eq!(both["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "s");
}

#[tokio::test]
async fn failures_show_what_is_meant_to_be_seen() {
    let failing = |name: &str, fail: fn() -> HandlerError| {
        Tool::raw(name, json!({"type": "object"}), move |_, _| async move { Err::<&str, _>(fail()) })
    };
    let server = Dispatch::builder("s", "1")
        .tool(failing("visible", || HandlerError::visible("no such city")))
        .tool(failing("internal", || std::io::Error::other("password").into()))
        .tool(failing("rejected", || Rejection::missing_capability(&json!({"roots": {}})).into()))
        .tool(failing("error", || crate::message::ErrorObject::new(-32042, "x").into()))
        .tool(Tool::raw("panic", json!({"type": "object"}), |_, _| async {
            assert!(serde_json::from_str::<Value>("").is_ok(), "password");
            Ok("")
        }))
        .tool(Tool::raw("panic at once", json!({"type": "object"}), |_, _| {
            assert!(serde_json::from_str::<Value>("").is_ok(), "password");
            async { Ok("") }
        }))
        .build()
        .unwrap();
    let call = |name: &str| json!({"name": name});
    let visible = result(&server, "tools/call", call("visible")).await;
    assert_eq!((&visible["isError"], &visible["content"][0]["text"]), (&json!(true), &json!("no such city")));
    let internal = result(&server, "tools/call", call("internal")).await;
    assert_eq!(internal["content"], json!([{"type": "text", "text": "tool `internal` failed"}]));
    let (status, code, _) = error(&server, "tools/call", call("rejected")).await;
    assert_eq!((status, code), (400, -32021));
    assert_eq!(error(&server, "tools/call", call("error")).await, (200, -32603, "x".to_owned()));
    for name in ["panic", "panic at once"] {
        let failed = error(&server, "tools/call", call(name)).await;
        assert_eq!(failed, (200, -32603, "internal error".to_owned()));
    }
    assert_eq!(result(&server, "tools/call", call("visible")).await["isError"], true, "the server lives on");
}

#[tokio::test]
async fn a_mistake_is_told_when_the_server_is_built() {
    let built = |tools: Vec<Tool>| {
        tools.into_iter().fold(Dispatch::builder("s", "1"), Builder::tool).build().map(drop)
    };
    let raw = |schema| Tool::raw("t", schema, |_, _| async { Ok("") });
    assert!(
        matches!(built(vec![tool("t"), tool("t")]), Err(BuildError::Duplicate { kind: "tool", name }) if name == "t")
    );
    assert!(matches!(built(vec![tool("")]), Err(BuildError::Unnamed { kind: "tool" })));
    for schema in [json!(true), json!({}), json!({"type": "array"}), json!({"type": ["object"]})] {
        assert!(matches!(built(vec![raw(schema)]), Err(BuildError::Schema { .. })));
    }
    let annotated = json!({"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}});
    assert!(matches!(built(vec![raw(annotated)]), Err(BuildError::Annotation { .. })));
    let deep = (0..80).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    assert!(matches!(
        built(vec![raw(json!({"type": "object", "not": deep}))]),
        Err(BuildError::Schema { .. })
    ));
    let resource = || Resource::new("a://b", "b", |_| async { Ok(Vec::new()) });
    let twice = Dispatch::builder("s", "1").resource(resource()).resource(resource()).build();
    assert!(matches!(twice, Err(BuildError::Duplicate { kind: "resource", .. })));
    let prompt = || Prompt::new("p", |_, _| async { Ok(Vec::new()) });
    let twice = Dispatch::builder("s", "1").prompt(prompt()).prompt(prompt()).build();
    assert!(matches!(twice, Err(BuildError::Duplicate { kind: "prompt", .. })));
    let argument_twice =
        prompt().with_argument(PromptArgument::optional("a")).with_argument(PromptArgument::required("a"));
    assert!(Dispatch::builder("s", "1").prompt(argument_twice).build().is_err());
}

#[cfg(feature = "schema")]
#[test]
fn a_schema_that_points_elsewhere_is_refused_and_nothing_is_fetched() {
    for reference in ["https://example.com/schema.json", "http://127.0.0.1:1/s", "file:///etc/passwd"] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
        let tool = Tool::raw("t", schema, |_, _| async { Ok("") });
        assert!(
            matches!(Dispatch::builder("s", "1").tool(tool).build(), Err(BuildError::Schema { .. })),
            "{reference}"
        );
    }
    let local = json!({"type": "object", "$defs": {"d": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d"}}});
    assert!(Dispatch::builder("s", "1").tool(Tool::raw("t", local, |_, _| async { Ok("") })).build().is_ok());
}

#[tokio::test]
async fn tools_change_while_the_server_serves_and_each_change_is_told_once() {
    let server = Dispatch::builder("s", "1").tool(tool("a")).build().unwrap();
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = stream(respond(&server, "subscriptions/listen", listen).await);
    let acknowledged = next(&mut stream).await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");

    let names = async || {
        let list = result(&server, "tools/list", json!({})).await;
        list["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let told = async |stream: &mut ReplyStream| {
        let mut told = 0;
        while let Ok(Some(event)) = tokio::time::timeout(std::time::Duration::ZERO, next(stream)).await {
            assert_eq!(event["method"], "notifications/tools/list_changed");
            told += 1;
        }
        told
    };
    server.add_tool(tool("b")).unwrap();
    assert_eq!((names().await, told(&mut stream).await), (vec!["a".to_owned(), "b".to_owned()], 1));
    assert!(server.add_tool(tool("b")).is_err());
    assert!(server.set_tool_enabled("a", true));
    assert!(!server.set_tool_enabled("nobody", true));
    assert!(!server.remove_tool("nobody"));
    assert_eq!(told(&mut stream).await, 0, "nothing has changed");
    assert!(server.set_tool_enabled("a", false));
    assert_eq!((names().await, told(&mut stream).await), (vec!["b".to_owned()], 1));
    assert!(server.set_tool_enabled("a", true));
    assert_eq!((names().await, told(&mut stream).await), (vec!["a".to_owned(), "b".to_owned()], 1));
    assert!(server.remove_tool("a"));
    assert_eq!((names().await, told(&mut stream).await), (vec!["b".to_owned()], 1));
    assert!(server.add_prompt(Prompt::new("p", |_, _| async { Ok(Vec::new()) })).is_err(), "not offered");
}

fn noted() -> Dispatch {
    Dispatch::builder("s", "1")
        .resource(
            Resource::new("note://1", "one", |_| async { Ok(ResourceContents::text("note://1", "1")) })
                .with_mime_type("text/plain")
                .with_cache(CacheHint::default().with_ttl(std::time::Duration::from_millis(10))),
        )
        .resource(Resource::new("note://own", "own", |_| async {
            let hint = CacheHint::default().with_scope(CacheScope::Public);
            Ok(ReadResult::from(ResourceContents::blob("note://own", [0xFF])).with_cache(hint))
        }))
        .resource_template(
            ResourceTemplate::new("note://{id}", "any", |variables, _| async move {
                if variables.get("id") == "0" {
                    return Err(HandlerError::unknown_resource(variables.uri()));
                }
                let text = format!("any {}", variables.get("id"));
                Ok(ResourceContents::text(variables.uri().to_owned(), text))
            })
            .with_completion("id", |asked, _| async move {
                Ok((0..150).map(|n| format!("{}{n}", asked.value)).collect())
            }),
        )
        .with_read_cache(CacheHint::private(std::time::Duration::from_millis(5)))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_fixed_resource_comes_before_a_template_that_matches() {
    let server = noted();
    let read = async |uri: &str| result(&server, "resources/read", json!({"uri": uri})).await;
    let one = read("note://1").await;
    assert_eq!(one["contents"], json!([{"uri": "note://1", "text": "1"}]));
    assert_eq!((&one["ttlMs"], &one["cacheScope"]), (&json!(10), &json!("private")));
    let own = read("note://own").await;
    assert_eq!(own["contents"], json!([{"uri": "note://own", "blob": "/w=="}]));
    assert_eq!((&own["ttlMs"], &own["cacheScope"]), (&json!(5), &json!("public")));
    let any = read("note://a%20b").await;
    assert_eq!(any["contents"][0]["text"], "any a b");
    assert_eq!((&any["ttlMs"], &any["cacheScope"]), (&json!(5), &json!("private")));
    let list = result(&server, "resources/list", json!({})).await;
    assert_eq!(list["resources"][0], json!({"uri": "note://1", "name": "one", "mimeType": "text/plain"}));
    let templates = result(&server, "resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"], json!([{"uriTemplate": "note://{id}", "name": "any"}]));
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_told_with_its_uri() {
    let server = noted();
    for (uri, data) in [
        ("note://a/b", json!({"uri": "note://a/b"})),
        ("note://0", json!({"uri": "note://0"})),
        ("not a uri", json!({"uri": "not a uri", "reason": "invalid_uri"})),
        ("", json!({"uri": "", "reason": "invalid_uri"})),
    ] {
        let (status, answer) = ask(&server, "resources/read", json!({"uri": uri})).await;
        assert_eq!(
            (status, &answer["error"]["code"], &answer["error"]["data"]),
            (400, &json!(-32602), &data)
        );
    }
    assert_eq!(error(&server, "resources/read", json!({})).await.1, -32602);
    assert_eq!(error(&server, "resources/read", json!({"uri": 1})).await.1, -32602);
}

#[tokio::test]
async fn prompts_are_made_from_their_arguments() {
    let prompt = Prompt::new("greet", |arguments: PromptArguments, _| async move {
        let greeting =
            format!("{} {}", arguments.get("greeting").unwrap_or("Hello"), arguments.get("name").unwrap());
        Ok(PromptResult::from(PromptMessage::user(greeting)).with_description("A greeting"))
    })
    .with_argument(PromptArgument::required("name").with_description("Whom"))
    .with_argument(PromptArgument::optional("greeting").with_completion(|asked, _| async move {
        Ok(vec![format!("{}:{}", asked.value, asked.argument("name").unwrap_or("?"))])
    }));
    let server = Dispatch::builder("s", "1").prompt(prompt).build().unwrap();
    let list = result(&server, "prompts/list", json!({})).await;
    assert_eq!(
        list["prompts"],
        json!([{"name": "greet", "arguments": [
            {"name": "name", "required": true, "description": "Whom"}, {"name": "greeting"}]}])
    );
    let get = |arguments: Value| json!({"name": "greet", "arguments": arguments});
    let got = result(&server, "prompts/get", get(json!({"name": "Ada", "unknown": "x"}))).await;
    assert_eq!(got["messages"], json!([{"role": "user", "content": {"type": "text", "text": "Hello Ada"}}]));
    assert_eq!((&got["description"], got.get("ttlMs")), (&json!("A greeting"), None));
    for params in [
        json!({"name": "nobody"}),
        json!({"name": "greet"}),
        get(json!({"greeting": "Hi"})),
        get(json!({"name": 1})),
        get(json!([])),
        json!({}),
    ] {
        let (status, code, _) = error(&server, "prompts/get", params.clone()).await;
        assert_eq!((status, code), (400, -32602), "{params}");
    }
    let complete = |argument: &str| {
        json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": argument, "value": "H"},
               "context": {"arguments": {"name": "Ada"}}})
    };
    let completed = result(&server, "completion/complete", complete("greeting")).await;
    assert_eq!(completed["completion"], json!({"values": ["H:Ada"], "total": 1, "hasMore": false}));
    for argument in ["name", "nobody"] {
        let nothing = result(&server, "completion/complete", complete(argument)).await;
        assert_eq!(nothing["completion"], json!({"values": [], "hasMore": false}), "{argument}");
    }
}

#[tokio::test]
async fn completion_knows_templates_and_says_what_it_does_not_know() {
    let server = noted();
    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "id", "value": "x"}});
    let any = result(
        &server,
        "completion/complete",
        complete(json!({"type": "ref/resource", "uri": "note://{id}"})),
    )
    .await;
    assert_eq!(any["completion"]["values"].as_array().unwrap().len(), 100);
    assert_eq!((&any["completion"]["total"], &any["completion"]["hasMore"]), (&json!(150), &json!(true)));
    let fixed =
        result(&server, "completion/complete", complete(json!({"type": "ref/resource", "uri": "note://1"})))
            .await;
    assert_eq!(fixed["completion"], json!({"values": [], "hasMore": false}));
    for reference in [
        json!({"type": "ref/resource", "uri": "note://7"}),
        json!({"type": "ref/prompt", "name": "nobody"}),
        json!({"type": "ref/tool", "name": "t"}),
        json!({"type": "ref/prompt"}),
        json!({}),
        json!(1),
    ] {
        let (status, code, _) = error(&server, "completion/complete", complete(reference.clone())).await;
        assert_eq!((status, code), (400, -32602), "{reference}");
    }
    let reference = json!({"type": "ref/resource", "uri": "note://{id}"});
    for params in
        [json!({"ref": reference}), json!({"ref": reference, "argument": {"name": "id", "value": 1}})]
    {
        assert_eq!(error(&server, "completion/complete", params).await.1, -32602);
    }
}

/// `_meta` with a progress token and a log level.
fn meta(level: &str) -> Value {
    json!({"progressToken": "p\u{e9}", "io.modelcontextprotocol/logLevel": level})
}

fn talkative(logging: bool) -> Dispatch {
    let tool = Tool::raw("talk", json!({"type": "object"}), |_, context: Context| async move {
        context.progress(1.0, Some(2.0), "half").await;
        context.progress(1.0, None, "does not increase").await;
        context.progress(f64::NAN, None, "no number").await;
        context.log(LogLevel::Info, "l", "too little").await;
        context.log(LogLevel::Error, "l", &json!({"n": 1})).await;
        tokio::task::yield_now().await;
        context.progress(2.0, None, "").await;
        Ok("done")
    });
    let builder = Dispatch::builder("s", "1").tool(tool);
    if logging { builder.with_logging() } else { builder }.build().unwrap()
}

#[tokio::test]
async fn notifications_come_before_the_answer_on_the_same_stream() {
    let server = talkative(true);
    let mut stream =
        stream(respond(&server, "tools/call", json!({"name": "talk", "_meta": meta("warning")})).await);
    assert_eq!(
        next(&mut stream).await.unwrap(),
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
               "params": {"progressToken": "p\u{e9}", "progress": 1.0, "total": 2.0, "message": "half"}})
    );
    assert_eq!(
        next(&mut stream).await.unwrap(),
        json!({"jsonrpc": "2.0", "method": "notifications/message",
               "params": {"level": "error", "logger": "l", "data": {"n": 1}}})
    );
    assert_eq!(
        next(&mut stream).await.unwrap()["params"],
        json!({"progressToken": "p\u{e9}", "progress": 2.0})
    );
    let answer = next(&mut stream).await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("done")));
    assert_eq!(next(&mut stream).await, None);
}

#[tokio::test]
async fn what_the_client_did_not_ask_for_is_not_sent_and_does_not_make_a_stream() {
    let silent = result(&talkative(true), "tools/call", json!({"name": "talk"})).await;
    assert_eq!(silent["content"][0]["text"], "done");
    let logs_only = json!({"name": "talk", "_meta": {"io.modelcontextprotocol/logLevel": "debug"}});
    result(&talkative(false), "tools/call", logs_only).await;
}

#[tokio::test]
async fn a_handler_that_sends_and_ends_at_once_is_still_streamed_in_order() {
    let tool = Tool::raw("t", json!({"type": "object"}), |_, context: Context| async move {
        context.progress(1.0, None, "").await;
        Err::<&str, _>(HandlerError::invalid_params("late"))
    });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    let response = respond(&server, "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}})).await;
    assert_eq!(response.status(), 200, "the status is sent before the answer is known");
    let mut stream = stream(response);
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
    assert_eq!(next(&mut stream).await.unwrap()["error"]["code"], -32602);
    assert_eq!(next(&mut stream).await, None);
}

#[tokio::test]
async fn a_handler_that_sends_faster_than_the_client_reads_waits() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let tool = Tool::raw("t", json!({"type": "object"}), move |_, context: Context| {
        let count = Arc::clone(&count);
        async move {
            for step in 1..=100_i32 {
                context.progress(step.into(), None, "").await;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok("done")
        }
    });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    let mut stream =
        stream(respond(&server, "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}})).await);
    assert!(sent.load(Ordering::Relaxed) <= 16);
    for step in 1..=100 {
        assert_eq!(next(&mut stream).await.unwrap()["params"]["progress"], json!(f64::from(step)));
    }
    assert_eq!(next(&mut stream).await.unwrap()["result"]["resultType"], "complete");
}

#[tokio::test]
async fn dropping_the_response_drops_the_handler() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    let tool = Tool::raw("hang", json!({"type": "object"}), move |_, context: Context| {
        let guard = Guard(Arc::clone(&count));
        async move {
            let _guard = guard;
            context.progress(1.0, None, "").await;
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    // As a future that has not answered yet.
    let mut hanging = Box::pin(respond(&server, "tools/call", json!({"name": "hang"})));
    assert!(poll_fn(|cx| Poll::Ready(hanging.as_mut().poll(cx))).await.is_pending());
    drop(hanging);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    // As a stream.
    let mut stream =
        stream(respond(&server, "tools/call", json!({"name": "hang", "_meta": {"progressToken": 1}})).await);
    next(&mut stream).await.unwrap();
    drop(stream);
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_task_that_outlives_its_call_does_not_hang() {
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&kept);
    let tool = Tool::raw("t", json!({"type": "object"}), move |_, context: Context| {
        *keep.lock().unwrap() = Some(context);
        async { Ok("done") }
    });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    result(&server, "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}})).await;
    let context = kept.lock().unwrap().take().unwrap();
    for step in 0..100_i32 {
        context.progress(step.into(), None, "").await;
    }
    drop(context);
    server.shutdown().await;
}

#[tokio::test]
async fn shutting_down_ends_streams_lets_calls_finish_and_refuses_new_ones() {
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let tool = Tool::raw("slow", json!({"type": "object"}), move |_, _| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            Ok("finished")
        }
    });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = stream(respond(&server, "subscriptions/listen", listen.clone()).await);
    next(&mut listening).await.unwrap();
    let mut slow = Box::pin(ask(&server, "tools/call", json!({"name": "slow"})));
    let mut shutdown = Box::pin(server.shutdown());
    poll_fn(|cx| {
        assert!(slow.as_mut().poll(cx).is_pending());
        assert!(shutdown.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;

    let last = next(&mut listening).await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")));
    assert_eq!(last["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "s");
    assert_eq!(next(&mut listening).await, None);
    for (method, params) in
        [("tools/list", json!({})), ("tools/call", json!({"name": "slow"})), ("subscriptions/listen", listen)]
    {
        let (status, code, _) = error(&server, method, params).await;
        assert_eq!((status, code), (503, 503), "{method}");
    }
    go.notify_one();
    let (_, answer) = slow.await;
    assert_eq!(answer["result"]["content"][0]["text"], "finished");
    shutdown.await;
}

#[tokio::test]
async fn a_round_of_input_is_asked_for_and_read() {
    let tool = Tool::raw("confirm", json!({"type": "object"}), |_, context: Context| async move {
        Ok(match (context.elicited::<Value>("sure"), context.request_state::<String>()) {
            (Some(content), Some(state)) => ToolResult::from(format!("{state}:{}", content["yes"])),
            _ => InputRequired::new()
                .elicit("sure", "Sure?", json!({"type": "object"}))
                .with_state("s1")
                .into(),
        })
    });
    let server = Dispatch::builder("s", "1").tool(tool).with_unprotected_request_state().build().unwrap();
    let asked = result(&server, "tools/call", json!({"name": "confirm"})).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["sure"]["method"], "elicitation/create");
    assert_eq!((&asked["requestState"], asked.get("ttlMs")), (&json!("\"s1\""), None));
    let answer = |response: Value| json!({"name": "confirm", "requestState": "\"s1\"", "inputResponses": {"sure": response, "other": 1}});
    let accepted = json!({"action": "accept", "content": {"yes": true}});
    let done = result(&server, "tools/call", answer(accepted.clone())).await;
    assert_eq!(done["content"][0]["text"], "s1:true");
    for again in [
        json!({"action": "decline"}),
        json!("accept"),
        json!({"result": accepted}),
        json!({"method": "x", "action": "accept", "content": {"yes": true}}),
    ] {
        let asked = result(&server, "tools/call", answer(again.clone())).await;
        assert_eq!(asked["resultType"], "input_required", "{again}");
    }
}

/// A server whose tool, prompt and resource count the rounds.
fn counter() -> Builder {
    fn count<R: From<InputRequired>>(
        context: &Context,
        done: R,
    ) -> std::future::Ready<Result<R, HandlerError>> {
        std::future::ready(Ok(match context.request_state::<u32>() {
            Some(_) => done,
            None => InputRequired::new().with_state(&1_u32).into(),
        }))
    }
    let schema = json!({"type": "object"});
    Dispatch::builder("s", "1")
        .tool(Tool::raw("t", schema, |_, context| count(&context, ToolResult::from("done"))))
        .prompt(Prompt::new("t", |_, context| {
            count(&context, PromptResult::from(PromptMessage::user("done")))
        }))
        .resource(Resource::new("t://", "t", |context| {
            count(&context, ReadResult::from(ResourceContents::text("t://", "done")))
        }))
}

const COUNTED: [(&str, &str, &str); 3] =
    [("tools/call", "name", "t"), ("prompts/get", "name", "t"), ("resources/read", "uri", "t://")];

#[tokio::test]
async fn a_state_that_no_layer_protects_is_neither_taken_nor_given() {
    let server = counter().build().unwrap();
    for (method, member, target) in COUNTED {
        for state in [json!("1"), json!(1), json!({}), json!([]), json!(true)] {
            let (status, answer) = ask(&server, method, json!({member: target, "requestState": state})).await;
            assert_eq!((status, &answer["id"]), (400, &json!(7)), "{method} {state}");
            assert_eq!(answer["error"]["code"], -32602);
            assert_eq!(answer["error"]["data"], json!({"reason": "invalid_request_state"}));
        }
        for params in [json!({member: target}), json!({member: target, "requestState": null})] {
            let internal = (200, -32603, "internal error".to_owned());
            assert_eq!(error(&server, method, params).await, internal);
        }
    }
}

#[tokio::test]
async fn a_state_is_taken_below_a_layer_that_vouches_for_it() {
    let server = counter().build().unwrap();
    for (method, member, target) in COUNTED {
        for (state, kind) in [
            (json!("1"), "complete"),
            (json!("no number"), "input_required"),
            (json!(null), "input_required"),
        ] {
            let mut request = request(method, json!({member: target, "requestState": state}));
            request.extensions_mut().insert(TrustedState);
            let response = server.clone().call(request).await.unwrap();
            let answer = response.body().answer().unwrap().outcome().unwrap();
            assert_eq!(answer.get("resultType").unwrap().to_str().unwrap(), kind, "{method} {state}");
        }
    }
}

#[tokio::test]
async fn whoever_asks_for_it_is_given_states_without_protection() {
    let server = counter().with_unprotected_request_state().build().unwrap();
    for (method, member, target) in COUNTED {
        let asked = result(&server, method, json!({member: target})).await;
        assert_eq!(asked["requestState"], "1");
        let done = result(&server, method, json!({member: target, "requestState": "1"})).await;
        assert_eq!(done["resultType"], "complete");
        let (status, code, _) = error(&server, method, json!({member: target, "requestState": 1})).await;
        assert_eq!((status, code), (400, -32602), "a state is a string in any case");
    }
}

fn extension_method(name: &str) -> Method {
    Method::new(name, [Revision::V2026_07_28], |context: Context| async move {
        #[derive(serde::Deserialize)]
        struct Params {
            n: i32,
        }
        let Params { n } = context.params()?;
        Ok(json!({"twice": 2 * n}))
    })
}

fn of_revision(version: &str, capabilities: Value) -> Value {
    json!({"n": 21, "_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }})
}

#[tokio::test]
async fn a_method_of_an_extension_is_answered_in_its_revisions_for_clients_that_know_it() {
    let extension = crate::protocol::ExtensionId::new("com.x/y").unwrap();
    let method = extension_method("com.x/twice").with_extension(extension);
    let server =
        Dispatch::builder("s", "1").method(method).method(extension_method("plain")).build().unwrap();

    let discovered = result(&server, "server/discover", json!({})).await;
    assert_eq!(discovered["capabilities"], json!({"extensions": {"com.x/y": {}}}));

    let declared = json!({"extensions": {"com.x/y": {}}});
    let twice = result(&server, "com.x/twice", of_revision("2026-07-28", declared.clone())).await;
    assert_eq!((&twice["twice"], &twice["resultType"]), (&json!(42), &json!("complete")));

    let (status, answer) =
        ask(&server, "com.x/twice", of_revision("2026-07-28", json!({"extensions": {}}))).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32021)));
    assert_eq!(answer["error"]["data"], json!({"requiredCapabilities": {"extensions": {"com.x/y": {}}}}));

    for capabilities in [json!({}), declared] {
        let old = error(&server, "com.x/twice", of_revision("2025-11-25", capabilities)).await;
        assert_eq!((old.0, old.1), (404, -32601), "the revision is looked at first");
    }
    let plain = result(&server, "plain", of_revision("2026-07-28", json!({}))).await;
    assert_eq!(plain["twice"], 42);
    let mut wrong = of_revision("2026-07-28", json!({}));
    wrong["n"] = json!("x");
    let (status, code, _) = error(&server, "plain", wrong).await;
    assert_eq!((status, code), (400, -32602));
    assert_eq!(error(&server, "other", json!({})).await.1, -32601);
}

#[test]
fn a_method_that_is_not_an_addition_is_an_error_at_build() {
    let build = |method| Dispatch::builder("s", "1").method(method).build().map(drop).unwrap_err();
    for name in ["tools/call", "ping", "initialize", "sampling/createMessage"] {
        assert!(matches!(build(extension_method(name)), BuildError::SpecMethod { name: n } if n == name));
    }
    let never = Method::new("x", [], |_| async { Ok(json!({})) });
    assert!(matches!(build(never), BuildError::NoRevision { name } if name == "x"));
    assert!(matches!(build(extension_method("")), BuildError::Unnamed { kind: "method" }));
    let twice = Dispatch::builder("s", "1").method(extension_method("x")).method(extension_method("x"));
    assert!(matches!(twice.build(), Err(BuildError::Duplicate { kind: "method", .. })));
}

#[tokio::test]
async fn asking_for_nothing_is_the_servers_fault() {
    let tool = Tool::raw("t", json!({"type": "object"}), |_, _| async { Ok(InputRequired::new()) });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    assert_eq!(
        error(&server, "tools/call", json!({"name": "t"})).await,
        (200, -32603, "internal error".to_owned())
    );
}

#[tokio::test]
async fn prompts_and_resources_can_ask_for_input_too() {
    let server = Dispatch::builder("s", "1")
        .prompt(Prompt::new("p", |_, _| async { Ok(InputRequired::new().list_roots("r")) }))
        .resource(Resource::new("a://b", "b", |_| async { Ok(InputRequired::new().list_roots("r")) }))
        .build()
        .unwrap();
    for (method, params) in
        [("prompts/get", json!({"name": "p"})), ("resources/read", json!({"uri": "a://b"}))]
    {
        let asked = result(&server, method, params).await;
        assert_eq!(asked["inputRequests"], json!({"r": {"method": "roots/list", "params": {}}}));
        assert_eq!((asked.get("ttlMs"), asked.get("cacheScope")), (None, None), "{method}");
    }
}

#[test]
fn the_registry_is_a_catalog_of_mirrored_arguments() {
    let schema = json!({"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}});
    let server =
        Dispatch::builder("s", "1").tool(Tool::raw("t", schema, |_, _| async { Ok("") })).build().unwrap();
    let facts = server.tool("t", &Extensions::new()).unwrap();
    assert_eq!(facts.param_headers.as_slice().len(), 1);
    assert!(server.tool("nobody", &Extensions::new()).is_none());
}

#[tokio::test]
async fn content_of_every_kind_is_written_as_specified() {
    let tool = Tool::raw("t", json!({"type": "object"}), |_, _| async {
        Ok(vec![
            Content::text("a"),
            Content::image([1], "image/png"),
            Content::audio([2], "audio/wav"),
            Content::resource(ResourceContents::text("a://b", "c").with_mime_type("text/plain")),
            Content::resource_link(crate::protocol::ResourceLink::new("a://b", "b")),
        ])
    });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    assert_eq!(
        result(&server, "tools/call", json!({"name": "t"})).await["content"],
        json!([
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AQ==", "mimeType": "image/png"},
            {"type": "audio", "data": "Ag==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "c"}},
            {"type": "resource_link", "uri": "a://b", "name": "b"},
        ])
    );
}

#[tokio::test]
async fn a_read_that_a_client_has_answered_for_is_not_kept() {
    let hint = CacheHint::public(std::time::Duration::from_secs(60));
    let server = Dispatch::builder("s", "1")
        .resource(
            Resource::new("a://b", "b", |_| async { Ok(ResourceContents::text("a://b", "c")) })
                .with_cache(hint),
        )
        .build()
        .unwrap();
    let first = result(&server, "resources/read", json!({"uri": "a://b"})).await;
    assert_eq!((&first["ttlMs"], &first["cacheScope"]), (&json!(60_000), &json!("public")));
    let retry = result(&server, "resources/read", json!({"uri": "a://b", "inputResponses": {"k": {}}})).await;
    assert_eq!((&retry["ttlMs"], &retry["cacheScope"]), (&json!(0), &json!("private")));
}

#[tokio::test]
async fn answers_of_a_wrong_shape_are_refused() {
    let server = Dispatch::builder("s", "1").tool(tool("t")).build().unwrap();
    for responses in ["[]", "7", "\"a\"", r#"{"k":{},"k":{}}"#] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t","inputResponses":{responses}}}}}"#
        );
        let response = server.clone().call(Request::new(Message::parse(body).unwrap())).await.unwrap();
        assert_eq!(response.status(), 400, "{responses}");
        let answer = response.body().answer().unwrap().outcome().map(|_| ()).unwrap_err().code;
        assert_eq!(answer, -32602, "{responses}");
    }
    result(&server, "tools/call", json!({"name": "t", "inputResponses": null})).await;
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn arguments_that_serde_would_take_but_the_schema_forbids_do_not_reach_a_typed_tool() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "only their schema matters")]
    struct Point {
        x: i32,
        y: i32,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    enum Mode {
        Safe,
        Fast,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "only their schema matters")]
    struct Arguments {
        point: Point,
        mode: Mode,
    }
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let tool = move |name: &str| {
        let count = Arc::clone(&count);
        Tool::new(name, move |_: Arguments, _| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok("done") }
        })
    };
    let server = Dispatch::builder("s", "1")
        .tool(tool("checked"))
        .tool(tool("unchecked").with_unchecked_arguments())
        .build()
        .unwrap();
    for arguments in
        [json!({"point": [1, 2], "mode": "Safe"}), json!({"point": {"x": 1, "y": 2}, "mode": {"Fast": null}})]
    {
        let refused = result(&server, "tools/call", json!({"name": "checked", "arguments": arguments})).await;
        assert_eq!(refused["isError"], true, "{arguments}");
    }
    assert_eq!(called.load(Ordering::Relaxed), 0);
    let arguments = json!({"point": [1, 2], "mode": "Safe"});
    result(&server, "tools/call", json!({"name": "unchecked", "arguments": arguments})).await;
    assert_eq!(called.load(Ordering::Relaxed), 1);
}

#[cfg(feature = "schema")]
#[tokio::test]
async fn arguments_that_name_a_member_twice_do_not_reach_a_tool() {
    let schema = json!({"type": "object", "properties": {"mode": {"enum": ["safe"]}}});
    let tool = Tool::raw("t", schema, |arguments, _| async move { Ok(arguments.raw().text().to_owned()) });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    for arguments in [r#"{"mode":"danger","mode":"safe"}"#, r#"{"mo\u0064e":"danger","mode":"safe"}"#] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
        );
        let response = server.clone().call(Request::new(Message::parse(body).unwrap())).await.unwrap();
        let answer = response.body().answer().unwrap().to_string();
        assert!(answer.contains("is named twice") && answer.contains("\"isError\":true"), "{answer}");
    }
}

#[tokio::test]
async fn completions_that_come_later_must_be_announced() {
    let server = Dispatch::builder("s", "1").with_prompts().build().unwrap();
    let prompt = || {
        let argument = PromptArgument::optional("x").with_completion(|_, _| async { Ok(Vec::new()) });
        Prompt::new("p", |_, _| async { Ok(Vec::new()) }).with_argument(argument)
    };
    assert!(matches!(server.add_prompt(prompt()), Err(BuildError::NotOffered { kind: "completion" })));
    let server = Dispatch::builder("s", "1").with_prompts().with_completions().build().unwrap();
    assert!(server.add_prompt(prompt()).is_ok());
}

#[tokio::test]
async fn a_send_that_is_polled_again_and_again_while_the_client_is_slow_keeps_no_more_than_one_waker() {
    let tool = Tool::raw("t", json!({"type": "object"}), |_, context: Context| async move {
        for step in 1..=16_i32 {
            context.progress(step.into(), None, "").await;
        }
        let mut waiting = Box::pin(context.progress(17.0, None, ""));
        let kept = allocation_counter::measure(|| {
            let waker = std::task::Waker::noop();
            for _ in 0..10_000 {
                let _ = waiting.as_mut().poll(&mut TaskContext::from_waker(waker));
            }
        });
        assert!(kept.bytes_current < 1_000, "{kept:?}");
        waiting.await;
        Ok("done")
    });
    let server = Dispatch::builder("s", "1").tool(tool).build().unwrap();
    let mut stream =
        stream(respond(&server, "tools/call", json!({"name": "t", "_meta": {"progressToken": 1}})).await);
    for _ in 0..17 {
        assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/progress");
    }
    assert_eq!(next(&mut stream).await.unwrap()["result"]["resultType"], "complete");
}
