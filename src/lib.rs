//! Tower layers for servers that speak the Model Context Protocol over Streamable HTTP.

pub mod protocol;
