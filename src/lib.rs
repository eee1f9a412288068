//! Tower layers for servers that speak the Model Context Protocol over Streamable HTTP.
//!
//! The crate is to MCP what `tower-http` is to HTTP: small layers, each useful alone, and a minimal service to put
//! them around. Its [README](https://github.com/mcp-layers/mcp-layers#readme) shows a whole server.
//!
//! # Two borders, one language between them
//! Above [`EndpointLayer`](endpoint::EndpointLayer) a request is HTTP with an unread body. Below it the body *is* the
//! parsed message: `http::Request<Message>` in, `http::Response<Reply>` out. So
//! - the body is parsed once, and every layer reads the same parse;
//! - a layer that needs the message cannot be stacked where there is none: it does not compile;
//! - extensions, status and headers stay where Tower's users expect them, and body-generic layers of tower and
//!   tower-http stack on both sides;
//! - what a layer decides is tested without HTTP.
//!
//! # Where to look
//! | question | module |
//! |---|---|
//! | What travels through the layers? | [`message`] |
//! | Which layers are there? | [`layers`], [`endpoint`] |
//! | In which order? | [`stack`] |
//! | How do I write one? | [`policy`] |
//! | What refuses a request, and how? | [`rejection`] |
//! | Who produces the answers? | [`dispatch`], [`upstream`] |
//! | Who calls? | [`principal`] |
//! | What do layers know about tools? | [`catalog`] |
//! | What are the words of MCP? | [`protocol`] |
//!
//! # The order of failures
//! A request that is wrong in several ways is told the first of these, as long as the layers are stacked in the order
//! of the example in the README: `Origin` and `Host` 403; the token 401; declared length 413; HTTP method 405; media types 415 and
//! 406; length 413; JSON 400 -32700; JSON-RPC 400 -32600; `_meta` 400 -32602; routing headers that come twice, and the
//! version's 400 -32020; the version 400 -32022; `Mcp-Method` and `Mcp-Name` 400 -32020; a method that the revision
//! does not have 404 -32601; `Mcp-Param-*` 400 -32020; scopes 403; capabilities 400 -32021; `requestState` and parameters
//! 400 -32602; the handler.

pub mod body;
pub mod catalog;
mod cause;
pub mod clock;
pub mod dispatch;
pub mod endpoint;
#[cfg(any(feature = "cache", feature = "introspection"))]
mod flight;
mod idle;
pub mod layers;
mod media;
pub mod message;
pub mod policy;
pub mod principal;
pub mod protocol;
pub mod rejection;
#[doc(hidden)]
pub mod sse;
pub mod stack;
pub mod store;
#[cfg(any(feature = "jwks", feature = "introspection", feature = "upstream"))]
mod tls;
mod trusted_state;
pub mod upstream;

pub use self::trusted_state::TrustedState;

/// Compiles and runs the examples of the README.
#[cfg(all(doctest, feature = "cache", feature = "schema", feature = "upstream"))]
#[doc = include_str!("../README.md")]
struct Readme;
