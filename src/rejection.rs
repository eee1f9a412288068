//! Every refusal, and the only place where its code and status are chosen.
//!
//! | constructor | HTTP | code | data |
//! |---|---|---|---|
//! | [`parse_error`](Rejection::parse_error) | 400 | -32700 | |
//! | [`invalid_request`](Rejection::invalid_request) | 400 | -32600 | |
//! | [`invalid_params`](Rejection::invalid_params) | 400 | -32602 | |
//! | [`header_mismatch`](Rejection::header_mismatch) | 400 | -32020 | |
//! | [`unsupported_version`](Rejection::unsupported_version) | 400 | -32022 | `supported`, `requested` |
//! | [`no_handshake`](Rejection::no_handshake) | 400 | -32022 | `supported`, `requested` |
//! | [`method_not_found`](Rejection::method_not_found) | 404 | -32601 | |
//! | [`missing_capability`](Rejection::missing_capability) | 400 | -32021 | `requiredCapabilities` |
//! | [`internal`](Rejection::internal) | 500 | -32603 | |
//! | [`subscription_limit`](Rejection::subscription_limit) | 200 | -32603 | |
//! | [`bad_result`](Rejection::bad_result) | 200 | -32603 | |
//! | [`invalid_request_state`](Rejection::invalid_request_state) | 400 | -32602 | `reason` |
//! | [`tool_error`](Rejection::tool_error) | 200 | -32602, not sent | |
//! | [`unknown_tool`](Rejection::unknown_tool) | 400 | -32602 | |
//! | [`unknown_prompt`](Rejection::unknown_prompt) | 400 | -32602 | |
//! | [`unknown_resource`](Rejection::unknown_resource) | 400 | -32602 | `uri` |
//! | [`unknown_template`](Rejection::unknown_template) | 400 | -32602 | |
//! | [`unauthorized`](Rejection::unauthorized) | 401 | 401 | |
//! | [`malformed_credentials`](Rejection::malformed_credentials) | 400 | 400 | |
//! | [`insufficient_scope`](Rejection::insufficient_scope) | 403 | 403 | |
//! | [`unavailable`](Rejection::unavailable) | 503 | 503 | |
//! | [`bad_gateway`](Rejection::bad_gateway) | 502 | 502 | |
//! | [`gateway_timeout`](Rejection::gateway_timeout) | 504 | 504 | |
//! | [`overloaded`](Rejection::overloaded) | 503 | 503 | |
//! | [`upstream_status`](Rejection::upstream_status) | 401, 403, 413, 429, 502, 503 or 504 | the status | |
//! | [`http`](Rejection::http) | any | the status | |
//!
//! Specification: `basic/index`, "Error Codes"; `basic/transports/streamable-http`, "Request Metadata".

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;

use crate::message::{Answer, ErrorObject, Fault, ParseError, Raw, RawObject, Reply, RequestId};
use crate::protocol::{Challenge, code};

/// A refusal: a JSON-RPC error with the HTTP status and headers that go with it.
///
/// A clone is left in the extensions of the response that it becomes, so that audit and tracing read the cause
/// without parsing bodies. It never holds a secret.
///
/// ```
/// use http::StatusCode;
/// use mcp_layers::rejection::Rejection;
///
/// let rejection = Rejection::method_not_found("tools/fly");
/// assert_eq!((rejection.status(), rejection.code()), (StatusCode::NOT_FOUND, -32601));
///
/// let response = rejection.into_response(Some(1.into()));
/// assert_eq!(response.status(), StatusCode::NOT_FOUND);
/// assert_eq!(response.extensions().get::<Rejection>().map(Rejection::code), Some(-32601));
///
/// let closed = Rejection::http(StatusCode::FORBIDDEN, "closed until nine").with_data(&serde_json::json!({"opens": 9}));
/// assert_eq!(closed.data().map(|data| data.text()), Some(r#"{"opens":9}"#));
/// ```
#[derive(Clone)]
pub struct Rejection(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    status: StatusCode,
    code: i64,
    message: Cow<'static, str>,
    data: Option<ByteString>,
    headers: HeaderMap,
    /// The answer is a tool result that says what was wrong, not a JSON-RPC error.
    as_tool_result: bool,
}

impl Rejection {
    fn new(status: StatusCode, code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner {
            status,
            code,
            message: message.into(),
            data: None,
            headers: HeaderMap::new(),
            as_tool_result: false,
        }))
    }

    /// The body is not JSON that can be read.
    #[must_use]
    pub fn parse_error(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::PARSE_ERROR, message)
    }

    /// The body is JSON, but not one request or notification.
    #[must_use]
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, message)
    }

    /// The parameters are wrong, `_meta` among them.
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, message)
    }

    /// A header is missing, comes twice, or does not say what the body says.
    #[must_use]
    pub fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, message)
    }

    /// The revision is not served. `requested` is told back shortened to 64 characters.
    #[must_use]
    pub fn unsupported_version(supported: &[&str], requested: &str) -> Self {
        let requested = shorten(requested);
        Self::new(
            StatusCode::BAD_REQUEST,
            code::UNSUPPORTED_PROTOCOL_VERSION,
            format!("protocol version `{requested}` is not supported; supported: {}", supported.join(", ")),
        )
        .with_data(&json!({ "supported": supported, "requested": requested }))
    }

    /// An `initialize` of a legacy client, which can do no more than show the message to somebody.
    #[must_use]
    pub fn no_handshake(supported: &[&str], requested: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            code::UNSUPPORTED_PROTOCOL_VERSION,
            format!(
                "this server has no `initialize` handshake; it supports {}, where every request carries its protocol \
                 version in `params._meta`: use a client of such a version",
                supported.join(", ")
            ),
        )
        .with_data(&json!({ "supported": supported, "requested": shorten(requested) }))
    }

    /// The method does not exist in this revision, or the server does not offer it.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            code::METHOD_NOT_FOUND,
            format!(
                "method `{}` not found; `server/discover` tells what this server offers",
                shorten(method)
            ),
        )
    }

    /// The client has not declared capabilities that the request needs. `required` is an object of the shape of
    /// `ClientCapabilities` that lists those that are missing.
    #[must_use]
    pub fn missing_capability<T: Serialize + ?Sized>(required: &T) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            code::MISSING_REQUIRED_CLIENT_CAPABILITY,
            "the client has not declared a capability that this request needs: see `data.requiredCapabilities`",
        )
        .with_data(&json!({ "requiredCapabilities": required }))
    }

    /// Something went wrong inside; `message` says nothing about what.
    #[must_use]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL_ERROR, message)
    }

    /// The server made a result that the protocol forbids; `message` says nothing about what is inside.
    ///
    /// The request was fine: the error travels in the answer, as that of a handler that fails.
    #[must_use]
    pub fn bad_result(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::OK, code::INTERNAL_ERROR, message)
    }

    /// The `requestState` is not one that this server gave for this request to this caller, or not any more.
    ///
    /// It says the same whatever was wrong: the difference would help to forge one. The log tells it.
    #[must_use]
    pub fn invalid_request_state() -> Self {
        let message = "invalid or expired `requestState`: send the request again without it, to start anew";
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_PARAMS, message)
            .with_data(&json!({ "reason": "invalid_request_state" }))
    }

    /// No more streams of change notifications are opened while `limit` of them are live.
    ///
    /// The request was fine and so is the server: the error travels in the answer, not in the status.
    #[must_use]
    pub fn subscription_limit(limit: usize) -> Self {
        Self::new(
            StatusCode::OK,
            code::INTERNAL_ERROR,
            format!(
                "subscription limit reached: this server keeps at most {limit} streams open; try again later"
            ),
        )
    }

    /// The arguments of a tool call are wrong in a way that the model which made the call can mend: it reads `message`
    /// in a tool result with `isError`, HTTP 200.
    ///
    /// [`code`](Self::code) says -32602, for those who count refusals; on the wire there is no error. Data is not sent.
    /// Unknown tools are not for this: they are a protocol error.
    #[must_use]
    pub fn tool_error(message: impl Into<Cow<'static, str>>) -> Self {
        let mut rejection = Self::new(StatusCode::OK, code::INVALID_PARAMS, message);
        Arc::make_mut(&mut rejection.0).as_tool_result = true;
        rejection
    }

    /// There is no tool of that name, or none that this caller may know of.
    #[must_use]
    pub fn unknown_tool(name: &str) -> Self {
        Self::invalid_params(format!(
            "there is no tool `{}`; `tools/list` tells which there are",
            shorten(name)
        ))
    }

    /// There is no prompt of that name, or none that this caller may know of.
    #[must_use]
    pub fn unknown_prompt(name: &str) -> Self {
        Self::invalid_params(format!(
            "there is no prompt `{}`; `prompts/list` tells which there are",
            shorten(name)
        ))
    }

    /// There is no resource template of that text, or none that this caller may know of.
    #[must_use]
    pub fn unknown_template(template: &str) -> Self {
        Self::invalid_params(format!(
            "there is no resource template `{}`; `resources/templates/list` tells which there are",
            shorten(template)
        ))
    }

    /// There is no resource of that URI, or none that this caller may know of.
    ///
    /// Specification: `server/resources`, "Error Handling".
    #[must_use]
    pub fn unknown_resource(uri: &str) -> Self {
        let shown = shorten(uri);
        // It is told back for programs to compare, but not without bound.
        let uri = if uri.len() > 2048 { shown } else { uri };
        // A scheme and a colon are the least that a URI has.
        let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_uri = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            && uri.bytes().all(|byte| byte > b' ' && byte != 0x7F);
        if is_uri {
            Self::invalid_params(format!(
                "resource `{shown}` not found; `resources/list` tells which there are"
            ))
            .with_data(&json!({ "uri": uri }))
        } else {
            Self::invalid_params(format!("`{shown}` is not a URI"))
                .with_data(&json!({ "uri": uri, "reason": "invalid_uri" }))
        }
    }

    /// The request needs a token, or a better one; `challenge` says how to get it.
    ///
    /// Specification: `basic/authorization`, "Error Handling".
    #[must_use]
    pub fn unauthorized(message: impl Into<Cow<'static, str>>, challenge: &Challenge) -> Self {
        Self::http(StatusCode::UNAUTHORIZED, message).with_challenge(challenge)
    }

    /// The request carries credentials in a way that leaves open which ones count.
    #[must_use]
    pub fn malformed_credentials(message: impl Into<Cow<'static, str>>, challenge: &Challenge) -> Self {
        Self::http(StatusCode::BAD_REQUEST, message).with_challenge(challenge)
    }

    /// The token does not grant the scopes that the operation needs, all of which `challenge` names.
    #[must_use]
    pub fn insufficient_scope(message: impl Into<Cow<'static, str>>, challenge: &Challenge) -> Self {
        Self::http(StatusCode::FORBIDDEN, message).with_challenge(challenge)
    }

    /// Something that the server needs to answer is not there; it may be worth to try again after `retry_after`.
    #[must_use]
    pub fn unavailable(message: impl Into<Cow<'static, str>>, retry_after: Duration) -> Self {
        // Not before that time: rounded up.
        let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
        Self::http(StatusCode::SERVICE_UNAVAILABLE, message)
            .with_header(header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// The server behind this one cannot be reached, or what it says cannot be used. `message` tells nothing of what it
    /// said.
    #[must_use]
    pub fn bad_gateway(message: impl Into<Cow<'static, str>>) -> Self {
        Self::http(StatusCode::BAD_GATEWAY, message)
    }

    /// Something did not finish in time.
    #[must_use]
    pub fn gateway_timeout() -> Self {
        Self::http(StatusCode::GATEWAY_TIMEOUT, "the server did not finish in time; try again later")
    }

    /// There is more work than can be done.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::http(StatusCode::SERVICE_UNAVAILABLE, "the server is overloaded; try again later")
    }

    /// The server behind this one has refused with `status`, and has not said why in a JSON-RPC error.
    ///
    /// What a caller can do something about keeps its status: 401, 403, 413, 429, 503, 504. Any other is 502, because it
    /// is between the two servers: a 404 from behind, say, means that the gateway asks in the wrong place, and would mean
    /// to a client that this server is one of another revision.
    #[must_use]
    pub fn upstream_status(status: StatusCode) -> Self {
        let message =
            format!("the upstream server has refused the request with the status {}", status.as_u16());
        match status {
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Self::http(status, message),
            _ => Self::bad_gateway(message),
        }
    }

    fn with_challenge(self, challenge: &Challenge) -> Self {
        self.with_header(header::WWW_AUTHENTICATE, challenge.to_value())
    }

    /// What MCP has no code for: the HTTP status is the code.
    #[must_use]
    pub fn http(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(status, i64::from(status.as_u16()), message)
    }

    /// The same with `data`. What does not serialize is left out.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        Arc::make_mut(&mut self.0).data = serde_json::to_string(data).ok().map(ByteString::from);
        self
    }

    /// The same with one more HTTP header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        Arc::make_mut(&mut self.0).headers.append(name, value);
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The JSON-RPC error code.
    #[must_use]
    pub fn code(&self) -> i64 {
        self.0.code
    }

    /// What was wrong and what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What a program may want to know beside the code.
    #[must_use]
    pub fn data(&self) -> Option<Raw<'_>> {
        self.0.data.as_deref().map(Raw::valid)
    }

    /// The HTTP headers that go with it, besides those of every response.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The answer to the request `id`, for where the status cannot be changed any more.
    pub(crate) fn answer(&self, id: Option<RequestId>) -> Answer {
        if self.0.as_tool_result {
            return Answer::result(id, tool_result(&self.0.message));
        }
        let error = ErrorObject::new(self.0.code, self.0.message.clone()).with_data_text(self.0.data.clone());
        Answer::error(id, error)
    }

    /// The response below [`EndpointLayer`](crate::endpoint::EndpointLayer). `id` is the request's.
    #[must_use]
    pub fn into_response(self, id: Option<RequestId>) -> Response<Reply> {
        let reply = Reply::Answer(self.answer(id));
        self.response(reply)
    }

    /// The response above [`EndpointLayer`](crate::endpoint::EndpointLayer), where `id` is mostly not known yet.
    #[must_use]
    pub fn into_http_response<B: From<Bytes>>(self, id: Option<RequestId>) -> Response<B> {
        let body = Bytes::from(self.answer(id).to_string());
        let mut response = self.response(B::from(body));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn response<B>(self, body: B) -> Response<B> {
        tracing::debug!(status = self.0.status.as_u16(), code = self.0.code, message = %self.0.message, "refused");
        let mut response = Response::new(body);
        *response.status_mut() = self.0.status;
        response.headers_mut().extend(self.0.headers.clone());
        response.extensions_mut().insert(self);
        response
    }
}

/// A tool result that says in one text what was wrong.
fn tool_result(text: &str) -> RawObject {
    let content = json!([{ "type": "text", "text": text }]).to_string();
    let mut result = RawObject::new();
    result.push_static("resultType", "\"complete\"");
    result.push_text("content", content.into());
    result.push_static("isError", "true");
    result
}

impl From<&ParseError> for Rejection {
    fn from(error: &ParseError) -> Self {
        let reason = error.reason.clone();
        match error.fault {
            Fault::Syntax => Self::parse_error(reason),
            Fault::Invalid => Self::invalid_request(reason),
            Fault::Meta => Self::invalid_params(reason),
        }
    }
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejection")
            .field("status", &self.0.status)
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.0.status.as_u16(), self.0.code, self.0.message)
    }
}

impl std::error::Error for Rejection {}

/// The first 64 characters: what a caller sent is told back to it, but not without bound.
pub(crate) fn shorten(text: &str) -> &str {
    match text.char_indices().nth(64) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
