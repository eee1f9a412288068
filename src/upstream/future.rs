//! One request on its way to the upstream and back.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, response};
use pin_project::pin_project;
use tower::Service;

use super::Settings;
use super::credentials::Asking;
use super::fault::{self, Fault};
use super::read::{Call, Shape};
use super::stream::EventStream;
use crate::body::{Body, BoxError, Collect, Failure};
use crate::message::{Message, Reply, ReplyStream, RequestId};
use crate::rejection::Rejection;

/// The future of an [`UpstreamService`](super::UpstreamService).
#[pin_project]
pub struct UpstreamFuture<S, B>
where
    S: Service<Request<Body>>,
{
    #[pin]
    state: State<S, S::Future, B>,
}

#[pin_project(project = StateProject)]
#[allow(clippy::large_enum_variant, reason = "a box for each request would cost more than the room")]
enum State<S, F, B> {
    /// Credentials are being asked for.
    Asking {
        asking: Asking,
        /// The service that was polled ready.
        inner: S,
        call: Call,
    },
    Calling {
        #[pin]
        future: F,
        call: Call,
    },
    Reading {
        #[pin]
        body: B,
        collect: Collect,
        head: Option<response::Parts>,
        call: Call,
    },
    /// `None` once the response has been taken.
    Done(Option<Response<Reply>>),
}

impl<S, B> UpstreamFuture<S, B>
where
    S: Service<Request<Body>>,
{
    pub(super) fn refused(rejection: Rejection, id: Option<RequestId>) -> Self {
        Self { state: State::Done(Some(rejection.into_response(id))) }
    }

    pub(super) fn asking(asking: Asking, inner: S, call: Call) -> Self {
        Self { state: State::Asking { asking, inner, call } }
    }

    /// Sends the request; no credentials have to be waited for.
    pub(super) fn calling(inner: &mut S, request: Request<Message>, call: Call) -> Self {
        Self { state: send(inner, request, HeaderMap::new(), call) }
    }
}

fn send<S, B>(
    inner: &mut S,
    request: Request<Message>,
    asked: HeaderMap,
    call: Call,
) -> State<S, S::Future, B>
where
    S: Service<Request<Body>>,
{
    match call.settings.outgoing(request, asked) {
        Ok(request) => State::Calling { future: inner.call(request), call },
        Err(rejection) => State::Done(Some(call.refused(rejection))),
    }
}

impl Settings {
    /// The HTTP request for a message.
    pub(super) fn outgoing(
        &self,
        request: Request<Message>,
        asked: HeaderMap,
    ) -> Result<Request<Body>, Rejection> {
        let (mut head, message) = request.into_parts();
        let bytes = message.bytes();
        let mut headers = super::headers::inbound(&head.headers, &self.request_headers);
        self.identity.write(&mut headers, head.extensions.get())?;
        super::headers::add_credentials(&mut headers, asked);
        super::headers::mirror(&mut headers, &message, &*self.catalog, &head.extensions);
        super::headers::describe_body(&mut headers, bytes.len());
        head.method = http::Method::POST;
        head.version = http::Version::HTTP_11;
        self.target.apply(&mut head.uri, &mut headers);
        head.headers = headers;
        Ok(Request::from_parts(head, Body::from(bytes)))
    }
}

impl<S, B> Future for UpstreamFuture<S, B>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<Reply>, Infallible>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const COMPLETED: &str = "polled after completion";
        let mut state = self.project().state;
        let response = loop {
            let next = match state.as_mut().project() {
                StateProject::Asking { asking, inner, call } => {
                    let (request, headers) = ready!(asking.as_mut().poll(cx));
                    match headers {
                        Ok(headers) => send(inner, request, headers, call.clone()),
                        Err(rejection) => break call.refused(rejection),
                    }
                }
                StateProject::Calling { future, call } => match ready!(future.poll(cx)) {
                    Err(error) => break call.refused(fault::unreachable(&error.into(), call.id.as_ref())),
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        match call.shape(&head) {
                            Shape::Refused(rejection) => break call.refused(rejection),
                            Shape::Nothing => {
                                break call.respond(head, StatusCode::ACCEPTED, Reply::Accepted);
                            }
                            Shape::Events => break call.events(head, body),
                            Shape::Json => {
                                let max = call.settings.max_message_bytes;
                                let call = call.clone();
                                if body.size_hint().lower() > max as u64 {
                                    break call.json(head, Err(Fault::TooLong(max)));
                                }
                                State::Reading { body, collect: Collect::new(max), head: Some(head), call }
                            }
                        }
                    }
                },
                StateProject::Reading { body, collect, head, call } => {
                    let read = ready!(collect.poll(body, cx)).map_err(|failure| match failure {
                        Failure::TooLarge => Fault::TooLong(call.settings.max_message_bytes),
                        Failure::Broken(error) => Fault::BrokenOff(Some(error)),
                    });
                    break call.json(head.take().expect(COMPLETED), read);
                }
                StateProject::Done(response) => break response.take().expect(COMPLETED),
            };
            state.set(next);
        };
        // The work behind ends now, not when whoever holds this future drops it.
        state.set(State::Done(None));
        Poll::Ready(Ok(response))
    }
}

impl Call {
    fn events<B>(&self, head: response::Parts, body: B) -> Response<Reply>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let stream = ReplyStream::new(EventStream::new(body, self.clone()));
        self.respond(head, StatusCode::OK, Reply::Stream(stream))
    }
}

impl<S, B> fmt::Debug for UpstreamFuture<S, B>
where
    S: Service<Request<Body>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamFuture").finish_non_exhaustive()
    }
}
