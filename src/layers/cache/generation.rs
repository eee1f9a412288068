//! Counts changes, so that an invalidation wins against whatever is in flight.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Timestamp;
use crate::store::key::{Operation, Upstream};
use crate::store::{CacheKey, Invalidation};

/// How many counters there are. Two topics that share one invalidate each other, which costs a miss now and then and
/// is never wrong; in return the counters take the same room however many resources change.
///
/// Tests that say exactly what is dropped have more of them, so that chance does not fail them.
const SLOTS: usize = if cfg!(test) { 1 << 16 } else { 4096 };

/// Counters of changes, which never go back.
pub(super) struct Generations {
    slots: Box<[Slot]>,
    hasher: RandomState,
    /// Tells entries that this cache wrote from those of another that shares the store.
    writer: u64,
}

#[derive(Default)]
struct Slot {
    count: AtomicU64,
    /// When it last counted, for entries of other writers, whose counts say nothing here.
    at: AtomicU64,
}

/// Where changes are counted that cover a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topics([usize; 2]);

/// What is counted for itself, within an upstream.
#[derive(Clone, Copy)]
enum Topic<'a> {
    Everything,
    Method(Operation),
    Read(&'a str),
}

impl Generations {
    pub(super) fn new() -> Self {
        let hasher = RandomState::new();
        let slots = std::iter::repeat_with(Slot::default).take(SLOTS).collect();
        Self { slots, writer: hasher.hash_one("writer") ^ RandomState::new().hash_one(0), hasher }
    }

    pub(super) const fn writer(&self) -> u64 {
        self.writer
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are few enough slots")]
    fn slot(&self, upstream: &Upstream, topic: Topic<'_>) -> usize {
        let topic = match topic {
            Topic::Everything => 0,
            Topic::Method(operation) => 1 + operation as u64,
            // A server's users choose URIs, and must not be able to choose those that share a slot.
            Topic::Read(uri) => self.hasher.hash_one(uri),
        };
        // The golden ratio spreads neighbours, and its product is best in the upper bits.
        let spread = upstream.hash().wrapping_add(topic).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> (u64::BITS - SLOTS.trailing_zeros())) as usize
    }

    fn of(&self, topics: Topics) -> [&Slot; 2] {
        topics.0.map(|slot| &self.slots[slot])
    }

    /// Where the changes that cover `key` are counted: the same for all partitions.
    pub(super) fn topics(&self, key: &CacheKey) -> Topics {
        let topic = match (key.operation, key.param()) {
            (Operation::Read, Some(uri)) => Topic::Read(uri),
            (operation, _) => Topic::Method(operation),
        };
        Topics([self.slot(&key.upstream, Topic::Everything), self.slot(&key.upstream, topic)])
    }

    /// A number that is another after each invalidation that covers the topics. Counters only grow, so their sum stays the
    /// same only while each of them does.
    pub(super) fn current(&self, topics: Topics) -> u64 {
        self.of(topics).iter().map(|slot| slot.count.load(Ordering::SeqCst)).sum()
    }

    /// When they were last covered by an invalidation.
    pub(super) fn changed_at(&self, topics: Topics) -> Timestamp {
        let latest = self.of(topics).iter().map(|slot| slot.at.load(Ordering::SeqCst)).max();
        Timestamp::from_millis(latest.unwrap_or_default())
    }

    /// What is covered is invalid when this returns.
    pub(super) fn bump(&self, upstream: &Upstream, what: &Invalidation, now: Timestamp) {
        let bump = |topic: Topic<'_>| {
            let slot = &self.slots[self.slot(upstream, topic)];
            slot.at.fetch_max(now.as_millis(), Ordering::SeqCst);
            slot.count.fetch_add(1, Ordering::SeqCst);
        };
        match what {
            Invalidation::Tools => bump(Topic::Method(Operation::Tools)),
            Invalidation::Prompts => bump(Topic::Method(Operation::Prompts)),
            Invalidation::Resources => {
                bump(Topic::Method(Operation::Resources));
                bump(Topic::Method(Operation::Templates));
            }
            Invalidation::Resource(uri) => bump(Topic::Read(uri)),
            Invalidation::Everything => bump(Topic::Everything),
        }
    }
}
