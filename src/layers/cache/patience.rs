//! How long a request has waited for the store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
