//! The store in memory.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::notification::RemovalCause;
use moka::sync::Cache;

use super::key::Upstream;
use super::{CacheKey, CacheStore, Entry, Invalidation};
use crate::body::BoxError;

/// Keeps entries in memory, in as many bytes as it is given; a clone is the same store.
///
/// When room is needed, what is seldom asked for goes first, and a new entry that nobody has asked for before does not
/// push out one that many ask for: a caller who reads a million URIs does not empty the store. An entry that has
/// expired takes room until then, or until it is asked for.
///
/// ```
/// use mcp_layers::store::MemoryStore;
///
/// let store = MemoryStore::new(16 << 20).with_max_entries(10_000);
/// assert_eq!(store.entries(), 0);
/// ```
// Moka's synchronous flavour: nothing here waits for anybody, so there is nothing to await, and a look-up costs no
// future. Moka's own expiry is not used, because it could not be given the cache's clock.
#[derive(Clone)]
pub struct MemoryStore {
    entries: Cache<CacheKey, Entry, foldhash::quality::RandomState>,
    index: Arc<Index>,
    evictions: Arc<AtomicU64>,
    max_bytes: u64,
}

/// An entry is large from this part of the whole store on.
const LARGE: u64 = 256;

/// Which keys an invalidation is about, so that it need not look at every entry.
#[derive(Default)]
struct Index(Mutex<HashMap<Group, HashSet<CacheKey>>>);

/// Everything that the same invalidations cover: upstream, method, and for reads the URI.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Group {
    upstream: Upstream,
    method: &'static str,
    uri: Option<bytestring::ByteString>,
}

impl Group {
    fn of(key: &CacheKey) -> Self {
        let read = key.operation == super::key::Operation::Read;
        Self { upstream: key.upstream.clone(), method: key.method(), uri: key.param.clone().filter(|_| read) }
    }

    fn is_covered(&self, upstream: &str, what: &Invalidation, keys: &HashSet<CacheKey>) -> bool {
        // All keys of a group are alike in what an invalidation looks at.
        *self.upstream == *upstream && keys.iter().next().is_some_and(|key| what.covers(key))
    }
}

impl Index {
    fn lock(&self) -> MutexGuard<'_, HashMap<Group, HashSet<CacheKey>>> {
        // Nothing under the lock stops half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, key: &CacheKey) {
        self.lock().entry(Group::of(key)).or_default().insert(key.clone());
    }

    fn remove(&self, key: &CacheKey) {
        if let Place::Occupied(mut group) = self.lock().entry(Group::of(key)) {
            group.get_mut().remove(key);
            if group.get().is_empty() {
                group.remove();
            }
        }
    }

    fn has(&self, key: &CacheKey) -> bool {
        self.lock().get(&Group::of(key)).is_some_and(|keys| keys.contains(key))
    }

    fn take(&self, upstream: &str, what: &Invalidation) -> Vec<CacheKey> {
        let mut index = self.lock();
        if let Invalidation::Resource(uri) = what {
            let group = Group {
                upstream: Arc::<str>::from(upstream).into(),
                method: super::key::Operation::Read.method(),
                uri: Some(uri.clone()),
            };
            return index.remove(&group).into_iter().flatten().collect();
        }
        let mut taken = Vec::new();
        index.retain(|group, keys| {
            let covered = group.is_covered(upstream, what, keys);
            if covered {
                taken.extend(keys.drain());
            }
            !covered
        });
        taken
    }
}

impl MemoryStore {
    /// A store of at most about `max_bytes` bytes, keys and what surrounds the texts included.
    ///
    /// For some moments while small entries are put it may be more. An entry that is larger than this is not kept.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        Self::build(max_bytes, 1)
    }

    /// The same, empty, with room for at most `max_entries` entries. Defaults to no bound but the bytes.
    #[must_use]
    pub fn with_max_entries(self, max_entries: u64) -> Self {
        Self::build(self.max_bytes, self.max_bytes.div_ceil(max_entries.max(1)))
    }

    fn build(max_bytes: u64, least: u64) -> Self {
        let index = Arc::<Index>::default();
        let evictions = Arc::<AtomicU64>::default();
        let (in_listener, counted) = (Arc::clone(&index), Arc::clone(&evictions));
        let entries = Cache::builder()
            .max_capacity(max_bytes)
            // There is one capacity: that each entry counts for at least its share of it bounds their number.
            .weigher(move |_, entry: &Entry| {
                u32::try_from((entry.size() as u64).max(least)).unwrap_or(u32::MAX)
            })
            .eviction_listener(move |key: Arc<CacheKey>, _, cause| {
                if cause == RemovalCause::Size {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                if cause != RemovalCause::Replaced {
                    in_listener.remove(&key);
                }
            })
            .build_with_hasher(foldhash::quality::RandomState::default());
        Self { entries, index, evictions, max_bytes }
    }

    /// How many entries there are, after making the room that is due.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries.run_pending_tasks();
        self.entries.entry_count()
    }

    /// How many bytes they take by [`Entry::size`], after making the room that is due.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.run_pending_tasks();
        self.entries.iter().map(|(_, entry)| entry.size() as u64).sum()
    }
}

/// 64 MiB.
impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

impl CacheStore for MemoryStore {
    fn peek(&self, key: &CacheKey) -> Option<Entry> {
        self.entries.get(key)
    }

    async fn get(&self, key: &CacheKey) -> Result<Option<Entry>, BoxError> {
        Ok(self.entries.get(key))
    }

    async fn put(&self, entry: Entry, _keep: Duration) -> Result<(), BoxError> {
        let key = entry.key().clone();
        let size = entry.size() as u64;
        if size > self.max_bytes {
            // It would be thrown out again, but take room until then. What it was to replace goes all the same.
            self.entries.invalidate(&key);
            return Ok(());
        }
        self.index.add(&key);
        self.entries.insert(key.clone(), entry);
        if size >= self.max_bytes / LARGE {
            // Room is made from time to time, and a few of these would be many bytes until then.
            self.entries.run_pending_tasks();
        }
        if !self.index.has(&key) {
            // It has been invalidated or evicted in between, and no invalidation would find it any more.
            self.entries.invalidate(&key);
        }
        Ok(())
    }

    async fn remove(&self, key: &CacheKey) -> Result<(), BoxError> {
        self.entries.invalidate(key);
        Ok(())
    }

    async fn invalidate(&self, upstream: &str, what: &Invalidation) -> Result<(), BoxError> {
        for key in self.index.take(upstream, what) {
            self.entries.invalidate(&key);
        }
        Ok(())
    }

    fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::{entry, key};
    use super::*;

    crate::cache_store_contract!(MemoryStore::default());

    fn list(page: usize) -> CacheKey {
        key("a", "tools/list", Some(&page.to_string()), None)
    }

    #[tokio::test]
    async fn bytes_are_bounded_keys_included() {
        let store = MemoryStore::new(100_000);
        for page in 0..1000 {
            store.put(entry(&list(page), r#"{"tools":[]}"#), Duration::MAX).await.unwrap();
        }
        assert!(store.bytes() <= 100_000);
        assert!((50..200).contains(&store.entries()), "{}", store.entries());
        assert_eq!(store.evictions(), 1000 - store.entries());
        // The index knows what is there, and nothing else.
        let indexed: usize = store.index.lock().values().map(HashSet::len).sum();
        assert_eq!(indexed as u64, store.entries());
    }

    #[tokio::test]
    async fn entries_are_bounded_by_number_as_well() {
        let store = MemoryStore::new(1 << 20).with_max_entries(10);
        for page in 0..100 {
            store.put(entry(&list(page), "{}"), Duration::MAX).await.unwrap();
        }
        assert!((1..=10).contains(&store.entries()), "{}", store.entries());
    }

    #[tokio::test]
    async fn an_entry_larger_than_the_store_is_not_kept() {
        let store = MemoryStore::new(2_000);
        let large = format!(r#"{{"tools":["{}"]}}"#, "x".repeat(4_000));
        store.put(entry(&list(0), &large), Duration::MAX).await.unwrap();
        assert_eq!(store.entries(), 0);
    }

    #[tokio::test]
    async fn an_entry_larger_than_the_store_is_not_even_put_but_replaces() {
        let store = MemoryStore::new(2_000);
        store.put(entry(&list(0), "{}"), Duration::MAX).await.unwrap();
        let large = format!(r#"{{"tools":["{}"]}}"#, "x".repeat(4_000));
        for page in 0..3 {
            store.put(entry(&list(page), &large), Duration::MAX).await.unwrap();
            assert!(store.peek(&list(page)).is_none());
        }
        assert!(store.entries.iter().next().is_none());
        assert_eq!(store.entries(), 0);
        assert!(store.index.lock().is_empty());
    }

    #[tokio::test]
    async fn large_entries_do_not_pile_up_before_room_is_made() {
        let store = MemoryStore::new(1 << 20);
        let long = "x".repeat(100_000);
        for page in 0..150 {
            let key = key("a", "resources/read", Some(&format!("{page}{long}")), None);
            store.put(entry(&key, "{}"), Duration::MAX).await.unwrap();
            let bytes: usize = store.entries.iter().map(|(_, entry)| entry.size()).sum();
            assert!(bytes <= 1 << 20, "{bytes}");
        }
    }

    #[tokio::test]
    async fn what_is_removed_leaves_nothing_in_the_index() {
        let store = MemoryStore::default();
        for page in 0..10 {
            store.put(entry(&list(page), "{}"), Duration::MAX).await.unwrap();
        }
        store.remove(&list(0)).await.unwrap();
        store.invalidate("a", &Invalidation::Tools).await.unwrap();
        assert_eq!(store.entries(), 0);
        assert!(store.index.lock().is_empty());
    }
}
