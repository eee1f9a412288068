//! Text of a message that stands in its source, or in place of a part of it.

use std::borrow::Cow;

use bytestring::ByteString;

use super::scan::Span;

/// Text that is part of the source, or has replaced a part of it.
#[derive(Clone)]
pub(super) enum Text {
    Source(Span),
    Static(&'static str),
    Shared(ByteString),
    /// A number that is short enough to need no memory of its own.
    Digits(Digits),
}

impl Text {
    /// The text `decoded` of the JSON string at `span`.
    pub(super) fn inside_of(span: Span, decoded: Cow<'_, str>) -> Self {
        match decoded {
            Cow::Borrowed(_) => Self::Source(Span { start: span.start + 1, end: span.end - 1 }),
            Cow::Owned(decoded) => Self::Shared(decoded.into()),
        }
    }

    #[inline]
    pub(super) fn of<'a>(&'a self, source: &'a str) -> &'a str {
        match self {
            Self::Source(span) => span.of(source),
            Self::Static(text) => text,
            Self::Shared(text) => text,
            Self::Digits(digits) => digits.as_str(),
        }
    }

    /// The same as bytes, which saves looking for the borders of characters where texts are only compared.
    #[inline]
    pub(super) fn bytes<'a>(&'a self, source: &'a str) -> &'a [u8] {
        match self {
            Self::Source(span) => span.bytes(source),
            other => other.of(source).as_bytes(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Source(span) => span.len(),
            Self::Static(text) => text.len(),
            Self::Shared(text) => text.len(),
            Self::Digits(digits) => digits.len(),
        }
    }

    /// The text without a copy, if it is long.
    pub(super) fn shared(&self, source: &ByteString) -> ByteString {
        match self {
            Self::Source(span) => source.slice_ref(span.of(source)),
            Self::Static(text) => ByteString::from_static(text),
            Self::Shared(text) => text.clone(),
            Self::Digits(digits) => digits.as_str().into(),
        }
    }

    /// Where it stands in the source, if it does.
    pub(super) fn span(&self) -> Option<Span> {
        match self {
            Self::Source(span) => Some(*span),
            Self::Static(_) | Self::Shared(_) | Self::Digits(_) => None,
        }
    }

    /// Whether it may hold what has to be escaped in a JSON string. What stands in the source between quotes had no
    /// escapes, and needs none.
    pub(super) fn may_need_escapes(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

/// The decimal digits of a `u64`: ASCII, from `start` on.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    digits: [u8; 20],
    start: u8,
}

impl Digits {
    pub(super) fn of(number: u64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(number).as_bytes();
        let mut digits = [b'0'; 20];
        let start = digits.len() - text.len();
        digits[start..].copy_from_slice(text);
        Self { digits, start: start as u8 }
    }

    pub(super) fn len(&self) -> usize {
        self.digits.len() - usize::from(self.start)
    }

    pub(super) fn as_str(&self) -> &str {
        // Digits are ASCII: the error is never taken.
        std::str::from_utf8(&self.digits[usize::from(self.start)..]).unwrap_or("0")
    }
}
