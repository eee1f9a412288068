//! Remembers which requests had an answer that nobody else could be given.
//!
//! Waiting for such an answer is lost time. Most servers say `ttlMs: 0`, and behind them a cache that made requests
//! wait for each other would only slow them down.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use super::flight::FlightKey;

const SLOTS: usize = 1024;

/// A table of fixed size, in which what is newer replaces what is older.
pub(super) struct Tendencies {
    slots: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Tendencies {
    pub(super) fn new() -> Self {
        let slots = std::iter::repeat_with(AtomicU64::default).take(SLOTS).collect();
        Self { slots, hasher: RandomState::new() }
    }

    fn slot(&self, key: &FlightKey) -> (&AtomicU64, u64) {
        // Not zero, which stands for an empty slot.
        let hash = self.hasher.hash_one((&key.key, key.who)) | 1;
        (&self.slots[(hash >> 1) as usize % SLOTS], hash)
    }

    /// Whether the last answer was only for the one who asked.
    pub(super) fn is_alone(&self, key: &FlightKey) -> bool {
        let (slot, hash) = self.slot(key);
        slot.load(Ordering::Relaxed) == hash
    }

    /// Notes whether an answer was only for the one who asked.
    pub(super) fn note(&self, key: &FlightKey, alone: bool) {
        let (slot, hash) = self.slot(key);
        if alone {
            slot.store(hash, Ordering::Relaxed);
        } else {
            // It fails where another one is noted, which is right.
            let _ = slot.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
