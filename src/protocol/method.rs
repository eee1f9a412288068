//! The methods of MCP.

/// Asks what the server is and can do.
pub const SERVER_DISCOVER: &str = "server/discover";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists resource templates.
pub const RESOURCES_TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Gets a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Completes an argument.
pub const COMPLETION_COMPLETE: &str = "completion/complete";
/// Opens a stream of change notifications.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";

/// The member of `params` that names what a request is about, which `Mcp-Name` mirrors.
///
/// `None` for methods that have no such member.
#[must_use]
pub fn target_member(method: &str) -> Option<&'static str> {
    match method {
        TOOLS_CALL | PROMPTS_GET => Some("name"),
        RESOURCES_READ => Some("uri"),
        // The tasks extension.
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// True for the three methods that may be answered with `resultType: "input_required"`.
///
/// Specification: `basic/patterns/mrtr`, "Supported Requests".
#[must_use]
pub fn may_require_input(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}

/// True for the six methods whose results carry `ttlMs` and `cacheScope`.
///
/// Specification: `server/utilities/caching`.
#[must_use]
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        SERVER_DISCOVER
            | TOOLS_LIST
            | RESOURCES_LIST
            | RESOURCES_TEMPLATES_LIST
            | RESOURCES_READ
            | PROMPTS_LIST
    )
}
