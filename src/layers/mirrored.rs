//! Reads the header lines that mirror parts of the message.

use std::fmt;

use http::{HeaderMap, HeaderName};

use crate::message::Message;
use crate::protocol::header;
use crate::protocol::mirror::trim_ows;
use crate::rejection::{Rejection, shorten};

/// A mirrored header, and how the specification spells it.
pub(super) struct Field {
    name: HeaderName,
    shown: &'static str,
}

pub(super) const VERSION: Field = Field { name: header::MCP_PROTOCOL_VERSION, shown: "MCP-Protocol-Version" };
pub(super) const METHOD: Field = Field { name: header::MCP_METHOD, shown: "Mcp-Method" };
pub(super) const NAME: Field = Field { name: header::MCP_NAME, shown: "Mcp-Name" };

/// The value of the one line named `name`, without the white space around it. Several lines are refused: which of
/// them counts, two readers would answer differently.
pub(super) fn line<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    shown: &dyn fmt::Display,
) -> Result<Option<&'a [u8]>, Rejection> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Ok(Some(trim_ows(value.as_bytes()))),
        (Some(_), Some(_)) => {
            Err(Rejection::header_mismatch(format!("the header `{shown}` comes several times: send it once")))
        }
    }
}

impl Field {
    /// The value of the field's one line.
    pub(super) fn bytes<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a [u8]>, Rejection> {
        line(headers, &self.name, &self.shown)
    }

    /// The same for fields that hold nothing but ASCII.
    pub(super) fn text<'a>(&self, headers: &'a HeaderMap) -> Result<Option<&'a str>, Rejection> {
        let Some(value) = self.bytes(headers)? else { return Ok(None) };
        match std::str::from_utf8(value) {
            Ok(text) if text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) => Ok(Some(text)),
            _ => Err(Rejection::header_mismatch(format!(
                "the header `{}` holds bytes that are not visible ASCII",
                self.shown
            ))),
        }
    }

    /// The refusal of a request that lacks the header.
    pub(super) fn missing(&self, expected: &str) -> Rejection {
        let (shown, expected) = (self.shown, shorten(expected));
        Rejection::header_mismatch(format!("the header `{shown}` is missing: send `{shown}: {expected}`"))
    }

    /// The refusal of a request whose header says `found` where the message says `expected`.
    pub(super) fn differs(&self, found: &str, expected: &str) -> Rejection {
        let (shown, found, expected) = (self.shown, shorten(found), shorten(expected));
        Rejection::header_mismatch(format!(
            "the header `{shown}` says `{found}`, the message says `{expected}`: the two must be equal"
        ))
    }
}

/// Checks `Mcp-Method`, which every request needs and notifications may have.
pub(super) fn check_method(headers: &HeaderMap, message: &Message) -> Result<(), Rejection> {
    match METHOD.text(headers)? {
        None if message.is_notification() => Ok(()),
        None => Err(METHOD.missing(message.method())),
        Some(found) if found == message.method() => Ok(()),
        Some(found) => Err(METHOD.differs(found, message.method())),
    }
}
