//! What an entry is found by, and what makes entries invalid.

use std::fmt;
use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use bytestring::ByteString;

use crate::principal::Partition;
use crate::protocol::{Revision, method};

/// What a cached result is found by: upstream, revision, method, the parameter that affects the result, and for a
/// private result the partition of the callers who may have it.
///
/// The parts are kept and compared one by one. They are never joined into one text, so no name, URI or cursor can be
/// chosen such that it reads like another key.
///
/// Specification: `server/utilities/caching`, "Cache Key".
#[derive(Clone, PartialEq, Eq)]
pub struct CacheKey {
    pub(crate) upstream: Upstream,
    pub(crate) revision: Revision,
    pub(crate) operation: Operation,
    /// The cursor of a list or the URI of a read, decoded. An empty cursor is a cursor.
    pub(crate) param: Option<ByteString>,
    /// `None` for what everybody may have.
    pub(crate) partition: Option<Partition>,
}

/// Hashes what callers choose.
static PARAMS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Every part counts. What callers choose is hashed such that nobody can make keys collide, so a map of keys may have a
/// hasher that does little: this is most of what it costs to find an entry.
impl Hash for CacheKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let kind = u64::from(self.operation as u8) << 8 | u64::from(self.revision as u8);
        state.write_u64(self.upstream.hash.wrapping_add(kind));
        if let Some(param) = self.param() {
            state.write_u64(PARAMS.hash_one(param));
        }
        // A part of a digest tells as much as the whole, where equality is looked at as well.
        if let Some(digest) = &self.partition {
            state.write(&digest.as_bytes()[..8]);
        }
    }
}

/// The name of an upstream, with its hash: there are few of them, and each request needs it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Upstream {
    name: Arc<str>,
    hash: u64,
}

impl Upstream {
    /// Differs between names as a rule; the same for equal ones.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }
}

impl Hash for Upstream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl From<Arc<str>> for Upstream {
    fn from(name: Arc<str>) -> Self {
        // Whoever configures a server chooses the names: nobody makes them collide.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self { hash: hasher.finish(), name }
    }
}

impl std::ops::Deref for Upstream {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

/// The six methods with results that can be kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Operation {
    Discover,
    Tools,
    Prompts,
    Resources,
    Templates,
    Read,
}

impl Operation {
    pub(crate) fn of(method: &str) -> Option<Self> {
        Some(match method {
            method::SERVER_DISCOVER => Self::Discover,
            method::TOOLS_LIST => Self::Tools,
            method::PROMPTS_LIST => Self::Prompts,
            method::RESOURCES_LIST => Self::Resources,
            method::RESOURCES_TEMPLATES_LIST => Self::Templates,
            method::RESOURCES_READ => Self::Read,
            _ => return None,
        })
    }

    pub(crate) const fn method(self) -> &'static str {
        match self {
            Self::Discover => method::SERVER_DISCOVER,
            Self::Tools => method::TOOLS_LIST,
            Self::Prompts => method::PROMPTS_LIST,
            Self::Resources => method::RESOURCES_LIST,
            Self::Templates => method::RESOURCES_TEMPLATES_LIST,
            Self::Read => method::RESOURCES_READ,
        }
    }

    /// The parameter that affects the result, and whether it must be there.
    pub(crate) const fn param(self) -> Option<(&'static str, bool)> {
        match self {
            Self::Discover => None,
            Self::Read => Some(("uri", true)),
            Self::Tools | Self::Prompts | Self::Resources | Self::Templates => Some(("cursor", false)),
        }
    }
}

impl CacheKey {
    /// The name under which the cache knows who gave the result.
    #[must_use]
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The revision that request and result are in.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The method: one of the six that can be cached.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        self.operation.method()
    }

    /// The cursor of a list, or the URI of a read; `None` for the first page of a list and for `server/discover`.
    #[must_use]
    pub fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// Who may have the result: `None` for everybody.
    #[must_use]
    pub const fn partition(&self) -> Option<Partition> {
        self.partition
    }

    /// A SHA-256 over all parts, each preceded by its length: the same in every process, and what a store outside of
    /// this one should find entries by.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let parts = [
            Some(self.upstream.as_bytes()),
            Some(self.revision.as_str().as_bytes()),
            Some(self.method().as_bytes()),
            self.param().map(str::as_bytes),
            self.partition.as_ref().map(|partition| &partition.as_bytes()[..]),
        ];
        *Partition::of("cache key", &parts).as_bytes()
    }

    /// The same without a hold on the request that the parameter came in.
    pub(crate) fn detached(&self) -> Self {
        Self { param: self.param.as_deref().map(ByteString::from), ..self.clone() }
    }

    /// About how many bytes the key takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.upstream.len() + self.param().map_or(0, str::len)
    }
}

impl fmt::Debug for CacheKey {
    /// A cursor or URI may be a secret, and is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheKey")
            .field("upstream", &self.upstream())
            .field("method", &self.method())
            .field("private", &self.partition.is_some())
            .finish_non_exhaustive()
    }
}

/// What is not to be served any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Invalidation {
    /// All pages of `tools/list`.
    Tools,
    /// All pages of `prompts/list`.
    Prompts,
    /// All pages of `resources/list` and of `resources/templates/list`.
    Resources,
    /// `resources/read` of this URI.
    Resource(ByteString),
    /// All results of the upstream.
    Everything,
}

impl Invalidation {
    /// What a notification with this `method` makes invalid; `uri` is its `params.uri`. `None` if it is not one that
    /// tells of a change.
    ///
    /// ```
    /// use mcp_layers::store::Invalidation;
    ///
    /// let by = Invalidation::by_notification;
    /// assert_eq!(by("notifications/tools/list_changed", None), Some(Invalidation::Tools));
    /// assert_eq!(
    ///     by("notifications/resources/updated", Some("file:///a")),
    ///     Some(Invalidation::Resource("file:///a".into()))
    /// );
    /// assert_eq!(by("notifications/progress", None), None);
    /// ```
    #[must_use]
    pub fn by_notification(method: &str, uri: Option<&str>) -> Option<Self> {
        match method {
            method::NOTIFICATIONS_TOOLS_LIST_CHANGED => Some(Self::Tools),
            method::NOTIFICATIONS_PROMPTS_LIST_CHANGED => Some(Self::Prompts),
            method::NOTIFICATIONS_RESOURCES_LIST_CHANGED => Some(Self::Resources),
            method::NOTIFICATIONS_RESOURCES_UPDATED => uri.map(|uri| Self::Resource(uri.into())),
            _ => None,
        }
    }

    /// Whether a result under `key` is affected, if it is of the same upstream.
    #[must_use]
    pub fn covers(&self, key: &CacheKey) -> bool {
        match self {
            Self::Tools => key.operation == Operation::Tools,
            Self::Prompts => key.operation == Operation::Prompts,
            Self::Resources => matches!(key.operation, Operation::Resources | Operation::Templates),
            Self::Resource(uri) => key.operation == Operation::Read && key.param() == Some(uri),
            Self::Everything => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(upstream: &str, param: Option<&str>) -> CacheKey {
        CacheKey {
            upstream: Arc::<str>::from(upstream).into(),
            revision: Revision::V2026_07_28,
            operation: Operation::Tools,
            param: param.map(ByteString::from),
            partition: None,
        }
    }

    #[test]
    fn the_six_methods_are_the_cacheable_ones() {
        for operation in [
            Operation::Discover,
            Operation::Tools,
            Operation::Prompts,
            Operation::Resources,
            Operation::Templates,
            Operation::Read,
        ] {
            assert!(method::is_cacheable(operation.method()));
            assert_eq!(Operation::of(operation.method()), Some(operation));
        }
        assert_eq!(Operation::of("tools/call"), None);
        assert_eq!(Operation::of("TOOLS/LIST"), None);
    }

    #[test]
    fn digests_differ_wherever_keys_do() {
        let keys = [
            key("a", None),
            key("a", Some("")),
            key("a", Some("b")),
            key("ab", Some("")),
            key("ab", None),
            key("a@1|tools/list", None),
            CacheKey { partition: Some(Partition::of("p", &[])), ..key("a", None) },
            CacheKey { operation: Operation::Prompts, ..key("a", None) },
            CacheKey { revision: Revision::V2025_11_25, ..key("a", None) },
        ];
        for (at, one) in keys.iter().enumerate() {
            for (other_at, other) in keys.iter().enumerate() {
                assert_eq!(one == other, at == other_at);
                assert_eq!(one.digest() == other.digest(), at == other_at, "{at} {other_at}");
            }
        }
    }
}
