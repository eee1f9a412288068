//! What the tests of the endpoint share: an inner service that can be watched, and bodies that misbehave.

mod failures;
mod refusals;
mod replies;
mod streams;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_core::Stream;
use http::{Request, Response, response};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::{Layer, Service, ServiceExt};

use super::*;
use crate::message::{Answer, Event, RawObject, ReplyStream, RequestId};

const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
const LISTEN: &str = r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen"}"#;

/// An inner service that answers with what a function makes of the request, counts its calls, and fails the
/// test if it is called without having been polled ready.
struct Inner<F> {
    calls: Arc<AtomicUsize>,
    answer: F,
    ready: bool,
}

impl<F> Inner<F> {
    fn new(answer: F) -> Self {
        Self { calls: Arc::default(), answer, ready: false }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl<F: Clone> Clone for Inner<F> {
    fn clone(&self) -> Self {
        Self { calls: Arc::clone(&self.calls), answer: self.answer.clone(), ready: false }
    }
}

impl<F, Fut> Service<Request<Message>> for Inner<F>
where
    F: FnMut(Request<Message>) -> Fut,
    Fut: Future<Output = Result<Response<Reply>, BoxError>>,
{
    type Response = Response<Reply>;
    type Error = BoxError;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> Fut {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.answer)(request)
    }
}

/// What an inner service that is done at once returns.
type Done = std::future::Ready<Result<Response<Reply>, BoxError>>;

/// A service that answers every request with the same reply.
fn replies(
    reply: impl Fn() -> Response<Reply> + Clone,
) -> Inner<impl FnMut(Request<Message>) -> Done + Clone> {
    Inner::new(move |_| std::future::ready(Ok(reply())))
}

/// A service that answers every request with `{}`.
fn empty() -> Inner<impl FnMut(Request<Message>) -> Done + Clone> {
    Inner::new(|request: Request<Message>| {
        let id = request.body().id().cloned();
        std::future::ready(Ok(Response::new(Reply::Answer(Answer::result(id, RawObject::new())))))
    })
}

fn result(json: &'static str) -> Answer {
    Answer::result(Some(7.into()), RawObject::parse(json).unwrap())
}

/// A good request with this body.
fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/mcp").header("content-type", "application/json").body(Full::from(body.into())).unwrap()
}

fn with<B>(mut request: Request<B>, name: &'static str, value: &'static str) -> Request<B> {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}

/// The response of the service, its body read to the end.
async fn send<S, B>(service: S, request: Request<B>) -> (response::Parts, String)
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
{
    let (parts, body) = service.oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts, String::from_utf8(body.into()).unwrap())
}

/// Waits until a service is ready.
async fn ready<S>(service: &mut S) -> &mut S
where
    S: Service<Request<Full<Bytes>>, Error = Infallible>,
{
    service.ready().await.unwrap()
}

/// Checks all that a refusal has to be. `id` is the JSON text of the id, if it has one.
#[track_caller]
fn assert_error(parts: &response::Parts, body: &str, status: u16, code: i64, id: Option<&str>) {
    assert_eq!(parts.status, status, "{body}");
    assert_eq!(parts.headers["content-type"], "application/json");
    assert_eq!(parts.headers.get_all("content-type").iter().count(), 1);
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["jsonrpc"], "2.0");
    assert_eq!(body["error"]["code"], code, "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|message| message.len() > 10), "{body}");
    assert_eq!(body.get("id").map(Value::to_string).as_deref(), id, "{body}");
    assert!(body.get("result").is_none());
}

/// Sends a request that has to be refused before the inner service sees it.
async fn assert_refused<B>(
    layer: EndpointLayer,
    request: Request<B>,
    status: u16,
    code: i64,
    id: Option<&str>,
) -> response::Parts
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    let inner = empty();
    let (parts, body) = send(layer.layer(inner.clone()), request).await;
    assert_error(&parts, &body, status, code, id);
    assert_eq!(inner.calls(), 0, "the inner service was called");
    let rejection = parts.extensions.get::<crate::rejection::Rejection>().unwrap();
    assert_eq!((rejection.status().as_u16(), rejection.code()), (status, code));
    parts
}

/// A body of the given frames, which knows nothing of its length.
#[derive(Default)]
struct Frames {
    frames: VecDeque<Result<Frame<Bytes>, BoxError>>,
    polled: Arc<AtomicUsize>,
}

impl Frames {
    fn new(frames: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        let frames = frames.into_iter().map(|frame| Ok(Frame::data(frame.into()))).collect();
        Self { frames, polled: Arc::default() }
    }

    fn then(mut self, frame: Result<Frame<Bytes>, BoxError>) -> Self {
        self.frames.push_back(frame);
        self
    }

    fn into_post(self) -> Request<Self> {
        post("").map(|_| self)
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.polled.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(self.frames.pop_front())
    }
}

/// A stream of events that are there, followed by nothing: either its end, or silence.
struct Events {
    there: VecDeque<Event>,
    ends: bool,
    /// Whoever holds the other end sees when this is dropped.
    _guard: Option<Arc<()>>,
}

impl Events {
    fn new(events: impl IntoIterator<Item = Event>) -> Self {
        Self { there: events.into_iter().collect(), ends: true, _guard: None }
    }

    fn silent(guard: Arc<()>) -> Self {
        Self { there: VecDeque::new(), ends: false, _guard: Some(guard) }
    }

    fn into_reply(self) -> Response<Reply> {
        Response::new(Reply::Stream(ReplyStream::new(self)))
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
        match self.there.pop_front() {
            None if !self.ends => Poll::Pending,
            event => Poll::Ready(event),
        }
    }
}

fn notification(text: &'static str) -> Event {
    Event::Notification(Message::parse(text).unwrap())
}

/// Polls a future once, with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The next frame of a body as text.
async fn next(body: &mut Body) -> Option<String> {
    let frame = poll_fn(|cx| pin!(&mut *body).poll_frame(cx)).await?;
    Some(String::from_utf8(frame.unwrap().into_data().unwrap().into()).unwrap())
}
