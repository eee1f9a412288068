//! Servers to put the gateway in front of, and callers.
//!
//! The connections are real ones, because what makes and counts them is what is tested here; nothing depends on how long
//! anything takes. What does is tested beside the client, over pipes in memory and with a clock that stands still.

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
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use mcp_layers::message::{Event, Message, Reply, ReplyStream, RequestId};
use mcp_layers::upstream::{HttpUpstream, UpstreamService};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tower::{Service, ServiceExt as _};

/// Long enough for anything that works; only what is broken takes it.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
pub(crate) const RESULT: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#;
pub(crate) const PROGRESS: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#;

/// How many of something there are, and how many there have been.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count {
    live: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

pub(crate) struct Counted(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn one(&self) -> Counted {
        self.live.fetch_add(1, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::clone(&self.live))
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    pub(crate) fn all(&self) -> usize {
        self.all.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until `done`.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(SOON, waiting).await.is_ok(), "{what}");
}

/// Gives every connection to `script`. Counts connections until the script is done with them.
pub(crate) async fn raw<F>(script: impl Fn(TcpStream) -> F + Send + 'static) -> (SocketAddr, Count)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Count::default();
    let counting = count.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (one, work) = (counting.one(), script(socket));
            tokio::spawn(async move {
                work.await;
                drop(one);
            });
        }
    });
    (address, count)
}

/// Reads one request: its head, and its body as `Content-Length` says.
pub(crate) async fn read_request(socket: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
        .unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if socket.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, body))
}

/// The head of a response without a length.
pub(crate) fn head(kind: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n")
}

pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Serves one connection with HTTP/1.1 or HTTP/2.
pub(crate) async fn serve<I, S, F, B>(io: I, service: S)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let service = hyper::service::service_fn(service);
    // A client that hangs up ends its own connection only.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(io), service).await;
}

/// A server of hyper's.
pub(crate) async fn server<S, F, B>(service: S) -> (SocketAddr, Count)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    raw(move |socket| serve(socket, service.clone())).await
}

pub(crate) fn full(kind: &str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::builder().header("content-type", kind).body(Full::new(text.into())).unwrap()
}

pub(crate) fn upstream(client: HttpUpstream, address: SocketAddr) -> UpstreamService<HttpUpstream> {
    client.at(&format!("http://{address}/mcp")).unwrap()
}

pub(crate) fn message(text: &str) -> Request<Message> {
    Request::post("/mcp").body(Message::parse(text.to_owned()).unwrap()).unwrap()
}

/// Asks for the list of tools.
pub(crate) async fn ask<S>(service: &S) -> Response<Reply>
where
    S: Service<Request<Message>, Response = Response<Reply>, Error = Infallible> + Clone,
{
    let asked = service.clone().oneshot(message(LIST));
    let Ok(Ok(response)) = tokio::time::timeout(SOON, asked).await else { panic!("no answer") };
    response
}

pub(crate) async fn next(stream: &mut ReplyStream) -> Option<Event> {
    let next =
        std::future::poll_fn(|cx: &mut Context<'_>| -> Poll<_> { Pin::new(&mut *stream).poll_next(cx) });
    tokio::time::timeout(SOON, next).await.expect("nothing comes")
}

pub(crate) fn stream(response: Response<Reply>) -> ReplyStream {
    match response.into_body() {
        Reply::Stream(stream) => stream,
        other => panic!("is no stream: {other:?}"),
    }
}

/// Status and code of a refusal, and what it says.
#[track_caller]
pub(crate) fn refused(response: &Response<Reply>) -> (u16, i64, String) {
    let answer = response.body().answer().expect("is an answer");
    assert_eq!(answer.id().map(RequestId::text), Some("7"));
    let error = answer.outcome().expect_err("is an error");
    (response.status().as_u16(), error.code, error.message.to_string())
}

/// Code and message of the error at the end of a stream.
#[track_caller]
pub(crate) fn ended_with(event: Option<Event>) -> (i64, String) {
    let Some(Event::Answer(answer)) = event else { panic!("is no answer: {event:?}") };
    assert_eq!(answer.id().map(RequestId::text), Some("7"));
    let error = answer.outcome().expect_err("is an error");
    (error.code, error.message.to_string())
}

/// The id of the request that has come.
pub(crate) async fn id_of(request: Request<Incoming>) -> Value {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<Value>(&body).unwrap()["id"].clone()
}
