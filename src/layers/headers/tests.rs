use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::super::testing::{Outcome, logged, request, send, send_to};
use super::*;
use crate::catalog::StaticCatalog;
use crate::message::{Answer, Event, RawObject, ReplyStream};

fn body(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

async fn post(body: &str, headers: &[(&str, &[u8])]) -> Outcome {
    send(&HeadersLayer::new(), request(body, headers.iter().copied())).await
}

#[tokio::test]
async fn a_request_needs_its_method_in_the_header() {
    let list = body("tools/list", &json!({}));
    for header in [&b"tools/list"[..], b" tools/list", b"\ttools/list \t"] {
        post(&list, &[("Mcp-Method", header)]).await.passed();
    }
    let message = post(&list, &[]).await.refused(400, -32020, None);
    assert_eq!(message, "the header `Mcp-Method` is missing: send `Mcp-Method: tools/list`");
    let message = post(&list, &[("mcp-method", b"TOOLS/LIST")]).await.refused(400, -32020, None);
    assert_eq!(
        message,
        "the header `Mcp-Method` says `TOOLS/LIST`, the message says `tools/list`: the two must be equal"
    );
    for header in
        [&b""[..], b"tools/call", b"tools/list,tools/list", b"tools /list", b"=?base64?dG9vbHMvbGlzdA==?="]
    {
        post(&list, &[("mcp-method", header)]).await.refused(400, -32020, None);
    }
    for header in [&b"tools/list\x80"[..], b"\xff"] {
        let message = post(&list, &[("mcp-method", header)]).await.refused(400, -32020, None);
        assert!(message.contains("not visible ASCII"), "{message}");
    }
    let line = ("mcp-method", &b"tools/list"[..]);
    post(&list, &[line, line]).await.refused(400, -32020, None);
}

#[tokio::test]
async fn a_method_outside_ascii_has_no_header_that_could_say_it() {
    let odd = body("m\u{e9}thode", &json!({}));
    post(&odd, &[("mcp-method", "m\u{e9}thode".as_bytes())]).await.refused(400, -32020, None);
}

#[tokio::test]
async fn a_request_needs_its_target_in_the_header() {
    for (method, member) in [
        ("tools/call", "name"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
    ] {
        let call = body(method, &json!({ member: "echo" }));
        let method = ("mcp-method", method.as_bytes());
        for name in [&b"echo"[..], b" echo\t", b"=?base64?ZWNobw==?="] {
            post(&call, &[method, ("Mcp-Name", name)]).await.passed();
        }
        let message = post(&call, &[method]).await.refused(400, -32020, None);
        assert_eq!(message, "the header `Mcp-Name` is missing: send `Mcp-Name: echo`");
        let message = post(&call, &[method, ("mcp-name", b"foo")]).await.refused(400, -32020, None);
        assert_eq!(
            message,
            "the header `Mcp-Name` says `foo`, the message says `echo`: the two must be equal"
        );
        for name in [
            &b""[..],
            b"ECHO",
            b"echo,echo",
            b"=?base64?ZWNobw?=",
            b"=?base64?ZWNobx==?=",
            b"=?BASE64?ZWNobw==?=",
            b"=?base64?/w==?=",
            b"echo\x80",
        ] {
            post(&call, &[method, ("mcp-name", name)]).await.refused(400, -32020, None);
        }
        post(&call, &[method, ("mcp-name", b"echo"), ("mcp-name", b"echo")]).await.refused(400, -32020, None);
    }
}

#[tokio::test]
async fn a_target_that_is_not_plain_is_compared_decoded() {
    let method = ("mcp-method", &b"tools/call"[..]);
    for (name, header) in [
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", "=?base64??="),
        ("", ""),
        ("=?base64?=", "=?base64?="),
    ] {
        let call = body("tools/call", &json!({ "name": name }));
        post(&call, &[method, ("mcp-name", header.as_bytes())]).await.passed();
    }
    // Raw UTF-8 is invalid even where it is equal.
    let call = body("tools/call", &json!({"name": "世界"}));
    let message = post(&call, &[method, ("mcp-name", "世界".as_bytes())]).await.refused(400, -32020, None);
    assert!(message.contains("cannot be read"), "{message}");
    let message = post(&call, &[method]).await.refused(400, -32020, None);
    assert!(message.contains("Mcp-Name: =?base64?5LiW55WM?="), "{message}");
}

#[tokio::test]
async fn without_a_target_in_the_message_the_name_is_not_looked_at() {
    let junk = ("mcp-name", &b"\xff"[..]);
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 1})),
        ("tools/call", json!({"name": null})),
        ("resources/read", json!({"name": "x"})),
    ] {
        let method_line = ("mcp-method", method.as_bytes());
        post(&body(method, &params), &[method_line, junk]).await.passed();
        post(&body(method, &params), &[method_line]).await.passed();
    }
}

#[tokio::test]
async fn a_notification_is_held_to_the_method_that_it_says() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"name":"x"}}"#;
    post(note, &[]).await.passed();
    post(note, &[("mcp-method", b"notifications/cancelled"), ("mcp-name", b"other")]).await.passed();
    post(note, &[("mcp-method", b"tools/call")]).await.refused_as(None, 400, -32020, None);
    let call = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#;
    post(call, &[]).await.passed();
}

fn catalog() -> StaticCatalog {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "prio": {"type": "integer", "x-mcp-header": "Prio"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "opt": {"type": "object", "properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}}},
            "query": {"type": "string"},
        },
    });
    StaticCatalog::new([("sql", &schema)]).unwrap()
}

async fn call(arguments: &str, params: &[(&str, &[u8])]) -> Outcome {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"sql","arguments":{arguments}}}}}"#
    );
    let mut headers = vec![("mcp-method", &b"tools/call"[..]), ("mcp-name", b"sql")];
    headers.extend_from_slice(params);
    let whole = send(&HeadersLayer::new().with_catalog(catalog()), request(&body, headers)).await;
    let alone = send(&HeadersLayer::params_only(catalog()), request(&body, params.iter().copied())).await;
    assert_eq!((whole.status, &whole.body, whole.calls), (alone.status, &alone.body, alone.calls));
    whole
}

#[tokio::test]
async fn the_arguments_that_a_tool_mirrors_are_compared_with_their_headers() {
    let full = r#"{"region":"us-west1","prio":42,"dry":true,"opt":{"tenant":"Hello, 世界"},"query":"q"}"#;
    let right: [(&str, &[u8]); 4] = [
        ("Mcp-Param-Region", b"us-west1"),
        ("mcp-param-prio", b"42.0"),
        ("MCP-PARAM-DRY", b"true"),
        ("mcp-param-tenant", b"=?base64?SGVsbG8sIOS4lueVjA==?="),
    ];
    call(full, &right).await.passed();
    for missing in 0..4 {
        let mut headers = right.to_vec();
        let (name, _) = headers.remove(missing);
        let message = call(full, &headers).await.refused(400, -32020, None);
        assert!(message.to_ascii_lowercase().contains(&name.to_ascii_lowercase()), "{message}");
        assert!(message.contains("missing") && message.contains("`sql`"), "{message}");
    }
    for (index, wrong) in [&b"us-east1"[..], b"43", b"TRUE", b"Hello"].into_iter().enumerate() {
        let mut headers = right.to_vec();
        headers[index].1 = wrong;
        let message = call(full, &headers).await.refused(400, -32020, None);
        assert!(message.contains("differs"), "{message}");
        assert!(
            !message.contains(std::str::from_utf8(wrong).unwrap()),
            "arguments are not repeated: {message}"
        );
    }
}

/// One argument, its header, and whether they agree.
#[tokio::test]
async fn each_pair_of_argument_and_header_has_its_answer() {
    let rows: &[(&str, &str, Option<&[u8]>, bool)] = &[
        ("{}", "region", None, true),
        ("{}", "region", Some(b"x"), false),
        ("{}", "region", Some(b""), false),
        (r#"{"region":null}"#, "region", None, true),
        (r#"{"region":null}"#, "region", Some(b"null"), false),
        (r#"{"region":"a"}"#, "region", None, false),
        (r#"{"region":"a"}"#, "region", Some(b"a"), true),
        (r#"{"region":"\u0061"}"#, "region", Some(b"a"), true),
        (r#"{"r\u0065gion":"a"}"#, "region", Some(b"a"), true),
        (r#"{"region":"a"}"#, "region", Some(b"A"), false),
        (r#"{"region":"a"}"#, "region", Some(b"a\x80"), false),
        (r#"{"region":"a"}"#, "region", Some(b"=?base64?YQ?="), false),
        (r#"{"region":""}"#, "region", Some(b""), true),
        (r#"{"region":""}"#, "region", None, false),
        (r#"{"region":[1]}"#, "region", None, true),
        (r#"{"region":{}}"#, "region", Some(b"{}"), false),
        (r#"{"prio":42}"#, "prio", Some(b"042"), true),
        (r#"{"prio":0}"#, "prio", Some(b"-0"), true),
        (r#"{"prio":42.0}"#, "prio", Some(b"42"), true),
        (r#"{"prio":42}"#, "prio", Some(b"42.5"), false),
        (r#"{"prio":10}"#, "prio", Some(b"1e1"), false),
        (r#"{"prio":42}"#, "prio", Some(b"+42"), false),
        (r#"{"prio":42}"#, "prio", Some(b"0x2a"), false),
        (r#"{"prio":9007199254740993}"#, "prio", Some(b"9007199254740993"), true),
        (r#"{"prio":9007199254740993}"#, "prio", Some(b"9007199254740992"), false),
        (r#"{"prio":"42"}"#, "prio", Some(b"42"), true),
        (r#"{"dry":false}"#, "dry", Some(b"false"), true),
        (r#"{"dry":false}"#, "dry", Some(b"False"), false),
        (r#"{"opt":{"tenant":"t"}}"#, "tenant", Some(b"t"), true),
        (r#"{"opt":{"tenant":"t"}}"#, "tenant", None, false),
        (r#"{"tenant":"t"}"#, "tenant", None, true),
        (r#"{"tenant":"t"}"#, "tenant", Some(b"t"), false),
        (r#"{"opt":"tenant"}"#, "tenant", None, true),
        (r#"{"opt":["tenant"]}"#, "tenant", Some(b"tenant"), false),
        (r#"{"opt":{}}"#, "tenant", None, true),
        ("[]", "region", None, true),
        ("[]", "region", Some(b"a"), false),
        ("null", "region", None, true),
        ("null", "region", Some(b"a"), false),
        // A path that leads to two values, or to the right one in two ways, leads to none.
        (r#"{"region":"a","region":"a"}"#, "region", Some(b"a"), false),
        (r#"{"region":"a","r\u0065gion":"b"}"#, "region", Some(b"b"), false),
        (r#"{"region":null,"region":null}"#, "region", None, false),
        (r#"{"opt":{"tenant":"t"},"opt":{"tenant":"t"}}"#, "tenant", Some(b"t"), false),
        (r#"{"opt":{"tenant":"t","tenant":"u"}}"#, "tenant", Some(b"t"), false),
        // Beside the path it is for the schema to judge.
        (r#"{"query":1,"query":2,"region":"a"}"#, "region", Some(b"a"), true),
    ];
    for (arguments, header, value, agree) in rows {
        println!("{arguments} {header} {value:?}");
        let name = format!("mcp-param-{header}");
        let headers: Vec<_> = value.iter().map(|value| (&*name, *value)).collect();
        let outcome = call(arguments, &headers).await;
        if *agree {
            outcome.passed();
        } else {
            let message = outcome.refused(400, -32020, None);
            assert!(message.to_ascii_lowercase().contains(&name), "{message}");
        }
    }
}

#[tokio::test]
async fn a_parameter_header_with_two_lines_is_refused() {
    let two = [("mcp-param-region", &b"a"[..]), ("mcp-param-region", b"a")];
    call(r#"{"region":"a"}"#, &two).await.refused(400, -32020, None);
    // Joined they would spell the value.
    let halves = [("mcp-param-region", &b"a"[..]), ("mcp-param-region", b"b")];
    let message = call(r#"{"region":"a, b"}"#, &halves).await.refused(400, -32020, None);
    assert_eq!(message, "the header `Mcp-Param-Region` comes several times: send it once");
}

#[tokio::test]
async fn what_the_tool_does_not_declare_is_ignored() {
    let odd: [(&str, &[u8]); 3] =
        [("mcp-param-query", b"x"), ("mcp-param-query", b"\xff"), ("mcp-param-x", b"")];
    call(r#"{"query":"q"}"#, &odd).await.passed();
}

#[tokio::test]
async fn an_unknown_tool_and_other_methods_are_left_to_others() {
    let layer = HeadersLayer::params_only(catalog());
    for text in [
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"rm","arguments":{"region":"a"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{"region":"a"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"sql","arguments":{"region":"a"}}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"sql","arguments":{"region":"a"}}}"#,
    ] {
        send(&layer, request(text, [("mcp-method", &b"wrong"[..])])).await.passed();
    }
}

#[tokio::test]
async fn arguments_that_are_absent_have_no_headers() {
    let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sql"}}"#;
    let layer = HeadersLayer::params_only(catalog());
    send(&layer, request(text, [])).await.passed();
    send(&layer, request(text, [("mcp-param-dry", &b"true"[..])])).await.refused(400, -32020, None);
}

#[tokio::test]
async fn the_catalog_sees_who_asks_and_is_asked_for_calls_only() {
    struct Mine(AtomicUsize);
    impl ToolCatalog for Mine {
        fn tool(
            &self,
            name: &str,
            extensions: &http::Extensions,
        ) -> Option<std::sync::Arc<crate::catalog::ToolFacts>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            extensions.get::<u8>()?;
            catalog().tool(name, extensions)
        }
    }
    let mine = std::sync::Arc::new(Mine(AtomicUsize::new(0)));
    let layer = HeadersLayer::params_only(std::sync::Arc::clone(&mine));
    let call = || request(&body("tools/call", &json!({"name": "sql", "arguments": {"dry": true}})), []);
    send(&layer, call()).await.passed();
    let mut known = call();
    known.extensions_mut().insert(1_u8);
    send(&layer, known).await.refused(400, -32020, None);
    send(&layer, request(&body("tools/list", &json!({})), [])).await.passed();
    assert_eq!(mine.0.load(Ordering::Relaxed), 2);
}

const GOOD: &str = r#"{ "name" : "good", "inputSchema": {"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A", "n": 1.0}}} }"#;
const PLAIN: &str = r#"{"name":"plain","inputSchema":{"type" : "object"},"x":1e2}"#;

fn listed(tools: &str) -> String {
    format!(r#"{{"resultType":"complete", "tools":{tools} , "ttlMs": 5.0,"nextCursor":"\u0041"}}"#)
}

/// The result of `tools/list` behind the layer, answered at once and at the end of a stream.
async fn filtered(result: &str) -> String {
    use std::future::poll_fn;
    use std::pin::Pin;

    use futures_core::Stream as _;

    let list = || request(&body("tools/list", &json!({})), [("mcp-method", &b"tools/list"[..])]);
    let answer = Answer::result(Some(7.into()), RawObject::parse(result.to_owned()).unwrap());
    let layer = HeadersLayer::new();
    let memo = layer.policy().on_request(&mut list()).unwrap();

    let mut alone = Response::new(Reply::Answer(answer.clone()));
    layer.policy().on_reply(memo, &mut alone);
    let alone = alone.body().answer().unwrap().outcome().unwrap().to_string();

    let note = Message::notification("notifications/message", RawObject::new()).unwrap();
    let mut events = vec![Event::Answer(answer), Event::Notification(note)];
    let events = Events(std::iter::from_fn(move || events.pop()));
    let mut streamed = Response::new(Reply::Stream(ReplyStream::new(events)));
    layer.policy().on_reply(memo, &mut streamed);
    let Reply::Stream(mut stream) = streamed.into_body() else { unreachable!() };
    assert!(matches!(poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await, Some(Event::Notification(_))));
    let Some(Event::Answer(answer)) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await else {
        panic!("no answer")
    };
    assert_eq!(answer.outcome().unwrap().to_string(), alone, "a stream is filtered like a single answer");
    alone
}

struct Events<I>(I);

impl<I: Iterator<Item = Event> + Unpin> futures_core::Stream for Events<I> {
    type Item = Event;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Event>> {
        std::task::Poll::Ready(self.0.next())
    }
}

#[tokio::test]
async fn a_list_of_valid_tools_keeps_its_bytes() {
    for tools in [
        "[]".to_owned(),
        format!("[ {PLAIN} ]"),
        format!("[ {GOOD} , {PLAIN} ]"),
        r#"[1, {"name":"no schema, no annotation"}, {}]"#.to_owned(),
        r#"[{"name":"a","description":"\u0041 uses x-mcp-header","inputSchema":true},{"name":"x-mcp-header"}]"#.to_owned(),
        // A property of that name, and data that only looks like it.
        r#"[{"name":"a","inputSchema":{"properties":{"x-mcp-header":{"type":"number"}},"default":{"x-mcp-header":1}}}]"#
            .to_owned(),
        "{}".to_owned(),
    ] {
        let result = listed(&tools);
        assert_eq!(filtered(&result).await, result);
    }
    assert_eq!(filtered("{}").await, "{}");
}

#[tokio::test]
async fn a_tool_with_an_invalid_annotation_is_dropped_and_the_rest_keeps_order_and_bytes() {
    for bad in [
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"number","x-mcp-header":"N"}}}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","x-mcp-header":""}}}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","x-mcp-header":"a b"}}}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","\u0078-mcp-header":"a b"}}}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","\u0078\u002dmcp\u002Dheader":"a b"}}}}"#,
        r#"{"name":"b","\u0069nputSchema":{"properties":{"n":{"type":"string","x-mcp-header":"a b"}}}}"#,
        r#"{"name":"b","inputSchema":{"x-mcp-header":"Root","type":"string"}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"items":{"type":"string","x-mcp-header":"N"}}}}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","x-mcp-header":"N"},"m":{"type":"string","x-mcp-header":"n"}}}}"#,
        // What can be read in two ways, or not at all.
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","x-mcp-header":"a b","x-mcp-header":"N"}}}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","x-mcp-header":"a b"}}},"inputSchema":{}}"#,
        r#"{"name":"b","inputSchema":{"properties":{"n":{"type":"string","x-mcp-header":"N"}},"maximum":1e999}}"#,
        r#""x-mcp-header""#,
        r#"["x-mcp-header"]"#,
    ] {
        let result = filtered(&listed(&format!("[ {GOOD} , {bad},{PLAIN}]"))).await;
        let expected = format!(
            r#"{{"resultType":"complete","tools":[{GOOD},{PLAIN}],"ttlMs":5.0,"nextCursor":"\u0041"}}"#
        );
        assert_eq!(result, expected, "{bad}");
        assert!(filtered(&listed(&format!("[{bad}]"))).await.contains(r#""tools":[],"#), "{bad}");
    }
    let odd = filtered(&listed(r#"{"x-mcp-header":1}"#)).await;
    assert!(odd.contains(r#""tools":[],"#), "{odd}");
}

#[test]
fn a_dropped_tool_is_logged_with_name_and_reason() {
    let result = listed(
        r#"[{"name":"sql\n2","inputSchema":{"properties":{"n":{"type":"number","x-mcp-header":"N"}}}}]"#,
    );
    let mut answer = Answer::result(None, RawObject::parse(result).unwrap());
    let log = logged(|| list::drop_invalid_tools(&Recalled::default(), &mut answer));
    assert!(log.contains("WARN") && log.contains(r#""sql\n2""#) && log.contains("/properties/n"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[tokio::test]
async fn other_answers_are_not_edited() {
    let bad = r#"[{"name":"b","inputSchema":{"properties":{"n":{"type":"number","x-mcp-header":"N"}}}}]"#;
    let result = RawObject::parse(listed(bad)).unwrap();
    let reply = move |_: &Request<Message>| Reply::Answer(Answer::result(Some(7.into()), result.clone()));
    let prompts = request(&body("prompts/list", &json!({})), [("mcp-method", &b"prompts/list"[..])]);
    let outcome = send_to(&HeadersLayer::new(), prompts, reply.clone()).await;
    assert_eq!(outcome.body["result"]["tools"].as_array().unwrap().len(), 1);
    let list = request(&body("tools/list", &json!({})), []);
    let outcome = send_to(&HeadersLayer::params_only(catalog()), list, reply.clone()).await;
    assert_eq!(outcome.body["result"]["tools"].as_array().unwrap().len(), 1);
    let list = request(&body("tools/list", &json!({})), [("mcp-method", &b"tools/list"[..])]);
    let outcome = send_to(&HeadersLayer::new(), list, reply).await;
    assert_eq!(outcome.body["result"]["tools"], json!([]));
}
