//! Requests that pass, and replies that are one answer.

use http::StatusCode;

use super::*;
use crate::message::ErrorObject;
use crate::rejection::Rejection;

fn error(id: Option<RequestId>) -> Answer {
    Answer::error(id, ErrorObject::new(-32602, "there is no such tool"))
}

fn answer(answer: Answer) -> Response<Reply> {
    Response::new(Reply::Answer(answer))
}

#[tokio::test]
async fn the_inner_service_sees_the_request_as_it_was() {
    let inner = Inner::new(|request: Request<Message>| {
        assert_eq!(request.uri(), "/mcp?a=b");
        assert_eq!(request.method(), "POST");
        assert_eq!(request.version(), http::Version::HTTP_2);
        assert_eq!(request.headers()["x-a"], "b");
        assert_eq!(request.headers()["content-type"], "application/json");
        assert_eq!(request.extensions().get(), Some(&42_u8));
        assert_eq!(&request.body().bytes()[..], PING.as_bytes());
        std::future::ready(Ok(answer(result("{}"))))
    });
    let mut request = with(post(PING), "x-a", "b");
    *request.uri_mut() = "/mcp?a=b".parse().unwrap();
    *request.version_mut() = http::Version::HTTP_2;
    request.extensions_mut().insert(42_u8);
    send(EndpointLayer::new().layer(inner.clone()), request).await;
    assert_eq!(inner.calls(), 1);
}

#[tokio::test]
async fn a_body_of_one_frame_is_not_copied() {
    let body = Bytes::from(PING.to_owned());
    let at = body.as_ptr() as usize;
    let inner = Inner::new(move |request: Request<Message>| {
        assert_eq!(request.body().bytes().as_ptr() as usize, at);
        std::future::ready(Ok(answer(result("{}"))))
    });
    // Empty frames and trailers change nothing.
    let frames =
        Frames::new([Bytes::new(), body, Bytes::new()]).then(Ok(Frame::trailers(http::HeaderMap::new())));
    send(EndpointLayer::new().layer(inner.clone()), frames.into_post()).await;
    assert_eq!(inner.calls(), 1);
}

#[tokio::test]
async fn a_body_of_a_million_frames_is_put_together() {
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":"{}"}}}}"#, "x".repeat(1 << 20));
    let frames = Frames::new(body.as_bytes().chunks(1).map(Bytes::copy_from_slice));
    let inner = Inner::new(move |request: Request<Message>| {
        assert_eq!(&request.body().bytes()[..], body.as_bytes());
        std::future::ready(Ok(answer(result("{}"))))
    });
    send(EndpointLayer::new().layer(inner.clone()), frames.into_post()).await;
    assert_eq!(inner.calls(), 1);
}

#[tokio::test]
async fn an_answer_is_one_json_object() {
    for accept in
        [None, Some("application/json"), Some("*/*"), Some("application/json;q=0.1, text/event-stream")]
    {
        let mut request = post(PING);
        if let Some(accept) = accept {
            request = with(request, "accept", accept);
        }
        let service = EndpointLayer::new().layer(replies(|| answer(result("{\"n\": 1.0}"))));
        let response = service.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers().len(), 1);
        let body = response.into_body();
        let expected = r#"{"jsonrpc":"2.0","id":7,"result":{"n": 1.0}}"#;
        assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
        assert_eq!(body.collect().await.unwrap().to_bytes(), expected);
    }
}

#[tokio::test]
async fn what_the_inner_service_said_about_a_body_is_dropped_and_the_rest_is_kept() {
    let inner = replies(|| {
        let mut response = Rejection::method_not_found("x").into_response(Some(7.into()));
        for (name, value) in [
            ("content-length", "3"),
            ("content-type", "text/plain"),
            ("transfer-encoding", "chunked"),
            ("content-encoding", "gzip"),
            ("etag", "\"a\""),
            ("x-a", "1"),
            ("x-a", "2"),
        ] {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        response
    });
    let (parts, body) = send(EndpointLayer::new().layer(inner), post(PING)).await;
    assert_error(&parts, &body, 404, -32601, Some("7"));
    assert_eq!(parts.headers.len(), 3);
    assert_eq!(parts.headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert!(parts.extensions.get::<Rejection>().is_some());
}

#[tokio::test]
async fn an_answer_carries_the_id_of_its_request_whatever_the_inner_service_wrote() {
    let service = || EndpointLayer::new().layer(replies(|| answer(Answer::result(None, RawObject::new()))));
    for id in ["0", "18446744073709551616", "\"a\\u0062\""] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let (_, body) = send(service(), post(body)).await;
        assert_eq!(body, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    let (parts, body) =
        send(EndpointLayer::new().layer(replies(|| answer(error(Some(8.into()))))), post(PING)).await;
    assert_error(&parts, &body, 200, -32602, Some("7"));
}

#[tokio::test]
async fn a_client_that_takes_only_event_streams_gets_a_result_as_one_event() {
    let request = || with(post(PING), "accept", "text/event-stream");
    let service = EndpointLayer::new().layer(replies(|| answer(result("{\n}"))));
    let (parts, body) = send(service, request()).await;
    assert_eq!(parts.status, 200);
    assert_eq!(parts.headers["content-type"], "text/event-stream");
    assert_eq!(parts.headers["cache-control"], "no-store");
    assert_eq!(body, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n");

    let service = EndpointLayer::new().layer(replies(|| answer(error(Some(7.into())))));
    let (parts, body) = send(service, request()).await;
    assert_error(&parts, &body, 200, -32602, Some("7"));
    let service = EndpointLayer::new().layer(replies(|| {
        let mut response = answer(result("{}"));
        *response.status_mut() = StatusCode::CREATED;
        response
    }));
    let (parts, body) = send(service, request()).await;
    assert_eq!(
        (parts.status.as_u16(), &parts.headers["content-type"]),
        (201, &"application/json".parse().unwrap())
    );
    assert!(body.starts_with('{'));
}

#[tokio::test]
async fn a_notification_is_accepted_without_a_body() {
    let work = Arc::new(());
    let stream = Arc::clone(&work);
    let kinds: [Box<dyn Fn() -> Response<Reply>>; 4] = [
        Box::new(|| Response::new(Reply::Accepted)),
        Box::new(|| answer(Answer::result(None, RawObject::new()))),
        Box::new(move || Events::silent(Arc::clone(&stream)).into_reply()),
        Box::new(|| {
            let mut response = Response::new(Reply::Accepted);
            *response.status_mut() = StatusCode::ACCEPTED;
            response.headers_mut().insert("content-type", "text/plain".parse().unwrap());
            response
        }),
    ];
    for kind in kinds {
        let kind = std::rc::Rc::new(kind);
        let inner = replies(move || kind());
        let response = EndpointLayer::new().layer(inner.clone()).oneshot(post(NOTE)).await.unwrap();
        assert_eq!(response.status(), 202);
        assert!(response.headers().is_empty());
        assert_eq!(response.body().size_hint().exact(), Some(0));
        assert!(response.body().is_end_stream());
        assert_eq!(inner.calls(), 1);
    }
    assert_eq!(Arc::strong_count(&work), 1);
}

#[tokio::test]
async fn a_notification_that_cannot_be_accepted_has_an_error_status_and_no_id() {
    let service = EndpointLayer::new()
        .layer(replies(|| Rejection::header_mismatch("unequal values").into_response(None)));
    let (parts, body) = send(service, post(NOTE)).await;
    assert_error(&parts, &body, 400, -32020, None);

    let service =
        EndpointLayer::new().layer(replies(|| Rejection::internal("internal error").into_response(None)));
    let (parts, body) = send(service, post(NOTE)).await;
    assert_error(&parts, &body, 500, -32603, None);

    let service = EndpointLayer::new().layer(replies(|| answer(error(Some(7.into())))));
    let (parts, body) = send(service, post(NOTE)).await;
    assert_error(&parts, &body, 400, -32602, None);
}

#[tokio::test]
async fn another_status_of_an_accepted_notification_is_kept() {
    let service = EndpointLayer::new().layer(replies(|| {
        let mut response = Response::new(Reply::Accepted);
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }));
    let (parts, body) = send(service, post(NOTE)).await;
    assert_eq!((parts.status.as_u16(), &*body), (204, ""));
}

#[tokio::test]
async fn a_request_that_is_only_accepted_is_a_failure_of_the_inner_service() {
    let service = EndpointLayer::new().layer(replies(|| Response::new(Reply::Accepted)));
    let (parts, body) = send(service, post(PING)).await;
    assert_error(&parts, &body, 500, -32603, Some("7"));
}
