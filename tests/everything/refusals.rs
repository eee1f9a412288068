//! What is refused, how, and that nothing of it reaches a tool.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::support::{MAX_BODY_BYTES, RequestBody, Server, WIRES, in_time};

/// An id that is rounded where numbers are read as floating-point.
const ID: &str = "9007199254740993";

type Call = Request<RequestBody>;

/// What is wrong, the status and the code that it is refused with, and how a call is spoilt in that way.
type Case = (&'static str, u16, i64, fn(&mut Call));

#[tokio::test]
async fn what_is_wrong_before_the_message_is_read_is_refused_without_an_id() {
    let cases: [Case; 14] = [
        ("a page's origin", 403, 403, |call| set(call, ORIGIN.as_str(), "http://evil.example.com")),
        ("a page's name with an allowed prefix", 403, 403, |call| {
            set(call, ORIGIN.as_str(), "http://127.0.0.1.evil.example.com");
        }),
        ("an opaque origin", 403, 403, |call| set(call, ORIGIN.as_str(), "null")),
        ("another host", 403, 403, |call| set(call, HOST.as_str(), "evil.example.com")),
        ("GET", 405, 405, |call| *call.method_mut() = Method::GET),
        ("DELETE", 405, 405, |call| *call.method_mut() = Method::DELETE),
        ("another media type", 415, 415, |call| set(call, CONTENT_TYPE.as_str(), "text/plain")),
        ("a media type that only begins alike", 415, 415, |call| {
            set(call, CONTENT_TYPE.as_str(), "application/jsonx");
        }),
        ("a compressed body", 415, 415, |call| set(call, "content-encoding", "gzip")),
        ("no media type that we write", 406, 406, |call| set(call, ACCEPT.as_str(), "image/png")),
        ("a body that says that it is too long", 413, 413, |call| set_body(call, &too_long())),
        ("a body that turns out to be too long", 413, 413, |call| {
            // Without a length in advance.
            *call.body_mut() = Full::from(too_long()).map_frame(|frame| frame).boxed();
        }),
        ("no JSON", 400, -32700, |call| set_body(call, "{\"jsonrpc\":")),
        ("a batch", 400, -32600, |call| {
            set_body(call, r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#);
        }),
    ];
    refuse(&cases, None).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_message_or_its_headers_is_refused_with_its_id() {
    let cases: [Case; 20] = [
        ("another JSON-RPC", 400, -32600, |call| {
            set_body(call, &format!(r#"{{"jsonrpc":"1.0","id":{ID},"method":"tools/list"}}"#));
        }),
        ("two names for the tool", 400, -32600, |call| {
            let params = r#"{"name":"query","name":"count"}"#;
            set_body(
                call,
                &format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"tools/call","params":{params}}}"#),
            );
        }),
        ("no `_meta`", 400, -32602, |call| {
            let params = r#"{"name":"query"}"#;
            set_body(
                call,
                &format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"tools/call","params":{params}}}"#),
            );
        }),
        ("no version header", 400, -32020, |call| remove(call, "mcp-protocol-version")),
        ("another version in the header", 400, -32020, |call| {
            set(call, "mcp-protocol-version", "2025-11-25");
        }),
        ("two version headers", 400, -32020, |call| add(call, "mcp-protocol-version", "2026-07-28")),
        ("no Mcp-Method", 400, -32020, |call| remove(call, "mcp-method")),
        ("another Mcp-Method", 400, -32020, |call| set(call, "mcp-method", "tools/list")),
        ("Mcp-Method in capitals", 400, -32020, |call| set(call, "mcp-method", "TOOLS/CALL")),
        ("no Mcp-Name", 400, -32020, |call| remove(call, "mcp-name")),
        ("another Mcp-Name", 400, -32020, |call| set(call, "mcp-name", "count")),
        ("two Mcp-Name", 400, -32020, |call| add(call, "mcp-name", "query")),
        ("no header for a mirrored argument", 400, -32020, |call| remove(call, "mcp-param-region")),
        ("another value in the header", 400, -32020, |call| set(call, "mcp-param-region", "us")),
        ("another value beside the right one", 400, -32020, |call| add(call, "mcp-param-region", "us")),
        ("the same value twice", 400, -32020, |call| add(call, "mcp-param-region", "eu")),
        ("an encoded value without padding", 400, -32020, |call| {
            set(call, "mcp-param-region", "=?base64?ZXU?=");
        }),
        ("an encoded value that is not base64", 400, -32020, |call| {
            set(call, "mcp-param-region", "=?base64?Z!U=?=");
        }),
        ("a header for an absent argument", 400, -32020, |call| set(call, "mcp-param-prio", "1")),
        ("a value in bytes beyond ASCII", 400, -32020, |call| {
            let value = HeaderValue::from_bytes(b"e\xC3\xBC").unwrap();
            call.headers_mut().insert("mcp-param-region", value);
        }),
    ];
    refuse(&cases, Some(ID)).await;
}

/// Sends calls that were right before they were spoilt.
async fn refuse(cases: &[Case], id: Option<&str>) {
    for wire in WIRES {
        let server = Server::start(wire).await;
        for (what, status, code, spoil) in cases {
            let mut call = server.query(ID);
            spoil(&mut call);
            expect_refusal(&server, call, (*status, *code), id, &format!("{wire:?}, {what}")).await;
        }
        // Unspoilt it is right.
        assert_eq!(server.answer(server.query(ID)).await.0.status, 200);
        assert_eq!(server.runs(), 1);
    }
}

#[tokio::test]
async fn what_the_server_does_not_have_is_refused() {
    let cases = [
        ("an unknown method", 404, -32601, "tools/fly", json!({})),
        ("a method of earlier revisions", 404, -32601, "ping", json!({})),
        ("a method of what is not offered", 404, -32601, "prompts/list", json!({})),
        ("an unknown tool", 400, -32602, "tools/call", json!({ "name": "fly" })),
        ("a call without a name", 400, -32602, "tools/call", json!({})),
        (
            "arguments that are no object",
            400,
            -32602,
            "tools/call",
            json!({ "name": "query", "arguments": [] }),
        ),
        ("an unknown resource", 400, -32602, "resources/read", json!({ "uri": "note://2" })),
        ("an unknown cursor", 400, -32602, "tools/list", json!({ "cursor": "x" })),
    ];
    for wire in WIRES {
        let server = Server::start(wire).await;
        for (what, status, code, method, params) in &cases {
            let request = server.request("\"a\\u00e9\"", method, params.clone());
            let what = format!("{wire:?}, {what}");
            let answer =
                expect_refusal(&server, request, (*status, *code), Some("\"a\\u00e9\""), &what).await;
            if *method == "resources/read" {
                assert_eq!(answer["error"]["data"]["uri"], "note://2");
            }
        }
    }
}

#[tokio::test]
async fn an_unsupported_version_is_refused_with_those_that_are_supported() {
    for wire in WIRES {
        let server = Server::start(wire).await;
        let mut call = server.query(ID);
        let body = std::mem::take(call.body_mut()).collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap().replace("2026-07-28", "2099-01-01");
        set_body(&mut call, &body);
        set(&mut call, "mcp-protocol-version", "2099-01-01");
        let what = format!("{wire:?}");
        let answer = expect_refusal(&server, call, (400, -32022), Some(ID), &what).await;
        let data = json!({ "supported": ["2026-07-28"], "requested": "2099-01-01" });
        assert_eq!(answer["error"]["data"], data);
    }
}

/// Sends a request that is refused, and makes sure that no tool has run. `id` is JSON text.
async fn expect_refusal(
    server: &Server,
    request: Call,
    (status, code): (u16, i64),
    id: Option<&str>,
    what: &str,
) -> Value {
    let runs = server.runs();
    let (head, body) = server.send(request).await.into_parts();
    let body = in_time(body.collect()).await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    assert_eq!(head.status, status, "{what}: {text}");
    assert_eq!(head.headers[CONTENT_TYPE], "application/json", "{what}");
    // Byte for byte: a parsed number would have been rounded.
    let start = match id {
        Some(id) => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"#),
        None => format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"#),
    };
    assert!(text.starts_with(&start), "{what}: {text}");
    let answer: Value = serde_json::from_str(text).unwrap();
    assert!(!answer["error"]["message"].as_str().unwrap().is_empty(), "{what}");
    if status == 405 {
        assert_eq!(head.headers["allow"], "POST", "{what}");
    }
    assert_eq!(server.runs(), runs, "{what}: a tool has run");
    answer
}

fn too_long() -> Bytes {
    " ".repeat(MAX_BODY_BYTES + 1).into()
}

fn set_body(call: &mut Call, body: &(impl AsRef<[u8]> + ?Sized)) {
    *call.body_mut() = Full::from(Bytes::copy_from_slice(body.as_ref())).boxed();
}

fn set(call: &mut Call, name: &'static str, value: &str) {
    call.headers_mut().insert(name, value.parse().unwrap());
}

fn add(call: &mut Call, name: &'static str, value: &str) {
    call.headers_mut().append(name, value.parse().unwrap());
}

fn remove(call: &mut Call, name: &'static str) {
    assert!(call.headers_mut().remove(name).is_some());
}
