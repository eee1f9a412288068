//! What travels below [`EndpointLayer`](crate::endpoint::EndpointLayer): a parsed [`Message`] in, a [`Reply`] out.
//!
//! The body of a request is parsed once, in one pass, and every layer, the dispatcher and the cache read that one
//! parse. Two readings of one message are how gateways get bypassed.
//!
//! # Rules
//! 1. One body is one request or one notification; batches and responses are refused
//!    (`basic/transports/streamable-http`, "Sending Messages").
//! 2. `jsonrpc` is `"2.0"`, `method` a string, `params` an object or absent, `id` a string or an integer, never
//!    `null` (`basic/index`, "Messages"). Without `id` the message is a notification.
//! 3. A member that is named twice in the envelope, in `params` or in `_meta` is refused: two readers would take
//!    two different values from it.
//! 4. Values are kept as text: ids, `arguments` and results keep their digits and escapes.
//! 5. Text that is not UTF-8, not JSON, holds half a surrogate pair or nests deeper than 128 levels is not parsed.

mod envelope;
mod id;
mod incoming;
mod marks;
mod meta;
mod object;
mod raw;
mod reply;
mod scan;
mod text;
mod walk;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;

pub use self::id::RequestId;
pub use self::meta::Meta;
pub use self::object::{NotAnObject, RawObject};
pub(crate) use self::raw::array_of;
pub use self::raw::{Kind, Raw};
pub use self::reply::{Answer, ErrorObject, Event, Reply, ReplyStream};

pub(crate) use self::incoming::{Incoming, Unusable};
pub(crate) use self::marks::{Mark, Marks};
pub(crate) use self::object::write_string;
pub(crate) use self::walk::{Spelled, Token, Walk};

use self::envelope::Envelope;
use self::scan::{SyntaxError, scan};
use self::text::Text;
use crate::protocol::method;
use crate::rejection::shorten;

/// More members than this in the envelope, in `params` or in `_meta` are refused: no message has them, and each
/// costs many times its bytes.
const MAX_MEMBERS: usize = 1024;

/// One JSON-RPC request or notification, parsed once.
///
/// It borrows from the body it arrived in and is cheap to clone. What no layer edits is forwarded byte for byte.
///
/// ```
/// use mcp_layers::message::Message;
///
/// let message = Message::parse(
///     r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1.0}}}"#,
/// )?;
/// assert_eq!(message.method(), "tools/call");
/// assert_eq!(message.target().as_deref(), Some("add"));
/// assert_eq!(message.arguments().map(|raw| raw.text()), Some(r#"{"a":1.0}"#));
/// # Ok::<(), mcp_layers::message::ParseError>(())
/// ```
#[derive(Clone)]
pub struct Message(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    /// The body as it arrived; empty for a message that was made here.
    text: ByteString,
    /// True once `text` is no longer what the message says.
    edited: bool,
    id: Option<RequestId>,
    method: Text,
    /// Decoded, because nearly every layer asks for it.
    target: Option<Text>,
    params: Option<RawObject>,
    meta: Option<Meta>,
}

impl Message {
    /// Parses the body of an HTTP request.
    ///
    /// # Errors
    /// If the body is not one well-formed request or notification by the [rules](self#rules) of this module.
    pub fn parse(body: impl Into<Bytes>) -> Result<Self, ParseError> {
        let body = body.into();
        if u32::try_from(body.len()).is_err() {
            return Err(ParseError::syntax("the body is longer than 4 GiB"));
        }
        let text =
            ByteString::try_from(body).map_err(|_| ParseError::syntax("the body is not valid UTF-8"))?;
        let mut envelope = Envelope::new(text.clone());
        let first = scan(&text, |scanner| {
            let first = scanner.peek();
            if first == Some(b'{') {
                envelope.read(scanner, &text)?;
            } else {
                scanner.value(0)?;
            }
            Ok(first)
        })?;
        match first {
            Some(b'{') => {
                envelope.complete(&text)?;
                Ok(Self(Arc::new(envelope.message)))
            }
            Some(b'[') => {
                Err(ParseError::invalid(None, "batches are not supported: send one message per request"))
            }
            _ => {
                Err(ParseError::invalid(None, "the body must be a JSON object: one request or notification"))
            }
        }
    }

    /// Makes a request.
    ///
    /// ```
    /// use mcp_layers::message::{Message, RawObject};
    ///
    /// let params = RawObject::parse(r#"{"name":"add"}"#)?;
    /// let message = Message::request(7.into(), "tools/call", params)?;
    /// assert_eq!(&message.bytes()[..], br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#);
    /// # Ok::<(), mcp_layers::message::NotAnObject>(())
    /// ```
    ///
    /// # Errors
    /// If `params` holds a `_meta` that is not an object.
    pub fn request(id: RequestId, method: &str, params: RawObject) -> Result<Self, NotAnObject> {
        Self::made(Some(id), Text::Shared(method.into()), params)
    }

    /// Makes a notification.
    ///
    /// # Errors
    /// If `params` holds a `_meta` that is not an object.
    pub fn notification(method: &str, params: RawObject) -> Result<Self, NotAnObject> {
        Self::made(None, Text::Shared(method.into()), params)
    }

    fn made(id: Option<RequestId>, method: Text, params: RawObject) -> Result<Self, NotAnObject> {
        let meta = meta_of(&params)?;
        let target = target_of(method.of(""), &params);
        let params = Some(params);
        Ok(Self(Arc::new(Inner { text: ByteString::new(), edited: true, id, method, target, params, meta })))
    }

    /// The request's id; `None` for a notification.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.0.id.as_ref()
    }

    /// True without an id: nobody waits for an answer.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        self.0.id.is_none()
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.0.method.of(&self.0.text)
    }

    /// What the request is about, which the header `Mcp-Name` mirrors: the tool, the prompt, the resource's URI or
    /// the task. `None` if the method has no such parameter, or if it is absent or not a string.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.0.target.as_ref().map(|target| target.of(&self.0.text))
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> Option<&RawObject> {
        self.0.params.as_ref()
    }

    /// One parameter.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<Raw<'_>> {
        self.params()?.get(name)
    }

    /// `params.arguments`, of whatever kind it is.
    #[must_use]
    pub fn arguments(&self) -> Option<Raw<'_>> {
        self.param("arguments")
    }

    /// `params._meta`.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.0.meta.as_ref()
    }

    /// `params.requestState`, of whatever kind it is; `null` counts as absent.
    #[must_use]
    pub fn request_state(&self) -> Option<Raw<'_>> {
        self.param("requestState").filter(|state| !state.is_null())
    }

    /// `params.inputResponses`, of whatever kind it is; `null` counts as absent.
    #[must_use]
    pub fn input_responses(&self) -> Option<Raw<'_>> {
        self.param("inputResponses").filter(|responses| !responses.is_null())
    }

    /// True if the message no longer says what the body said that it arrived in.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        self.0.edited
    }

    /// The message as JSON: the bytes that arrived, or new ones if it was edited.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        if self.0.edited { self.render().into() } else { self.0.text.as_bytes().clone() }
    }

    fn render(&self) -> String {
        let mut out = String::with_capacity(self.written_len());
        self.render_to(&mut out);
        out
    }

    /// Appends the message as JSON.
    pub(crate) fn write_to(&self, out: &mut String) {
        if self.0.edited {
            self.render_to(out);
        } else {
            out.push_str(&self.0.text);
        }
    }

    /// About how many bytes [`write_to`](Self::write_to) will add.
    pub(crate) fn written_len(&self) -> usize {
        if !self.0.edited {
            return self.0.text.len();
        }
        self.params().map_or(0, RawObject::written_len) + self.method().len() + 80
    }

    fn render_to(&self, out: &mut String) {
        out.push_str("{\"jsonrpc\":\"2.0\"");
        if let Some(id) = self.id() {
            out.push_str(",\"id\":");
            out.push_str(id.text());
        }
        out.push_str(",\"method\":");
        write_string(self.method(), out);
        if let Some(params) = self.params().filter(|params| !params.is_empty()) {
            out.push_str(",\"params\":");
            params.write_to(out);
        }
        out.push('}');
    }

    /// Lets `edit` change the parameters, `_meta` among them.
    ///
    /// ```
    /// use mcp_layers::message::Message;
    ///
    /// let mut message = Message::parse(
    ///     r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1.0}}}"#,
    /// )?;
    /// message.edit_params(|params| params.set("name", "sum").expect("a string is JSON"))?;
    /// assert_eq!(message.target().as_deref(), Some("sum"));
    /// assert!(message.is_edited());
    /// assert_eq!(message.arguments().map(|raw| raw.text()), Some(r#"{"a":1.0}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If `_meta` is no longer an object; the message is then as it was.
    pub fn edit_params<T>(&mut self, edit: impl FnOnce(&mut RawObject) -> T) -> Result<T, NotAnObject> {
        let mut params = self.params().cloned().unwrap_or_default();
        let done = edit(&mut params);
        let meta = meta_of(&params)?;
        let target = target_of(self.method(), &params);
        let inner = Arc::make_mut(&mut self.0);
        inner.params = Some(params);
        inner.target = target;
        inner.meta = meta;
        inner.edited = true;
        Ok(done)
    }
}

/// What a request with the method `method` is about, if that is a string.
fn target_of(method: &str, params: &RawObject) -> Option<Text> {
    let target = params.get(method::target_member(method)?)?.to_str()?;
    Some(Text::Shared(target.into_owned().into()))
}

fn meta_of(params: &RawObject) -> Result<Option<Meta>, NotAnObject> {
    params.object("_meta").transpose().map(|meta| meta.map(Meta))
}

impl fmt::Debug for Message {
    /// Shows id, method and target; parameters may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id())
            .field("method", &self.method())
            .field("target", &self.target().map(shorten))
            .finish_non_exhaustive()
    }
}

/// A body that is not one well-formed request or notification.
///
/// [`Rejection`](crate::rejection::Rejection) can be made from it; that is where its code and status are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub(crate) fault: Fault,
    pub(crate) reason: Cow<'static, str>,
    id: Option<RequestId>,
}

/// What kind of fault a body has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not JSON that can be read.
    Syntax,
    /// It is not a request or notification.
    Invalid,
    /// It is a request whose `_meta` is not an object.
    Meta,
}

impl ParseError {
    fn syntax(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { fault: Fault::Syntax, reason: reason.into(), id: None }
    }

    fn invalid(id: Option<RequestId>, reason: impl Into<String>) -> Self {
        Self { fault: Fault::Invalid, reason: Cow::Owned(reason.into()), id }
    }

    /// The id to answer with, where it could be read without doubt.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }
}

impl From<SyntaxError> for ParseError {
    fn from(error: SyntaxError) -> Self {
        Self::syntax(error.to_string())
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ParseError {}

#[cfg(test)]
mod tests;
