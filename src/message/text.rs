//! Text of a message that stands in its source, or in place of a part of it.

use std::borrow::Cow;
use std::sync::OnceLock;

use bytestring::ByteString;

use super::scan::Span;

/// Text that is part of the source, or has replaced a part of it.
#[derive(Clone)]
pub(super) enum Text {
    Source(Span),
    Static(&'static str),
    Shared(ByteString),
    Number(Number),
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
            Self::Number(number) => number.text(),
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
            Self::Number(number) => number.len(),
        }
    }

    pub(super) fn write_to(&self, source: &str, out: &mut String) {
        match self {
            Self::Number(number) => number.write_to(out),
            other => out.push_str(other.of(source)),
        }
    }

    /// The text, without a copy unless it is a number.
    pub(super) fn shared(&self, source: &ByteString) -> ByteString {
        match self {
            Self::Source(span) => source.slice_ref(span.of(source)),
            Self::Static(text) => ByteString::from_static(text),
            Self::Shared(text) => text.clone(),
            Self::Number(number) => number.text().into(),
        }
    }

    /// Where it stands in the source, if it does.
    pub(super) fn span(&self) -> Option<Span> {
        match self {
            Self::Source(span) => Some(*span),
            Self::Static(_) | Self::Shared(_) | Self::Number(_) => None,
        }
    }

    /// Whether it may hold what has to be escaped in a JSON string. What stands in the source between quotes had no
    /// escapes, and needs none.
    pub(super) fn may_need_escapes(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

/// A number that is written where it goes out, and has a text of its own only if somebody wants to read it before.
#[derive(Clone)]
pub(super) struct Number {
    number: u64,
    text: OnceLock<Box<str>>,
}

impl Number {
    pub(super) const fn new(number: u64) -> Self {
        Self { number, text: OnceLock::new() }
    }

    /// How many digits it has.
    pub(super) fn len(&self) -> usize {
        1 + self.number.checked_ilog10().unwrap_or(0) as usize
    }

    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| self.number.to_string().into())
    }

    pub(super) fn write_to(&self, out: &mut String) {
        out.push_str(itoa::Buffer::new().format(self.number));
    }
}
