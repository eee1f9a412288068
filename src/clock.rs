//! What time it is, so that tests can say so themselves.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Tells the time of day.
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> SystemTime;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> SystemTime {
        (**self).now()
    }
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still until it is told to move. Clones are the same clock.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use mcp_layers::clock::{Clock, ManualClock};
///
/// let clock = ManualClock::at(1_000);
/// clock.advance(Duration::from_millis(1_500));
/// assert_eq!(clock.now(), UNIX_EPOCH + Duration::from_millis(1_001_500));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Stands at `seconds` after the beginning of 1970. Defaults to 0.
    #[must_use]
    pub fn at(seconds: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seconds.saturating_mul(1_000))))
    }

    /// Moves forward, by whole milliseconds.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    /// Jumps to `seconds` after the beginning of 1970, forward or back.
    pub fn set(&self, seconds: u64) {
        self.0.store(seconds.saturating_mul(1_000), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        // A time that no `SystemTime` can hold is no time: tests that ask for it learn it here.
        UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}
