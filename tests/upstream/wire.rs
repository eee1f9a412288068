//! What goes over the wire.

use std::sync::{Arc, Mutex};

use http::HeaderName;
use mcp_layers::message::Event;
use mcp_layers::principal::Principal;
use mcp_layers::upstream::{HttpUpstream, UpstreamLayer};
use tokio::io::AsyncWriteExt as _;
use tower::{Layer as _, ServiceExt as _};

use crate::support::*;

type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Answers every request on a connection with one JSON object.
async fn recorder() -> (std::net::SocketAddr, Count, Requests) {
    let requests = Requests::default();
    let (address, count) = raw({
        let requests = Arc::clone(&requests);
        move |mut socket| {
            let requests = Arc::clone(&requests);
            async move {
                while let Some(request) = read_request(&mut socket).await {
                    requests.lock().unwrap().push(request);
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        RESULT.len()
                    );
                    socket.write_all((head + RESULT).as_bytes()).await.unwrap();
                }
            }
        }
    })
    .await;
    (address, count, requests)
}

#[tokio::test]
async fn the_bytes_of_a_request_reach_the_upstream_as_they_were() {
    let (address, _, requests) = recorder().await;
    let body = " {\"id\":\"\\u0037\" ,\"jsonrpc\":\"2.0\",\r\n\t\"method\":\"tools/list\",\"params\":{\"n\":1.00e+1}}\n";
    let mut request = message(body);
    for (name, value) in [
        ("host", "gateway.example"),
        ("authorization", "Bearer inbound"),
        ("cookie", "a=b"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("mcp-param-x", "y"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
        ("content-encoding", "gzip"),
        ("content-length", "3"),
    ] {
        request.headers_mut().insert(HeaderName::from_static(name), value.parse().unwrap());
    }
    request.extensions_mut().insert(Principal::new("https://issuer.example", "ada"));
    let layer = UpstreamLayer::to(&format!("http://{address}/x/mcp?v=1"))
        .unwrap()
        .with_claim("sub", HeaderName::from_static("x-user"))
        .with_header(HeaderName::from_static("authorization"), "Bearer ours".parse().unwrap());
    layer.layer(HttpUpstream::new()).oneshot(request).await.unwrap();

    let (head, received) = requests.lock().unwrap()[0].clone();
    assert_eq!(received, body.as_bytes());
    let mut lines: Vec<_> = head.lines().map(str::to_ascii_lowercase).collect();
    assert_eq!(lines.remove(0), "post /x/mcp?v=1 http/1.1");
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "accept-encoding: identity",
            "accept: application/json, text/event-stream",
            "authorization: bearer ours",
            &format!("content-length: {}", body.len()),
            "content-type: application/json",
            &format!("host: {address}"),
            "mcp-method: tools/list",
            "mcp-param-x: y",
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "x-user: ada",
        ]
    );
}

#[tokio::test]
async fn an_edited_request_has_the_length_of_what_is_sent() {
    let (address, _, requests) = recorder().await;
    let mut request = message(LIST);
    request.headers_mut().insert("content-length", LIST.len().into());
    request.body_mut().edit_params(|params| params.set("cursor", "é").unwrap()).unwrap();
    upstream(HttpUpstream::new(), address).oneshot(request).await.unwrap();
    let (head, received) = requests.lock().unwrap()[0].clone();
    let expected = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"é"}}"#;
    assert_eq!(received, expected.as_bytes());
    let lengths: Vec<_> = head.lines().filter(|line| line.starts_with("content-length")).collect();
    assert_eq!(lengths, [format!("content-length: {}", expected.len())]);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (address, connections, requests) = recorder().await;
    let service = upstream(HttpUpstream::new(), address);
    for _ in 0..20 {
        assert_eq!(ask(&service).await.status(), 200);
    }
    assert_eq!((requests.lock().unwrap().len(), connections.all()), (20, 1));
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_stream_that_ends_with_its_answer() {
    let (address, connections) = server(|_| async {
        Ok(full("text/event-stream", format!("data: {PROGRESS}\n\ndata: {RESULT}\n\n")))
    })
    .await;
    let service = upstream(HttpUpstream::new(), address);
    for _ in 0..20 {
        let mut stream = stream(ask(&service).await);
        assert!(matches!(next(&mut stream).await, Some(Event::Notification(_))));
        assert!(matches!(next(&mut stream).await, Some(Event::Answer(_))));
        assert!(next(&mut stream).await.is_none());
    }
    assert_eq!(connections.all(), 1);
}

#[tokio::test]
async fn a_notification_is_passed_on_before_the_answer_is_there() {
    let (address, _) = raw(|mut socket| async move {
        read_request(&mut socket).await;
        let start = head("text/event-stream") + &chunk(&format!("data: {PROGRESS}\n\n"));
        socket.write_all(start.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let mut stream = stream(ask(&upstream(HttpUpstream::new(), address)).await);
    assert!(matches!(next(&mut stream).await, Some(Event::Notification(_))));
}
