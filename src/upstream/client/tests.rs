//! Upstreams that stall, over pipes in memory: time stands still until everybody waits for it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_core::Stream as _;
use hyper_util::client::legacy::connect::Connected;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::{Instant, sleep};
use tower::{ServiceExt as _, service_fn};

use super::*;
use crate::message::{Event, Message, Reply, ReplyStream};

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#;
const SLOW: &str = "the server did not finish in time; try again later";

/// One end of a pipe.
struct Pipe(TokioIo<DuplexStream>);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Asks a server that does what `script` says with each connection. The three timeouts are a connection's 5 s, a head's
/// 10 s and a body's 20 s.
async fn ask<F>(
    url: &str,
    script: impl Fn(DuplexStream) -> F + Clone + Send + Sync + 'static,
) -> Response<Reply>
where
    F: Future<Output = ()> + Send + 'static,
{
    let settings = HttpUpstream::new()
        .with_connect_timeout(Duration::from_secs(5))
        .with_head_timeout(Duration::from_secs(10))
        .with_idle_timeout(Duration::from_secs(20))
        .settings;
    let transport = service_fn(move |_: Uri| {
        let (near, far) = tokio::io::duplex(16 << 10);
        tokio::spawn(script(far));
        async { Ok::<_, Infallible>(Pipe(TokioIo::new(near))) }
    });
    let client = settings.client(transport);
    let client = service_fn(move |request| HttpFuture::new(client.request(request), &settings));
    let list = Request::post("/mcp").body(Message::parse(LIST).unwrap()).unwrap();
    let Ok(response) = UpstreamLayer::to(url).unwrap().layer(client).oneshot(list).await;
    response
}

/// Reads to the end of the one request.
async fn read_request(pipe: &mut DuplexStream) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(LIST.as_bytes()) {
        assert_ne!(pipe.read_buf(&mut bytes).await.unwrap(), 0);
    }
}

fn head(kind: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

async fn next(stream: &mut ReplyStream) -> Option<Event> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

fn stream(response: Response<Reply>) -> ReplyStream {
    match response.into_body() {
        Reply::Stream(stream) => stream,
        other => panic!("is no stream: {other:?}"),
    }
}

#[track_caller]
fn assert_slow(response: &Response<Reply>) {
    assert_eq!(response.status(), 504);
    let error = response.body().answer().unwrap().outcome().unwrap_err();
    assert_eq!((error.code, &*error.message), (504, SLOW));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_too_slowly_is_504() {
    let start = Instant::now();
    let response = ask("http://upstream/mcp", async |mut pipe: DuplexStream| {
        read_request(&mut pipe).await;
        for byte in head("application/json").bytes().cycle() {
            sleep(Duration::from_millis(700)).await;
            if pipe.write_all(&[byte]).await.is_err() {
                return;
            }
        }
    });
    assert_slow(&response.await);
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_comes_too_slowly_is_504() {
    let start = Instant::now();
    // Never a word of TLS.
    let response = ask("https://upstream/mcp", async |mut pipe: DuplexStream| {
        let _ = pipe.read_to_end(&mut Vec::new()).await;
    });
    assert_slow(&response.await);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_is_504_and_ends_the_connection() {
    for (kind, text) in [("application/json", "{"), ("text/event-stream", ": x\n")] {
        let start = Instant::now();
        let (closed, is_closed) = tokio::sync::oneshot::channel();
        let closed = Arc::new(std::sync::Mutex::new(Some(closed)));
        let response = ask("http://upstream/mcp", move |mut pipe: DuplexStream| {
            let (text, closed) = (head(kind) + &chunk(text), Arc::clone(&closed));
            async move {
                read_request(&mut pipe).await;
                pipe.write_all(text.as_bytes()).await.unwrap();
                let _ = pipe.read_to_end(&mut Vec::new()).await;
                let _ = closed.lock().unwrap().take().unwrap().send(());
            }
        })
        .await;
        if kind == "application/json" {
            assert_slow(&response);
        } else {
            let mut stream = stream(response);
            let Some(Event::Answer(answer)) = next(&mut stream).await else { panic!("no answer") };
            let error = answer.outcome().unwrap_err();
            assert_eq!((error.code, &*error.message), (504, SLOW));
            assert!(next(&mut stream).await.is_none());
        }
        assert_eq!(start.elapsed(), Duration::from_secs(20));
        is_closed.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn comments_keep_a_stream_alive() {
    let start = Instant::now();
    let response = ask("http://upstream/mcp", async |mut pipe: DuplexStream| {
        read_request(&mut pipe).await;
        pipe.write_all(head("text/event-stream").as_bytes()).await.unwrap();
        for _ in 0..10 {
            sleep(Duration::from_secs(19)).await;
            pipe.write_all(chunk(":\n\n").as_bytes()).await.unwrap();
        }
        pipe.write_all(chunk(&format!("data: {RESULT}\n\n")).as_bytes()).await.unwrap();
    });
    let mut stream = stream(response.await);
    assert!(matches!(next(&mut stream).await, Some(Event::Answer(answer)) if answer.outcome().is_ok()));
    assert_eq!(start.elapsed(), Duration::from_secs(190));
}

#[tokio::test(start_paused = true)]
async fn an_upstream_can_write_no_faster_than_the_caller_reads() {
    let written = Arc::new(AtomicUsize::new(0));
    let response = ask("http://upstream/mcp", {
        let written = Arc::clone(&written);
        move |mut pipe: DuplexStream| {
            let written = Arc::clone(&written);
            async move {
                read_request(&mut pipe).await;
                pipe.write_all(head("text/event-stream").as_bytes()).await.unwrap();
                let filler = "x".repeat(1 << 10);
                let piece = chunk(&format!(
                    "data: {{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{{\"x\":\"{filler}\"}}}}\n\n"
                ));
                while pipe.write_all(piece.as_bytes()).await.is_ok() {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    let mut stream = stream(response.await);
    // Time goes on when nobody can do anything more: nobody reads, and all that holds something is full.
    sleep(Duration::from_millis(1)).await;
    let before = written.load(Ordering::Relaxed);
    assert!(before < 1_000, "{before} pieces were written, and none was read");
    for _ in 0..before + 64 {
        assert!(matches!(next(&mut stream).await, Some(Event::Notification(_))));
    }
    assert!(written.load(Ordering::Relaxed) > before, "reading makes room");
}
