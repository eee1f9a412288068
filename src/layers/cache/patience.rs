//! Asks the store, for no longer than a request has patience.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::query::Query;
use super::response_cache::ResponseCache;
use super::statistics::count;
use crate::body::BoxError;
use crate::store::{CacheKey, CacheStore, Entry};

/// What a request has waited for the store so far. It bounds the sum of all waits, since how many there are is decided
/// by others.
#[derive(Debug, Default)]
pub(super) struct Patience {
    nanos: AtomicU64,
}

impl Patience {
    /// How much longer it may take of `all`.
    pub(super) fn left(&self, all: Duration) -> Duration {
        all.saturating_sub(Duration::from_nanos(self.nanos.load(Ordering::Relaxed)))
    }

    pub(super) fn spend(&self, waited: Duration) {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let add = |spent: u64| Some(spent.saturating_add(nanos));
        // It never fails, since `add` always has a value.
        let _ = self.nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl Clone for Patience {
    fn clone(&self) -> Self {
        Self { nanos: AtomicU64::new(self.nanos.load(Ordering::Relaxed)) }
    }
}

impl<S: CacheStore> ResponseCache<S> {
    /// Tells the store what it has not confirmed yet, until it fails.
    async fn tell(&self, patience: &Patience) {
        while let Some(telling) = self.shared().untold.next(self.upstream()) {
            let invalidate = self.shared().store.invalidate(self.upstream(), &telling.what);
            if self.bounded(patience, invalidate).await.is_none() {
                return;
            }
            self.shared().untold.told(self.upstream(), &telling);
        }
    }

    /// Waits for the store, but not for long. `None` if it has failed.
    pub(super) async fn ask<T>(
        &self,
        patience: &Patience,
        operation: impl Future<Output = Result<T, BoxError>>,
    ) -> Option<T> {
        self.tell(patience).await;
        self.bounded(patience, operation).await
    }

    async fn bounded<T>(
        &self,
        patience: &Patience,
        operation: impl Future<Output = Result<T, BoxError>>,
    ) -> Option<T> {
        let mut operation = pin!(operation);
        // Looked at once without a timer, which a store in memory has no use for and not every runtime has.
        let first = std::future::poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx))).await;
        let outcome = match first {
            Poll::Ready(outcome) => Ok(outcome),
            Poll::Pending => {
                let begun = tokio::time::Instant::now();
                let left = patience.left(self.settings().store_timeout);
                let outcome = tokio::time::timeout(left, operation).await;
                patience.spend(begun.elapsed());
                outcome
            }
        };
        match outcome {
            Ok(Ok(value)) => {
                self.shared().failing.store(false, Ordering::Relaxed);
                return Some(value);
            }
            Ok(Err(error)) => self.failed(&error),
            Err(_) => self.failed(&"it did not answer within `with_store_timeout`"),
        }
        None
    }

    pub(super) async fn put(&self, query: &Query, entry: Entry) -> Option<()> {
        let keep = self.keep(entry.ttl());
        self.ask(&query.patience, self.shared().store.put(entry, keep)).await
    }

    pub(super) async fn forget(&self, query: &Query, key: &CacheKey) -> Option<()> {
        self.ask(&query.patience, self.shared().store.remove(key)).await
    }

    /// Logs once until the store works again.
    pub(super) fn failed(&self, error: &dyn fmt::Display) {
        count(&self.counters().failures);
        if !self.shared().failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(upstream = self.upstream(), %error, "the store of the response cache fails");
        }
    }
}
