//! The cache as a plain value: configuration, look-up, invalidation.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::fill::Landed;
use super::flight::Flights;
use super::generation::{Generations, Topics};
use super::query::Query;
use super::settings::Settings;
use super::statistics::{Counters, Statistics, count};
use super::tendency::Tendencies;
use super::untold::Untold;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::message::{Answer, Message, RequestId};
use crate::store::key::Upstream;
use crate::store::{CacheKey, CacheStore, Entry, Invalidation, MemoryStore};

/// What all caches over one store share.
pub(super) struct Shared<S> {
    pub(super) store: S,
    clock: Box<dyn Clock>,
    generations: Generations,
    flights: Arc<Flights<Landed>>,
    tendencies: Tendencies,
    pub(super) untold: Untold,
    /// Whether the store's last operation failed: one line is logged when it begins to.
    pub(super) failing: AtomicBool,
}

/// A cache of results, as a plain value: [`query`](Self::query), [`lookup`](Self::lookup), [`insert`](Self::insert),
/// [`invalidate`](Self::invalidate). [`CacheLayer`](super::CacheLayer) does the same for a Tower service, and has
/// concurrent misses share one call.
///
/// A clone is the same cache. See the [module](super) for the rules.
///
/// ```
/// use http::{Request, Response};
/// use mcp_layers::layers::cache::ResponseCache;
/// use mcp_layers::message::{Answer, Message, RawObject, Reply};
/// use mcp_layers::store::Invalidation;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = ResponseCache::new("weather");
/// let list = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{
///     "io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
/// let request = Request::new(Message::parse(list)?);
///
/// let query = cache.query(&request).expect("lists can be cached");
/// assert!(cache.lookup(&query).await.is_none());
/// let result = r#"{"resultType":"complete","tools":[],"ttlMs":60000,"cacheScope":"public"}"#;
/// let answer = Answer::result(Some("a".into()), RawObject::parse(result)?);
/// assert!(cache.insert(&query, &Response::new(Reply::Answer(answer))).await);
///
/// let hit = cache.lookup(&query).await.expect("was kept");
/// let answer = hit.into_answer(Some(7.into()));
/// let text = answer.to_string();
/// assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":7,"result":{"#) && text.contains(r#""tools":[]"#));
///
/// cache.invalidate(&Invalidation::Tools);
/// assert!(cache.lookup(&query).await.is_none());
/// assert_eq!(cache.statistics().hits, 1);
/// # Ok(())
/// # }
/// ```
pub struct ResponseCache<S = MemoryStore> {
    /// One count of references, because a service is cloned for each request.
    inner: Arc<Inner<S>>,
}

struct Inner<S> {
    shared: Arc<Shared<S>>,
    upstream: Upstream,
    settings: Settings,
    counters: Arc<Counters>,
}

// By hand, since a store need not be `Clone`.
impl<S> Clone for ResponseCache<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S> Clone for Inner<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            upstream: self.upstream.clone(),
            settings: self.settings.clone(),
            counters: Arc::clone(&self.counters),
        }
    }
}

/// A fresh entry, or one that is served although it is not.
#[derive(Clone, Debug)]
pub struct Hit {
    pub(super) entry: Entry,
    pub(super) remaining: Duration,
}

impl Hit {
    /// The entry.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// For how much longer it is fresh; zero if it is stale.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// The answer to the request `id`, with `ttlMs` less the time that has passed. The result is shared, not copied.
    #[must_use]
    pub fn into_answer(self, id: Option<RequestId>) -> Answer {
        self.entry.answer(id, self.remaining)
    }
}

/// What the store has for a query.
#[derive(Clone, Default)]
pub(super) struct Found {
    pub(super) hit: Option<Hit>,
    /// An entry that has expired, but may be served if there is nothing better.
    pub(super) stale: Option<Entry>,
    /// Whether there is an entry that has expired.
    pub(super) expired: bool,
}

/// What an entry is good for.
enum Worth {
    Fresh(Duration),
    Stale,
    Expired,
    /// It has been invalidated, or should not be there.
    Nothing,
}

impl ResponseCache {
    /// An empty cache in front of what is called `upstream`, with 64 MiB of memory.
    ///
    /// Caches that share a store are told apart by this name and nothing else: take it from your configuration, not
    /// from what a server says of itself.
    #[must_use]
    pub fn new(upstream: impl Into<Arc<str>>) -> Self {
        Self::with_store(upstream, MemoryStore::default())
    }
}

impl<S: CacheStore> ResponseCache<S> {
    /// A cache in front of what is called `upstream`, which keeps its entries in `store`.
    ///
    /// For several upstreams, make the others with [`for_upstream`](Self::for_upstream).
    #[must_use]
    pub fn with_store(upstream: impl Into<Arc<str>>, store: S) -> Self {
        Self::with_store_and_clock(upstream, store, SystemClock::new())
    }

    /// The same with the time that `clock` tells.
    #[must_use]
    pub fn with_store_and_clock(upstream: impl Into<Arc<str>>, store: S, clock: impl Clock) -> Self {
        let inner = Inner {
            shared: Arc::new(Shared {
                store,
                clock: Box::new(clock),
                generations: Generations::new(),
                flights: Arc::new(Flights::new()),
                tendencies: Tendencies::new(),
                untold: Untold::default(),
                failing: AtomicBool::new(false),
            }),
            upstream: upstream.into().into(),
            settings: Settings::default(),
            counters: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A cache in front of another upstream, with the same store and settings and with statistics of its own.
    ///
    /// ```
    /// use mcp_layers::layers::cache::ResponseCache;
    ///
    /// let weather = ResponseCache::new("weather");
    /// let maps = weather.for_upstream("maps").with_trust_public(false);
    /// assert_eq!(maps.upstream(), "maps");
    /// ```
    #[must_use]
    pub fn for_upstream(&self, upstream: impl Into<Arc<str>>) -> Self {
        let (upstream, counters) = (upstream.into().into(), Arc::default());
        Self { inner: Arc::new(Inner { upstream, counters, ..Inner::clone(&self.inner) }) }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut Arc::make_mut(&mut self.inner).settings);
        self
    }

    /// The name of what this is in front of.
    #[must_use]
    pub fn upstream(&self) -> &str {
        &self.inner.upstream
    }

    /// What entries are kept in.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.shared().store
    }

    /// What the cache has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.inner.counters.read(self.shared().store.evictions())
    }

    pub(super) fn upstream_shared(&self) -> Upstream {
        self.inner.upstream.clone()
    }

    pub(super) fn shared(&self) -> &Shared<S> {
        &self.inner.shared
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    pub(super) fn generations(&self) -> &Generations {
        &self.shared().generations
    }

    pub(super) fn flights(&self) -> &Arc<Flights<Landed>> {
        &self.shared().flights
    }

    pub(super) fn tendencies(&self) -> &Tendencies {
        &self.shared().tendencies
    }

    pub(in crate::layers) fn now(&self) -> Timestamp {
        self.shared().clock.now()
    }

    /// What is kept for this query and still fresh.
    pub async fn lookup(&self, query: &Query) -> Option<Hit> {
        let hit = match self.lookup_at(query, self.now()) {
            Some(hit) => Some(hit),
            None => self.find(query).await.hit,
        };
        count(if hit.is_some() { &self.inner.counters.hits } else { &self.inner.counters.misses });
        hit
    }

    /// What is kept for this query and may be served because asking anew has failed: see
    /// [`with_stale_if_error`](Self::with_stale_if_error).
    pub async fn lookup_stale(&self, query: &Query) -> Option<Hit> {
        let found = self.find(query).await;
        found.hit.or_else(|| {
            let hit = self.stale_hit(query, found.stale?);
            hit.inspect(|_| count(&self.inner.counters.stale))
        })
    }

    /// The same at the time `now`, as far as the store can tell at once.
    pub(super) fn lookup_at(&self, query: &Query, now: Timestamp) -> Option<Hit> {
        if query.refresh {
            return None;
        }
        query.keys().find_map(|key| {
            let entry = self.shared().store.peek(key)?;
            match self.judge(key, query.topics, &entry, now) {
                Worth::Fresh(remaining) => Some(Hit { entry, remaining }),
                _ => None,
            }
        })
    }

    pub(super) async fn find(&self, query: &Query) -> Found {
        let mut found = Found::default();
        if query.refresh {
            return found;
        }
        for key in query.keys() {
            let Some(Some(entry)) = self.ask(&query.patience, self.shared().store.get(key)).await else {
                continue;
            };
            match self.judge(key, query.topics, &entry, self.now()) {
                Worth::Fresh(remaining) => {
                    found.hit = Some(Hit { entry, remaining });
                    return found;
                }
                Worth::Stale => {
                    found.expired = true;
                    found.stale = found.stale.or(Some(entry));
                }
                worth => {
                    found.expired |= matches!(worth, Worth::Expired);
                    self.forget(query, key).await;
                }
            }
        }
        found
    }

    fn judge(&self, key: &CacheKey, topics: Topics, entry: &Entry, now: Timestamp) -> Worth {
        if entry.key() != key {
            self.failed(&"it gave an entry that belongs to another key");
            return Worth::Nothing;
        }
        if !self.is_current(entry, topics) {
            return Worth::Nothing;
        }
        // An entry from the future is none: nobody could say when it expires.
        let Some(age) = now.since(entry.received()) else { return Worth::Nothing };
        let lifetime = self.lifetime(entry.ttl());
        match lifetime.checked_sub(age) {
            Some(remaining) if !remaining.is_zero() => Worth::Fresh(remaining),
            _ if age < lifetime + self.inner.settings.stale_if_error => Worth::Stale,
            _ => Worth::Expired,
        }
    }

    /// What is served where asking anew has failed: an entry that is still within its bound.
    pub(super) fn stale_hit(&self, query: &Query, entry: Entry) -> Option<Hit> {
        match self.judge(entry.key(), query.topics, &entry, self.now()) {
            Worth::Fresh(remaining) => Some(Hit { entry, remaining }),
            Worth::Stale => Some(Hit { entry, remaining: Duration::ZERO }),
            Worth::Expired | Worth::Nothing => None,
        }
    }

    /// Whether nothing has made the entry invalid.
    pub(super) fn is_current(&self, entry: &Entry, topics: Topics) -> bool {
        let generations = &self.shared().generations;
        let stamp = entry.stamp();
        if stamp.writer == generations.writer() {
            stamp.generation == generations.current(topics)
        } else {
            // Whoever wrote it counted for itself; but both can read a clock. What the store has not been told of it may
            // still hold, and clocks differ.
            Timestamp::from_millis(stamp.requested) > generations.changed_at(topics)
                && !self.shared().untold.covers(entry.key())
        }
    }

    /// Forgets results: when this returns, none of them is served any more, nor will one that is on its way be kept.
    ///
    /// The store is told at once if that needs no waiting, and else, or if it fails, before it is asked for anything of
    /// this upstream again, until it has confirmed it. Only what it has not confirmed when the process ends is lost: a
    /// cache that finds it in the store later may then serve it until it expires.
    pub fn invalidate(&self, what: &Invalidation) {
        self.shared().generations.bump(&self.inner.upstream, what, self.now());
        count(&self.inner.counters.invalidations);
        let mut telling = pin!(self.shared().store.invalidate(&self.inner.upstream, what));
        match telling.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => return,
            Poll::Ready(Err(error)) => self.failed(&error),
            Poll::Pending => {}
        }
        self.shared().untold.add(&self.inner.upstream, what);
    }

    /// Forgets what the notification `message` says has changed; says whether it was one that does. `watched` are the
    /// URIs that its receiver has subscribed to: where one of them is an ancestor of the updated URI, its reads are
    /// forgotten as well.
    pub fn invalidate_by(&self, message: &Message, watched: &[String]) -> bool {
        let uri = message.param("uri").and_then(crate::message::Raw::to_str);
        let Some(what) = Invalidation::by_notification(message.method(), uri.as_deref()) else {
            return false;
        };
        self.invalidate(&what);
        if let Invalidation::Resource(uri) = &what {
            for ancestor in watched.iter().filter(|watched| is_below(uri, watched)) {
                self.invalidate(&Invalidation::Resource(ancestor.as_str().into()));
            }
        }
        true
    }
}

/// Whether `uri` names something inside of what `ancestor` names.
fn is_below(uri: &str, ancestor: &str) -> bool {
    match uri.strip_prefix(ancestor) {
        None | Some("") => false,
        Some(rest) => ancestor.ends_with('/') || rest.starts_with(['/', '?', '#']),
    }
}

impl<S> fmt::Debug for ResponseCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseCache")
            .field("upstream", &&*self.inner.upstream)
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}
