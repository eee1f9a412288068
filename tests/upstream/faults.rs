//! Upstreams that break, or are left.

use http::Request;
use http_body_util::BodyExt as _;
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::message::Event;
use mcp_layers::upstream::HttpUpstream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tower::{Layer as _, ServiceExt as _};

use crate::support::*;

const UNREACHABLE: &str = "the upstream server cannot be reached, or has given no answer";
const BROKEN: &str = "the upstream server's answer cannot be used: it has broken off";

fn is(status: u16, message: &str) -> (u16, i64, String) {
    (status, status.into(), message.to_owned())
}

/// Reads a request, writes each text, and closes.
async fn says(texts: Vec<String>) -> std::net::SocketAddr {
    let (address, _) = raw(move |mut socket| {
        let texts = texts.clone();
        async move {
            read_request(&mut socket).await;
            for text in texts {
                socket.write_all(text.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    address
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_502() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(refused(&ask(&upstream(HttpUpstream::new(), address)).await), is(502, UNREACHABLE));
    let service = HttpUpstream::new().at("http://no-such-host.invalid/mcp").unwrap();
    assert_eq!(refused(&ask(&service).await), is(502, UNREACHABLE));
}

#[tokio::test]
async fn an_upstream_that_closes_before_it_answers_is_502() {
    for texts in [vec![], vec!["HTTP/1.1 200 O".to_owned()], vec!["SSH-2.0-x\r\n".to_owned()]] {
        let address = says(texts.clone()).await;
        let response = ask(&upstream(HttpUpstream::new(), address)).await;
        assert_eq!(refused(&response), is(502, UNREACHABLE), "{texts:?}");
    }
}

#[tokio::test]
async fn a_json_answer_that_is_cut_is_502() {
    let length =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n".to_owned();
    for texts in [
        vec![length, RESULT.to_owned()],
        vec![head("application/json"), chunk(RESULT)],
        vec![head("application/json"), chunk(RESULT), "zz\r\n".to_owned()],
    ] {
        let address = says(texts.clone()).await;
        let response = ask(&upstream(HttpUpstream::new(), address)).await;
        assert_eq!(refused(&response), is(502, BROKEN), "{texts:?}");
    }
}

#[tokio::test]
async fn an_upstream_that_is_killed_in_the_middle_of_a_stream_ends_it_with_one_error() {
    let notification = chunk(&format!("data: {PROGRESS}\n\n"));
    for last in ["", "5\r\ndata", "0\r\n\r\n", "zz\r\n"] {
        let address = says(vec![head("text/event-stream"), notification.clone(), last.to_owned()]).await;
        let mut stream = stream(ask(&upstream(HttpUpstream::new(), address)).await);
        assert!(matches!(next(&mut stream).await, Some(Event::Notification(_))), "{last:?}");
        assert_eq!(ended_with(next(&mut stream).await), (502, BROKEN.to_owned()));
        assert!(next(&mut stream).await.is_none());
    }
}

#[tokio::test]
async fn the_caller_of_a_stream_that_is_killed_reads_one_answer() {
    let address = says(vec![head("text/event-stream"), chunk(&format!("data: {PROGRESS}\n\n"))]).await;
    let gateway = EndpointLayer::new().layer(upstream(HttpUpstream::new(), address));
    let request =
        Request::post("/mcp").header("content-type", "application/json").body(LIST.to_owned()).unwrap();
    let response = gateway.oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let expected = format!(
        "event: message\ndata: {PROGRESS}\n\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":\
         {{\"code\":502,\"message\":\"{BROKEN}\"}}}}\n\n"
    );
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_the_request_to_the_upstream_along() {
    for kind in [None, Some("application/json"), Some("text/event-stream")] {
        let (address, connections) = raw(move |mut socket| async move {
            read_request(&mut socket).await;
            if let Some(kind) = kind {
                socket.write_all(head(kind).as_bytes()).await.unwrap();
            }
            assert_eq!(socket.read(&mut [0]).await.unwrap_or(0), 0);
        })
        .await;
        let service = upstream(HttpUpstream::new(), address);
        if kind == Some("text/event-stream") {
            drop(stream(ask(&service).await));
        } else {
            let asked = tokio::spawn(service.clone().oneshot(message(LIST)));
            until("the upstream is asked", || connections.live() == 1).await;
            asked.abort();
        }
        until("the connection is closed", || connections.live() == 0).await;
        assert_eq!(connections.all(), 1, "{kind:?}");
    }
}
