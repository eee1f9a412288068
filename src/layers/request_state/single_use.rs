//! Burns states that may be used once, before anything below sees them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response, StatusCode};
use pin_project::pin_project;
use tower::Service;

use super::fault::OpenFault;
use super::refuse;
use crate::message::{Message, Reply};
use crate::rejection::Rejection;
use crate::store::{ReplayStore, StateUse, StoreFuture};

/// In the extensions of a request: the state that it came with, verified and not yet burnt.
#[derive(Clone, Copy)]
pub(super) struct Verified(pub(super) StateUse);

/// Burns the verified state of a request, if states may be used once, and hands the request on.
#[derive(Clone)]
pub struct SingleUse<S> {
    pub(super) inner: S,
    pub(super) store: Option<Arc<dyn ReplayStore>>,
}

impl<S: fmt::Debug> fmt::Debug for SingleUse<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleUse").field("inner", &self.inner).field("store", &self.store.is_some()).finish()
    }
}

impl<S> Service<Request<Message>> for SingleUse<S>
where
    S: Service<Request<Message>, Response = Response<Reply>> + Clone,
{
    type Response = Response<Reply>;
    type Error = S::Error;
    type Future = SingleUseFuture<S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Message>) -> SingleUseFuture<S> {
        let Some(store) = &self.store else {
            return SingleUseFuture { state: State::Passed(self.inner.call(request)) };
        };
        match request.extensions_mut().remove::<Verified>() {
            None => SingleUseFuture { state: State::Passed(self.inner.call(request)) },
            Some(Verified(used)) => {
                let burning = store.burn(used);
                // The one that was polled ready goes into the future.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                SingleUseFuture {
                    state: State::Burning { burning, waiting: Some(Box::new((inner, request))) },
                }
            }
        }
    }
}

/// The future of a [`SingleUse`].
#[pin_project]
pub struct SingleUseFuture<S: Service<Request<Message>>> {
    #[pin]
    state: State<S>,
}

#[pin_project(project = StateProject)]
enum State<S: Service<Request<Message>>> {
    Burning { burning: StoreFuture<bool>, waiting: Option<Box<(S, Request<Message>)>> },
    Passed(#[pin] S::Future),
}

impl<S: Service<Request<Message>>> fmt::Debug for SingleUseFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleUseFuture").finish_non_exhaustive()
    }
}

impl<S> Future for SingleUseFuture<S>
where
    S: Service<Request<Message>, Response = Response<Reply>>,
{
    type Output = Result<Response<Reply>, S::Error>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project().state.project() {
                StateProject::Passed(future) => return future.poll(cx),
                StateProject::Burning { burning, waiting } => {
                    let burnt = ready!(burning.as_mut().poll(cx));
                    let (mut inner, request) = *waiting.take().expect("polled after completion");
                    let rejection = match burnt {
                        Ok(true) => None,
                        Ok(false) => Some(refuse(request.body(), &OpenFault::Used)),
                        Err(error) => {
                            tracing::error!(
                                error,
                                "the replay store cannot tell whether a requestState was used"
                            );
                            let message =
                                "whether the `requestState` was used cannot be told: try again later";
                            Some(Rejection::http(StatusCode::SERVICE_UNAVAILABLE, message))
                        }
                    };
                    if let Some(rejection) = rejection {
                        let id = request.body().id().cloned();
                        return Poll::Ready(Ok(rejection.into_response(id)));
                    }
                    inner.call(request)
                }
            };
            self.as_mut().project().state.set(State::Passed(next));
        }
    }
}
