//! The store of a response cache.

use std::sync::Arc;
use std::time::Duration;

use super::{CacheKey, Entry, Invalidation};
use crate::body::BoxError;

/// Keeps entries of a response cache.
///
/// # The contract
/// 1. What was put is found under its key and no other, until it is replaced, removed or invalidated, or the store
///    needs its room. Keys are compared whole: a store that shortens or digests them must use
///    [`CacheKey::digest`], and [`Entry::decode`] finds out if it mixed them up.
/// 2. Once the future of a [`put`](Self::put), [`remove`](Self::remove) or [`invalidate`](Self::invalidate) has
///    completed, every later [`get`](Self::get) and [`peek`](Self::peek) knows of it.
/// 3. A future that is dropped half way leaves a store that still obeys these rules.
/// 4. What the store cannot do it says with an error. To the callers of the cache that is a miss; one that takes long is
///    given up after [`with_store_timeout`](crate::layers::cache::ResponseCache::with_store_timeout).
///
/// A store need not know what the time is, nor whether an entry is still good: the cache judges each entry that it is
/// given, by its age and by what has been invalidated since. So an entry that is kept too long is never served, and
/// one that is lost is a miss.
///
/// Whoever can write to a store decides what callers are answered.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use std::time::Duration;
///
/// use mcp_layers::body::BoxError;
/// use mcp_layers::store::{CacheKey, CacheStore, Entry, Invalidation};
///
/// /// Never forgets: do not use it.
/// #[derive(Default)]
/// struct Hoard(Mutex<HashMap<CacheKey, Entry>>);
///
/// impl CacheStore for Hoard {
///     async fn get(&self, key: &CacheKey) -> Result<Option<Entry>, BoxError> {
///         Ok(self.0.lock().unwrap().get(key).cloned())
///     }
///     async fn put(&self, entry: Entry, _: Duration) -> Result<(), BoxError> {
///         self.0.lock().unwrap().insert(entry.key().clone(), entry);
///         Ok(())
///     }
///     async fn remove(&self, key: &CacheKey) -> Result<(), BoxError> {
///         self.0.lock().unwrap().remove(key);
///         Ok(())
///     }
///     async fn invalidate(&self, upstream: &str, what: &Invalidation) -> Result<(), BoxError> {
///         self.0.lock().unwrap().retain(|key, _| key.upstream() != upstream || !what.covers(key));
///         Ok(())
///     }
/// }
///
/// // In a test of yours: mcp_layers::cache_store_contract!(Hoard::default());
/// ```
pub trait CacheStore: Send + Sync + 'static {
    /// The entry under `key` if it can be had at once, which spares a hit a future. `None` where that is not known:
    /// [`get`](Self::get) is asked then. Defaults to `None`.
    fn peek(&self, key: &CacheKey) -> Option<Entry> {
        let _ = key;
        None
    }

    /// The entry under `key`.
    fn get(&self, key: &CacheKey) -> impl Future<Output = Result<Option<Entry>, BoxError>> + Send;

    /// Keeps `entry` under [`Entry::key`], in place of what was there. It is of no use to anybody after `keep`.
    fn put(&self, entry: Entry, keep: Duration) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Forgets what is under `key`, if there is anything.
    fn remove(&self, key: &CacheKey) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Forgets everything of `upstream` that `what` [covers](Invalidation::covers), of all revisions and partitions.
    fn invalidate(
        &self,
        upstream: &str,
        what: &Invalidation,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// How many entries have been dropped so far to make room. Defaults to 0, for stores that do not know.
    fn evictions(&self) -> u64 {
        0
    }
}

impl<S: CacheStore> CacheStore for Arc<S> {
    fn peek(&self, key: &CacheKey) -> Option<Entry> {
        (**self).peek(key)
    }

    fn get(&self, key: &CacheKey) -> impl Future<Output = Result<Option<Entry>, BoxError>> + Send {
        (**self).get(key)
    }

    fn put(&self, entry: Entry, keep: Duration) -> impl Future<Output = Result<(), BoxError>> + Send {
        (**self).put(entry, keep)
    }

    fn remove(&self, key: &CacheKey) -> impl Future<Output = Result<(), BoxError>> + Send {
        (**self).remove(key)
    }

    fn invalidate(
        &self,
        upstream: &str,
        what: &Invalidation,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        (**self).invalidate(upstream, what)
    }

    fn evictions(&self) -> u64 {
        (**self).evictions()
    }
}
