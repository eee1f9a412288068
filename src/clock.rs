//! What time it is, for what must know and for tests that decide it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// A point in time: milliseconds since 1970, so that what is kept outside of a process can be read by another.
///
/// ```
/// use std::time::Duration;
/// use mcp_layers::clock::Timestamp;
///
/// let start = Timestamp::from_millis(1_000);
/// assert_eq!((start + Duration::from_secs(2)).as_millis(), 3_000);
/// assert_eq!(start.since(Timestamp::from_millis(400)), Some(Duration::from_millis(600)));
/// assert_eq!(start.since(Timestamp::from_millis(1_001)), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// `millis` milliseconds after the beginning of 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the beginning of 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The same as the standard library's type.
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        // Beyond what the system can tell is long after everything has expired: the latest it can tell is as good.
        let since = Duration::from_millis(self.0);
        UNIX_EPOCH.checked_add(since).unwrap_or_else(|| UNIX_EPOCH + Duration::from_secs(u32::MAX.into()))
    }

    /// What the standard library's type says, in whole milliseconds; before 1970 is 1970.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use mcp_layers::clock::Timestamp;
    ///
    /// let at = UNIX_EPOCH + Duration::from_millis(1_500);
    /// assert_eq!(Timestamp::from_system_time(at).to_system_time(), at);
    /// assert_eq!(Timestamp::from_system_time(UNIX_EPOCH - Duration::from_secs(1)).as_millis(), 0);
    /// ```
    #[must_use]
    pub fn from_system_time(at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// How long ago `earlier` was; `None` if it is yet to come.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(millis) => Some(Duration::from_millis(millis)),
            None => None,
        }
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    /// The end of time, rather than a panic, where the sum would be beyond it.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Tells the time.
///
/// ```
/// use std::time::Duration;
/// use mcp_layers::clock::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now().since(before), Some(Duration::from_secs(60)));
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The time now. It should never be earlier than it was.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The time of the machine when the clock was made, and steadily on from there: it is not set back when the
/// machine's clock is. Where Tokio's time is paused, so is this clock.
#[derive(Clone, Debug)]
pub struct SystemClock {
    wall: Timestamp,
    steady: Instant,
}

impl SystemClock {
    /// Reads the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Timestamp::default() + wall, steady: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.wall + self.steady.elapsed()
    }
}

/// The machine's clock as it stands: set forward and back with it, and right after the machine has slept.
///
/// For what machines must agree on, such as when a sealed state expires.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 is wrong. At the end of time everything has expired, which is the safe mistake.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX);
        Timestamp::default() + since
    }
}

/// A clock that moves when it is told to: for tests, which then need not sleep.
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that stands at some time.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(1_000_000_000_000))
    }

    /// Moves on by `duration`.
    pub fn advance(&self, duration: Duration) {
        self.set(self.now() + duration);
    }

    /// Moves to `now`.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_system_clock_stands_still_with_the_time_of_tokio() {
        let clock = SystemClock::new();
        let before = clock.now();
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(clock.now().since(before), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn the_end_of_time_is_reached_without_a_panic() {
        let late = Timestamp::from_millis(u64::MAX - 1);
        assert_eq!((late + Duration::MAX).as_millis(), u64::MAX);
    }
}
