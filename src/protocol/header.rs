//! The HTTP headers that MCP defines.

use http::HeaderName;

/// The revision that the request speaks; mirrors `_meta`.
pub const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method; mirrors `method`.
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource; mirrors `params.name` or `params.uri`.
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What the names of headers begin with that mirror arguments.
pub const MCP_PARAM_PREFIX: &str = "mcp-param-";
