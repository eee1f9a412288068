//! Remembers what a verifier said of a token.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::verifier::{Verified, VerifyError};
use crate::principal::Partition;

/// Callers wait for each other only within one of these.
const SHARDS: usize = 16;

/// What a verifier said of tokens, by the digest of the whole token, for as long as that holds.
///
/// Bounded: what has not been used for longest goes, roughly. Refusals have a bound of their own, so that whoever
/// sends tokens that he made up pushes out no token that is good.
pub(super) struct Remembered {
    shards: [Mutex<Shard>; SHARDS],
    verified_per_shard: usize,
    refused_per_shard: usize,
}

#[derive(Default)]
struct Shard {
    verified: Halves<Verified>,
    refused: Halves<(VerifyError, SystemTime)>,
}

/// Two generations: what is used moves into the young one; when that is full, the old one is forgotten.
struct Halves<T> {
    young: HashMap<Partition, T>,
    old: HashMap<Partition, T>,
}

impl<T> Default for Halves<T> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<T> Halves<T> {
    fn get(&mut self, key: Partition, max: usize) -> Option<&T> {
        if let Some(value) = self.old.remove(&key) {
            self.insert(key, value, max);
        }
        self.young.get(&key)
    }

    fn insert(&mut self, key: Partition, value: T, max: usize) {
        if self.young.len() >= max.div_ceil(2) && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    fn remove(&mut self, key: Partition) {
        self.young.remove(&key);
        self.old.remove(&key);
    }
}

impl Remembered {
    /// Remembers about `capacity` verified tokens, and an eighth as many refusals.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            shards: Default::default(),
            verified_per_shard: capacity.div_ceil(SHARDS),
            refused_per_shard: capacity.div_ceil(8 * SHARDS),
        }
    }

    fn shard(&self, key: Partition) -> std::sync::MutexGuard<'_, Shard> {
        let at = usize::from(key.as_bytes()[31]) % SHARDS;
        // What a panic leaves behind is still a map.
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: Partition, now: SystemTime) -> Option<Result<Verified, VerifyError>> {
        let mut shard = self.shard(key);
        if let Some(verified) = shard.verified.get(key, self.verified_per_shard) {
            if verified.until().is_some_and(|until| now < until) {
                return Some(Ok(verified.clone()));
            }
            shard.verified.remove(key);
            return None;
        }
        let (error, until) = shard.refused.get(key, self.refused_per_shard)?;
        if now < *until {
            return Some(Err(error.clone()));
        }
        shard.refused.remove(key);
        None
    }

    pub(super) fn keep(&self, key: Partition, verified: &Verified) {
        if verified.until().is_some() && self.verified_per_shard > 0 {
            let mut shard = self.shard(key);
            shard.refused.remove(key);
            shard.verified.insert(key, verified.clone(), self.verified_per_shard);
        }
    }

    pub(super) fn keep_refusal(&self, key: Partition, error: &VerifyError, until: SystemTime) {
        if error.lasts() && self.refused_per_shard > 0 {
            self.shard(key).refused.insert(key, (error.clone(), until), self.refused_per_shard);
        }
    }

    pub(super) fn forget(&self, key: Partition) {
        self.shard(key).verified.remove(key);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let len = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap();
            shard.verified.young.len()
                + shard.verified.old.len()
                + shard.refused.young.len()
                + shard.refused.old.len()
        };
        self.shards.iter().map(len).sum()
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered")
            .field("capacity", &(self.verified_per_shard * SHARDS))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::principal::Principal;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn verified(until: u64) -> Verified {
        Verified::from(Principal::new("i", "s")).kept_until(at(until))
    }

    fn key(n: u32) -> Partition {
        Partition::of_credential(&n.to_be_bytes())
    }

    #[test]
    fn nothing_is_remembered_beyond_its_time() {
        let cache = Remembered::new(100);
        cache.keep(key(1), &verified(10));
        assert!(cache.get(key(1), at(9)).unwrap().is_ok());
        assert!(cache.get(key(1), at(10)).is_none());
        cache.keep(key(1), &Principal::new("i", "s").into());
        assert!(cache.get(key(1), at(0)).is_none(), "nobody said how long");
        let expiring = Verified::from(Principal::new("i", "s").with_expiry(at(5))).kept_until(at(100));
        cache.keep(key(2), &expiring);
        assert!(cache.get(key(2), at(5)).is_none(), "not longer than the token lives");
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn refusals_that_last_are_remembered() {
        let cache = Remembered::new(100);
        cache.keep_refusal(key(1), &VerifyError::invalid("no"), at(5));
        cache.keep_refusal(key(2), &VerifyError::not_now("not yet"), at(5));
        cache.keep_refusal(key(3), &VerifyError::unavailable(Duration::ZERO), at(5));
        assert_eq!(cache.get(key(1), at(4)).unwrap().unwrap_err().reason(), Some("no"));
        assert!(cache.get(key(1), at(5)).is_none() && cache.get(key(2), at(4)).is_none());
        assert!(cache.get(key(3), at(4)).is_none());
    }

    #[test]
    fn made_up_tokens_push_out_nothing_that_is_good_and_the_rest_is_bounded() {
        let cache = Remembered::new(64);
        cache.keep(key(0), &verified(10));
        for n in 1..10_000 {
            cache.keep_refusal(key(n), &VerifyError::invalid("no"), at(5));
        }
        assert!(cache.get(key(0), at(1)).is_some());
        for n in 1..10_000 {
            cache.keep(key(n), &verified(10));
            assert!(cache.get(key(0), at(1)).is_some(), "what is used stays");
        }
        assert!(cache.len() <= 64 + 2 * SHARDS, "{}", cache.len());
    }

    #[test]
    fn a_capacity_of_nothing_remembers_nothing() {
        let cache = Remembered::new(0);
        cache.keep(key(0), &verified(10));
        cache.keep_refusal(key(0), &VerifyError::invalid("no"), at(5));
        assert!(cache.get(key(0), at(1)).is_none());
    }
}
