//! Layers that say yes or no to a request, or change what passes.

#[cfg(feature = "cache")]
pub mod cache;

#[cfg(feature = "cache")]
pub use self::cache::CacheLayer;
