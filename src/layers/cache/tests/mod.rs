//! The cache as its callers, its upstream and its store see it.

mod flights;
mod hits;
mod invalidation;
mod kept;
mod model;
mod orders;
mod partitions;
mod refresh;
mod stale;
mod stores;
mod streams;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream as _;
use http::{Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tower::{Layer as _, Service, ServiceExt as _};

use super::*;
use crate::body::BoxError;
use crate::clock::ManualClock;
use crate::message::{Answer, ErrorObject, Event, Message, Reply, ReplyStream};
use crate::principal::Principal;
use crate::rejection::Rejection;
use crate::store::{CacheStore, Invalidation, MemoryStore};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

/// A request with these further `params`.
fn request_with(id: &str, method: &str, params: &str) -> Request<Message> {
    let comma = if params.is_empty() { "" } else { "," };
    let text =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}{META}}}}}"#);
    Request::new(Message::parse(text).unwrap())
}

fn tools() -> Request<Message> {
    request_with("1", "tools/list", "")
}

fn read(uri: &str) -> Request<Message> {
    request_with("1", "resources/read", &format!("\"uri\":{}", serde_json::to_string(uri).unwrap()))
}

trait By {
    /// The same request of somebody with this token.
    fn by(self, token: &str) -> Self;
}

impl By for Request<Message> {
    fn by(mut self, token: &str) -> Self {
        let principal = Principal::new("issuer", token).with_credential(token.as_bytes());
        self.extensions_mut().insert(principal);
        self
    }
}

/// A result with these members of caching.
fn result(scope: &str, ttl: &str) -> RawObject {
    RawObject::parse(format!(
        r#"{{"resultType":"complete","tools":[{{"name":"a"}}],"ttlMs":{ttl},"cacheScope":"{scope}"}}"#
    ))
    .unwrap()
}

fn answered(request: &Request<Message>, result: RawObject) -> Response<Reply> {
    Response::new(Reply::Answer(Answer::result(request.body().id().cloned(), result)))
}

/// Whether the answer to this request is there at once.
fn is_kept<S: CacheStore>(cache: &ResponseCache<S>, request: &Request<Message>) -> bool {
    cache.lookup_at(&cache.query(request).unwrap(), cache.now()).is_some()
}

type Say = dyn Fn(&Request<Message>, usize) -> Result<Response<Reply>, BoxError> + Send + Sync;

/// An inner service that does as it is told, counts its calls, and can be held up.
#[derive(Clone)]
struct Upstream {
    say: Arc<Say>,
    calls: Arc<AtomicUsize>,
    /// How many calls were dropped before they were answered.
    dropped: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    fn new(
        say: impl Fn(&Request<Message>, usize) -> Result<Response<Reply>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            say: Arc::new(say),
            calls: Arc::default(),
            dropped: Arc::default(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            seen: Arc::default(),
        }
    }

    /// Says the same to everybody.
    fn saying(result: RawObject) -> Self {
        Self::new(move |request, _| Ok(answered(request, result.clone())))
    }

    /// Answers no call before [`release`](Self::release).
    fn held(mut self) -> Self {
        self.gate = Arc::new(Semaphore::new(0));
        self
    }

    fn release(&self, calls: usize) {
        self.gate.add_permits(calls);
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

struct DropCount(Option<Arc<AtomicUsize>>);

impl Drop for DropCount {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Service<Request<Message>> for Upstream {
    type Response = Response<Reply>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Reply>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let this = self.clone();
        let call = this.calls.fetch_add(1, Ordering::SeqCst);
        this.seen.lock().unwrap().push(request.body().id().unwrap().text().to_owned());
        Box::pin(async move {
            let mut unanswered = DropCount(Some(Arc::clone(&this.dropped)));
            let outcome = (this.say)(&request, call);
            this.gate.acquire().await.unwrap().forget();
            unanswered.0 = None;
            outcome
        })
    }
}

/// A cache with a clock of its own.
fn cache() -> (ResponseCache, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    (ResponseCache::with_store_and_clock("up", MemoryStore::default(), Arc::clone(&clock)), clock)
}

type Cached<S = MemoryStore> = CacheService<Upstream, S>;

fn layered<S: CacheStore>(cache: &ResponseCache<S>, upstream: &Upstream) -> Cached<S> {
    CacheLayer::new(cache.clone()).layer(upstream.clone())
}

async fn ask<S: CacheStore>(service: &Cached<S>, request: Request<Message>) -> Response<Reply> {
    service.clone().oneshot(request).await.unwrap()
}

fn text(response: &Response<Reply>) -> String {
    response.body().answer().unwrap().to_string()
}

fn ttl(response: &Response<Reply>) -> String {
    let result = response.body().answer().unwrap().outcome().unwrap();
    result.get("ttlMs").unwrap().text().to_owned()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Lets all other tasks run until they wait.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
