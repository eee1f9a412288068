//! Upstreams that break, stall, or are left.

use std::time::Duration;

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
const SLOW: &str = "the server did not finish in time; try again later";

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
async fn a_head_that_comes_too_slowly_is_504() {
    let (address, _) = raw(|mut socket| async move {
        read_request(&mut socket).await;
        for byte in head("application/json").bytes().cycle() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if socket.write_all(&[byte]).await.is_err() {
                return;
            }
        }
    })
    .await;
    assert_eq!(refused(&ask(&upstream(hasty(), address)).await), is(504, SLOW));
}

#[tokio::test]
async fn a_connection_that_comes_too_slowly_is_504() {
    // Never a word of TLS.
    let (address, _) = raw(|mut socket| async move {
        let _ = socket.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let client = HttpUpstream::new().with_connect_timeout(Duration::from_millis(100));
    let service = client.at(&format!("https://{address}/mcp")).unwrap();
    assert_eq!(refused(&ask(&service).await), is(504, SLOW));
}

#[tokio::test]
async fn a_body_that_stops_is_504() {
    for (kind, start) in [("application/json", "{"), ("text/event-stream", ": x\n")] {
        let start = head(kind) + &chunk(start);
        let (address, connections) = raw(move |mut socket| {
            let start = start.clone();
            async move {
                read_request(&mut socket).await;
                socket.write_all(start.as_bytes()).await.unwrap();
                // Until the gateway hangs up.
                let _ = socket.read_to_end(&mut Vec::new()).await;
            }
        })
        .await;
        let response = ask(&upstream(hasty(), address)).await;
        if kind == "application/json" {
            assert_eq!(refused(&response), is(504, SLOW));
        } else {
            assert_eq!(ended_with(next(&mut stream(response)).await), (504, SLOW.to_owned()));
        }
        until("the connection is closed", || connections.live() == 0).await;
    }
}

#[tokio::test]
async fn comments_keep_a_stream_alive() {
    let (address, _) = raw(|mut socket| async move {
        read_request(&mut socket).await;
        socket.write_all(head("text/event-stream").as_bytes()).await.unwrap();
        // Longer than may be idle, all together.
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(60)).await;
            socket.write_all(chunk(":\n\n").as_bytes()).await.unwrap();
        }
        socket.write_all(chunk(&format!("data: {RESULT}\n\n")).as_bytes()).await.unwrap();
    })
    .await;
    let mut stream = stream(ask(&upstream(hasty(), address)).await);
    assert!(matches!(next(&mut stream).await, Some(Event::Answer(answer)) if answer.outcome().is_ok()));
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

#[tokio::test]
async fn an_upstream_can_write_no_faster_than_the_caller_reads() {
    const PIECE: usize = 64 * 1024;
    let written = Count::default();
    let (address, _) = raw({
        let written = written.clone();
        move |mut socket| {
            let written = written.clone();
            async move {
                read_request(&mut socket).await;
                socket.write_all(head("text/event-stream").as_bytes()).await.unwrap();
                let text =
                    format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"x":"{}"}}}}"#, "x".repeat(PIECE));
                let piece = chunk(&format!("data: {text}\n\n"));
                while socket.write_all(piece.as_bytes()).await.is_ok() {
                    drop(written.one());
                }
            }
        }
    })
    .await;
    let mut stream = stream(ask(&upstream(HttpUpstream::new(), address)).await);
    // Nobody reads: after what the sockets hold, nothing more is written.
    let mut before = usize::MAX;
    while before != written.all() {
        before = written.all();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(before < 512, "{before} pieces were written, and none was read");
    for _ in 0..before + 64 {
        assert!(matches!(next(&mut stream).await, Some(Event::Notification(_))));
    }
    assert!(written.all() > before, "reading makes room");
}
