use serde_json::{Value, json};

use super::super::testing::{Outcome, request, send};
use super::*;

const PV: &str = "io.modelcontextprotocol/protocolVersion";
const CAPS: &str = "io.modelcontextprotocol/clientCapabilities";
const INFO: &str = "io.modelcontextprotocol/clientInfo";
const LOG: &str = "io.modelcontextprotocol/logLevel";
const MODERN: &str = "2026-07-28";
const VERSION_LINE: &str = "mcp-protocol-version";

fn meta(version: &str) -> Value {
    json!({PV: version, CAPS: {}})
}

fn body(method: &str, meta: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": meta}}).to_string()
}

fn bare(method: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": method}).to_string()
}

async fn post(body: &str, headers: &[(&str, &str)]) -> Outcome {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    send(&VersionLayer::new(), request(body, headers)).await
}

fn unsupported(requested: &str) -> Value {
    json!({"supported": [MODERN], "requested": requested})
}

#[tokio::test]
async fn a_request_of_the_supported_revision_passes_and_leaves_the_revision() {
    post(&body("tools/list", &meta(MODERN)), &[(VERSION_LINE, MODERN)]).await.passed();
    let full = json!({
        PV: MODERN,
        CAPS: {"elicitation": {"url": {}}, "sampling": {}, "roots": {}, "extensions": {}, "experimental": {}, "x": 1},
        INFO: {"name": "n", "version": "1", "title": 3},
        LOG: "warning",
        "progressToken": 0,
        "com.example/x": null,
    });
    post(&body("tools/list", &full), &[(VERSION_LINE, " 2026-07-28\t")]).await.passed();
    let outcome = super::super::testing::send_to(
        &VersionLayer::new(),
        request(&body("com.example/do", &meta(MODERN)), [(VERSION_LINE, MODERN.as_bytes())]),
        |request| {
            assert_eq!(Revision::of(&request), Some(Revision::V2026_07_28));
            crate::message::Reply::Answer(crate::message::Answer::result(
                None,
                crate::message::RawObject::new(),
            ))
        },
    )
    .await;
    outcome.passed();
}

/// What the version header says, what the body says, what comes of it.
#[tokio::test]
#[allow(clippy::too_many_lines, reason = "it is one table")]
async fn each_combination_of_header_and_body_has_its_answer() {
    enum Is {
        Passed,
        Refused(u16, i64, Option<Value>),
    }
    use Is::{Passed, Refused};
    let list = "tools/list";
    let asks = |version: &str| {
        json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": version}})
            .to_string()
    };
    let supported = || Some(json!({"supported": [MODERN]}));
    let rows: Vec<(&str, Option<&str>, String, Is)> = vec![
        ("modern and equal", Some(MODERN), body(list, &meta(MODERN)), Passed),
        ("no header", None, body(list, &meta(MODERN)), Refused(400, -32020, None)),
        ("empty header", Some(""), body(list, &meta(MODERN)), Refused(400, -32020, None)),
        ("legacy header", Some("2025-11-25"), body(list, &meta(MODERN)), Refused(400, -32020, None)),
        ("unknown header", Some("banana"), body(list, &meta(MODERN)), Refused(400, -32020, None)),
        ("modern header, no `_meta`", Some(MODERN), bare(list), Refused(400, -32602, None)),
        (
            "modern header, no version",
            Some(MODERN),
            body(list, &json!({CAPS: {}})),
            Refused(400, -32602, None),
        ),
        ("modern header, empty `_meta`", Some(MODERN), body(list, &json!({})), Refused(400, -32602, None)),
        (
            "both legacy",
            Some("2025-11-25"),
            body(list, &meta("2025-11-25")),
            Refused(400, -32022, Some(unsupported("2025-11-25"))),
        ),
        (
            "both unknown",
            Some("1900-01-01"),
            body(list, &meta("1900-01-01")),
            Refused(400, -32022, Some(unsupported("1900-01-01"))),
        ),
        (
            "both of the future",
            Some("2099-01-01"),
            body(list, &meta("2099-01-01")),
            Refused(400, -32022, Some(unsupported("2099-01-01"))),
        ),
        (
            "both nonsense",
            Some("banana"),
            body(list, &meta("banana")),
            Refused(400, -32022, Some(unsupported("banana"))),
        ),
        ("both empty", Some(""), body(list, &meta("")), Refused(400, -32022, Some(unsupported("")))),
        ("unknown version, header missing", None, body(list, &meta("banana")), Refused(400, -32020, None)),
        (
            "legacy header, no `_meta`",
            Some("2025-11-25"),
            bare(list),
            Refused(400, -32022, Some(unsupported("2025-11-25"))),
        ),
        (
            "unknown header, no `_meta`",
            Some("1900-01-01"),
            bare(list),
            Refused(400, -32022, Some(unsupported("1900-01-01"))),
        ),
        (
            "unknown header, no version",
            Some("1900-01-01"),
            body(list, &json!({CAPS: {}})),
            Refused(400, -32022, Some(unsupported("1900-01-01"))),
        ),
        // Nothing says which version is meant: what a request must carry comes first.
        ("no header, no `_meta`", None, bare(list), Refused(400, -32602, None)),
        ("empty header, no `_meta`", Some(""), bare(list), Refused(400, -32602, None)),
        // The claim is there, malformed: it is judged, never taken for a legacy request.
        (
            "legacy header, version a number",
            Some("2025-11-25"),
            body(list, &json!({PV: 1, CAPS: {}})),
            Refused(400, -32602, None),
        ),
        (
            "legacy header, version null",
            Some("2025-11-25"),
            body(list, &json!({PV: null, CAPS: {}})),
            Refused(400, -32602, None),
        ),
        // The handshake.
        (
            "initialize, no header",
            None,
            asks("2025-11-25"),
            Refused(400, -32022, Some(unsupported("2025-11-25"))),
        ),
        (
            "initialize, legacy header",
            Some("2025-06-18"),
            asks("2025-11-25"),
            Refused(400, -32022, Some(unsupported("2025-11-25"))),
        ),
        (
            "initialize, modern header",
            Some(MODERN),
            asks("2025-11-25"),
            Refused(400, -32022, Some(unsupported("2025-11-25"))),
        ),
        (
            "initialize, asks for modern",
            Some(MODERN),
            asks(MODERN),
            Refused(400, -32022, Some(unsupported(MODERN))),
        ),
        (
            "initialize, asks for nothing",
            Some("2025-06-18"),
            bare("initialize"),
            Refused(400, -32022, Some(unsupported("2025-06-18"))),
        ),
        ("initialize, says nothing", None, bare("initialize"), Refused(400, -32022, Some(unsupported("")))),
        (
            "initialize, `_meta` without version",
            Some(MODERN),
            body("initialize", &json!({CAPS: {}})),
            Refused(400, -32022, Some(unsupported(MODERN))),
        ),
        (
            "initialize, malformed claim",
            Some(MODERN),
            body("initialize", &json!({PV: 1})),
            Refused(400, -32602, supported()),
        ),
        (
            "initialize, modern `_meta`, no header",
            None,
            body("initialize", &meta(MODERN)),
            Refused(400, -32020, supported()),
        ),
        (
            "initialize, modern `_meta`, legacy header",
            Some("2025-11-25"),
            body("initialize", &meta(MODERN)),
            Refused(400, -32020, supported()),
        ),
    ];
    for (what, header, body, is) in rows {
        println!("{what}");
        let headers: Vec<_> = header.map(|value| (VERSION_LINE, value)).into_iter().collect();
        let outcome = post(&body, &headers).await;
        match is {
            Passed => outcome.passed(),
            Refused(status, code, data) => {
                outcome.refused(status, code, data);
            }
        }
    }
}

#[tokio::test]
async fn every_refusal_of_an_initialize_names_the_supported_versions() {
    let message = post(&bare("initialize"), &[]).await.refused(400, -32022, Some(unsupported("")));
    assert!(message.contains(MODERN) && message.contains("initialize"), "{message}");
    let headers = [(VERSION_LINE, MODERN), ("mcp-method", "initialize")];
    let outcome = post(&body("initialize", &meta(MODERN)), &headers).await;
    outcome.refused(404, -32601, Some(json!({"supported": [MODERN]})));
}

#[tokio::test]
async fn a_fault_of_meta_names_the_key() {
    let with = |key: &str, value: Value| {
        let mut meta = meta(MODERN);
        meta[key] = value;
        meta
    };
    let mut rows = vec![
        (json!({}), PV),
        (json!({PV: MODERN}), CAPS),
        (json!({CAPS: {}}), PV),
        // What is missing comes before what has a wrong shape.
        (json!({PV: 1}), CAPS),
        (with(PV, json!(2026)), PV),
        (with(PV, json!(null)), PV),
        (with(PV, json!([MODERN])), PV),
        (with("progressToken", json!(1.5)), "progressToken"),
        (with("progressToken", json!(null)), "progressToken"),
        (with("progressToken", json!(true)), "progressToken"),
        (with("progressToken", json!({})), "progressToken"),
        (with(LOG, json!("verbose")), LOG),
        (with(LOG, json!("WARNING")), LOG),
        (with(LOG, json!("")), LOG),
        (with(LOG, json!(3)), LOG),
        (with(LOG, json!(null)), LOG),
    ];
    for bad in [json!(null), json!([]), json!("{}"), json!(1), json!(true)] {
        rows.push((with(CAPS, bad.clone()), CAPS));
        rows.push((with(INFO, bad), INFO));
    }
    for known in ["elicitation", "sampling", "roots", "extensions", "experimental"] {
        for bad in [json!(null), json!(true), json!([]), json!("")] {
            rows.push((with(CAPS, json!({ known: bad })), known));
        }
    }
    for bad in [
        json!({}),
        json!({"name": "n"}),
        json!({"version": "1"}),
        json!({"name": 1, "version": "1"}),
        json!({"name": "n", "version": null}),
    ] {
        rows.push((with(INFO, bad), INFO));
    }
    for (meta, key) in rows {
        let message =
            post(&body("tools/list", &meta), &[(VERSION_LINE, MODERN)]).await.refused(400, -32602, None);
        assert!(message.contains(key), "{meta}: {message}");
    }
    let message = post(&bare("tools/list"), &[(VERSION_LINE, MODERN)]).await.refused(400, -32602, None);
    assert!(
        message.contains("`params._meta` is missing") && message.contains(PV) && message.contains(CAPS),
        "{message}"
    );
}

#[tokio::test]
async fn a_capability_or_the_clients_name_given_twice_is_refused() {
    for (caps, info) in [
        (r#"{"roots":{},"roots":{}}"#, r#"{"name":"n","version":"1"}"#),
        (r#"{"roots":{},"r\u006fots":1}"#, r#"{"name":"n","version":"1"}"#),
        ("{}", r#"{"name":"n","version":"1","name":"m"}"#),
        ("{}", r#"{"name":"n","version":"1","version":2}"#),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"_meta":{{"{PV}":"{MODERN}","{CAPS}":{caps},"{INFO}":{info}}}}}}}"#
        );
        post(&body, &[(VERSION_LINE, MODERN)]).await.refused(400, -32602, None);
    }
}

#[tokio::test]
async fn meta_comes_before_the_headers() {
    let twice = [(VERSION_LINE, "x"), (VERSION_LINE, "y"), ("mcp-method", "z")];
    post(&body("ping", &json!({PV: "banana"})), &twice).await.refused(400, -32602, None);
}

#[tokio::test]
async fn a_routing_header_that_comes_twice_is_refused_even_when_the_lines_agree() {
    for (name, value) in [(VERSION_LINE, MODERN), ("mcp-method", "tools/list"), ("mcp-name", "x")] {
        let mut headers = vec![(name, value), (name, value)];
        if name != VERSION_LINE {
            headers.push((VERSION_LINE, MODERN));
        }
        let message = post(&body("tools/list", &meta(MODERN)), &headers).await.refused(400, -32020, None);
        assert!(
            message.to_ascii_lowercase().contains(name) && message.contains("several times"),
            "{message}"
        );
    }
    // Before the version is judged, too.
    let headers = [(VERSION_LINE, "banana"), ("mcp-name", "a"), ("mcp-name", "a")];
    post(&body("tools/list", &meta("banana")), &headers).await.refused(400, -32020, None);
}

#[tokio::test]
async fn a_version_header_that_is_not_text_is_invalid_not_absent() {
    for value in [&b"2026-07-28\x80"[..], b"\xe2\x80\x8b", b"\xff"] {
        let request = request(&body("tools/list", &meta(MODERN)), [(VERSION_LINE, value)]);
        let message = send(&VersionLayer::new(), request).await.refused(400, -32020, None);
        assert!(message.contains("not visible ASCII"), "{message}");
    }
}

#[tokio::test]
async fn a_method_that_the_revision_lacks_is_not_found_once_its_header_is_right() {
    for method in [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
    ] {
        let body = body(method, &meta(MODERN));
        post(&body, &[(VERSION_LINE, MODERN), ("mcp-method", method)]).await.refused(404, -32601, None);
        for header in
            [&[][..], &[("mcp-method", "tools/list")], &[("mcp-method", "")], &[("mcp-method", "Ping")]]
        {
            let mut headers = vec![(VERSION_LINE, MODERN)];
            headers.extend_from_slice(header);
            let message = post(&body, &headers).await.refused(400, -32020, None);
            assert!(message.contains("Mcp-Method") && message.contains(method), "{message}");
        }
    }
}

#[tokio::test]
async fn an_unsupported_version_comes_before_the_method() {
    post(&body("ping", &meta("banana")), &[(VERSION_LINE, "banana")]).await.refused(
        400,
        -32022,
        Some(unsupported("banana")),
    );
}

#[tokio::test]
async fn the_supported_revisions_can_be_listed() {
    let layer = VersionLayer::new().with_supported([Revision::V2026_07_28, Revision::V2025_11_25]);
    let both = |version: &'static str| {
        request(&body("tools/list", &meta(version)), [(VERSION_LINE, version.as_bytes())])
    };
    send(&layer, both(MODERN)).await.passed();
    send(&layer, both("2025-11-25")).await.passed();
    let data = json!({"supported": [MODERN, "2025-11-25"], "requested": "2025-06-18"});
    send(&layer, both("2025-06-18")).await.refused(400, -32022, Some(data));
}

#[tokio::test]
async fn a_long_version_is_told_back_shortened() {
    let long = "9".repeat(10_000);
    let outcome = post(&body("tools/list", &meta(&long)), &[(VERSION_LINE, &long)]).await;
    outcome.refused(400, -32022, Some(unsupported(&long[..64])));
}

#[tokio::test]
async fn notifications_are_held_to_what_they_say() {
    let note = |params: Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
    };
    let plain = || note(json!({"requestId": 1}));
    let says = |version: Value| note(json!({"_meta": {PV: version}}));
    for (what, headers, body) in [
        ("nothing", &[][..], plain()),
        ("modern header", &[(VERSION_LINE, MODERN)], plain()),
        ("legacy header", &[(VERSION_LINE, "2025-11-25")], plain()),
        ("another method's header", &[("mcp-method", "x")], plain()),
        ("version without header", &[], says(json!(MODERN))),
        ("version and header", &[(VERSION_LINE, MODERN)], says(json!(MODERN))),
        ("no capabilities, odd log level", &[], note(json!({"_meta": {PV: MODERN, LOG: 1}}))),
    ] {
        println!("{what}");
        post(&body, headers).await.passed();
    }
    for (what, headers, body, code, data) in [
        ("version a number", &[][..], says(json!(1)), -32602, None),
        ("version null", &[(VERSION_LINE, MODERN)], says(json!(null)), -32602, None),
        ("unequal", &[(VERSION_LINE, "2025-11-25")], says(json!(MODERN)), -32020, None),
        ("empty header", &[(VERSION_LINE, "")], says(json!(MODERN)), -32020, None),
        ("unknown version", &[], says(json!("banana")), -32022, Some(unsupported("banana"))),
        (
            "legacy version",
            &[(VERSION_LINE, "2025-11-25")],
            says(json!("2025-11-25")),
            -32022,
            Some(unsupported("2025-11-25")),
        ),
        ("unknown header", &[(VERSION_LINE, "1900-01-01")], plain(), -32022, Some(unsupported("1900-01-01"))),
        ("two headers", &[(VERSION_LINE, MODERN), (VERSION_LINE, MODERN)], plain(), -32020, None),
    ] {
        println!("{what}");
        post(&body, headers).await.refused_as(None, 400, code, data);
    }
}
