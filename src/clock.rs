//! What time it is.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Tells the time: the system's, or one that tests set.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use mcp_layers::clock::Clock;
///
/// let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(12 * 3600);
/// assert_eq!(Clock::from_fn(move || noon).now(), noon);
/// ```
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> SystemTime + Send + Sync>>);

impl Clock {
    /// The system's time.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// The time that `now` tells.
    #[must_use]
    pub fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now)))
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        self.0.as_ref().map_or_else(SystemTime::now, |now| now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock(given)" } else { "Clock(system)" })
    }
}
