//! Error codes of JSON-RPC and MCP.
//!
//! What neither of them names (401, 403, 405, 413, 415, 429, 503 and so on) carries its HTTP status as its code:
//! the ranges -32000 to -32099 belong to others.

/// The body is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The body is JSON, but not one request or notification.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist, or the server does not offer it.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong; also unknown tools, prompts, resources and cursors.
pub const INVALID_PARAMS: i64 = -32602;
/// Something went wrong inside.
pub const INTERNAL_ERROR: i64 = -32603;
/// An HTTP header does not say what the body says.
pub const HEADER_MISMATCH: i64 = -32020;
/// The client has not declared a capability that the request needs.
pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
/// The server does not speak the requested revision.
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
