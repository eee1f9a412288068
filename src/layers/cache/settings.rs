//! What can be chosen of a cache.

use std::time::Duration;

use super::response_cache::ResponseCache;
use crate::protocol::meta;
use crate::store::CacheStore;

/// No result is fresh for longer, whatever it says.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// By what callers are told apart, where a result is private.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionBy {
    /// By the very token that was presented: [`Principal::credential`](crate::principal::Principal::credential). This is
    /// what the specification asks for: "a different access token requires a different cache".
    #[default]
    Token,
    /// By principal and its scopes, so that entries outlive the tokens. Right where what a token may see depends on
    /// nothing but these.
    Principal,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) partition: PartitionBy,
    pub(super) trust_public: bool,
    pub(super) max_ttl: Duration,
    pub(super) stale_if_error: Duration,
    pub(super) store_timeout: Duration,
    pub(super) kept_meta: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            partition: PartitionBy::default(),
            trust_public: true,
            max_ttl: LONGEST,
            stale_if_error: Duration::ZERO,
            store_timeout: Duration::from_millis(250),
            kept_meta: vec![meta::SERVER_INFO.to_owned()],
        }
    }
}

impl<S: CacheStore> ResponseCache<S> {
    /// By what callers are told apart. Defaults to [`PartitionBy::Token`].
    #[must_use]
    pub fn with_partition(self, by: PartitionBy) -> Self {
        self.with(|settings| settings.partition = by)
    }

    /// Whether `public` is believed of this upstream; if not, all its results are private. Defaults to `true`.
    #[must_use]
    pub fn with_trust_public(self, trust: bool) -> Self {
        self.with(|settings| settings.trust_public = trust)
    }

    /// For how long a result is fresh at most, whatever it says. Defaults to 24 hours, which is also the most.
    #[must_use]
    pub fn with_max_ttl(self, max_ttl: Duration) -> Self {
        self.with(|settings| settings.max_ttl = max_ttl.min(LONGEST))
    }

    /// For how long after it has expired an entry may still be served if the inner service fails: with an error of
    /// its own, an HTTP status of 500, 502, 503 or 504, or the code -32603. At most 24 hours. An entry that has been
    /// invalidated is never served, nor is one once the inner service has refused: with any other error but that it
    /// was asked too much or too early (408, 425 and 429). Defaults to zero: not at all.
    #[must_use]
    pub fn with_stale_if_error(self, bound: Duration) -> Self {
        self.with(|settings| settings.stale_if_error = bound.min(LONGEST))
    }

    /// How long one request waits for the store in all, before what it does not say counts as a miss. Defaults to 250 ms.
    ///
    /// A store that makes the cache wait needs a Tokio runtime with time; [`MemoryStore`](crate::store::MemoryStore) does not.
    #[must_use]
    pub fn with_store_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.store_timeout = timeout)
    }

    /// Which members of a result's `_meta` belong to the result and not to the one response it came in, and are
    /// therefore told to everybody. All others are left out of entries, since they may be about the caller or the call.
    /// Defaults to `io.modelcontextprotocol/serverInfo` alone.
    #[must_use]
    pub fn with_kept_meta<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        self.with(|settings| settings.kept_meta = keys.into_iter().map(Into::into).collect())
    }

    /// For how long an entry with this `ttl` is fresh.
    pub(in crate::layers) fn lifetime(&self, ttl: Duration) -> Duration {
        ttl.min(self.settings().max_ttl)
    }

    pub(super) fn keep(&self, ttl: Duration) -> Duration {
        self.lifetime(ttl) + self.settings().stale_if_error
    }
}
