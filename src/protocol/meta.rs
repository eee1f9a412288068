//! The reserved keys of `_meta`.

/// The revision that a request speaks. Required on every request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client can do for this request. Required on every request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Name and version of the client.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The least severe log messages that the client wants for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The id of the `subscriptions/listen` request that a message belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Name and version of the server, on results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// What progress notifications of a request are marked with.
pub const PROGRESS_TOKEN: &str = "progressToken";
