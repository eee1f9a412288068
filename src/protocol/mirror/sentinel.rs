//! The text form of a mirrored value: rules 1 to 5.

use std::{borrow::Cow, error::Error, fmt};

use base64_simd::STANDARD;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Why a header's value cannot be read as text.
///
/// Nothing of the value is repeated in the error except the one byte that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidField {
    /// A byte that may not stand in a field value.
    Byte {
        /// The byte.
        byte: u8,
        /// Where it is, counted from the first byte after any leading spaces.
        offset: usize,
    },
    /// The value has the base64 markers, but canonical base64 is not what is between them.
    Base64,
    /// The value is base64, but of bytes that are not UTF-8.
    Utf8,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte { byte, offset } => write!(
                f,
                "byte 0x{byte:02X} at offset {offset} may not stand in a header value: \
                 send the value as =?base64?…?= with the base64 of its UTF-8 bytes"
            ),
            Self::Base64 => f.write_str(
                "the value between =?base64? and ?= is not base64 in its canonical form: \
                 use the standard alphabet, with padding and without spaces or surplus bits",
            ),
            Self::Utf8 => f.write_str("the value between =?base64? and ?= is not UTF-8 text once decoded"),
        }
    }
}

impl Error for InvalidField {}

/// Removes the spaces and tabs around a field value, which are not part of it.
///
/// ```
/// assert_eq!(mcp_layers::protocol::mirror::trim_ows(b" \ttools/list "), b"tools/list");
/// ```
#[must_use]
pub const fn trim_ows(mut field: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = field {
        field = rest;
    }
    field
}

/// Reads the text that the value of an `Mcp-Name` or `Mcp-Param-*` header stands for.
///
/// A plain value is borrowed; only an encoded one allocates, and less than its own length. An empty field and
/// `=?base64??=` are both the empty text.
///
/// ```
/// use mcp_layers::protocol::mirror::decode;
///
/// assert_eq!(decode(b"us-west1")?, "us-west1");
/// assert_eq!(decode(b"=?base64?SGVsbG8sIOS4lueVjA==?=")?, "Hello, 世界");
/// # Ok::<(), mcp_layers::protocol::mirror::InvalidField>(())
/// ```
///
/// # Errors
///
/// [`InvalidField`] when a byte is not allowed in a field value, or when the markers enclose anything but canonical
/// base64 of UTF-8 text.
pub fn decode(field: &[u8]) -> Result<Cow<'_, str>, InvalidField> {
    let text = plain_text(trim_ows(field))?;
    // Stripping one marker after the other is what keeps `=?base64?=`, whose markers overlap, a literal.
    match text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) {
        None => Ok(Cow::Borrowed(text)),
        Some(payload) => {
            let bytes = STANDARD.decode_to_vec(payload).map_err(|_| InvalidField::Base64)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| InvalidField::Utf8)
        }
    }
}

fn plain_text(field: &[u8]) -> Result<&str, InvalidField> {
    match field.iter().position(|byte| !is_plain(*byte) && *byte != b'\t') {
        Some(offset) => Err(InvalidField::Byte { byte: field[offset], offset }),
        // Cannot fail, as the bytes are ASCII.
        None => std::str::from_utf8(field).map_err(|_| InvalidField::Utf8),
    }
}

/// Writes a text as the value of an `Mcp-Name` or `Mcp-Param-*` header: as it is when that is safe, else as base64.
///
/// The result is always a legal field value, and [`decode`] gives the text back.
///
/// ```
/// use mcp_layers::protocol::mirror::encode;
///
/// assert_eq!(encode("us-west1"), "us-west1");
/// assert_eq!(encode(" padded "), "=?base64?IHBhZGRlZCA=?=");
/// ```
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    // Overlapping markers count as looking encoded: some readers take `=?base64?=` for the empty text.
    let looks_encoded = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    let padded = text.starts_with(' ') || text.ends_with(' ');
    if !text.is_empty() && text.bytes().all(is_plain) && !padded && !looks_encoded {
        return Cow::Borrowed(text);
    }
    let mut field = String::from(PREFIX);
    STANDARD.encode_append(text, &mut field);
    field.push_str(SUFFIX);
    Cow::Owned(field)
}

const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7E)
}

#[cfg(test)]
mod tests;
