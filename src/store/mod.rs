//! What is remembered between requests.
//!
//! Each store is a trait with an implementation that keeps everything in memory, for servers of one process.
//!
//! - [`ReplayStore`]: which sealed states have been used. See [`RequestStateLayer`](crate::layers::RequestStateLayer).
#![cfg_attr(
    feature = "cache",
    doc = "- [`CacheStore`]: what has been answered. See [`ResponseCache`](crate::layers::cache::ResponseCache); the rules \
           that every store obeys are on the trait, and [`contract`] tests them on yours."
)]

#[cfg(feature = "cache")]
mod cache_store;
#[cfg(feature = "cache")]
pub mod contract;
#[cfg(feature = "cache")]
pub(crate) mod entry;
#[cfg(feature = "cache")]
pub(crate) mod key;
#[cfg(feature = "cache")]
mod memory;
mod replay;

#[cfg(feature = "cache")]
pub use self::cache_store::CacheStore;
#[cfg(feature = "cache")]
pub use self::entry::{BadEntry, Entry};
#[cfg(feature = "cache")]
pub use self::key::{CacheKey, Invalidation};
#[cfg(feature = "cache")]
pub use self::memory::MemoryStore;
pub use self::replay::{MemoryReplayStore, ReplayStore, StateId, StateUse, StoreError, StoreFuture};
