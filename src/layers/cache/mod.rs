//! Cache.

mod fill;
mod flight;
mod generation;
mod query;
mod response_cache;
mod service;
mod statistics;
mod stream;
mod tendency;

pub use self::fill::InnerError;
pub use self::query::{CacheMode, Query};
pub use self::response_cache::{Hit, PartitionBy, ResponseCache};
pub use self::service::{CacheFuture, CacheLayer, CacheService};
pub use self::statistics::Statistics;
