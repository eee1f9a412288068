//! The argument that a header mirrors, and what the header says of it.

use std::borrow::Cow;

use super::{BodyValue, ParamHeader, ParamKind, decimal::Decimal, encode};
use crate::message::{Kind, Raw};

/// An integer with more digits than this is not written out.
const MAX_DIGITS: i64 = 400;

/// A member on the way to a value is named twice, so that there is no one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous;

impl ParamHeader {
    /// The argument that the header mirrors: the value that the path leads to, from object to object.
    pub(crate) fn value_in<'a>(&self, arguments: Option<Raw<'a>>) -> Result<Option<Raw<'a>>, Ambiguous> {
        let mut value = arguments;
        for step in self.path() {
            let Some(object) = value else { return Ok(None) };
            let mut found = None;
            let mut twice = false;
            object.each_member(|name, member| {
                if name == step {
                    twice |= found.replace(member).is_some();
                }
            });
            if twice {
                return Err(Ambiguous);
            }
            value = found;
        }
        Ok(value)
    }
}

/// What the `Mcp-Param-*` header of a parameter says where the message says `body`; `None` where there is no header to
/// send: the value is absent, `null`, an object or an array.
///
/// An integer that the message spells with a point or an exponent gets `.0` behind its digits. Who compares numbers takes
/// that for the same as without, and who compares texts (there are such servers) has read a number with a fraction.
///
/// [`matches()`](super::matches) accepts it, unless the value is a number with a fraction where an integer is declared: no
/// header agrees with that.
///
/// ```
/// use mcp_layers::protocol::mirror::{ParamKind, header_value};
///
/// assert_eq!(header_value(ParamKind::String, Some(r#""us-west1""#)).as_deref(), Some("us-west1"));
/// assert_eq!(header_value(ParamKind::Integer, Some("42")).as_deref(), Some("42"));
/// assert_eq!(header_value(ParamKind::Integer, Some("4.20e1")).as_deref(), Some("42.0"));
/// assert_eq!(header_value(ParamKind::Boolean, Some("null")), None);
/// ```
#[must_use]
pub fn header_value(kind: ParamKind, body: BodyValue<'_>) -> Option<Cow<'_, str>> {
    let value = Raw::valid(body?.trim_matches([' ', '\t', '\n', '\r']));
    match value.kind() {
        Kind::Null | Kind::Object | Kind::Array => None,
        Kind::Bool => Some(Cow::Borrowed(value.text())),
        Kind::String => Some(match value.to_str()? {
            Cow::Borrowed(text) => encode(text),
            Cow::Owned(text) => Cow::Owned(encode(&text).into_owned()),
        }),
        Kind::Number => {
            let digits = if kind == ParamKind::Integer {
                Decimal::json(value.text()).and_then(|number| number.integer(MAX_DIGITS))
            } else {
                None
            };
            Some(match digits {
                None => Cow::Borrowed(value.text()),
                Some(digits) if value.text().contains(['.', 'e', 'E']) => Cow::Owned(digits + ".0"),
                Some(digits) => Cow::Owned(digits),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::matches;
    use super::*;

    #[test]
    fn each_kind_of_value_has_its_header() {
        use ParamKind::{Boolean, Integer, String};
        for (kind, body, header) in [
            (String, Some(r#""a b""#), Some("a b")),
            (String, Some(r#""\u0061""#), Some("a")),
            (String, Some(r#""""#), Some("=?base64??=")),
            (String, Some(r#"" a""#), Some("=?base64?IGE=?=")),
            (String, Some(r#""a\nb""#), Some("=?base64?YQpi?=")),
            (String, Some("42.0"), Some("42.0")),
            (Integer, Some("42"), Some("42")),
            (Integer, Some("42.00"), Some("42.0")),
            (Integer, Some("-4.2e1"), Some("-42.0")),
            (Integer, Some("42e2"), Some("4200.0")),
            (Integer, Some("-0"), Some("0")),
            (Integer, Some("18446744073709551617"), Some("18446744073709551617")),
            (Integer, Some("42.5"), Some("42.5")),
            (Integer, Some("1e999999999"), Some("1e999999999")),
            (Integer, Some(r#""42""#), Some("42")),
            (Boolean, Some(" true "), Some("true")),
            (Boolean, Some("null"), None),
            (String, Some("{}"), None),
            (String, Some("[1]"), None),
            (String, None, None),
        ] {
            assert_eq!(header_value(kind, body).as_deref(), header, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_matches(text: String, number: i64, zeros in 0_usize..30) {
            let kinds = [ParamKind::String, ParamKind::Integer, ParamKind::Boolean];
            let json = serde_json::Value::from(text).to_string();
            let fraction = format!("{number}.{}0", "0".repeat(zeros));
            for (kind, body) in kinds.map(|kind| (kind, &*json)).into_iter().chain([(ParamKind::Integer, &*fraction)]) {
                let header = header_value(kind, Some(body)).unwrap();
                prop_assert_eq!(matches(kind, Some(body), Some(header.as_bytes())), Ok(()));
            }
        }
    }
}
