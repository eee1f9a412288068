//! What the upstream receives.

use super::*;
use crate::catalog::StaticCatalog;
use crate::principal::Principal;

fn ok() -> Response<Frames> {
    reply(200, "application/json", Frames::of([RESULT]))
}

async fn received(layer: &UpstreamLayer, request: Request<Message>) -> Received {
    let (_, seen) = ask(layer, request, ok).await;
    seen.one()
}

#[tokio::test]
async fn what_nobody_edited_is_forwarded_byte_for_byte() {
    for text in [
        LIST,
        NOTE,
        " {\"method\" : \"tools/list\",\r\n\"id\":\"\\u0061\", \"jsonrpc\":\"2.0\", \"x\":[1.0e+2],\"params\":{\"a\": 1.00}}\n",
    ] {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let request = Request::new(Message::parse(bytes.clone()).unwrap());
        let received = received(&UpstreamLayer::new(), request).await;
        assert_eq!(received.body, bytes);
        assert_eq!(received.body.as_ptr(), bytes.as_ptr(), "without a copy");
        assert_eq!(received.line("content-length"), Some(text.len().to_string().as_str()));
        assert_eq!(received.line("content-type"), Some("application/json"));
        assert_eq!(received.line("accept"), Some("application/json, text/event-stream"));
        assert_eq!(received.line("accept-encoding"), Some("identity"));
        assert_eq!(received.head.method, http::Method::POST);
        assert_eq!(received.head.version, http::Version::HTTP_11);
    }
}

#[tokio::test]
async fn what_was_edited_is_written_and_mirrored_anew() {
    let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sql","arguments":
        {"region":"eu","n":1,"deep":{"on":true},"gone":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "n": {"type": "integer", "x-mcp-header": "N"},
        "gone": {"type": "integer", "x-mcp-header": "Gone"},
        "deep": {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
    }});
    let catalog = StaticCatalog::new([("query", &schema)]).unwrap();
    let layer = UpstreamLayer::new().with_catalog(catalog);
    let mut request = message(text);
    for (header, line) in [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/list"),
        ("mcp-method", "tools/list"),
        ("mcp-name", "sql"),
        ("mcp-param-region", "eu"),
        ("mcp-param-region", "us"),
        ("mcp-param-n", "1"),
        ("mcp-param-gone", "1"),
        ("mcp-param-unknown", "=?base64?w6k=?="),
        ("content-length", "3"),
    ] {
        request.headers_mut().append(header, value(line));
    }
    request
        .body_mut()
        .edit_params(|params| {
            params.set("name", "query").unwrap();
            params
                .set("arguments", &json!({"region": "é", "n": 42.0, "deep": {"on": false}, "gone": null}))
                .unwrap();
        })
        .unwrap();
    let received = received(&layer, request).await;
    let expected = concat!(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"query","arguments":"#,
        r#"{"deep":{"on":false},"gone":null,"n":42.0,"region":"é"},"#,
        r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#
    );
    assert_eq!(received.body, expected);
    assert_eq!(received.line("content-length"), Some(expected.len().to_string().as_str()));
    for (header, line) in [
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some("tools/call")),
        ("mcp-name", Some("query")),
        ("mcp-param-region", Some("=?base64?w6k=?=")),
        ("mcp-param-n", Some("42.0")),
        ("mcp-param-on", Some("false")),
        ("mcp-param-gone", None),
        ("mcp-param-unknown", Some("=?base64?w6k=?=")),
    ] {
        assert_eq!(received.line(header), line, "{header}");
    }
}

#[tokio::test]
async fn an_edit_that_takes_the_target_away_takes_its_header_away() {
    let mut request = message(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sql"}}"#);
    request.headers_mut().insert("mcp-name", value("sql"));
    request.body_mut().edit_params(|params| params.remove("name")).unwrap();
    assert_eq!(received(&UpstreamLayer::new(), request).await.line("mcp-name"), None);
}

#[tokio::test]
async fn mirrored_headers_of_a_message_that_nobody_edited_pass_as_they_are() {
    let mut request = message(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sql","arguments":{"n":42}}}"#,
    );
    for (header, line) in
        [("mcp-method", "ping"), ("mcp-name", "a"), ("mcp-name", "b"), ("mcp-param-n", "43")]
    {
        request.headers_mut().append(header, value(line));
    }
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}});
    let layer = UpstreamLayer::new().with_catalog(StaticCatalog::new([("sql", &schema)]).unwrap());
    let received = received(&layer, request).await;
    assert_eq!(received.line("mcp-method"), Some("ping"));
    assert_eq!(received.line("mcp-param-n"), Some("43"));
    let names: Vec<_> = received.head.headers.get_all("mcp-name").into_iter().collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn mirrored_headers_that_are_missing_are_added() {
    let request = message(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sql","arguments":{"n":4.2e1,"n2":1},
            "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    );
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}});
    let layer = UpstreamLayer::new().with_catalog(StaticCatalog::new([("sql", &schema)]).unwrap());
    let received = received(&layer, request).await;
    for (header, line) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "sql"),
        ("mcp-param-n", "42.0"),
    ] {
        assert_eq!(received.line(header), Some(line), "{header}");
    }
}

#[tokio::test]
async fn an_argument_that_is_named_twice_is_not_mirrored() {
    let request = message(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"sql","arguments":{"n":1,"n":2}}}"#,
    );
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}});
    let layer = UpstreamLayer::new().with_catalog(StaticCatalog::new([("sql", &schema)]).unwrap());
    assert_eq!(received(&layer, request).await.line("mcp-param-n"), None);
}

#[tokio::test]
async fn only_headers_about_the_request_pass() {
    const PASS: [&str; 11] = [
        "accept-language",
        "baggage",
        "mcp-method",
        "mcp-name",
        "mcp-param-anything",
        "mcp-protocol-version",
        "traceparent",
        "tracestate",
        "user-agent",
        "x-request-id",
        "x-tenant",
    ];
    const STAY: [&str; 24] = [
        "access-control-request-method",
        "authorization",
        "connection",
        "content-digest",
        "content-encoding",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "if-none-match",
        "keep-alive",
        "last-event-id",
        "mcp-session-id",
        "origin",
        "proxy-authorization",
        "proxy-connection",
        "referer",
        "sec-fetch-site",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-forwarded-user",
        "x-user",
    ];
    let mut request = message(LIST);
    for header in PASS.into_iter().chain(STAY).chain(["x-hop"]) {
        request.headers_mut().insert(header, value("theirs"));
    }
    request.headers_mut().insert("connection", value("close, X-Hop ,x-tenant2"));
    request.headers_mut().insert("x-tenant2", value("theirs"));
    let asked =
        ["x-tenant", "x-tenant2", "x-hop", "authorization", "cookie", "host", "content-encoding", "te"];
    let layer = UpstreamLayer::new().with_forwarded_headers(asked.map(name));
    let received = received(&layer, request).await;
    let mut names: Vec<_> = received.head.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let mut expected = PASS.to_vec();
    expected.extend(["accept", "accept-encoding", "content-length", "content-type", "host"]);
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(received.line("host"), Some("localhost"));
    for header in PASS {
        assert_eq!(received.line(header), Some("theirs"));
    }
}

#[tokio::test]
async fn extensions_and_the_path_pass_but_no_query() {
    let mut request = message(LIST);
    *request.uri_mut() = "/a/mcp?access_token=secret".parse().unwrap();
    request.extensions_mut().insert(Principal::new("i", "ada"));
    let received = received(&UpstreamLayer::new().with_host(value("mcp.internal")), request).await;
    assert_eq!(received.head.uri, "/a/mcp");
    assert_eq!(received.line("host"), Some("mcp.internal"));
    assert_eq!(received.head.extensions.get::<Principal>().map(Principal::subject), Some("ada"));
}

#[tokio::test]
async fn a_target_is_where_every_request_goes() {
    let layer = UpstreamLayer::to("https://tools.example:8443/x/mcp?v=1").unwrap();
    let mut request = message(LIST);
    request.headers_mut().insert("host", value("gateway.example"));
    let received = received(&layer, request).await;
    assert_eq!(received.head.uri, "https://tools.example:8443/x/mcp?v=1");
    assert_eq!(received.line("host"), None, "the client writes it");
}

#[tokio::test]
async fn a_mirrored_argument_in_another_notation_is_written_as_the_message_spells_it() {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "integer", "x-mcp-header": "N"},
        "s": {"type": "string", "x-mcp-header": "S"}}});
    let layer = UpstreamLayer::new().with_catalog(StaticCatalog::new([("sql", &schema)]).unwrap());
    for (argument, header, sent) in [
        ("42", "42.0", "42"),
        ("42", " 042", "42"),
        ("42.0", "42", "42.0"),
        ("42", "=?base64?NDI=?=", "42"),
        ("42", "43", "43"),
        ("42", "4.2e1", "4.2e1"),
        ("null", "42", "42"),
    ] {
        let mut request = message(&format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"sql","arguments":{{"n":{argument}}}}}}}"#
        ));
        request.headers_mut().insert("mcp-param-n", value(header));
        assert_eq!(received(&layer, request).await.line("mcp-param-n"), Some(sent), "{argument} {header}");
    }
}
