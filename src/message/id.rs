//! The id of a request.

use std::fmt;

use bytestring::ByteString;
use serde::{Serialize, Serializer};

use super::raw::{Kind, Raw};
use crate::rejection::shorten;

/// The id of a request: a string or an integer, kept as the JSON text it arrived as.
///
/// It is written back byte for byte, so integers of any size and the escapes of strings survive. `null`,
/// fractions, booleans, arrays and objects are not ids.
///
/// Two ids are equal if their texts are.
///
/// ```
/// use mcp_layers::message::Message;
///
/// let message = Message::parse(r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#)?;
/// assert_eq!(message.id().map(|id| id.text()), Some("18446744073709551616"));
/// # Ok::<(), mcp_layers::message::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(ByteString);

impl RequestId {
    /// Takes `text` as an id if it is the JSON text of a string or an integer.
    pub(crate) fn from_shared(text: ByteString) -> Option<Self> {
        match Raw(&text).kind() {
            Kind::String => Some(Self(text)),
            // Any fraction or exponent makes it something else than an integer as written.
            Kind::Number if !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => Some(Self(text)),
            _ => None,
        }
    }

    /// The JSON text: a quoted string or the digits of an integer.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// A copy that does not keep the body alive which the id arrived in.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(ByteString::from(self.text()))
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self(id.to_string().into())
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self(serde_json::Value::from(id).to_string().into())
    }
}

impl From<u64> for RequestId {
    fn from(id: u64) -> Self {
        Self(id.to_string().into())
    }
}

impl From<i32> for RequestId {
    fn from(id: i32) -> Self {
        i64::from(id).into()
    }
}

impl From<String> for RequestId {
    fn from(id: String) -> Self {
        id.as_str().into()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RequestId {
    /// Shows no more than 64 characters: ids are written to logs, and callers choose them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(shorten(&self.0))
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Raw(&self.0).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_integers_are_ids_and_nothing_else_is() {
        for text in ["0", "-7", "-0", "18446744073709551616", "\"\"", "\"a\\u0062\""] {
            assert_eq!(RequestId::from_shared(text.into()).unwrap().text(), text);
        }
        for text in ["null", "true", "1.5", "1.0", "1e2", "1E2", "[]", "{}"] {
            assert_eq!(RequestId::from_shared(text.into()), None, "{text}");
        }
    }

    #[test]
    fn ids_can_be_made() {
        assert_eq!(RequestId::from(-3).text(), "-3");
        assert_eq!(RequestId::from("a\"b").text(), r#""a\"b""#);
        assert_eq!(serde_json::to_string(&RequestId::from(3)).unwrap(), "3");
    }
}
