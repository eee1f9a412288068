//! The cache as a Tower layer.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project::pin_project;
use tower::{Layer, Service};

use super::after::After;
use super::fill::{InnerError, Landed};
use super::flight::FlightKey;
use super::query::Query;
use super::response_cache::{Found, Hit, ResponseCache};
use super::statistics::count;
use super::stream;
use crate::body::BoxError;
use crate::message::{Message, Reply, RequestId};
use crate::store::{CacheStore, MemoryStore};

/// Answers requests from a [`ResponseCache`]. See the [module](super) for the rules.
#[must_use]
pub struct CacheLayer<S = MemoryStore> {
    cache: ResponseCache<S>,
}

impl<S> CacheLayer<S> {
    /// Answers from `cache`. Keep a clone of that to invalidate results and to read its statistics.
    pub const fn new(cache: ResponseCache<S>) -> Self {
        Self { cache }
    }
}

// By hand, since a store need not be `Clone` or `Debug`.
impl<S> Clone for CacheLayer<S> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone() }
    }
}

impl<S> fmt::Debug for CacheLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheLayer").field("cache", &self.cache).finish()
    }
}

impl<I: Clone, S> Clone for CacheService<I, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), cache: self.cache.clone() }
    }
}

impl<I: fmt::Debug, S> fmt::Debug for CacheService<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheService").field("inner", &self.inner).field("cache", &self.cache).finish()
    }
}

impl<S, I> Layer<I> for CacheLayer<S> {
    type Service = CacheService<I, S>;

    fn layer(&self, inner: I) -> Self::Service {
        CacheService { inner, cache: self.cache.clone() }
    }
}

/// The service of a [`CacheLayer`].
///
/// It is always ready: the inner service is only asked whether it is when a request needs it, so that an upstream that
/// is slow or at its limit holds up no hit, and a hit takes up none of its permits.
pub struct CacheService<I, S = MemoryStore> {
    inner: I,
    cache: ResponseCache<S>,
}

impl<I, S> Service<Request<Message>> for CacheService<I, S>
where
    I: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
    I::Future: Send + 'static,
    I::Error: Into<BoxError>,
    S: CacheStore,
{
    type Response = Response<Reply>;
    type Error = BoxError;
    type Future = CacheFuture<I, S>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let state = match self.cache.query(&request) {
            Some(query) => match self.cache.lookup_at(&query, query.requested) {
                Some(hit) => {
                    count(&self.cache.counters().hits);
                    State::Hit { hit: Some((hit, request.body().id().cloned())) }
                }
                None => {
                    let work = miss(self.cache.clone(), self.inner.clone(), request, query);
                    State::Miss { future: Box::pin(work) }
                }
            },
            None => State::Readying {
                after: After::of(request.body()).map(|after| (self.cache.clone(), after)),
                inner: self.inner.clone(),
                request: Some(request),
            },
        };
        CacheFuture { state }
    }
}

fn answer(hit: Hit, id: Option<RequestId>) -> Response<Reply> {
    Response::new(Reply::Answer(hit.into_answer(id)))
}

/// The future of a [`CacheService`].
#[pin_project]
pub struct CacheFuture<I: Service<Request<Message>>, S> {
    #[pin]
    state: State<I, I::Future, S>,
}

#[pin_project(project = StateProject)]
#[allow(clippy::large_enum_variant, reason = "a box for each request would cost more than the room")]
enum State<I, F, S> {
    Hit {
        hit: Option<(Hit, Option<RequestId>)>,
    },
    Miss {
        future: Pin<Box<dyn Future<Output = Result<Response<Reply>, BoxError>> + Send>>,
    },
    Readying {
        inner: I,
        request: Option<Request<Message>>,
        after: Option<(ResponseCache<S>, After)>,
    },
    Calling {
        #[pin]
        future: F,
        after: Option<(ResponseCache<S>, After)>,
    },
}

impl<I: Service<Request<Message>>, S> fmt::Debug for CacheFuture<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheFuture").finish_non_exhaustive()
    }
}

impl<I, S> Future for CacheFuture<I, S>
where
    I: Service<Request<Message>, Response = Response<Reply>>,
    I::Error: Into<BoxError>,
    S: CacheStore,
{
    type Output = Result<Response<Reply>, BoxError>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const COMPLETED: &str = "polled after completion";
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProject::Hit { hit } => {
                    let (hit, id) = hit.take().expect(COMPLETED);
                    return Poll::Ready(Ok(answer(hit, id)));
                }
                StateProject::Miss { future } => return future.as_mut().poll(cx),
                StateProject::Readying { inner, request, after } => {
                    ready!(inner.poll_ready(cx)).map_err(Into::into)?;
                    let future = inner.call(request.take().expect(COMPLETED));
                    State::Calling { future, after: after.take() }
                }
                StateProject::Calling { future, after } => {
                    let mut response = ready!(future.poll(cx)).map_err(Into::into)?;
                    if let Some((cache, after)) = after.take() {
                        after.look(cache, response.body_mut());
                    }
                    return Poll::Ready(Ok(response));
                }
            };
            state.set(next);
        }
    }
}

/// Calls the inner service, and waits until an answer is there.
async fn ask<I, S>(
    cache: &ResponseCache<S>,
    mut inner: I,
    request: Request<Message>,
    query: &Query,
    found: &Found,
) -> Result<Response<Reply>, InnerError>
where
    I: Service<Request<Message>, Response = Response<Reply>>,
    I::Error: Into<BoxError>,
    S: CacheStore,
{
    count(&cache.counters().misses);
    let failed = |error: I::Error| InnerError::from(error.into());
    poll_fn(|cx| inner.poll_ready(cx)).await.map_err(failed)?;
    let response = inner.call(request).await.map_err(failed)?;
    Ok(stream::open(cache, query, found, response).await)
}

/// Answers a request that nothing is known to be kept for.
async fn miss<I, S>(
    cache: ResponseCache<S>,
    inner: I,
    request: Request<Message>,
    query: Query,
) -> Result<Response<Reply>, BoxError>
where
    I: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
    I::Future: Send + 'static,
    I::Error: Into<BoxError>,
    S: CacheStore,
{
    let id = request.body().id().cloned();
    let key = query.flight_key(&request);
    let shared = key.as_ref().filter(|key| !query.refresh && !cache.tendencies().is_alone(key));
    if let Some(key) = shared {
        let own = Arc::new(Mutex::new(None));
        let waiter = cache.flights().join(key.clone(), || {
            let (cache, inner, query) = (cache.clone(), inner.clone(), query.clone());
            Box::pin(fly(cache, inner, request.clone(), query, key.clone(), Arc::clone(&own)))
        });
        let leads = waiter.leads();
        let landed = waiter.await;
        if leads {
            let response = own.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(response) = response {
                return Ok(response);
            }
        }
        let counters = cache.counters();
        match landed {
            Some(Landed::Fresh(entry)) => {
                if let Some(hit) = cache.hit(entry) {
                    count(if leads { &counters.hits } else { &counters.waits });
                    return Ok(answer(hit, id));
                }
            }
            Some(Landed::Stale(hit)) => {
                if let Some(hit) = cache.stale_hit(&query, hit.entry) {
                    return Ok(stale(&cache, hit, id));
                }
            }
            Some(Landed::Refused(_) | Landed::Failed(_)) if !leads && !key.who.share_errors() => {}
            Some(Landed::Refused(refusal)) => {
                count(&counters.waits);
                return Ok(refusal.response(id));
            }
            Some(Landed::Failed(error)) => {
                if !leads {
                    count(&counters.waits);
                }
                return Err(error.into());
            }
            Some(Landed::Alone) | None => {}
        }
    }

    let found = cache.find(&query).await;
    if let Some(hit) = found.hit {
        count(&cache.counters().hits);
        return Ok(answer(hit, id));
    }
    let outcome = ask(&cache, inner, request, &query, &found).await;
    let (landed, response) = cache.settle(&query, found, outcome).await;
    if let Some(key) = key {
        cache.tendencies().note(&key, matches!(landed, Landed::Alone));
    }
    match (landed, response) {
        (_, Some(response)) => Ok(response),
        (Landed::Stale(hit), None) => Ok(stale(&cache, hit, id)),
        (Landed::Failed(error), None) => Err(error.into()),
        // Whatever was answered is in the response.
        (Landed::Fresh(_) | Landed::Refused(_) | Landed::Alone, None) => unreachable!(),
    }
}

fn stale<S: CacheStore>(cache: &ResponseCache<S>, hit: Hit, id: Option<RequestId>) -> Response<Reply> {
    count(&cache.counters().stale);
    answer(hit, id)
}

/// The work that concurrent misses share. `own` is for the response to the one who began it.
async fn fly<I, S>(
    cache: ResponseCache<S>,
    inner: I,
    request: Request<Message>,
    query: Query,
    key: FlightKey,
    own: Arc<Mutex<Option<Response<Reply>>>>,
) -> Landed
where
    I: Service<Request<Message>, Response = Response<Reply>>,
    I::Error: Into<BoxError>,
    S: CacheStore,
{
    // Another flight may have landed since this request looked.
    let found: Found = cache.find(&query).await;
    if let Some(hit) = found.hit {
        return Landed::Fresh(hit.entry);
    }
    let outcome = ask(&cache, inner, request, &query, &found).await;
    let (landed, response) = cache.settle(&query, found, outcome).await;
    cache.tendencies().note(&key, matches!(landed, Landed::Alone));
    *own.lock().unwrap_or_else(PoisonError::into_inner) = response;
    landed
}
