//! The id of a request.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

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
#[derive(Clone)]
pub struct RequestId(Text);

/// The text of an id. Nearly all are short, and copying those costs less than counting who shares them.
#[derive(Clone)]
enum Text {
    /// ASCII or other UTF-8, as long as the length says.
    Short([u8; SHORT], u8),
    Long(Arc<str>),
}

/// Enough for the digits of any 64-bit integer.
const SHORT: usize = 22;

impl RequestId {
    /// Takes `text` as an id if it is the JSON text of a string or an integer.
    pub(crate) fn from_raw(text: Raw<'_>) -> Option<Self> {
        match text.kind() {
            Kind::String => Some(Self::of(text.text())),
            // Any fraction or exponent makes it something else than an integer as written.
            Kind::Number if !text.text().bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => {
                Some(Self::of(text.text()))
            }
            _ => None,
        }
    }

    /// `text` must be the JSON text of a string or an integer.
    fn of(text: &str) -> Self {
        let mut short = [0; SHORT];
        match (short.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(text.as_bytes());
                Self(Text::Short(short, length))
            }
            _ => Self(Text::Long(text.into())),
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short(bytes, length) => &bytes[..usize::from(*length)],
            Text::Long(text) => text.as_bytes(),
        }
    }

    /// How many bytes the text has.
    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The JSON text: a quoted string or the digits of an integer.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.0 {
            // It was copied from text: the error is never taken.
            Text::Short(..) => std::str::from_utf8(self.bytes()).unwrap_or("0"),
            Text::Long(text) => text,
        }
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::of(&id.to_string())
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self::of(&serde_json::Value::from(id).to_string())
    }
}

impl From<u64> for RequestId {
    fn from(id: u64) -> Self {
        Self::of(&id.to_string())
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
        f.write_str(self.text())
    }
}

impl fmt::Debug for RequestId {
    /// Shows no more than 64 characters: ids are written to logs, and callers choose them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(shorten(self.text()))
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Raw(self.text()).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_integers_are_ids_and_nothing_else_is() {
        for text in ["0", "-7", "-0", "18446744073709551616", "\"\"", "\"a\\u0062\""] {
            assert_eq!(RequestId::from_raw(Raw(text)).unwrap().text(), text);
        }
        for text in ["null", "true", "1.5", "1.0", "1e2", "1E2", "[]", "{}"] {
            assert_eq!(RequestId::from_raw(Raw(text)), None, "{text}");
        }
    }

    #[test]
    fn ids_can_be_made() {
        assert_eq!(RequestId::from(-3).text(), "-3");
        assert_eq!(RequestId::from("a\"b").text(), r#""a\"b""#);
        assert_eq!(serde_json::to_string(&RequestId::from(3)).unwrap(), "3");
    }
}
