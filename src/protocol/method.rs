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

/// Tells on a stream of change notifications what it will carry.
pub const NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Tells that the list of tools is another one now.
pub const NOTIFICATIONS_TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Tells that the list of prompts is another one now.
pub const NOTIFICATIONS_PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// Tells that the list of resources is another one now.
pub const NOTIFICATIONS_RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// Tells that a resource reads differently now.
pub const NOTIFICATIONS_RESOURCES_UPDATED: &str = "notifications/resources/updated";

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
