//! The layers: each says yes or no to a request, and is useful alone.
//!
//! *Header guards* judge the head of any HTTP request and sit above
//! [`EndpointLayer`](crate::endpoint::EndpointLayer); *policies* judge a parsed message and sit below it. Stacking a
//! policy where there is no message does not compile.

pub mod auth;
pub mod guard;
pub mod headers;
pub mod limits;
mod mirrored;
pub mod origin;
#[cfg(test)]
mod testing;
pub mod version;

pub use self::auth::{AuthLayer, ProtectedResource};
pub use self::guard::GuardLayer;
pub use self::headers::HeadersLayer;
pub use self::limits::LimitsLayer;
pub use self::origin::OriginLayer;
pub use self::version::VersionLayer;
