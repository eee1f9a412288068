//! What comes back as one JSON object, and what is not an answer at all.

use super::*;

fn json(text: impl AsRef<[u8]>) -> impl Fn() -> Response<Frames> + Clone + Send {
    let text = Bytes::copy_from_slice(text.as_ref());
    move || reply(200, "application/json", Frames::of([text.clone()]))
}

#[tokio::test]
async fn a_result_is_passed_on_with_its_digits() {
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), json(RESULT)).await;
    let answer = response.body().answer().expect("is no stream");
    assert_eq!((response.status(), answer.to_string().as_str()), (StatusCode::OK, RESULT));
}

#[tokio::test]
async fn a_result_in_many_frames_is_one_result() {
    let got = answered(LIST, || {
        reply(200, "application/json", Frames::of(RESULT.as_bytes().chunks(3).map(Bytes::copy_from_slice)))
    })
    .await;
    assert_eq!(got.messages, [serde_json::from_str::<Value>(RESULT).unwrap()]);
}

#[tokio::test]
async fn the_answer_can_be_edited() {
    let (mut response, _) = ask(&UpstreamLayer::new(), message(LIST), json(RESULT)).await;
    response.body_mut().edit_answer(|answer| {
        answer.result_mut().unwrap().set("m", &2).unwrap();
    });
    let answer = response.body().answer().unwrap().to_string();
    assert_eq!(answer, r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.0,"m":2}}"#);
}

#[tokio::test]
async fn an_error_keeps_code_message_data_and_status() {
    for status in [200, 400, 403, 404, 405, 418, 429, 500, 503] {
        for id in [r#""id":7,"#, r#""id":null,"#, ""] {
            let text = format!(
                r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32022,"message":"no","data":{{"n":1.0}}}}}}"#
            );
            let got = answered(LIST, move || {
                reply(status, "application/json; charset=utf-8", Frames::of([text.clone()]))
            })
            .await;
            let expected = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32022, "message": "no", "data": {"n": 1.0}}});
            assert_eq!((got.status, &got.messages[..]), (status, &[expected][..]), "{status} {id}");
        }
    }
}

#[tokio::test]
async fn an_id_that_was_written_anew_is_ours_and_goes_back_as_it_came() {
    let ask = r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/list"}"#;
    let (response, _) =
        super::ask(&UpstreamLayer::new(), message(ask), json(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#))
            .await;
    let answer = response.body().answer().unwrap().to_string();
    assert_eq!(answer, r#"{"jsonrpc":"2.0","id":"\u0061","result":{}}"#);
}

#[tokio::test]
async fn what_is_no_answer_is_refused_with_the_reason() {
    for (body, reason) in [
        (&b""[..], "it is empty"),
        (b" \r\n", "it is empty"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"\xff\"}}", "it is not UTF-8"),
        (b"<html>", "it is not JSON: expected a JSON value at byte 0"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{", "it is not JSON: expected a member name at byte 34"),
        (b"[]", "it is a batch"),
        (br#"{"jsonrpc":"2.0","id":7,"result":{},"id":7}"#, "it names a member twice"),
        (br#"{"jsonrpc":"2.0","id":8,"result":{}}"#, "it answers another request"),
        (br#"{"jsonrpc":"2.0","id":"7","result":{}}"#, "it answers another request"),
        (br#"{"jsonrpc":"2.0","id":8,"error":{"code":1,"message":""}}"#, "it answers another request"),
        (br#"{"jsonrpc":"2.0","result":{}}"#, "it is a result without an `id`"),
        (br#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "it is a notification"),
        (br#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#, "it is a request, which servers may not send"),
        (
            br#"{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":7,"result":{}}"#,
            "it is not JSON: something follows the JSON value at byte 36",
        ),
    ] {
        let (response, seen) = ask(&UpstreamLayer::new(), message(LIST), json(body)).await;
        seen.one();
        let message = format!("the upstream server's answer cannot be used: {reason}");
        assert_refused(&got(response).await, 502, &message);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let got = answered(LIST, || {
        reply(200, "application/json", Frames::of([r#"{"jsonrpc":"2.0","id":7,"#]).broken())
    })
    .await;
    assert_refused(&got, 502, "the upstream server's answer cannot be used: it has broken off");
}

#[tokio::test]
async fn a_status_that_is_no_answer_is_refused() {
    for (status, reason) in [
        (201, "it has the status 201"),
        (202, "it accepts the request like a notification"),
        (204, "it has the status 204"),
        (206, "it has the status 206"),
        (301, "it is a redirect"),
        (302, "it is a redirect"),
        (307, "it is a redirect"),
        (308, "it is a redirect"),
    ] {
        let got = answered(LIST, move || {
            let mut response = reply(status, "application/json", Frames::of([RESULT]));
            response.headers_mut().insert("location", value("https://elsewhere.example/"));
            response
        })
        .await;
        assert_refused(&got, 502, &format!("the upstream server's answer cannot be used: {reason}"));
        assert!(!got.headers.contains_key("location"));
    }
}

#[tokio::test]
async fn an_error_page_keeps_the_status_only_where_a_caller_can_use_it() {
    for (status, expected) in [
        (400, 502),
        (403, 403),
        (404, 502),
        (405, 502),
        (406, 502),
        (413, 413),
        (415, 502),
        (429, 429),
        (500, 502),
        (502, 502),
        (503, 503),
        (504, 504),
        (599, 502),
    ] {
        for (kind, body) in [("text/html", "<html>secret</html>"), ("application/json", "{}"), ("", "")] {
            let got = answered(LIST, move || {
                let mut response = reply(status, kind, Frames::of([body]));
                response.headers_mut().insert("retry-after", value("7"));
                response
            })
            .await;
            let message = format!("the upstream server has refused the request with the status {status}");
            assert_refused(&got, expected, &message);
            assert_eq!(got.headers["retry-after"], "7");
        }
    }
}

#[tokio::test]
async fn a_result_with_an_error_status_is_neither() {
    let got = answered(LIST, || reply(500, "application/json", Frames::of([RESULT]))).await;
    assert_refused(
        &got,
        502,
        "the upstream server's answer cannot be used: it is a result with the status 500",
    );
}

#[tokio::test]
async fn only_json_and_event_streams_are_read() {
    for kind in ["", "text/html", "application/json, text/event-stream", "application/jsonx", "text/plain"] {
        let got = answered(LIST, move || reply(200, kind, Frames::of([RESULT]))).await;
        let reason = "the upstream server's answer cannot be used: it is neither JSON nor an event stream";
        assert_refused(&got, 502, reason);
    }
    let got = answered(LIST, || {
        let mut response = reply(200, "application/json", Frames::of([RESULT]));
        response.headers_mut().append("content-type", value("application/json"));
        response
    })
    .await;
    assert_eq!(got.status, 502);
}

#[tokio::test]
async fn a_compressed_answer_is_refused() {
    for kind in ["application/json", "text/event-stream"] {
        for (coding, refused) in [("gzip", true), ("identity, br", true), ("identity", false), ("", false)] {
            let body =
                if kind == "application/json" { RESULT.to_owned() } else { format!("data: {RESULT}\n\n") };
            let got = answered(LIST, move || {
                let mut response = reply(200, kind, Frames::of([body.clone()]));
                response.headers_mut().insert("content-encoding", value(coding));
                response
            })
            .await;
            if refused {
                assert_refused(&got, 502, "the upstream server's answer cannot be used: it is compressed");
            } else {
                assert_eq!(got.messages, [serde_json::from_str::<Value>(RESULT).unwrap()]);
            }
            assert!(!got.headers.contains_key("content-encoding"));
        }
    }
}

#[tokio::test]
async fn an_answer_may_be_as_long_as_allowed_and_no_longer() {
    let layer = |max| UpstreamLayer::new().with_max_message_bytes(max);
    let (response, _) = ask(&layer(RESULT.len()), message(LIST), json(RESULT)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let reason =
        format!("the upstream server's answer cannot be used: it is longer than {} bytes", RESULT.len() - 1);
    let (response, _) = ask(&layer(RESULT.len() - 1), message(LIST), json(RESULT)).await;
    assert_refused(&got(response).await, 502, &reason);
    // One that says so itself is not read at all.
    let declared = || {
        Response::builder()
            .header("content-type", "application/json")
            .body(http_body_util::Full::new(Bytes::from_static(RESULT.as_bytes())))
            .unwrap()
    };
    let (response, _) = ask(&layer(RESULT.len() - 1), message(LIST), declared).await;
    assert_refused(&got(response).await, 502, &reason);
}

#[tokio::test]
async fn a_notification_is_accepted_whatever_comes_with_it() {
    for (status, kind, body) in [
        (202, "", ""),
        (200, "application/json", RESULT),
        (200, "text/event-stream", "data: x\n\n"),
        (204, "", ""),
    ] {
        let got = answered(NOTE, move || reply(status, kind, Frames::of([body]))).await;
        assert_eq!((got.status, got.messages.len(), got.streamed), (202, 0, false), "{status}");
    }
}

#[tokio::test]
async fn a_notification_is_refused_with_the_error_of_the_upstream() {
    let got = answered(NOTE, || {
        let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no"}}"#;
        reply(400, "application/json", Frames::of([text]))
    })
    .await;
    let expected = json!({"jsonrpc": "2.0", "error": {"code": -32020, "message": "no"}});
    assert_eq!((got.status, &got.messages[..]), (400, &[expected][..]));
    let got = answered(NOTE, || reply(404, "text/html", Frames::of(["<html>"]))).await;
    assert_eq!(
        (got.status, &got.messages[0]["error"]["code"], got.messages[0].get("id")),
        (502, &json!(502), None)
    );
    let got = answered(NOTE, || reply(307, "", Frames::default())).await;
    assert_eq!((got.status, &got.messages[0]["error"]["code"]), (502, &json!(502)));
    // An id that no notification has cannot be its own.
    let got = answered(NOTE, || {
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no"}}"#;
        reply(400, "application/json", Frames::of([text]))
    })
    .await;
    assert_eq!((got.status, &got.messages[0]["error"]["code"]), (502, &json!(502)));
}

#[tokio::test]
async fn of_the_headers_only_what_is_about_the_answer_comes_back() {
    const PASS: [&str; 5] = ["retry-after", "ratelimit", "ratelimit-policy", "traceresponse", "x-request-id"];
    const STAY: [&str; 22] = [
        "access-control-allow-origin",
        "age",
        "alt-svc",
        "cache-control",
        "connection",
        "content-disposition",
        "content-encoding",
        "content-length",
        "etag",
        "keep-alive",
        "last-modified",
        "link",
        "location",
        "mcp-session-id",
        "proxy-authenticate",
        "server",
        "set-cookie",
        "strict-transport-security",
        "transfer-encoding",
        "vary",
        "x-internal",
        "www-authenticate",
    ];
    let respond = || {
        let mut response = reply(200, "application/json", Frames::of([RESULT]));
        for header in PASS.into_iter().chain(STAY) {
            response.headers_mut().insert(header, value("identity"));
        }
        response.headers_mut().insert("x-hop", value("1"));
        response.headers_mut().insert("connection", value("close, x-hop"));
        response.extensions_mut().insert(7_u8);
        response
    };
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), respond).await;
    assert_eq!(response.extensions().get(), Some(&7_u8));
    let mut names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let mut expected = PASS.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);

    let more = STAY.into_iter().chain(["x-hop"]).map(name);
    let layer = UpstreamLayer::new().with_returned_headers(more).with_challenges(true);
    let (response, _) = ask(&layer, message(LIST), respond).await;
    let mut names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    expected.extend([
        "age",
        "alt-svc",
        "cache-control",
        "etag",
        "last-modified",
        "link",
        "location",
        "server",
        "strict-transport-security",
        "vary",
        "x-internal",
    ]);
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn challenges_pass_only_if_that_is_wanted() {
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no"}}"#;
    let passed = UpstreamLayer::new().with_challenges(true);
    for (status, kind, body) in [
        (401, "application/json", error),
        (401, "text/plain", "no"),
        (403, "application/json", error),
        (403, "text/plain", "no"),
        (407, "application/json", error),
    ] {
        let respond = move || {
            let mut response = reply(status, kind, Frames::of([body]));
            response.headers_mut().insert("www-authenticate", value("Bearer realm=\"upstream\""));
            response
        };
        let (response, _) = ask(&UpstreamLayer::new(), message(LIST), respond).await;
        let own = got(response).await;
        assert!(!own.headers.contains_key("www-authenticate"));
        if status == 403 {
            assert_eq!(own.status, 403);
        } else {
            assert_refused(&own, 502, "the upstream server does not accept the credentials of this gateway");
        }

        let (response, _) = ask(&passed, message(LIST), respond).await;
        let theirs = got(response).await;
        if status == 407 {
            assert_eq!(theirs.status, 502);
            assert!(!theirs.headers.contains_key("www-authenticate"));
        } else {
            assert_eq!(theirs.status, status);
            assert_eq!(theirs.headers["www-authenticate"], "Bearer realm=\"upstream\"");
            let code = if kind == "text/plain" { i64::from(status) } else { -32001 };
            assert_eq!(theirs.messages[0]["error"]["code"], code);
        }
    }
}
