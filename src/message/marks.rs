//! The structure of JSON text that is known to be valid.

use super::raw::{Kind, Raw};
use super::scan::end_of_plain;
use super::walk::Spelled;

/// What gives JSON text its structure: all else in it are numbers, words and white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark<'a> {
    /// An object or an array begins.
    Open { kind: Kind, is_empty: bool },
    /// The innermost object or array ends.
    Close,
    /// The value of a member comes next.
    Colon,
    /// Another member or element comes next.
    Comma,
    /// A name or a value.
    String(Spelled<'a>),
}

/// The marks of one JSON value in the order of its text.
///
/// Where a [`Walk`](super::Walk) reads each value, this only looks for what ends it: several times faster, for who wants
/// to count.
#[derive(Debug)]
pub(crate) struct Marks<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Marks<'a> {
    pub(crate) fn of(value: Raw<'a>) -> Self {
        Self { text: value.0, at: 0 }
    }

    fn open(&self, kind: Kind, close: u8) -> Mark<'a> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        Mark::Open { kind, is_empty: rest.trim_ascii_start().first() == Some(&close) }
    }

    /// The string whose opening quote has been passed.
    fn string(&mut self) -> Option<Mark<'a>> {
        let start = self.at;
        let mut end = end_of_plain(self.text.as_bytes(), start);
        // Whatever is escaped ends no string.
        let mut escaped = false;
        while self.text.as_bytes().get(end) == Some(&b'\\') {
            escaped = true;
            end = end_of_plain(self.text.as_bytes(), end + 2);
        }
        self.at = end + 1;
        self.text.get(start..end).map(|text| Mark::String(Spelled { text, escaped }))
    }
}

impl<'a> Iterator for Marks<'a> {
    type Item = Mark<'a>;

    #[inline]
    fn next(&mut self) -> Option<Mark<'a>> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            self.at += 1;
            return match byte {
                b'"' => self.string(),
                b':' => Some(Mark::Colon),
                b',' => Some(Mark::Comma),
                b'{' => Some(self.open(Kind::Object, b'}')),
                b'[' => Some(self.open(Kind::Array, b']')),
                b'}' | b']' => Some(Mark::Close),
                _ => continue,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::walk::{Token, Walk};
    use super::*;

    #[test]
    fn marks_come_in_the_order_of_the_text() {
        let text = r#" { "a\"\\" : [ ] , "b" : [ 1 , "{\u005d" , { } ] , "c":-1.5e3 } "#;
        let open = |kind, is_empty| Mark::Open { kind, is_empty };
        let string = |text, escaped| Mark::String(Spelled { text, escaped });
        let expected = [
            open(Kind::Object, false),
            string(r#"a\"\\"#, true),
            Mark::Colon,
            open(Kind::Array, true),
            Mark::Close,
            Mark::Comma,
            string("b", false),
            Mark::Colon,
            open(Kind::Array, false),
            Mark::Comma,
            string(r"{\u005d", true),
            Mark::Comma,
            open(Kind::Object, true),
            Mark::Close,
            Mark::Close,
            Mark::Comma,
            string("c", false),
            Mark::Colon,
            Mark::Close,
        ];
        assert_eq!(Marks::of(Raw(text)).collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn they_tell_the_same_of_a_text_as_its_tokens(text in r#"[\[\]{}:, "a1\\é]{0,24}"#) {
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                let mut tokens = Vec::new();
                for token in Walk::new(Raw(&text)) {
                    match token {
                        Token::Open(kind) => tokens.push(format!("{kind:?}")),
                        Token::Close => tokens.push("close".to_owned()),
                        Token::Name(name) => tokens.push(name.text().to_owned()),
                        Token::Scalar(raw) if raw.kind() == Kind::String => {
                            tokens.push(raw.text()[1..raw.text().len() - 1].to_owned());
                        }
                        Token::Scalar(_) => {}
                    }
                }
                let mut marks = Vec::new();
                for mark in Marks::of(Raw(&text)) {
                    match mark {
                        Mark::Open { kind, .. } => marks.push(format!("{kind:?}")),
                        Mark::Close => marks.push("close".to_owned()),
                        Mark::String(spelled) => marks.push(spelled.text().to_owned()),
                        Mark::Colon | Mark::Comma => {}
                    }
                }
                prop_assert_eq!(marks, tokens);
            }
        }
    }
}
