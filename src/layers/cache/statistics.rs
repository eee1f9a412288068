//! What the cache has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`ResponseCache`](super::ResponseCache) has done so far: a reading of counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests that were answered with an entry.
    pub hits: u64,
    /// Requests that could have been, but went to the inner service.
    pub misses: u64,
    /// Requests that got what the inner service answered to another one.
    pub waits: u64,
    /// Requests that were answered with an expired entry, because the inner service failed.
    pub stale: u64,
    /// Results that were put in the store.
    pub stores: u64,
    /// Invalidations, by notification or by call.
    pub invalidations: u64,
    /// Operations of the store that failed, took too long, or gave an entry that was not the one asked for.
    pub failures: u64,
    /// Entries that the store dropped to make room, of all upstreams that share it.
    pub evictions: u64,
}

impl Statistics {
    /// The share of requests that did not go to the inner service; 0 before the first request.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio is not exact anyway")]
    pub fn hit_ratio(&self) -> f64 {
        let saved = self.hits + self.waits + self.stale;
        let all = saved + self.misses;
        if all == 0 { 0.0 } else { saved as f64 / all as f64 }
    }
}

/// The counters behind [`Statistics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) stale: AtomicU64,
    pub(super) stores: AtomicU64,
    pub(super) invalidations: AtomicU64,
    pub(super) failures: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn read(&self, evictions: u64) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            hits: read(&self.hits),
            misses: read(&self.misses),
            waits: read(&self.waits),
            stale: read(&self.stale),
            stores: read(&self.stores),
            invalidations: read(&self.invalidations),
            failures: read(&self.failures),
            evictions,
        }
    }
}
