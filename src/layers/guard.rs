//! Refuses requests by their head, before anybody reads a body.
//!
//! The Tower part of all header guards, written once. It works for every request body, and for every response body
//! that can be made from bytes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use pin_project::pin_project;
use tower::{Layer, Service};

use crate::rejection::Rejection;

/// A decision about the head of a request.
///
/// ```
/// use bytes::Bytes;
/// use http::request::Parts;
/// use http::{Request, Response, StatusCode};
/// use mcp_layers::layers::guard::{Guard, GuardLayer};
/// use mcp_layers::rejection::Rejection;
/// use tower::{Layer, Service, service_fn};
///
/// /// Lets requests through that come over TLS.
/// struct Encrypted;
///
/// impl Guard for Encrypted {
///     fn check(&self, head: &mut Parts) -> Result<(), Rejection> {
///         match head.headers.get("x-forwarded-proto") {
///             Some(scheme) if scheme == "https" => Ok(()),
///             _ => Err(Rejection::http(StatusCode::FORBIDDEN, "use https")),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::convert::Infallible> {
/// let inner = service_fn(async |_: Request<()>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Bytes::from("inside")))
/// });
/// let mut service = GuardLayer::from_guard(Encrypted).layer(inner);
/// assert_eq!(service.call(Request::new(())).await?.status(), StatusCode::FORBIDDEN);
/// # Ok(())
/// # }
/// ```
pub trait Guard {
    /// Decides about a request: lets it pass, perhaps with a changed head, or refuses it.
    ///
    /// # Errors
    /// The refusal. The inner service is not called then.
    fn check(&self, head: &mut Parts) -> Result<(), Rejection>;
}

/// A Tower layer that applies a [`Guard`].
pub struct GuardLayer<G> {
    guard: Arc<G>,
}

impl<G> GuardLayer<G> {
    /// Applies `guard`.
    #[must_use]
    pub fn from_guard(guard: G) -> Self {
        Self { guard: Arc::new(guard) }
    }

    /// The guard.
    #[must_use]
    pub fn guard(&self) -> &G {
        &self.guard
    }

    /// Changes the guard while the layer is built.
    pub(crate) fn map_guard(self, change: impl FnOnce(&mut G)) -> Self
    where
        G: Clone,
    {
        let mut guard = Arc::unwrap_or_clone(self.guard);
        change(&mut guard);
        Self::from_guard(guard)
    }
}

impl<G> Clone for GuardLayer<G> {
    fn clone(&self) -> Self {
        Self { guard: Arc::clone(&self.guard) }
    }
}

impl<G: fmt::Debug> fmt::Debug for GuardLayer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardLayer").field(&self.guard).finish()
    }
}

impl<G, S> Layer<S> for GuardLayer<G> {
    type Service = GuardService<G, S>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService { guard: Arc::clone(&self.guard), inner }
    }
}

/// The service of a [`GuardLayer`].
#[derive(Debug)]
pub struct GuardService<G, S> {
    guard: Arc<G>,
    inner: S,
}

impl<G, S: Clone> Clone for GuardService<G, S> {
    fn clone(&self) -> Self {
        Self { guard: Arc::clone(&self.guard), inner: self.inner.clone() }
    }
}

impl<G, S, B, ResBody> Service<Request<B>> for GuardService<G, S>
where
    G: Guard,
    S: Service<Request<B>, Response = Response<ResBody>>,
    ResBody: From<Bytes>,
{
    type Response = Response<ResBody>;
    type Error = S::Error;
    type Future = GuardFuture<S::Future, ResBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        match self.guard.check(&mut head) {
            Ok(()) => GuardFuture::passed(self.inner.call(Request::from_parts(head, body))),
            Err(rejection) => GuardFuture::refused(rejection.into_http_response(None)),
        }
    }
}

/// The future of a [`GuardService`]: the inner service's, or a refusal.
#[pin_project]
pub struct GuardFuture<F, ResBody> {
    #[pin]
    state: State<F, ResBody>,
}

#[pin_project(project = StateProject)]
enum State<F, ResBody> {
    Passed(#[pin] F),
    /// `None` once the response has been taken.
    Refused(Option<Response<ResBody>>),
}

impl<F, ResBody> GuardFuture<F, ResBody> {
    pub(crate) fn passed(future: F) -> Self {
        Self { state: State::Passed(future) }
    }

    pub(crate) fn refused(response: Response<ResBody>) -> Self {
        Self { state: State::Refused(Some(response)) }
    }
}

impl<F, ResBody> fmt::Debug for GuardFuture<F, ResBody> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardFuture").finish_non_exhaustive()
    }
}

impl<F, ResBody, E> Future for GuardFuture<F, ResBody>
where
    F: Future<Output = Result<Response<ResBody>, E>>,
{
    type Output = Result<Response<ResBody>, E>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProject::Passed(future) => future.poll(cx),
            StateProject::Refused(response) => {
                Poll::Ready(Ok(response.take().expect("polled after completion")))
            }
        }
    }
}
