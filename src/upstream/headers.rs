//! Which headers pass, and what the upstream is told about the message.

use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use http::{Extensions, StatusCode};

use crate::catalog::ToolCatalog;
use crate::message::{Message, Meta, Raw};
use crate::protocol::header::{MCP_METHOD, MCP_NAME, MCP_PARAM_PREFIX, MCP_PROTOCOL_VERSION};
use crate::protocol::method::TOOLS_CALL;
use crate::protocol::mirror::{BodyValue, ParamHeader, encode, header_value, matches};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
pub(super) const LOCALHOST: HeaderValue = HeaderValue::from_static("localhost");

/// What passes to the upstream besides the headers of MCP.
const REQUEST: [&str; 6] =
    ["accept-language", "baggage", "traceparent", "tracestate", "user-agent", "x-request-id"];

/// What passes back.
const RESPONSE: [&str; 5] = ["ratelimit", "ratelimit-policy", "retry-after", "traceresponse", "x-request-id"];

/// True for what never passes: it is about one connection, about how the body is written, about who asks, or about the
/// origin that serves it.
pub(super) fn is_own(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(
        name,
        "accept"
            | "accept-encoding"
            | "authorization"
            | "connection"
            | "cookie"
            | "expect"
            | "host"
            | "http2-settings"
            | "keep-alive"
            | "set-cookie"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "www-authenticate"
    ) || ["access-control-", "content-", "mcp-", "proxy-"].iter().any(|prefix| name.starts_with(prefix))
}

/// True for what describes the message, the body or the connection: nobody else has a say in it.
pub(super) fn is_framing(name: &HeaderName) -> bool {
    is_own(name) && !matches!(name.as_str(), "authorization" | "cookie" | "proxy-authorization")
}

fn is_of_mcp(name: &HeaderName) -> bool {
    *name == MCP_PROTOCOL_VERSION
        || *name == MCP_METHOD
        || *name == MCP_NAME
        || name.as_str().starts_with(MCP_PARAM_PREFIX)
}

/// True if a `Connection` header says that `name` is for this hop alone.
fn is_of_this_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    let lines = headers.get_all(header::CONNECTION).into_iter();
    lines
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .any(|token| token.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
}

/// Keeps the lines whose names may pass.
fn pass(headers: &HeaderMap, may_pass: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut passed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if may_pass(name) && !is_of_this_hop(headers, name) {
            passed.append(name, value.clone());
        }
    }
    passed
}

/// The inbound headers that the upstream may see; `more` are those that were asked for.
pub(super) fn inbound(headers: &HeaderMap, more: &[HeaderName]) -> HeaderMap {
    pass(headers, |name| {
        is_of_mcp(name) || REQUEST.contains(&name.as_str()) || more.contains(name) && !is_own(name)
    })
}

/// The headers of the upstream that the caller may see.
pub(super) fn outbound(
    headers: &HeaderMap,
    status: StatusCode,
    challenges: bool,
    more: &[HeaderName],
) -> HeaderMap {
    let challenges = challenges && is_challenge(status);
    pass(headers, |name| {
        RESPONSE.contains(&name.as_str())
            || challenges && *name == header::WWW_AUTHENTICATE
            || more.contains(name) && !is_own(name)
    })
}

/// True for the statuses that come with a challenge.
pub(super) fn is_challenge(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Adds what shows who asks, as far as that is what it is about.
pub(super) fn add_credentials(headers: &mut HeaderMap, credentials: HeaderMap) {
    for name in credentials.keys() {
        headers.remove(name);
    }
    let mut current = None;
    for (name, mut value) in credentials {
        // Further values of one name come without it.
        current = name.or(current);
        let Some(name) = current.as_ref().filter(|name| !is_framing(name)) else { continue };
        value.set_sensitive(true);
        headers.append(name, value);
    }
}

/// Writes what the upstream needs to know about the body.
pub(super) fn describe_body(headers: &mut HeaderMap, length: usize) {
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::ACCEPT, BOTH);
    headers.insert(header::ACCEPT_ENCODING, IDENTITY);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
}

/// Mirrors the message into its headers: all of them anew if it was edited, those that are missing if not.
pub(super) fn mirror(
    headers: &mut HeaderMap,
    message: &Message,
    catalog: &dyn ToolCatalog,
    extensions: &Extensions,
) {
    let edited = message.is_edited();
    if let Some(version) = message.meta().and_then(Meta::protocol_version)
        && is_open(headers, &MCP_PROTOCOL_VERSION, edited)
    {
        put(headers, &MCP_PROTOCOL_VERSION, Some(&version));
    }
    if is_open(headers, &MCP_METHOD, edited) {
        put(headers, &MCP_METHOD, Some(message.method()));
    }
    let target = message.target();
    if is_open(headers, &MCP_NAME, edited) {
        put(headers, &MCP_NAME, target.map(encode).as_deref());
    }
    if message.method() == TOOLS_CALL
        && let Some(facts) = target.and_then(|tool| catalog.tool(tool, extensions))
    {
        for param in facts.param_headers.as_slice() {
            // Without one value there is no header, and the upstream refuses the call.
            let value = param.value_in(message.arguments()).unwrap_or_default().map(Raw::text);
            if is_open(headers, param.header(), edited) || agrees(headers, param, value) {
                put(headers, param.header(), header_value(param.kind(), value).as_deref());
            }
        }
    }
}

/// True if a header is this gateway's to write.
fn is_open(headers: &HeaderMap, name: &HeaderName, edited: bool) -> bool {
    edited || !headers.contains_key(name)
}

/// True if a header says what the message says, perhaps in another notation.
fn agrees(headers: &HeaderMap, param: &ParamHeader, value: BodyValue<'_>) -> bool {
    let mut lines = headers.get_all(param.header()).into_iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    matches(param.kind(), value, Some(line.as_bytes())).is_ok()
}

/// Writes a header, or removes it where there is nothing to say, or nothing that a header can say.
fn put(headers: &mut HeaderMap, name: &HeaderName, text: Option<&str>) {
    match text.and_then(|text| HeaderValue::from_str(text).ok()) {
        Some(value) => drop(headers.insert(name, value)),
        None => drop(headers.remove(name)),
    }
}
