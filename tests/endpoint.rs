//! The endpoint behind real sockets, HTTP/1.1 and HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::message::{Answer, Event, Message, RawObject, Reply, ReplyStream};
use mcp_layers::sse::Reader;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tower::{Layer, service_fn};

/// Long enough for anything that works; only what is broken takes it.
const SOON: Duration = Duration::from_secs(20);
const MAX: usize = 64 * 1024;
const ECHO: &str = r#"{"jsonrpc":"2.0","id":7,"method":"echo"}"#;

/// What the server under test has seen.
#[derive(Clone, Default)]
struct Seen {
    calls: Arc<AtomicUsize>,
    started: Arc<Notify>,
    cancelled: Arc<Notify>,
}

/// Tells when the work it belongs to is dropped.
struct Guard(Arc<Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// One notification, then silence.
struct Silence {
    first: Option<Event>,
    _guard: Guard,
}

impl Stream for Silence {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
        self.first.take().map_or(Poll::Pending, |event| Poll::Ready(Some(event)))
    }
}

/// `echo` answers with its `text`, `hang` never answers, `stream` says one thing and then nothing more.
async fn answer(request: Request<Message>, seen: Seen) -> Result<Response<Reply>, Infallible> {
    seen.calls.fetch_add(1, Ordering::Relaxed);
    let message = request.into_body();
    let reply = match message.method() {
        "hang" => {
            let _guard = Guard(seen.cancelled);
            seen.started.notify_one();
            std::future::pending().await
        }
        "stream" => {
            let note = Message::parse(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).unwrap();
            let first = Some(Event::Notification(note));
            Reply::Stream(ReplyStream::new(Silence { first, _guard: Guard(seen.cancelled) }))
        }
        _ => {
            let mut result = RawObject::new();
            if let Some(text) = message.param("text") {
                result.set_raw("text", text);
            }
            // Lets others overtake.
            for _ in 0..message.bytes().len() % 3 {
                tokio::task::yield_now().await;
            }
            Reply::Answer(Answer::result(message.id().cloned(), result))
        }
    };
    Ok(Response::new(reply))
}

async fn serve() -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let inner = {
        let seen = seen.clone();
        service_fn(move |request| answer(request, seen.clone()))
    };
    let service = EndpointLayer::new().with_max_body_bytes(MAX).layer(inner);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                // A client that misbehaves ends its own connection only.
                let _ = server.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (address, seen)
}

/// Writes raw bytes and reads until the server closes.
async fn raw(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(bytes.as_ref()).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(SOON, socket.read_to_end(&mut answer)).await.expect("the server did not close");
    // A server that refuses a body may reset the connection once it has answered.
    assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
    String::from_utf8(answer).unwrap()
}

fn head(more: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\n{more}\r\n"
    )
}

/// Checks a whole HTTP/1.1 answer.
#[track_caller]
fn assert_answer(answer: &str, status: u16, code: Option<i64>, id: Option<i64>) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with(&format!("http/1.1 {status} ")), "{answer}");
    assert!(head.contains("content-type: application/json"), "{answer}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"].get("code").and_then(Value::as_i64), code, "{answer}");
    assert_eq!(body.get("id").map(|id| id.as_i64().unwrap()), id, "{answer}");
}

type Sender1 = http1::SendRequest<Full<Bytes>>;
type Sender2 = http2::SendRequest<Full<Bytes>>;

async fn connect1(address: SocketAddr) -> Sender1 {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn connect2(address: SocketAddr) -> Sender2 {
    let socket = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("http://localhost/mcp")
        .header("content-type", "application/json")
        .body(Full::from(body.into()))
        .unwrap()
}

fn padded(len: usize) -> String {
    ECHO.to_owned() + &" ".repeat(len - ECHO.len())
}

fn method(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"}}"#)
}

#[tokio::test]
async fn a_declared_length_is_held_to() {
    let (address, seen) = serve().await;
    let exact = raw(address, head(&format!("content-length: {MAX}\r\n")) + &padded(MAX)).await;
    assert_answer(&exact, 200, None, Some(7));
    assert_eq!(seen.calls.load(Ordering::Relaxed), 1);
    // Refused at once: no byte of the body has been sent.
    let above = raw(address, head(&format!("content-length: {}\r\n", MAX + 1))).await;
    assert_answer(&above, 413, Some(413), None);
    let huge = raw(address, head("content-length: 9223372036854775807\r\nexpect: 100-continue\r\n")).await;
    assert_answer(&huge, 413, Some(413), None);
    // Shorter than what was sent: what is read is not JSON.
    let short = raw(address, head("content-length: 20\r\n") + ECHO).await;
    assert_answer(&short, 400, Some(-32700), None);
    assert_eq!(seen.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn lengths_that_contradict_each_other_reach_nobody() {
    let (address, seen) = serve().await;
    let twice = format!("content-length: {}\r\ncontent-length: 5\r\n", ECHO.len());
    for lines in [&*twice, "content-length: x\r\n", "content-length: -1\r\n"] {
        let answer = raw(address, head(lines) + ECHO).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    // Nothing declared is an empty body.
    let none = raw(address, head("")).await;
    assert_answer(&none, 400, Some(-32700), None);
    assert_eq!(seen.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_is_sent_behind_the_declared_length_is_not_part_of_the_message() {
    let (address, seen) = serve().await;
    let answer = raw(address, head(&format!("content-length: {}\r\n", ECHO.len())) + ECHO + "{}").await;
    assert_answer(&answer, 200, None, Some(7));
    assert_eq!(seen.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_client_that_stops_within_its_body_reaches_nobody() {
    let (address, seen) = serve().await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all((head("content-length: 1000\r\n") + ECHO).as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(SOON, socket.read_to_string(&mut answer)).await.unwrap().unwrap();
    if !answer.is_empty() {
        assert_answer(&answer, 400, Some(-32700), None);
    }
    assert_eq!(seen.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn chunks_of_one_byte_are_put_together() {
    let (address, seen) = serve().await;
    let mut body = head("transfer-encoding: chunked\r\n");
    for byte in padded(MAX).chars() {
        body.push_str("1\r\n");
        body.push(byte);
        body.push_str("\r\n");
    }
    let answer = raw(address, body.clone() + "0\r\n\r\n").await;
    assert_answer(&answer, 200, None, Some(7));
    assert_eq!(seen.calls.load(Ordering::Relaxed), 1);
    let answer = raw(address, body + "1\r\n \r\n0\r\n\r\n").await;
    assert_answer(&answer, 413, Some(413), None);
    assert_eq!(seen.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_endless_chunked_body_is_refused_early() {
    let (address, seen) = serve().await;
    let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let sending = tokio::spawn(async move {
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        writer.write_all(head("transfer-encoding: chunked\r\n").as_bytes()).await.unwrap();
        let mut sent = 0_usize;
        while sent < 1 << 30 && writer.write_all(chunk.as_bytes()).await.is_ok() {
            sent += 0x10000;
        }
        sent
    });
    let mut answer = Vec::new();
    // The connection may be reset while the rest of the body is on its way.
    let _ = timeout(SOON, reader.read_to_end(&mut answer)).await.expect("the server did not close");
    assert_answer(std::str::from_utf8(&answer).unwrap(), 413, Some(413), None);
    let sent = timeout(SOON, sending).await.expect("the server kept reading").unwrap();
    // What fits into the buffers of both ends of a socket, and no more.
    assert!(sent < 1 << 26, "{sent} bytes were taken");
    assert_eq!(seen.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn other_methods_are_refused_in_both_versions() {
    let (address, seen) = serve().await;
    let (mut one, mut two) = (connect1(address).await, connect2(address).await);
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let request = || {
            let mut request = post("");
            *request.method_mut() = method.parse().unwrap();
            request
        };
        one.ready().await.unwrap();
        let responses =
            [one.send_request(request()).await.unwrap(), two.send_request(request()).await.unwrap()];
        for response in responses {
            assert_eq!(response.status(), 405, "{method}");
            assert_eq!(response.headers()["allow"], "POST");
            assert_eq!(response.headers()["content-type"], "application/json");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            if method == "HEAD" {
                assert!(body.is_empty());
            } else {
                let body: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(body["error"]["code"], 405);
                assert!(body.get("id").is_none());
            }
        }
    }
    assert_eq!(seen.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_limit_holds_over_http2() {
    let (address, seen) = serve().await;
    let mut sender = connect2(address).await;
    let response = sender.send_request(post(padded(MAX))).await.unwrap();
    assert_eq!(response.status(), 200);
    let response = sender.send_request(post(padded(MAX + 1))).await.unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(seen.calls.load(Ordering::Relaxed), 1);
    // The connection lives on.
    let response = sender.send_request(post(ECHO)).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_notification_has_an_empty_answer() {
    let (address, _) = serve().await;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let answer = raw(address, head(&format!("content-length: {}\r\n", note.len())) + note).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(!answer.to_ascii_lowercase().contains("content-type"), "{answer}");
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_a_call() {
    let (address, seen) = serve().await;
    let body = method("hang");
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = head(&format!("content-length: {}\r\n", body.len())) + &body;
    socket.write_all(request.as_bytes()).await.unwrap();
    timeout(SOON, seen.started.notified()).await.unwrap();
    drop(socket);
    timeout(SOON, seen.cancelled.notified()).await.expect("HTTP/1.1: the work went on");

    let mut sender = connect2(address).await;
    let call = tokio::spawn({
        let mut sender = sender.clone();
        async move { sender.send_request(post(body)).await.map(|_| ()) }
    });
    timeout(SOON, seen.started.notified()).await.unwrap();
    call.abort();
    timeout(SOON, seen.cancelled.notified()).await.expect("HTTP/2: the work went on");
    // Only that stream was reset.
    assert_eq!(sender.send_request(post(ECHO)).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_a_stream() {
    let (address, seen) = serve().await;
    let (mut one, mut two) = (connect1(address).await, connect2(address).await);
    let responses = [
        one.send_request(post(method("stream"))).await.unwrap(),
        two.send_request(post(method("stream"))).await.unwrap(),
    ];
    for (response, version) in responses.into_iter().zip(["HTTP/1.1", "HTTP/2"]) {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert!(!response.headers().contains_key("content-length"));
        let mut body = response.into_body();
        let frame = timeout(SOON, body.frame()).await.unwrap().unwrap().unwrap();
        let (mut reader, mut events) = (Reader::new(1024), Vec::new());
        reader.push(&frame.into_data().unwrap(), &mut events).unwrap();
        assert_eq!(events.len(), 1);
        drop(body);
        let cancelled = timeout(SOON, seen.cancelled.notified()).await;
        assert!(cancelled.is_ok(), "{version}: the work went on");
    }
    assert_eq!(two.send_request(post(ECHO)).await.unwrap().status(), 200);
}

/// The answer to `echo`, which has to be the one for `text`.
async fn check(response: Response<hyper::body::Incoming>, text: &str) {
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["id"], &body["result"]["text"]), (&1.into(), &text.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_requests_with_the_same_id_each_get_their_own_answer() {
    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 300;
    let (address, seen) = serve().await;
    let echo = |text: &str| {
        post(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"text":"{text}"}}}}"#))
    };
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..CONNECTIONS {
        // All at once on one HTTP/2 connection.
        let sender = connect2(address).await;
        for request in 0..REQUESTS {
            let mut sender = sender.clone();
            tasks.spawn(async move {
                let text = format!("two-{connection}-{request}");
                check(sender.send_request(echo(&text)).await.unwrap(), &text).await;
            });
        }
        // One after the other on one of HTTP/1.1.
        let mut sender = connect1(address).await;
        tasks.spawn(async move {
            for request in 0..REQUESTS {
                let text = format!("one-{connection}-{request}{}", "x".repeat(request % 7));
                sender.ready().await.unwrap();
                check(sender.send_request(echo(&text)).await.unwrap(), &text).await;
            }
        });
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    timeout(SOON * 3, all).await.expect("an answer was lost");
    assert_eq!(seen.calls.load(Ordering::Relaxed), 2 * CONNECTIONS * REQUESTS);
}
