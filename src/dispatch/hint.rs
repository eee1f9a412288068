//! How long a result may be kept, and for whom.

use std::time::Duration;

use crate::message::RawObject;
use crate::protocol::CacheScope;

/// The largest integer that every JSON reader keeps exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// How long a result may be kept, and for whom.
///
/// Each half is decided by itself: what the handler says, else what was said when the item was registered, else
/// what the server says for the method, else "not at all" and "only by the caller it was given to".
///
/// Specification: `server/utilities/caching`.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_layers::dispatch::CacheHint;
/// use mcp_layers::protocol::CacheScope;
///
/// let for_all = CacheHint::default().with_scope(CacheScope::Public);
/// let minute = Duration::from_secs(60);
/// assert_eq!(for_all.or(CacheHint::private(minute)), CacheHint::public(minute));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheHint {
    /// How long the result stays fresh; written as whole milliseconds.
    pub ttl: Option<Duration>,
    /// Who may be served it.
    pub scope: Option<CacheScope>,
}

impl CacheHint {
    /// Everyone may be served the result for `ttl`.
    #[must_use]
    pub const fn public(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), scope: Some(CacheScope::Public) }
    }

    /// The caller may be served the result for `ttl`.
    #[must_use]
    pub const fn private(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), scope: Some(CacheScope::Private) }
    }

    /// The same for so long, whoever may be served it.
    #[must_use]
    pub const fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The same for these, however long.
    #[must_use]
    pub const fn with_scope(mut self, scope: CacheScope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// What this hint leaves open is taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { ttl: self.ttl.or(other.ttl), scope: self.scope.or(other.scope) }
    }

    /// The same for nobody but the caller.
    pub(super) const fn for_caller(self) -> Self {
        Self { scope: Some(CacheScope::Private), ..self }
    }

    /// Adds the two members to a result.
    pub(super) fn write_to(self, result: &mut RawObject) {
        let ttl = self.ttl.unwrap_or_default().as_millis();
        let ttl = u64::try_from(ttl).unwrap_or(u64::MAX).min(MAX_SAFE_INTEGER);
        result.push_number("ttlMs", ttl);
        result.push_static(
            "cacheScope",
            match self.scope.unwrap_or_default() {
                CacheScope::Public => "\"public\"",
                CacheScope::Private => "\"private\"",
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(hint: CacheHint) -> String {
        let mut result = RawObject::new();
        hint.write_to(&mut result);
        result.to_string()
    }

    #[test]
    fn each_half_is_taken_from_the_first_that_says_it() {
        let handler = CacheHint::default().with_scope(CacheScope::Public);
        let registered = CacheHint::private(Duration::from_millis(10));
        assert_eq!(written(handler.or(registered)), r#"{"ttlMs":10,"cacheScope":"public"}"#);
    }

    #[test]
    fn nothing_said_means_not_kept_and_private() {
        assert_eq!(written(CacheHint::default()), r#"{"ttlMs":0,"cacheScope":"private"}"#);
    }

    #[test]
    fn a_huge_duration_is_cut_to_what_json_readers_keep() {
        assert_eq!(
            written(CacheHint::public(Duration::MAX)),
            r#"{"ttlMs":9007199254740991,"cacheScope":"public"}"#
        );
    }
}
