//! Which sealed states have been used.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use crate::body::BoxError;
use crate::clock::Timestamp;
use crate::principal::Partition;

/// What identifies one sealed state among all that were ever sealed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub(crate) [u8; 16]);

impl StateId {
    /// The id that these bytes are, for tests of a store: those of sealed states are random.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be part of a key in a store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateId(..)")
    }
}

/// The use of a sealed state that has been verified.
///
/// [`RequestStateLayer`](crate::layers::RequestStateLayer) makes them; [`new`](Self::new) is for tests of a store.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StateUse {
    /// Which state.
    pub id: StateId,
    /// When it is used.
    pub now: Timestamp,
    /// From when on it is refused in any case, and need not be remembered.
    pub expires_at: Timestamp,
    /// Who uses it, as [`Principal::partition`](crate::principal::Principal::partition) tells; `None` for whoever is not
    /// known. For a store that bounds what one caller may fill.
    pub partition: Option<Partition>,
}

impl StateUse {
    /// The use of the state `id` at `now`, which expires at `expires_at`, by nobody who is known.
    #[must_use]
    pub const fn new(id: StateId, now: Timestamp, expires_at: Timestamp) -> Self {
        Self { id, now, expires_at, partition: None }
    }

    /// The same by a caller of this partition.
    #[must_use]
    pub const fn with_partition(mut self, partition: Partition) -> Self {
        self.partition = Some(partition);
        self
    }
}

/// Why a store could not tell.
pub type StoreError = BoxError;

/// What a store does, when it has done it.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Remembers which sealed states have been used.
///
/// ```
/// use std::collections::HashSet;
/// use std::sync::{Arc, Mutex};
///
/// use mcp_layers::clock::Timestamp;
/// use mcp_layers::store::{ReplayStore, StateId, StateUse, StoreFuture};
///
/// /// Remembers for ever.
/// #[derive(Default)]
/// struct Elephant(Arc<Mutex<HashSet<StateId>>>);
///
/// impl ReplayStore for Elephant {
///     fn burn(&self, used: StateUse) -> StoreFuture<bool> {
///         let seen = Arc::clone(&self.0);
///         Box::pin(async move { Ok(seen.lock().map_err(|_| "poisoned")?.insert(used.id)) })
///     }
/// }
///
/// // In a test of yours:
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_layers::store::StoreError> {
/// let store = Elephant::default();
/// let used = StateUse::new(StateId::new([7; 16]), Timestamp::from_millis(0), Timestamp::from_millis(60_000));
/// assert!(store.burn(used).await?);
/// assert!(!store.burn(used).await?);
/// # Ok(())
/// # }
/// ```
pub trait ReplayStore: Send + Sync + 'static {
    /// Marks a state as used and says whether it was not yet. Of all calls for one state, in all processes that share
    /// the store, exactly one is told `true`.
    ///
    /// What has been marked is remembered at least until `used.expires_at`.
    ///
    /// # Errors
    /// If the store cannot tell. The request is then refused, and the state may or may not be marked.
    fn burn(&self, used: StateUse) -> StoreFuture<bool>;
}

impl<R: ReplayStore + ?Sized> ReplayStore for Arc<R> {
    fn burn(&self, used: StateUse) -> StoreFuture<bool> {
        (**self).burn(used)
    }
}

/// Remembers in memory, for servers of one process. Clones are the same store.
///
/// It keeps each state until it expires, and no more states than its capacity. When it is full of states that have not
/// expired it cannot tell any more; it never forgets one early, because that one could then be used again. Nor does a
/// clock that is set forward and back bring one back: what expires no later than the latest time that it has been told
/// is taken for used, until the clock has come there again or the process is started anew.
///
/// No caller fills more than half of it, and all who are not known are one caller. Two callers together, or one with
/// two accounts, can fill it, and states are then refused to everybody until some expire: put a limit of rates in front,
/// or give it room for what callers may do within the lifetime of a state.
#[derive(Clone)]
pub struct MemoryReplayStore {
    used: Arc<Mutex<Used>>,
    capacity: usize,
}

#[derive(Default)]
struct Used {
    ids: HashSet<StateId>,
    by_expiry: BinaryHeap<Reverse<(Timestamp, StateId, Option<Partition>)>>,
    /// How many states of each caller there are.
    by_caller: HashMap<Option<Partition>, usize>,
    /// The latest time that was told: what expires by then is not remembered any more.
    purged: Option<Timestamp>,
}

impl Used {
    fn purge(&mut self, now: Timestamp) {
        let now = self.purged.map_or(now, |purged| purged.max(now));
        self.purged = Some(now);
        while self.by_expiry.peek().is_some_and(|Reverse((expires_at, ..))| *expires_at <= now) {
            let Some(Reverse((_, id, caller))) = self.by_expiry.pop() else { break };
            self.ids.remove(&id);
            if let Some(states) = self.by_caller.get_mut(&caller) {
                *states -= 1;
                if *states == 0 {
                    self.by_caller.remove(&caller);
                }
            }
        }
    }
}

impl MemoryReplayStore {
    /// Remembers up to 100,000 states.
    #[must_use]
    pub fn new() -> Self {
        Self { used: Arc::default(), capacity: 100_000 }
    }

    /// How many states to remember, of one caller half as many; each takes about two hundred bytes. Defaults to 100,000.
    #[must_use]
    pub fn with_capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    fn mark(&self, used: StateUse) -> Result<bool, StoreError> {
        // Nothing panics between the changes below; were it so, a state would be remembered for too long.
        let mut states = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        states.purge(used.now);
        // It may have been used, and forgotten before the clock was set back.
        let is_forgotten = states.purged.is_some_and(|purged| used.expires_at <= purged);
        if is_forgotten || states.ids.contains(&used.id) {
            return Ok(false);
        }
        if states.ids.len() >= self.capacity {
            return Err(format!(
                "{} used states are remembered and none has expired: raise MemoryReplayStore::with_capacity",
                self.capacity
            )
            .into());
        }
        let of_caller = states.by_caller.get(&used.partition).copied().unwrap_or_default();
        if of_caller >= self.capacity.div_ceil(2) {
            return Err(format!(
                "{of_caller} used states of one caller are remembered, which is half of what there is room for, and none \
                 has expired: limit what one caller may do, or raise MemoryReplayStore::with_capacity"
            )
            .into());
        }
        states.ids.insert(used.id);
        states.by_expiry.push(Reverse((used.expires_at, used.id, used.partition)));
        *states.by_caller.entry(used.partition).or_default() += 1;
        Ok(true)
    }
}

impl Default for MemoryReplayStore {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplayStore for MemoryReplayStore {
    fn burn(&self, used: StateUse) -> StoreFuture<bool> {
        Box::pin(ready(self.mark(used)))
    }
}

impl fmt::Debug for MemoryReplayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReplayStore").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn used(id: u64, now: u64, expires_at: u64) -> StateUse {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&id.to_be_bytes());
        let at = |seconds| Timestamp::from_millis(seconds * 1_000);
        // Each by another caller.
        let partition = Some(Partition::of("principal", &[Some(&bytes[..])]));
        StateUse { id: StateId(bytes), now: at(now), expires_at: at(expires_at), partition }
    }

    #[test]
    fn a_state_is_burnt_once() {
        let store = MemoryReplayStore::new();
        assert!(store.mark(used(1, 0, 10)).unwrap());
        assert!(!store.clone().mark(used(1, 9, 10)).unwrap());
        assert!(store.mark(used(2, 9, 10)).unwrap());
    }

    #[test]
    fn what_has_expired_makes_room_and_nothing_else_does() {
        let store = MemoryReplayStore::new().with_capacity(2);
        assert!(store.mark(used(1, 0, 20)).unwrap());
        assert!(store.mark(used(2, 0, 10)).unwrap());
        let error = store.mark(used(3, 9, 30)).unwrap_err();
        assert!(error.to_string().contains("with_capacity"), "{error}");
        assert!(!store.mark(used(1, 9, 20)).unwrap(), "what is known is still told");
        assert!(store.mark(used(3, 10, 30)).unwrap());
        assert!(store.mark(used(4, 11, 30)).is_err());
        assert_eq!(store.used.lock().unwrap().by_expiry.len(), 2);
    }

    #[test]
    fn a_clock_that_jumps_forward_and_back_brings_nothing_back() {
        let store = MemoryReplayStore::new();
        assert!(store.mark(used(1, 0, 600)).unwrap());
        assert!(store.mark(used(2, 700, 1_300)).unwrap());
        assert!(!store.mark(used(1, 1, 600)).unwrap(), "it was forgotten at 700");
        assert!(!store.mark(used(3, 1, 700)).unwrap(), "whether it was used is not known any more");
        assert!(store.mark(used(4, 101, 701)).unwrap());
        assert!(!store.mark(used(2, 101, 1_300)).unwrap());
        assert_eq!(store.used.lock().unwrap().ids.len(), 2);
    }

    #[test]
    fn one_caller_fills_no_more_than_half() {
        let store = MemoryReplayStore::new().with_capacity(5);
        let by = |partition, id, now| StateUse { partition, ..used(id, now, now + 10) };
        for (caller, first) in [(used(1, 0, 0).partition, 10), (None, 20)] {
            let others = store.used.lock().unwrap().ids.len();
            let room = 3.min(5 - others) as u64;
            for id in 0..room {
                assert!(store.mark(by(caller, first + id, 0)).unwrap());
            }
            let error = store.mark(by(caller, first + 9, 0)).unwrap_err().to_string();
            assert_eq!(error.contains("of one caller"), others == 0, "{error}");
            assert!(!store.mark(by(caller, first, 0)).unwrap(), "what is known is still told");
        }
        for id in 30..33 {
            assert!(store.mark(by(None, id, 10)).unwrap(), "what has expired makes room for its caller");
        }
        assert!(store.mark(by(None, 33, 10)).unwrap_err().to_string().contains("of one caller"));
        assert_eq!(store.used.lock().unwrap().by_caller.len(), 1);
    }

    #[test]
    fn of_many_threads_exactly_one_burns_a_state() {
        const THREADS: usize = 8;
        let store = MemoryReplayStore::new();
        for round in 0..200 {
            let (barrier, burnt) = (Barrier::new(THREADS), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        barrier.wait();
                        if store.mark(used(round, 0, 10)).unwrap() {
                            burnt.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
            });
            assert_eq!(burnt.load(Ordering::SeqCst), 1);
        }
    }
}
