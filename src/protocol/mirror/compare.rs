//! One header against one argument: rules 12 to 16.

use std::{error::Error, fmt};

use super::{InvalidField, ParamKind, decimal::Decimal, decode};

/// An argument as the message spells it: the JSON text of its value, or `None` when the message has no value at the
/// parameter's path.
pub type BodyValue<'a> = Option<&'a str>;

/// Why a `Mcp-Param-*` header does not agree with the argument that it mirrors.
///
/// It repeats neither of the two values: arguments are the user's, and headers end up in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The message has a value, and the header is absent.
    Missing,
    /// The header is present, but there is no value to mirror: it is absent or `null`.
    NoValue,
    /// The header is present, but the value is an object or an array, which no header can mirror.
    NotPrimitive,
    /// The header cannot be read.
    Invalid(InvalidField),
    /// Both are present and differ.
    Different(ParamKind),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the header is missing: the message has a value for it to mirror",
            Self::NoValue => {
                "the header is present although the message has no value for it, or null: leave the header out"
            }
            Self::NotPrimitive => {
                "the header is present although the message's value is an object or an array: \
                 leave the header out, and check the argument against the tool's schema"
            }
            Self::Invalid(invalid) => return write!(f, "the header cannot be read: {invalid}"),
            Self::Different(ParamKind::String) => {
                "the header differs from the message's value: send exactly the same text, case included"
            }
            Self::Different(ParamKind::Integer) => {
                "the header differs from the message's value: send the integer in decimal digits, such as 42 or -7"
            }
            Self::Different(ParamKind::Boolean) => {
                "the header differs from the message's value: send true or false, in lower case"
            }
        })
    }
}

impl Error for Mismatch {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(invalid) => Some(invalid),
            _ => None,
        }
    }
}

/// Checks that a `Mcp-Param-*` header says what the message says.
///
/// The body's value must be valid JSON, as it is in a message that was parsed. The argument's *type* is not checked
/// here: a string where the schema wants an integer passes when the header has the same text, so that validating the
/// arguments can answer with what is really wrong.
///
/// ```
/// use mcp_layers::protocol::mirror::{Mismatch, ParamKind, matches};
///
/// assert_eq!(matches(ParamKind::String, Some(r#""us-west1""#), Some(b"us-west1")), Ok(()));
/// assert_eq!(matches(ParamKind::Integer, Some("42"), Some(b"42.0")), Ok(()));
/// assert_eq!(matches(ParamKind::String, Some(r#""us-west1""#), None), Err(Mismatch::Missing));
/// ```
///
/// # Errors
///
/// [`Mismatch`] says which of the two is missing, or that they differ.
pub fn matches(kind: ParamKind, body: BodyValue<'_>, field: Option<&[u8]>) -> Result<(), Mismatch> {
    let body = Body::read(body);
    let Some(field) = field else {
        return match body {
            Body::Nothing | Body::Compound => Ok(()),
            Body::String(_) | Body::Number(_) | Body::Boolean(_) | Body::Unreadable => Err(Mismatch::Missing),
        };
    };
    let header = decode(field).map_err(Mismatch::Invalid)?;
    let equal = match body {
        Body::Nothing => return Err(Mismatch::NoValue),
        Body::Compound => return Err(Mismatch::NotPrimitive),
        Body::String(json) => same_text(json, &header),
        Body::Number(json) if kind == ParamKind::Integer => same_number(json, &header),
        Body::Number(json) | Body::Boolean(json) => json == header,
        Body::Unreadable => false,
    };
    if equal { Ok(()) } else { Err(Mismatch::Different(kind)) }
}

/// A value of the message by its JSON type, still as JSON text.
enum Body<'a> {
    Nothing,
    Compound,
    String(&'a str),
    Number(&'a str),
    Boolean(&'a str),
    /// No JSON value. It agrees with nothing, and nothing agrees with it.
    Unreadable,
}

impl<'a> Body<'a> {
    fn read(value: BodyValue<'a>) -> Self {
        let Some(value) = value else { return Self::Nothing };
        let json = value.trim_matches([' ', '\t', '\n', '\r']);
        match json.as_bytes() {
            b"null" => Self::Nothing,
            [b'{' | b'[', ..] => Self::Compound,
            [b'"', ..] => Self::String(json),
            [b'-' | b'0'..=b'9', ..] => Self::Number(json),
            b"true" | b"false" => Self::Boolean(json),
            _ => Self::Unreadable,
        }
    }
}

fn same_text(json: &str, header: &str) -> bool {
    if json.contains('\\') {
        // Fails on an escaped lone surrogate, which no header can spell.
        serde_json::from_str::<String>(json).is_ok_and(|text| text == header)
    } else {
        json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(header)
    }
}

fn same_number(json: &str, header: &str) -> bool {
    // Reading the header first: it decides alone whether its notation is acceptable, which for an integer is digits, and
    // behind a point nothing but zeros.
    let is_integer =
        header.split_once('.').is_none_or(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
    is_integer && Decimal::plain(header).is_some_and(|header| Decimal::json(json) == Some(header))
}

#[cfg(test)]
mod tests;
