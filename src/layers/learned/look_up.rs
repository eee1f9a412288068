//! The layer that finds out about the tools of calls.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project::pin_project;
use tower::{Layer, Service};

use super::walk::{Failure, Known};
use super::{LearnedCatalog, LookedUp, Passing};
use crate::body::BoxError;
use crate::layers::ScopeLayer;
use crate::layers::scope::Beforehand;
use crate::message::{Message, Raw, Reply};
use crate::protocol::method::{TOOLS_CALL, TOOLS_LIST};
use crate::rejection::{Rejection, shorten};
use crate::store::{CacheStore, MemoryStore};

/// Finds out about the tools of calls: [`LearnedCatalog::look_up`].
#[must_use]
pub struct LookUpLayer<B, S = MemoryStore> {
    catalog: LearnedCatalog<S>,
    beforehand: Option<Arc<Beforehand>>,
    bottom: B,
}

impl<B, S: CacheStore> LookUpLayer<B, S> {
    pub(super) const fn new(catalog: LearnedCatalog<S>, bottom: B) -> Self {
        Self { catalog, beforehand: None, bottom }
    }

    /// Asks `bottom` only for callers whom `scopes`, the layer below, does not refuse anyway: see the
    /// [module](super#scopes). Defaults to asking for everybody.
    pub fn with_scopes(self, scopes: &ScopeLayer) -> Self {
        let beforehand = Beforehand::new(scopes, self.catalog.tells_scopes());
        Self { beforehand: Some(Arc::new(beforehand)), ..self }
    }

    /// The same, asking `bottom`.
    pub(super) fn with_bottom<O>(&self, bottom: O) -> LookUpLayer<O, S> {
        LookUpLayer { catalog: self.catalog.clone(), beforehand: self.beforehand.clone(), bottom }
    }

    pub(crate) fn catalog(&self) -> &LearnedCatalog<S> {
        &self.catalog
    }
}

// By hand, since a store need not be `Clone` or `Debug`.
impl<B: Clone, S> Clone for LookUpLayer<B, S> {
    fn clone(&self) -> Self {
        Self {
            catalog: self.catalog.clone(),
            beforehand: self.beforehand.clone(),
            bottom: self.bottom.clone(),
        }
    }
}

impl<B, S> fmt::Debug for LookUpLayer<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookUpLayer").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl<I, B: Clone, S> Layer<I> for LookUpLayer<B, S> {
    type Service = LookUpService<I, B, S>;

    fn layer(&self, inner: I) -> Self::Service {
        LookUpService { inner, look_up: self.clone() }
    }
}

/// The service of a [`LookUpLayer`].
pub struct LookUpService<I, B, S = MemoryStore> {
    inner: I,
    look_up: LookUpLayer<B, S>,
}

impl<I: Clone, B: Clone, S> Clone for LookUpService<I, B, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), look_up: self.look_up.clone() }
    }
}

impl<I: fmt::Debug, B, S> fmt::Debug for LookUpService<I, B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookUpService")
            .field("inner", &self.inner)
            .field("catalog", &self.look_up.catalog)
            .finish_non_exhaustive()
    }
}

/// What a request needs before it may go on.
enum Step {
    Pass,
    LookUp(Box<str>),
    Refuse(Rejection),
}

impl<B, S: CacheStore> LookUpLayer<B, S> {
    /// Decides about a request as far as that needs no waiting.
    fn step(&self, request: &mut Request<Message>) -> Step {
        let catalog = &self.catalog;
        match request.body().method() {
            _ if request.body().is_notification() => Step::Pass,
            TOOLS_LIST => {
                request.extensions_mut().insert(Passing::default());
                Step::Pass
            }
            TOOLS_CALL => {
                let Some(tool) = request.body().param("name").and_then(Raw::to_str) else {
                    return if catalog.settings.fail_open {
                        Step::Pass
                    } else {
                        Step::Refuse(Rejection::invalid_params("`params.name` must be a string"))
                    };
                };
                let tool = Box::<str>::from(tool);
                match catalog.recall(request, &tool) {
                    Some(known) => catalog.admit(request, tool, known),
                    None => match self.beforehand.as_ref().map(|scopes| scopes.decide(request)) {
                        Some(Err(rejection)) => Step::Refuse(rejection),
                        Some(Ok(())) | None => Step::LookUp(tool),
                    },
                }
            }
            _ => Step::Pass,
        }
    }
}

impl<S: CacheStore> LearnedCatalog<S> {
    fn admit(&self, request: &mut Request<Message>, tool: Box<str>, known: Known) -> Step {
        match known {
            Some(facts) => {
                request.extensions_mut().insert(LookedUp { tool, facts });
                Step::Pass
            }
            None if self.settings.fail_open => Step::Pass,
            None => Step::Refuse(Rejection::unknown_tool(&tool)),
        }
    }

    /// `None` if the call may go on although nothing is known of its tool.
    fn give_up(&self, request: &Request<Message>, tool: &str, failure: &Failure) -> Option<Response<Reply>> {
        let fail_open = self.settings.fail_open;
        tracing::warn!(tool = shorten(tool), %failure, fail_open, "nothing could be learned of a tool that is called");
        (!fail_open).then(|| failure.response(request.body().id().cloned()))
    }
}

impl<I, B, S> Service<Request<Message>> for LookUpService<I, B, S>
where
    I: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
    I::Future: Send + 'static,
    B: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
    B::Future: Send + 'static,
    B::Error: Into<BoxError>,
    S: CacheStore,
{
    type Response = Response<Reply>;
    type Error = I::Error;
    type Future = LookUpFuture<I::Future, I::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Message>) -> Self::Future {
        let refuse = |rejection: Rejection, request: &Request<Message>| LookUpFuture {
            state: State::Refused {
                response: Some(Box::new(rejection.into_response(request.body().id().cloned()))),
            },
        };
        match self.look_up.step(&mut request) {
            Step::Pass => LookUpFuture { state: State::Passed { future: self.inner.call(request) } },
            Step::Refuse(rejection) => refuse(rejection, &request),
            Step::LookUp(tool) => {
                // The one that is ready goes, its clone stays.
                let clone = self.inner.clone();
                let mut inner = mem::replace(&mut self.inner, clone);
                let LookUpLayer { catalog, bottom, .. } = self.look_up.clone();
                let work = async move {
                    let step = match catalog.find_out(bottom, &request, &tool).await {
                        Ok(known) => catalog.admit(&mut request, tool, known),
                        Err(failure) => match catalog.give_up(&request, &tool, &failure) {
                            Some(response) => return Ok(response),
                            None => Step::Pass,
                        },
                    };
                    match step {
                        Step::Refuse(rejection) => Ok(rejection.into_response(request.body().id().cloned())),
                        Step::Pass | Step::LookUp(_) => inner.call(request).await,
                    }
                };
                LookUpFuture { state: State::LookingUp { future: Box::pin(work) } }
            }
        }
    }
}

/// The future of a [`LookUpService`].
#[pin_project]
pub struct LookUpFuture<F, E> {
    #[pin]
    state: State<F, E>,
}

#[pin_project(project = StateProject)]
enum State<F, E> {
    Passed {
        #[pin]
        future: F,
    },
    LookingUp {
        future: Pin<Box<dyn Future<Output = Result<Response<Reply>, E>> + Send>>,
    },
    Refused {
        response: Option<Box<Response<Reply>>>,
    },
}

impl<F, E> fmt::Debug for LookUpFuture<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookUpFuture").finish_non_exhaustive()
    }
}

impl<F, E> Future for LookUpFuture<F, E>
where
    F: Future<Output = Result<Response<Reply>, E>>,
{
    type Output = Result<Response<Reply>, E>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProject::Passed { future } => Poll::Ready(ready!(future.poll(cx))),
            StateProject::LookingUp { future } => future.as_mut().poll(cx),
            StateProject::Refused { response } => {
                Poll::Ready(Ok(*response.take().expect("polled after completion")))
            }
        }
    }
}
