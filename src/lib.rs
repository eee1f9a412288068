//! Tower layers for servers that speak the Model Context Protocol over Streamable HTTP.

pub mod body;
pub mod catalog;
pub mod clock;
pub mod dispatch;
pub mod layers;
pub mod message;
pub mod policy;
pub mod principal;
pub mod protocol;
pub mod rejection;
