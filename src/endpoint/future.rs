//! One request on its way: reading, the inner service, the answer.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http::{Method, Request, Response, StatusCode, request, response};
use pin_project::pin_project;
use tower::Service;

use super::Settings;
use super::frame::{Call, Framed};
use super::negotiate::{Accepts, too_large};
use crate::body::{Body, BoxError, Collect, Failure};
use crate::message::{Event, Message, Reply, ReplyStream, RequestId};
use crate::protocol::method;
use crate::rejection::Rejection;

/// The future of an [`EndpointService`](super::EndpointService).
#[pin_project]
pub struct EndpointFuture<S, B>
where
    S: Service<Request<Message>>,
{
    #[pin]
    state: State<S, B, S::Future>,
}

#[pin_project(project = StateProject)]
#[allow(clippy::large_enum_variant, reason = "a box for each request would cost more than the room")]
enum State<S, B, F> {
    Reading {
        #[pin]
        body: B,
        collect: Collect,
        /// The service that was polled ready, or why there is none.
        inner: Result<S, BoxError>,
        parts: Option<request::Parts>,
        accepts: Accepts,
        settings: Settings,
    },
    Calling {
        #[pin]
        future: F,
        call: Call,
    },
    Waiting {
        stream: ReplyStream,
        parts: Option<response::Parts>,
        call: Call,
    },
    Done {
        response: Option<Response<Body>>,
    },
}

impl<S, B> EndpointFuture<S, B>
where
    S: Service<Request<Message>>,
{
    /// A request whose body is not worth reading.
    pub(super) fn refused(rejection: Rejection, method: &Method) -> Self {
        let mut response: Response<Body> = rejection.into_http_response(None);
        if *method == Method::HEAD {
            // hyper leaves such a body out over HTTP/1 only; over HTTP/2 clients take it for a protocol error.
            *response.body_mut() = Body::empty();
        }
        Self { state: State::Done { response: Some(response) } }
    }

    pub(super) fn reading(
        inner: Result<S, BoxError>,
        parts: request::Parts,
        body: B,
        accepts: Accepts,
        settings: Settings,
    ) -> Self {
        let collect = Collect::new(settings.max_body_bytes);
        Self { state: State::Reading { body, collect, inner, parts: Some(parts), accepts, settings } }
    }
}

impl<S, B> fmt::Debug for EndpointFuture<S, B>
where
    S: Service<Request<Message>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointFuture").finish_non_exhaustive()
    }
}

impl<S, B> Future for EndpointFuture<S, B>
where
    S: Service<Request<Message>, Response = Response<Reply>>,
    S::Error: Into<BoxError>,
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<Body>, Infallible>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const COMPLETED: &str = "polled after completion";
        let mut state = self.project().state;
        let response = loop {
            let next = match state.as_mut().project() {
                StateProject::Reading { body, collect, inner, parts, accepts, settings } => {
                    let read = ready!(collect.poll(body, cx));
                    match admit(read, *accepts, *settings) {
                        Err((rejection, id)) => break rejection.into_http_response(id),
                        Ok((message, call)) => match inner {
                            Err(error) => break call.failed(error),
                            Ok(service) => {
                                let parts = parts.take().expect(COMPLETED);
                                let future = service.call(Request::from_parts(parts, message));
                                State::Calling { future, call }
                            }
                        },
                    }
                }
                StateProject::Calling { future, call } => match ready!(future.poll(cx)) {
                    Err(error) => break call.failed(&error.into()),
                    Ok(response) => match call.frame(response) {
                        Framed::Done(response) => break response,
                        Framed::Wait(parts, stream) => {
                            let call = call.clone();
                            State::Waiting { stream, parts: Some(parts), call }
                        }
                    },
                },
                StateProject::Waiting { stream, parts, call } => {
                    match ready!(Pin::new(stream).poll_next(cx)) {
                        Some(Event::Notification(_)) => continue,
                        Some(Event::Answer(answer)) => {
                            break call.json(parts.take().expect(COMPLETED), answer);
                        }
                        None => break call.broken_off(),
                    }
                }
                StateProject::Done { response } => break response.take().expect(COMPLETED),
            };
            state.set(next);
        };
        // The inner service's future ends with the work, not when whoever holds this one drops it.
        state.set(State::Done { response: None });
        Poll::Ready(Ok(response))
    }
}

/// A refusal, and the id it goes to.
type Refusal = (Rejection, Option<RequestId>);

/// Parses what has been read, or refuses it.
fn admit(
    read: Result<Bytes, Failure>,
    accepts: Accepts,
    settings: Settings,
) -> Result<(Message, Call), Refusal> {
    let body = read.map_err(|failure| (refuse_unread(&failure, settings.max_body_bytes), None))?;
    let message = Message::parse(body).map_err(|error| (Rejection::from(&error), error.id().cloned()))?;
    let call = Call { id: message.id().cloned(), accepts, keep_alive: settings.keep_alive };
    if !accepts.sse && message.method() == method::SUBSCRIPTIONS_LISTEN {
        let rejection = Rejection::http(
            StatusCode::NOT_ACCEPTABLE,
            "`subscriptions/listen` is answered with an event stream: \
             send the header `Accept: application/json, text/event-stream`",
        );
        return Err((rejection, call.id));
    }
    Ok((message, call))
}

fn refuse_unread(failure: &Failure, max_body_bytes: usize) -> Rejection {
    match failure {
        Failure::TooLarge => too_large(max_body_bytes),
        Failure::Broken(error) => {
            tracing::debug!(%error, "a request body could not be read");
            Rejection::parse_error("the body could not be read to its end")
        }
    }
}
