//! Bounds what is looked up for callers whom nobody knows.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::page::PAUSE;
use crate::clock::Timestamp;

/// How many tools may be looked for at once, and how many in vain before the next ones are refused.
pub(super) const TRIES: u32 = 32;

/// For how long a tool that was found is looked for again without a try.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Callers without a partition share their tries, because nobody can tell one of them from another. They share nothing
/// else: what one of them was told does not decide what another one may do.
pub(super) struct Brake {
    /// Whoever comes while it is exhausted waits: what is under way may turn out to be no attempt in vain.
    at_once: Semaphore,
    tries: Mutex<Tries>,
    /// The tools that were found, until when they are remembered. Whoever makes up names gets none in here.
    found: Cache<Box<str>, Timestamp>,
}

/// A bucket of tries: one comes back in each [`PAUSE`].
struct Tries {
    left: u32,
    /// Since when the next one has been on its way back.
    since: Timestamp,
}

impl Tries {
    fn take(&mut self, now: Timestamp) -> bool {
        if self.left == TRIES {
            self.since = now;
        }
        let pauses = now.since(self.since).unwrap_or_default().as_millis() / PAUSE.as_millis();
        let back = u32::try_from(pauses).unwrap_or(TRIES).min(TRIES - self.left);
        self.left += back;
        self.since = if self.left == TRIES { now } else { self.since + PAUSE * back };
        let is_left = self.left > 0;
        self.left -= u32::from(is_left);
        is_left
    }
}

/// One walk that looks for a tool. Given up half way it is a try in vain.
pub(super) struct Attempt<'a> {
    brake: &'a Brake,
    /// `None` if it took no try.
    permit: Option<SemaphorePermit<'a>>,
}

impl Brake {
    pub(super) fn new() -> Self {
        Self {
            at_once: Semaphore::new(TRIES as usize),
            tries: Mutex::new(Tries { left: TRIES, since: Timestamp::default() }),
            found: Cache::<Box<str>, _>::builder()
                .max_capacity(1 << 20)
                .weigher(|name, _| u32::try_from(name.len() + 64).unwrap_or(u32::MAX))
                .build(),
        }
    }

    /// `None` if no tool may be looked for now that has not been found lately.
    pub(super) async fn attempt(&self, tool: &str, now: impl Fn() -> Timestamp) -> Option<Attempt<'_>> {
        let is_known = || self.found.get(tool).is_some_and(|until| now() < until);
        if is_known() {
            return Some(Attempt { brake: self, permit: None });
        }
        let permit = self.at_once.acquire().await.ok()?;
        if is_known() {
            return Some(Attempt { brake: self, permit: None });
        }
        self.tries(|tries| tries.take(now())).then_some(Attempt { brake: self, permit: Some(permit) })
    }

    fn tries<T>(&self, work: impl FnOnce(&mut Tries) -> T) -> T {
        work(&mut self.tries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Attempt<'_> {
    /// It was not in vain.
    pub(super) fn found(self, tool: &str, now: Timestamp) {
        self.brake.found.insert(tool.into(), now + REMEMBERED);
        if self.permit.is_some() {
            self.brake.tries(|tries| tries.left = TRIES.min(tries.left + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_000_000);

    fn seconds(seconds: u64) -> Timestamp {
        START + Duration::from_secs(seconds)
    }

    /// Looks for a tool. Whether that is allowed, and whether it took a try.
    async fn look(brake: &Brake, tool: &str, now: Timestamp, there: bool) -> (bool, bool) {
        let Some(attempt) = brake.attempt(tool, || now).await else { return (false, false) };
        let took_a_try = attempt.permit.is_some();
        if there {
            attempt.found(tool, now);
        }
        (true, took_a_try)
    }

    /// How many tools may be looked for in vain.
    async fn in_vain(brake: &Brake, now: Timestamp) -> u32 {
        let mut allowed = 0;
        for n in 0..2 * TRIES {
            allowed += u32::from(look(brake, &format!("none-{n}"), now, false).await.0);
        }
        allowed
    }

    #[tokio::test]
    async fn tries_in_vain_come_back_one_in_a_second_and_no_more_than_there_were() {
        let brake = Brake::new();
        assert_eq!(in_vain(&brake, START).await, TRIES);
        assert_eq!(in_vain(&brake, START + Duration::from_millis(999)).await, 0);
        assert_eq!(in_vain(&brake, seconds(1)).await, 1);
        assert_eq!(in_vain(&brake, START + Duration::from_millis(4_500)).await, 3);
        assert_eq!(in_vain(&brake, seconds(5)).await, 1);
        assert_eq!(in_vain(&brake, seconds(100_000)).await, TRIES);
        // A clock that is set back gives none.
        assert_eq!(in_vain(&brake, START).await, 0);
    }

    #[tokio::test]
    async fn a_tool_that_is_found_gives_its_try_back_and_takes_none_for_a_while() {
        let brake = Brake::new();
        for n in 0..2 * TRIES {
            assert_eq!(look(&brake, &format!("tool-{n}"), START, true).await, (true, true));
        }
        assert_eq!(in_vain(&brake, START).await, TRIES);
        let last = START + Duration::from_millis(59_999);
        assert_eq!(look(&brake, "tool-0", last, false).await, (true, false));
        assert_eq!(look(&brake, "tool-0", START + REMEMBERED, false).await, (true, true));
    }
}
