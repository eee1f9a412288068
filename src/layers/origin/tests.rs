use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::*;

/// A request to `uri` with these header lines, through the layer to a service that counts its calls.
async fn send(layer: &OriginLayer, request: Request<()>) -> (u16, usize, Bytes) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let inner = service_fn(move |_: Request<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Response::new(Bytes::from("inside"))) }
    });
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    if response.status() == StatusCode::FORBIDDEN {
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.extensions().get::<Rejection>().unwrap().code(), 403);
    }
    (response.status().as_u16(), calls.load(Ordering::Relaxed), response.into_body())
}

fn post(uri: &str, lines: &[(&str, &[u8])]) -> Request<()> {
    let mut builder = Request::builder().method(Method::POST).uri(uri);
    for (name, value) in lines {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap()
}

#[track_caller]
fn assert_passed(what: &str, (status, calls, _): (u16, usize, Bytes)) {
    assert_eq!((status, calls), (200, 1), "{what}");
}

#[track_caller]
fn assert_refused(what: &str, setting: &str, (status, calls, body): (u16, usize, Bytes)) {
    assert_eq!((status, calls), (403, 0), "{what}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains(setting), "{message}");
    assert_eq!(body, json!({"jsonrpc": "2.0", "error": {"code": 403, "message": message}}), "no id, no data");
}

async fn local_host(lines: &[(&str, &[u8])]) -> (u16, usize, Bytes) {
    let mut all = vec![("host", &b"localhost:3000"[..])];
    all.extend_from_slice(lines);
    send(&OriginLayer::new(), post("/mcp", &all)).await
}

#[tokio::test]
async fn the_names_of_this_machine_pass_by_default_on_any_port() {
    for host in
        ["localhost", "LOCALHOST", "localhost:3000", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8080"]
    {
        let layer = OriginLayer::new();
        assert_passed(host, send(&layer, post("/mcp", &[("host", host.as_bytes())])).await);
        for scheme in ["http", "https", "HTTP"] {
            let origin = format!("{scheme}://{host}");
            assert_passed(&origin, local_host(&[("origin", origin.as_bytes())]).await);
        }
    }
}

#[tokio::test]
async fn a_request_without_origin_passes() {
    assert_passed("no origin", local_host(&[]).await);
}

#[tokio::test]
async fn an_origin_that_is_not_allowed_or_not_an_origin_is_refused() {
    let bad: &[&[u8]] = &[
        b"",
        b" ",
        b"null",
        b"http://evil.example",
        b"http://evil.example:3000",
        b"http://localhost.evil.example",
        b"http://127.0.0.1:80.evil.com",
        b"http://localhost@evil.example",
        b"http://user@localhost",
        b"http://localhost.",
        b"http://localhost:0",
        b"http://localhost:65536",
        b"http://localhost/",
        b"http://localhost http://evil.example",
        b"http://localhost,http://evil.example",
        b"http://[::ffff:127.0.0.1]",
        b"http://0x7f.0.0.1",
        b"http://2130706433",
        b"http://127.0.0.2",
        b"http://0.0.0.0",
        b"ws://localhost",
        b"chrome-extension://localhost",
        b"localhost",
        b"http://localhost\x80",
        b"http://l\xc3\xb6calhost",
    ];
    for origin in bad {
        let what = String::from_utf8_lossy(origin);
        assert_refused(&what, "allowed origins", local_host(&[("origin", origin)]).await);
    }
}

#[tokio::test]
async fn two_origin_lines_are_refused_even_when_both_are_fine() {
    let line = ("origin", &b"http://localhost"[..]);
    assert_refused("two lines", "allowed origins", local_host(&[line, line]).await);
}

#[tokio::test]
async fn a_host_that_is_not_allowed_or_not_a_host_is_refused() {
    let bad: &[&[u8]] = &[
        b"",
        b"evil.example",
        b"evil.example:3000",
        b"localhost.evil.example",
        b"127.0.0.1:80.evil.com",
        b"user@localhost",
        b"localhost.",
        b"localhost:",
        b"localhost:x",
        b"localhost:0",
        b"localhost, evil.example",
        b"127.1",
        b"0.0.0.0",
        b"[::]",
        b"::1",
        b"localhost\xff",
    ];
    for host in bad {
        let what = String::from_utf8_lossy(host);
        let sent = send(&OriginLayer::new(), post("/mcp", &[("host", host)])).await;
        assert_refused(&what, "allowed hosts", sent);
    }
}

#[tokio::test]
async fn exactly_one_host_must_be_named() {
    let layer = OriginLayer::new();
    assert_refused("none", "allowed hosts", send(&layer, post("/mcp", &[])).await);
    let line = ("host", &b"localhost"[..]);
    assert_refused("two lines", "allowed hosts", send(&layer, post("/mcp", &[line, line])).await);
}

#[tokio::test]
async fn the_authority_of_http_2_is_a_host() {
    let layer = OriginLayer::new();
    let mut request = post("https://localhost:3000/mcp", &[]);
    *request.version_mut() = Version::HTTP_2;
    assert_passed("authority", send(&layer, request).await);
    assert_refused("authority", "allowed hosts", send(&layer, post("https://evil.example/mcp", &[])).await);
    // The parser of `http` reads the host 127.0.0.1 from this one, or refuses it; we must not serve it.
    if let Ok(uri) = "http://127.0.0.1:80.evil.com/mcp".parse::<http::Uri>() {
        assert_refused("authority", "allowed hosts", send(&layer, post(&uri.to_string(), &[])).await);
    }
    assert_refused("userinfo", "allowed hosts", send(&layer, post("http://a@localhost/mcp", &[])).await);
}

#[tokio::test]
async fn host_and_authority_must_agree() {
    let layer = OriginLayer::new();
    let both = async |uri: &str, host: &str| send(&layer, post(uri, &[("host", host.as_bytes())])).await;
    assert_passed("same", both("http://localhost:3000/mcp", "localhost:3000").await);
    assert_passed("case", both("http://localhost/mcp", "LocalHost").await);
    assert_passed("default port", both("http://localhost/mcp", "localhost:80").await);
    assert_passed("default port", both("https://localhost:443/mcp", "localhost").await);
    for (uri, host) in [
        ("http://localhost/mcp", "127.0.0.1"),
        ("http://localhost/mcp", "evil.example"),
        ("http://evil.example/mcp", "localhost"),
        ("http://localhost/mcp", "localhost:443"),
        ("http://localhost:1/mcp", "localhost:2"),
        ("http://localhost/mcp", ""),
    ] {
        assert_refused(&format!("{uri} {host}"), "allowed hosts", both(uri, host).await);
    }
}

#[tokio::test]
async fn every_method_is_checked() {
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"] {
        let mut request = post("/mcp", &[("host", b"localhost"), ("origin", b"http://evil.example")]);
        *request.method_mut() = method.parse().unwrap();
        assert_refused(method, "allowed origins", send(&OriginLayer::new(), request).await);
    }
}

#[tokio::test]
async fn listed_hosts_replace_the_names_of_this_machine() {
    let hosts = ["API.example.com", "exact.example.com:8443", "plain.example.com:443", "[2001:db8::1]"];
    let layer = OriginLayer::new().with_allowed_hosts(hosts).unwrap();
    let host = async |host: &str| send(&layer, post("/mcp", &[("host", host.as_bytes())])).await;
    for allowed in [
        "api.example.com",
        "api.example.com:9000",
        "exact.example.com:8443",
        "plain.example.com",
        "plain.example.com:443",
        "[2001:DB8:0::1]:80",
    ] {
        assert_passed(allowed, host(allowed).await);
    }
    for refused in [
        "localhost",
        "example.com",
        "x.api.example.com",
        "exact.example.com",
        "exact.example.com:443",
        "plain.example.com:80",
    ] {
        assert_refused(refused, "allowed hosts", host(refused).await);
    }
    let http = post("http://plain.example.com/mcp", &[]);
    assert_refused("the scheme says port 80", "allowed hosts", send(&layer, http).await);
}

#[tokio::test]
async fn listed_origins_are_compared_by_scheme_host_and_port() {
    let layer = OriginLayer::new()
        .with_allowed_origins(["https://app.example.com", "vscode-webview://panel"])
        .unwrap();
    let origin = async |origin: &str| {
        send(&layer, post("/mcp", &[("host", b"localhost"), ("origin", origin.as_bytes())])).await
    };
    for allowed in ["https://app.example.com", "HTTPS://APP.example.com:443", "vscode-webview://panel"] {
        assert_passed(allowed, origin(allowed).await);
    }
    for refused in [
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com.evil.example",
        "https://evil.example",
        "http://localhost",
        "null",
    ] {
        assert_refused(refused, "allowed origins", origin(refused).await);
    }
}

#[tokio::test]
async fn each_half_can_be_opened_by_name() {
    let layer = OriginLayer::new().allow_any_origin();
    let request = |host: &'static str| post("/mcp", &[("host", host.as_bytes()), ("origin", b"null")]);
    assert_passed("any origin", send(&layer, request("localhost")).await);
    assert_refused("host still counts", "allowed hosts", send(&layer, request("evil.example")).await);
    let layer = OriginLayer::new().allow_any_host();
    assert_passed("any host", send(&layer, post("/mcp", &[])).await);
    assert_refused("origin still counts", "allowed origins", send(&layer, request("evil.example")).await);
}

#[test]
fn an_entry_that_cannot_match_is_an_error_at_build() {
    for host in ["", "*", "*.example.com", "https://example.com", "example.com/", "example.com."] {
        let error = OriginLayer::new().with_allowed_hosts([host]).unwrap_err().to_string();
        assert!(error.contains("is not a host"), "{error}");
    }
    for origin in ["", "null", "*", "example.com", "https://example.com/", "https://*.example.com"] {
        let error = OriginLayer::new().with_allowed_origins([origin]).unwrap_err().to_string();
        assert!(error.contains("is not an origin"), "{error}");
    }
}

#[test]
fn a_refusal_logs_one_line_that_names_the_setting() {
    let refused = |lines: &[(&str, &[u8])]| {
        let (mut head, ()) = post("/mcp", lines).into_parts();
        super::super::testing::logged(|| {
            OriginLayer::new().guard().check(&mut head).unwrap_err();
        })
    };
    let log = refused(&[("host", b"localhost"), ("origin", b"http://evil.example")]);
    assert!(log.contains("with_allowed_origins") && log.contains("http://evil.example"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
    let log = refused(&[("host", b"evil.example")]);
    assert!(log.contains("with_allowed_hosts") && log.contains("evil.example"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}
