//! The Tower part of authentication.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{Request, Response, StatusCode};
use pin_project::pin_project;
use tower::Service;

use super::{AuthLayer, Look, Settings, TokenVerifier};
use crate::principal::Principal;
use crate::rejection::Rejection;

/// The service of an [`AuthLayer`].
pub struct AuthService<V, S> {
    layer: AuthLayer<V>,
    inner: S,
}

impl<V, S> AuthService<V, S> {
    pub(super) fn new(layer: AuthLayer<V>, inner: S) -> Self {
        Self { layer, inner }
    }
}

impl<V, S: Clone> Clone for AuthService<V, S> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), inner: self.inner.clone() }
    }
}

impl<V, S: fmt::Debug> fmt::Debug for AuthService<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthService").field("layer", &self.layer).field("inner", &self.inner).finish()
    }
}

impl<V, S, B, ResBody> Service<Request<B>> for AuthService<V, S>
where
    V: TokenVerifier,
    S: Service<Request<B>, Response = Response<ResBody>> + Clone,
    ResBody: From<Bytes>,
{
    type Response = Response<ResBody>;
    type Error = S::Error;
    type Future = AuthFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let state = match self.layer.look(&mut head.headers) {
            Look::Known(principal) => {
                head.extensions.insert(principal);
                State::Passed(self.inner.call(Request::from_parts(head, body)))
            }
            Look::Anonymous => State::Passed(self.inner.call(Request::from_parts(head, body))),
            Look::Refused(rejection) => State::Refused(Some(rejection.into_http_response(None))),
            Look::Ask(token) => {
                // The one that has been polled ready goes along with the request.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                State::Asking(Box::new(Asking {
                    verdict: Box::pin(self.layer.clone().ask(token)),
                    waiting: Some((inner, Request::from_parts(head, body))),
                }))
            }
        };
        AuthFuture { settings: Arc::clone(&self.layer.settings), state }
    }
}

/// The future of an [`AuthService`].
///
/// A token that is remembered costs it no allocation; one that is not is verified in a box.
#[pin_project]
pub struct AuthFuture<S: Service<Request<B>>, B> {
    settings: Arc<Settings>,
    #[pin]
    state: State<S, B>,
}

#[pin_project(project = StateProject)]
enum State<S: Service<Request<B>>, B> {
    Passed(#[pin] S::Future),
    Asking(Box<Asking<S, B>>),
    /// `None` once the response has been taken.
    Refused(Option<S::Response>),
}

struct Asking<S, B> {
    verdict: Pin<Box<dyn Future<Output = Result<Principal, Rejection>> + Send>>,
    /// `None` once the request has been sent on.
    waiting: Option<(S, Request<B>)>,
}

impl<S: Service<Request<B>>, B> fmt::Debug for AuthFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthFuture").finish_non_exhaustive()
    }
}

impl<S, B, ResBody> Future for AuthFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
    ResBody: From<Bytes>,
{
    type Output = Result<Response<ResBody>, S::Error>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProject::Passed(future) => {
                    let mut response = ready!(future.poll(cx))?;
                    this.settings.settle(&mut response);
                    return Poll::Ready(Ok(response));
                }
                StateProject::Asking(asking) => {
                    let verdict = ready!(asking.verdict.as_mut().poll(cx));
                    let (mut inner, mut request) = asking.waiting.take().expect("polled after completion");
                    match verdict {
                        Ok(principal) => {
                            request.extensions_mut().insert(principal);
                            State::Passed(inner.call(request))
                        }
                        Err(rejection) => State::Refused(Some(rejection.into_http_response(None))),
                    }
                }
                StateProject::Refused(response) => {
                    return Poll::Ready(Ok(response.take().expect("polled after completion")));
                }
            };
            this.state.set(next);
        }
    }
}

impl Settings {
    /// Sees to it that a challenge of an inner service, if there is one or must be one, is one that leads here.
    fn settle<B>(&self, response: &mut Response<B>) {
        if response.status() == StatusCode::UNAUTHORIZED || response.headers().contains_key(WWW_AUTHENTICATE)
        {
            self.challenge.clone().settle(response.headers_mut());
        }
    }
}
