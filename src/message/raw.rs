//! One JSON value, kept as the text it arrived as.

use std::borrow::Cow;
use std::fmt;

use bytestring::ByteString;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

use super::scan::{Scanner, StringSpan, scan, unescape};

/// Borrowed JSON text that holds exactly one valid value.
///
/// Nothing is decoded until it is asked for, so digits and escapes stay as they were sent.
///
/// ```
/// use mcp_layers::message::{Kind, RawObject};
///
/// let object = RawObject::parse(r#"{"big": 18446744073709551616, "name": "caf\u00e9"}"#)?;
/// let big = object.get("big").expect("is there");
/// assert_eq!((big.kind(), big.text()), (Kind::Number, "18446744073709551616"));
/// assert_eq!(object.get("name").and_then(|name| name.to_str()).as_deref(), Some("café"));
/// # Ok::<(), mcp_layers::message::NotAnObject>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(pub(super) &'a str);

/// The six kinds of JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number of any size, with or without a fraction.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'a> Raw<'a> {
    /// `text` must be one valid JSON value.
    pub(crate) const fn valid(text: &'a str) -> Self {
        Self(text)
    }

    /// The JSON text, without surrounding white space.
    #[must_use]
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// Which kind of value this is.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// True for `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn to_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The decoded string, if it is one; borrowed unless it holds escapes.
    #[must_use]
    pub fn to_str(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        Some(unescape(inner, inner.contains('\\')))
    }

    /// Whether it is the string `text`, which must need no escapes, however it is spelled.
    pub(crate) fn is_str(self, text: &str) -> bool {
        let Some(inner) = self.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            return false;
        };
        inner == text || (inner.len() > text.len() && self.to_str().is_some_and(|string| string == text))
    }

    /// Whether `text` may stand between the quotes of a JSON string.
    pub(crate) fn is_inside_of_string(text: &str) -> bool {
        let quoted = format!("\"{text}\"");
        scan(&quoted, Scanner::string).is_ok()
    }

    /// Decodes the value as `T`.
    ///
    /// # Errors
    /// Whatever `T` does not accept.
    pub fn decode<T: Deserialize<'a>>(self) -> serde_json::Result<T> {
        serde_json::from_str(self.0)
    }

    /// Decodes the value as an owned `T`, for types that borrow nothing.
    ///
    /// # Errors
    /// Whatever `T` does not accept.
    pub fn decode_owned<T: DeserializeOwned>(self) -> serde_json::Result<T> {
        serde_json::from_str(self.0)
    }

    /// The elements of an array in order; nothing if it is not one.
    pub fn elements(self) -> impl Iterator<Item = Raw<'a>> {
        let mut found = Vec::new();
        let mut scanner = Scanner::new(self.0);
        // The text is known to be valid: an error here only means "not an array".
        let _ = scanner.array(0, |scanner| {
            found.push(Raw(scanner.value(1)?.of(self.0)));
            Ok(())
        });
        found.into_iter()
    }

    /// The members of an object in order, names decoded, duplicates included; nothing if it is not one.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Raw<'a>)> {
        let mut found = Vec::new();
        self.each_member(|name, value| found.push((name, value)));
        found.into_iter()
    }

    /// Has `see` look at what [`members`](Self::members) gives, without collecting it.
    pub(crate) fn each_member(self, mut see: impl FnMut(Cow<'a, str>, Raw<'a>)) {
        let mut scanner = Scanner::new(self.0);
        // As above.
        let _ = scanner.object(0, |scanner, name: StringSpan| {
            let value = scanner.value(1)?;
            see(unescape(name.inner.of(self.0), name.escaped), Raw(value.of(self.0)));
            Ok(())
        });
    }
}

/// The JSON array of `elements`, each of which must be one valid JSON value.
pub(crate) fn array_of<'a>(elements: impl IntoIterator<Item = &'a str>) -> ByteString {
    let mut text = String::from("[");
    for element in elements {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(element);
    }
    text.push(']');
    text.into()
}

impl fmt::Debug for Raw<'_> {
    /// Shows kind and length; the value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({:?}, {} bytes)", self.kind(), self.0.len())
    }
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Valid by construction; serde_json passes a raw value through as it stands.
        let raw: &serde_json::value::RawValue =
            serde_json::from_str(self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_members_come_in_order() {
        assert_eq!(
            Raw("[1, [2], \"3\"]").elements().map(Raw::text).collect::<Vec<_>>(),
            ["1", "[2]", "\"3\""]
        );
        assert_eq!(Raw("{}").elements().count(), 0);
        let members: Vec<_> = Raw(r#"{"a":1,"\u0061":[2]}"#).members().collect();
        assert_eq!(members, [("a".into(), Raw("1")), ("a".into(), Raw("[2]"))]);
        assert_eq!(Raw("[]").members().count(), 0);
    }

    #[test]
    fn kinds_are_told_by_the_first_byte() {
        let kinds = ["null", "true", "-1", "\"\"", "[]", "{}"].map(|text| Raw(text).kind());
        assert_eq!(kinds, [Kind::Null, Kind::Bool, Kind::Number, Kind::String, Kind::Array, Kind::Object]);
    }

    #[test]
    fn a_value_is_serialized_with_its_own_digits() {
        assert_eq!(serde_json::to_string(&Raw("[1.0, 1e2]")).unwrap(), "[1.0, 1e2]");
    }
}
