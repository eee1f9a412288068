//! What is remembered between requests.
//!
//! Each store is a trait with an implementation that keeps everything in memory, for servers of one process.

mod replay;

pub use self::replay::{MemoryReplayStore, ReplayStore, StateId, StateUse, StoreError, StoreFuture};
