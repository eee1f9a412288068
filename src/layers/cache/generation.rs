//! Counts changes, so that an invalidation wins against whatever is in flight.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Timestamp;
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

/// What an invalidation is about, within an upstream.
#[derive(Hash)]
enum Topic<'a> {
    Method(&'static str),
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

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash are as good as others")]
    fn slot(&self, upstream: &str, topic: Option<&Topic<'_>>) -> usize {
        self.hasher.hash_one((upstream, topic)) as usize % SLOTS
    }

    fn of(&self, topics: Topics) -> [&Slot; 2] {
        topics.0.map(|slot| &self.slots[slot])
    }

    /// Where the changes that cover `key` are counted: the same for all partitions.
    pub(super) fn topics(&self, key: &CacheKey) -> Topics {
        let topic = match key.param() {
            Some(uri) if key.method() == crate::protocol::method::RESOURCES_READ => Topic::Read(uri),
            _ => Topic::Method(key.method()),
        };
        Topics([self.slot(key.upstream(), None), self.slot(key.upstream(), Some(&topic))])
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
    pub(super) fn bump(&self, upstream: &str, what: &Invalidation, now: Timestamp) {
        use crate::protocol::method::{PROMPTS_LIST, RESOURCES_LIST, RESOURCES_TEMPLATES_LIST, TOOLS_LIST};
        let bump = |topic: Option<Topic<'_>>| {
            let slot = &self.slots[self.slot(upstream, topic.as_ref())];
            slot.at.fetch_max(now.as_millis(), Ordering::SeqCst);
            slot.count.fetch_add(1, Ordering::SeqCst);
        };
        match what {
            Invalidation::Tools => bump(Some(Topic::Method(TOOLS_LIST))),
            Invalidation::Prompts => bump(Some(Topic::Method(PROMPTS_LIST))),
            Invalidation::Resources => {
                bump(Some(Topic::Method(RESOURCES_LIST)));
                bump(Some(Topic::Method(RESOURCES_TEMPLATES_LIST)));
            }
            Invalidation::Resource(uri) => bump(Some(Topic::Read(uri))),
            Invalidation::Everything => bump(None),
        }
    }
}
