//! Turns what the inner service said into an HTTP response.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, response};
use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;

use super::negotiate::Accepts;
use super::stream::{EventBody, Once};
use crate::body::{Body, BoxError};
use crate::cause::{Chain, is_caused_by};
use crate::message::{Answer, Event, Reply, ReplyStream, RequestId};
use crate::rejection::Rejection;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO: HeaderValue = HeaderValue::from_static("no");

/// What is remembered of a request while the inner service works on it.
///
/// The message itself is not: a second handle to it would make each edit copy it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// `None` for a notification.
    pub(super) id: Option<RequestId>,
    pub(super) accepts: Accepts,
    pub(super) keep_alive: Duration,
}

/// How a reply goes out.
pub(super) enum Framed {
    Done(Response<Body>),
    /// The client takes no event stream: its answer has to be waited for.
    Wait(response::Parts, ReplyStream),
}

impl Call {
    /// Frames the reply of the inner service.
    pub(super) fn frame(&self, response: Response<Reply>) -> Framed {
        let (mut parts, reply) = response.into_parts();
        remove_body_headers(&mut parts.headers);
        Framed::Done(match reply {
            Reply::Answer(answer) if self.id.is_none() && answer.outcome().is_err() => {
                // What a notification cannot be accepted for has to show in the status.
                if parts.status.is_success() {
                    parts.status = StatusCode::BAD_REQUEST;
                }
                self.json(parts, answer)
            }
            // Nobody waits for what else there is: dropping a stream ends the work.
            _ if self.id.is_none() => accepted(parts),
            Reply::Accepted => {
                tracing::error!(id = ?self.id, "the inner service has accepted a request like a notification");
                self.refuse(unanswered())
            }
            Reply::Answer(answer) => {
                let only_stream = self.accepts.sse && !self.accepts.json;
                if only_stream && parts.status == StatusCode::OK && answer.outcome().is_ok() {
                    self.stream(parts, ReplyStream::new(Once(Some(Event::Answer(answer)))))
                } else {
                    self.json(parts, answer)
                }
            }
            Reply::Stream(stream) if self.accepts.sse => self.stream(parts, stream),
            Reply::Stream(stream) => return Framed::Wait(parts, stream),
        })
    }

    /// One JSON object. `parts` have no headers about a body.
    pub(super) fn json(&self, mut parts: response::Parts, mut answer: Answer) -> Response<Body> {
        correlate(&mut answer, self.id.as_ref());
        parts.headers.insert(header::CONTENT_TYPE, JSON);
        // In pieces, so that what lies in a cache is not copied for each caller.
        Response::from_parts(parts, Body::from(answer.into_chunks()))
    }

    fn stream(&self, mut parts: response::Parts, stream: ReplyStream) -> Response<Body> {
        parts.headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
        parts.headers.insert(header::CACHE_CONTROL, NO_STORE);
        parts.headers.insert(X_ACCEL_BUFFERING, NO);
        Response::from_parts(parts, Body::new(EventBody::new(stream, self.id.clone(), self.keep_alive)))
    }

    /// The answer if a stream that is waited for ends without one.
    pub(super) fn broken_off(&self) -> Response<Body> {
        tracing::error!(id = ?self.id, "the reply of the inner service has ended without an answer");
        self.refuse(unanswered())
    }

    /// The answer if the inner service fails. What failed is logged, and told only where it is no secret.
    pub(super) fn failed(&self, error: &BoxError) -> Response<Body> {
        let rejection = if is_caused_by::<Elapsed>(&**error) {
            tracing::warn!(id = ?self.id, "a request has run into the timeout that is set by `tower::timeout`");
            Rejection::gateway_timeout()
        } else if is_caused_by::<Overloaded>(&**error) {
            tracing::warn!(id = ?self.id, "a request has been shed by `tower::load_shed`");
            Rejection::overloaded()
        } else {
            tracing::error!(id = ?self.id, error = %Chain(&**error), "the inner service has failed");
            Rejection::internal("internal error; the server's log has the details")
        };
        self.refuse(rejection)
    }

    pub(super) fn refuse(&self, rejection: Rejection) -> Response<Body> {
        rejection.into_http_response(self.id.clone())
    }
}

/// Has `answer` answer the request `id`, which is the only one that this response can be for.
pub(super) fn correlate(answer: &mut Answer, id: Option<&RequestId>) {
    if answer.id() != id {
        tracing::debug!(expected = ?id, found = ?answer.id(), "an answer had another id than its request");
        answer.set_id(id.cloned());
    }
}

fn unanswered() -> Rejection {
    Rejection::internal("the server did not answer the request; its log has the details")
}

/// The response to a notification. `parts` have no headers about a body.
fn accepted(mut parts: response::Parts) -> Response<Body> {
    if parts.status == StatusCode::OK {
        parts.status = StatusCode::ACCEPTED;
    }
    Response::from_parts(parts, Body::empty())
}

/// Removes what the inner service may have said about a body that is only written now.
fn remove_body_headers(headers: &mut HeaderMap) {
    if headers.is_empty() {
        return;
    }
    for name in [
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::TRANSFER_ENCODING,
        header::CONTENT_ENCODING,
        header::ETAG,
    ] {
        headers.remove(name);
    }
}
