//! The layers: each says yes or no to a request, and is useful alone.
//!
//! *Header guards* judge the head of any HTTP request and sit above
//! [`EndpointLayer`](crate::endpoint::EndpointLayer); *policies* judge a parsed message and sit below it. Stacking a
//! policy where there is no message does not compile:
//!
//! ```compile_fail,E0271
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::Full;
//! use mcp_layers::dispatch::Dispatch;
//! use mcp_layers::endpoint::EndpointLayer;
//! use mcp_layers::layers::VersionLayer;
//! use tower::{Service, ServiceBuilder};
//!
//! fn serve(_: impl Service<Request<Full<Bytes>>>) {}
//!
//! let server = Dispatch::builder("s", "1.0.0").build().unwrap();
//! serve(ServiceBuilder::new().layer(VersionLayer::new()).layer(EndpointLayer::new()).service(server));
//! ```
//!
//! The other way round it does:
//!
//! ```
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::Full;
//! use mcp_layers::dispatch::Dispatch;
//! use mcp_layers::endpoint::EndpointLayer;
//! use mcp_layers::layers::VersionLayer;
//! use tower::{Service, ServiceBuilder};
//!
//! fn serve(_: impl Service<Request<Full<Bytes>>>) {}
//!
//! let server = Dispatch::builder("s", "1.0.0").build().unwrap();
//! serve(ServiceBuilder::new().layer(EndpointLayer::new()).layer(VersionLayer::new()).service(server));
//! ```

pub mod auth;
#[cfg(feature = "cache")]
pub mod cache;
pub mod capability;
pub mod guard;
pub mod headers;
#[cfg(feature = "cache")]
pub mod learned;
pub mod limits;
mod mirrored;
pub mod origin;
mod outbound;
pub mod params;
mod recalled;
pub mod request_state;
pub mod scope;
#[cfg(test)]
mod testing;
pub mod version;

pub use self::auth::{AuthLayer, ProtectedResource};
#[cfg(feature = "cache")]
pub use self::cache::{CacheHintsLayer, CacheLayer};
pub use self::capability::{CapabilityLayer, RequireExtensionLayer};
pub use self::guard::GuardLayer;
pub use self::headers::HeadersLayer;
#[cfg(feature = "cache")]
pub use self::learned::LearnedCatalog;
pub use self::limits::LimitsLayer;
pub use self::origin::OriginLayer;
pub use self::params::ParamsLayer;
pub use self::request_state::RequestStateLayer;
pub use self::scope::{ScopeLayer, ScopeRules};
pub use self::version::VersionLayer;
