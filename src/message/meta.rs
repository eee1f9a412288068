//! The `_meta` of a request.

use std::borrow::Cow;

use super::object::RawObject;
use super::raw::{Kind, Raw};
use crate::protocol::{LogLevel, meta};

/// The `_meta` of a request: which revision it speaks, who the client is and what it can do.
///
/// The accessors answer `None` both for what is absent and for what has the wrong shape; where the difference
/// matters, [`get`](Self::get) tells it. [`VersionLayer`](crate::layers::VersionLayer) refuses wrong shapes, so
/// behind it `None` means absent.
///
/// Specification: `basic/index`, "`_meta`".
///
/// ```
/// use mcp_layers::message::Message;
///
/// let message = Message::parse(
///     r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
///         "io.modelcontextprotocol/protocolVersion":"2026-07-28",
///         "io.modelcontextprotocol/clientCapabilities":{"roots":{}},
///         "progressToken":7}}}"#,
/// )?;
/// let meta = message.meta().expect("has `_meta`");
/// assert_eq!(meta.protocol_version().as_deref(), Some("2026-07-28"));
/// assert_eq!(meta.client_capabilities().map(|raw| raw.text()), Some(r#"{"roots":{}}"#));
/// assert_eq!(meta.progress_token().map(|raw| raw.text()), Some("7"));
/// assert_eq!(meta.client_info(), None);
/// # Ok::<(), mcp_layers::message::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Meta(pub(super) RawObject);

impl Meta {
    /// The value at `key`, whatever its shape.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Raw<'_>> {
        self.0.get(key)
    }

    /// All members in order.
    #[must_use]
    pub fn as_object(&self) -> &RawObject {
        &self.0
    }

    fn string(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key)?.to_str()
    }

    fn object(&self, key: &str) -> Option<Raw<'_>> {
        self.get(key).filter(|value| value.kind() == Kind::Object)
    }

    /// The revision that the request speaks, as it is written.
    #[must_use]
    pub fn protocol_version(&self) -> Option<Cow<'_, str>> {
        self.string(meta::PROTOCOL_VERSION)
    }

    /// What the client can do for this request: an object.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<Raw<'_>> {
        self.object(meta::CLIENT_CAPABILITIES)
    }

    /// Name and version of the client: an object.
    #[must_use]
    pub fn client_info(&self) -> Option<Raw<'_>> {
        self.object(meta::CLIENT_INFO)
    }

    /// The least severe log messages that the client wants for this request; it wants none without.
    #[must_use]
    pub fn log_level(&self) -> Option<LogLevel> {
        LogLevel::from_text(&self.string(meta::LOG_LEVEL)?)
    }

    /// What progress notifications of this request are marked with: a string or an integer.
    #[must_use]
    pub fn progress_token(&self) -> Option<Raw<'_>> {
        self.get(meta::PROGRESS_TOKEN).filter(|value| matches!(value.kind(), Kind::String | Kind::Number))
    }

    /// The W3C `traceparent` of the caller.
    #[must_use]
    pub fn traceparent(&self) -> Option<Cow<'_, str>> {
        self.string("traceparent")
    }

    /// The W3C `tracestate` of the caller.
    #[must_use]
    pub fn tracestate(&self) -> Option<Cow<'_, str>> {
        self.string("tracestate")
    }

    /// The W3C `baggage` of the caller.
    #[must_use]
    pub fn baggage(&self) -> Option<Cow<'_, str>> {
        self.string("baggage")
    }
}
