//! Reads and parses the body of a request once, and frames the reply as JSON or as Server-Sent Events.
//!
//! This is the border between HTTP and MCP: above it a request has an unread body, below it the body is the parsed
//! [`Message`], and the response's is a [`Reply`]. URI, headers and extensions are the same on both sides.
//!
//! # Rules
//! Sections are those of `basic/transports/streamable-http`.
//! 1. Messages come by POST; every other HTTP method is refused ("Sending Messages", "Backward Compatibility").
//!    The refusal of HEAD has no body, as no answer to HEAD has one (RFC 9110, section 9.3.2).
//! 2. A body is one request or one notification, and no longer than allowed ("Sending Messages"). What is read of
//!    it counts, not what `Content-Length` says. The [module `message`](crate::message#rules) has the rest.
//! 3. A notification is answered with 202 and no body, or with an error status and an error without `id`. Nobody
//!    waits for its result ("Sending Messages").
//! 4. A request is answered with one JSON object, or with an event stream if its reply is a [`Reply::Stream`]
//!    ("Sending Messages"). The answer carries the request's id, whatever the inner service wrote there.
//! 5. A client that does not accept event streams gets the answer of a stream as JSON, and not its notifications.
//!    One that accepts nothing else gets a result as a stream of one event. Errors with an error status are
//!    always JSON.
//! 6. An event stream has `X-Accel-Buffering: no` ("Receiving Messages") and `Cache-Control: no-store`, no
//!    `Content-Length`, a comment when it has been idle for some time, and ends after the answer. A stream that
//!    the inner service breaks off is broken off.
//! 7. When the client goes away, the work stops ("Cancellation"): the inner service's future or the
//!    [`ReplyStream`](crate::message::ReplyStream) is dropped.
//! 8. The service never fails: an error of the inner service, also of its `poll_ready`, becomes an answer. What
//!    went wrong is logged, not told.
//!
//! # Rejections
//! In this order. Those above the line come before the body is parsed and have no `id`.
//!
//! | fault | HTTP | code |
//! |---|---|---|
//! | `Content-Length` above the limit | 413 | 413 |
//! | not POST (adds `Allow: POST`) | 405 | 405 |
//! | `Content-Type` missing, repeated, or not `application/json`; `Content-Encoding` other than `identity` | 415 | 415 |
//! | `Accept` excludes both `application/json` and `text/event-stream` | 406 | 406 |
//! | more bytes than the limit | 413 | 413 |
//! | body broken off, not UTF-8, not JSON | 400 | -32700 |
//! |||
//! | not one request or notification | 400 | -32600 |
//! | `_meta` not an object | 400 | -32602 |
//! | `subscriptions/listen`, and `Accept` excludes `text/event-stream` | 406 | 406 |
//! | inner service: [`Elapsed`](tower::timeout::error::Elapsed), of [`tower::timeout`] | 504 | 504 |
//! | inner service: [`Overloaded`](tower::load_shed::error::Overloaded), of [`tower::load_shed`] | 503 | 503 |
//! | inner service: any other error, no answer, `Accepted` for a request | 500 | -32603 |
//!
//! # Order
//! Sits below everything that needs headers only (`OriginLayer`, `AuthLayer`, tower-http's layers), and above
//! everything that needs the message. Reads the body and the headers `Content-Length`, `Content-Type`,
//! `Content-Encoding` and `Accept`; leaves a [`Rejection`](crate::rejection::Rejection) in the extensions of what
//! it refuses.
//!
//! The inner service is ready, and may hold a permit, while the body is still being read: to keep slow clients
//! from holding permits, put a limit on the time of reading above, such as tower-http's `RequestBodyTimeoutLayer`.
//! Panics are not caught: tower-http's `CatchPanicLayer` does that, above.
//!
//! # Example
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use http_body_util::BodyExt;
//! use mcp_layers::endpoint::EndpointLayer;
//! use mcp_layers::message::{Answer, Message, RawObject, Reply};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Answers every request with the name of its method.
//! let inner = service_fn(|request: Request<Message>| async move {
//!     let message = request.body();
//!     let mut result = RawObject::new();
//!     result.set("method", message.method()).expect("a string is JSON");
//!     Ok::<_, Infallible>(Response::new(Reply::Answer(Answer::result(message.id().cloned(), result))))
//! });
//! let service = EndpointLayer::new().with_max_body_bytes(64 * 1024).layer(inner);
//!
//! let body = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#;
//! let request = Request::post("/mcp").header("content-type", "application/json").body(body.to_owned())?;
//! let response = service.clone().oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! assert_eq!(response.headers()["content-type"], "application/json");
//! let body = response.into_body().collect().await.unwrap().to_bytes();
//! assert_eq!(body, r#"{"jsonrpc":"2.0","id":"a","result":{"method":"tools/list"}}"#);
//!
//! let response = service.oneshot(Request::get("/mcp").body(String::new())?).await?;
//! assert_eq!(response.status(), 405);
//! assert_eq!(response.headers()["allow"], "POST");
//! # Ok(())
//! # }
//! ```

mod frame;
mod future;
mod negotiate;
mod stream;

use std::convert::Infallible;
use std::fmt;
use std::mem;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use tower::{Layer, Service};

pub use self::future::EndpointFuture;

use crate::body::{Body, BoxError};
use crate::message::{Message, Reply};

/// Turns a service of messages into a service of HTTP requests; see the [module](self).
#[derive(Clone, Debug)]
#[must_use]
pub struct EndpointLayer {
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    max_body_bytes: usize,
    /// Zero for never.
    keep_alive: Duration,
}

impl EndpointLayer {
    /// A layer with the defaults.
    pub const fn new() -> Self {
        let settings = Settings { max_body_bytes: 4 * 1024 * 1024, keep_alive: Duration::from_secs(15) };
        Self { settings }
    }

    /// Refuses bodies that are longer than `bytes` with 413. A body of exactly that length passes.
    ///
    /// Defaults to 4 MiB.
    pub const fn with_max_body_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_body_bytes = bytes;
        self
    }

    /// Sends a comment on an event stream that has been idle for `period`, which keeps intermediaries from
    /// closing it. [`Duration::ZERO`] sends none.
    ///
    /// The comments need a Tokio runtime with its timer enabled; without one, turn them off.
    ///
    /// Defaults to 15 seconds.
    pub const fn with_keep_alive(mut self, period: Duration) -> Self {
        self.settings.keep_alive = period;
        self
    }
}

impl Default for EndpointLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for EndpointLayer {
    type Service = EndpointService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        EndpointService { inner, failure: None, settings: self.settings }
    }
}

/// The service of an [`EndpointLayer`].
pub struct EndpointService<S> {
    inner: S,
    /// Why `inner` will not become ready. The next request is answered with it, and takes `inner` with it.
    failure: Option<BoxError>,
    settings: Settings,
}

impl<S: Clone> Clone for EndpointService<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), failure: None, settings: self.settings }
    }
}

impl<S: fmt::Debug> fmt::Debug for EndpointService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointService")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S, B> Service<Request<B>> for EndpointService<S>
where
    S: Service<Request<Message>, Response = Response<Reply>> + Clone,
    S::Error: Into<BoxError>,
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = EndpointFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // A service that has failed is not polled again.
        if self.failure.is_none() {
            self.failure = ready!(self.inner.poll_ready(cx)).err().map(Into::into);
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that was polled ready is the one to call; its clone is not ready. It is taken even if the
        // request is refused at once, because it may hold a permit that others wait for.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let inner = match self.failure.take() {
            None => Ok(inner),
            Some(error) => Err(error),
        };
        let (parts, body) = request.into_parts();
        let accepts = match negotiate::check(&parts, &body.size_hint(), self.settings.max_body_bytes) {
            Ok(accepts) => accepts,
            Err(rejection) => return EndpointFuture::refused(rejection, &parts.method),
        };
        EndpointFuture::reading(inner, parts, body, accepts, self.settings)
    }
}

#[cfg(test)]
mod tests;
