use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::*;
use crate::message::Event;
use crate::rejection::Rejection;

mod credentials;
mod failures;
mod replies;
mod requests;
mod routes;
mod streams;

/// A body of frames, each of which is there; it may end with an error.
#[derive(Debug, Default)]
struct Frames(VecDeque<Result<Bytes, &'static str>>);

impl Frames {
    fn of<T: Into<Bytes>>(frames: impl IntoIterator<Item = T>) -> Self {
        Self(frames.into_iter().map(|frame| Ok(frame.into())).collect())
    }

    fn broken(mut self) -> Self {
        self.0.push_back(Err("the connection is gone"));
        self
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.0.pop_front().map(|frame| frame.map(Frame::data).map_err(Into::into)))
    }
}

/// A request that the upstream has received.
#[derive(Clone, Debug)]
struct Received {
    head: http::request::Parts,
    body: Bytes,
}

impl Received {
    fn line(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.headers.get_all(name).into_iter();
        let line = lines.next().map(|line| line.to_str().expect("is ASCII"));
        assert!(lines.next().is_none(), "{name} comes twice");
        line
    }
}

/// What an upstream has received.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Received>>>);

impl Seen {
    fn all(&self) -> Vec<Received> {
        self.0.lock().unwrap().clone()
    }

    #[track_caller]
    fn one(&self) -> Received {
        let all = self.all();
        assert_eq!(all.len(), 1);
        all[0].clone()
    }
}

/// An upstream that says the same to everybody.
async fn ask<B>(
    layer: &UpstreamLayer,
    request: Request<Message>,
    response: impl Fn() -> Response<B> + Clone + Send,
) -> (Response<Reply>, Seen)
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let seen = Seen::default();
    let service = layer.layer(service_fn({
        let seen = seen.clone();
        move |request: Request<Body>| {
            let (seen, response) = (seen.clone(), response.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("is whole").to_bytes();
                seen.0.lock().unwrap().push(Received { head, body });
                Ok::<_, Infallible>(response())
            }
        }
    }));
    let response = service.oneshot(request).await.unwrap_or_else(|never| match never {});
    (response, seen)
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"n":1.0}}"#;

fn message(text: &str) -> Request<Message> {
    Request::post("/mcp").body(Message::parse(text.to_owned()).expect("a message")).expect("a request")
}

fn reply(status: u16, kind: &str, body: Frames) -> Response<Frames> {
    let mut response = Response::builder().status(status);
    if !kind.is_empty() {
        response = response.header("content-type", kind);
    }
    response.body(body).unwrap()
}

/// What the caller gets: status, headers, and the messages in order.
#[derive(Debug)]
struct Got {
    status: u16,
    headers: HeaderMap,
    rejected: Option<i64>,
    streamed: bool,
    messages: Vec<Value>,
}

async fn got(response: Response<Reply>) -> Got {
    let (head, reply) = response.into_parts();
    let streamed = matches!(reply, Reply::Stream(_));
    let parse = |text: &str| serde_json::from_str(text).expect("JSON");
    let messages = match reply {
        Reply::Accepted => Vec::new(),
        Reply::Answer(answer) => vec![parse(&answer.to_string())],
        Reply::Stream(stream) => events(stream).await.iter().map(|event| parse(&written(event))).collect(),
    };
    Got {
        status: head.status.as_u16(),
        headers: head.headers,
        rejected: head.extensions.get::<Rejection>().map(Rejection::code),
        streamed,
        messages,
    }
}

fn written(event: &Event) -> String {
    match event {
        Event::Notification(message) => String::from_utf8(message.bytes().to_vec()).expect("UTF-8"),
        Event::Answer(answer) => answer.to_string(),
    }
}

async fn events(mut stream: crate::message::ReplyStream) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) =
        std::future::poll_fn(|cx| futures_core::Stream::poll_next(Pin::new(&mut stream), cx)).await
    {
        events.push(event);
    }
    events
}

/// Asks with `text`, and gives what comes of `response`.
async fn answered(text: &str, response: impl Fn() -> Response<Frames> + Clone + Send) -> Got {
    let (response, seen) = ask(&UpstreamLayer::new(), message(text), response).await;
    seen.one();
    got(response).await
}

/// The refusal of the request with id 7, whose status and code are the same.
#[track_caller]
fn assert_refused(got: &Got, status: u16, message: &str) {
    let expected = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": status, "message": message}});
    assert_eq!((got.status, got.rejected), (status, Some(status.into())), "{got:?}");
    assert_eq!(got.messages, [expected]);
    assert!(!got.streamed);
}

fn name(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

fn value(value: &'static str) -> HeaderValue {
    HeaderValue::from_static(value)
}
