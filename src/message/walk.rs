//! Walks through a JSON value token by token.

use std::borrow::Cow;

use super::raw::{Kind, Raw};
use super::scan::{Scan, Scanner, StringSpan, unescape};

/// One step of a [`Walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// An object or an array begins.
    Open(Kind),
    /// The innermost object or array ends.
    Close,
    /// The name of the member whose value comes next.
    Name(Spelled<'a>),
    /// A string, number, boolean or `null`.
    Scalar(Raw<'a>),
}

/// A string as it is spelled between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelled<'a> {
    pub(super) text: &'a str,
    pub(super) escaped: bool,
}

impl<'a> Spelled<'a> {
    /// The string with its escapes resolved.
    pub(crate) fn decoded(self) -> Cow<'a, str> {
        unescape(self.text, self.escaped)
    }

    /// The text between the quotes.
    pub(crate) fn text(self) -> &'a str {
        self.text
    }
}

/// The tokens of one JSON value in the order of its text.
///
/// It allocates nothing and does not recurse; open containers are bits of one integer, which is as large as the
/// deepest nesting that a message may have.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    /// One bit per open container, the innermost lowest: 1 is an object, 0 an array.
    open: u128,
    depth: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value comes next.
    Value,
    /// A container has been opened: it may end at once.
    First,
    /// A member's name comes next.
    Name,
    /// A value has ended.
    After,
    Done,
}

impl<'a> Walk<'a> {
    /// Walks through `value`.
    pub(crate) fn new(value: Raw<'a>) -> Self {
        Self { text: value.0, scanner: Scanner::new(value.0), open: 0, depth: 0, state: State::Value }
    }

    fn in_object(&self) -> bool {
        self.open & 1 == 1
    }

    fn step(&mut self) -> Scan<Option<Token<'a>>> {
        loop {
            match self.state {
                State::Done => return Ok(None),
                State::Value => {
                    let kind = match self.scanner.peek() {
                        Some(b'{') => Kind::Object,
                        Some(b'[') => Kind::Array,
                        _ => {
                            let span = self.scanner.value(self.depth)?;
                            self.state = State::After;
                            return Ok(Some(Token::Scalar(Raw(span.of(self.text)))));
                        }
                    };
                    self.scanner.enter(self.depth)?;
                    self.open = self.open << 1 | u128::from(kind == Kind::Object);
                    self.depth += 1;
                    self.state = State::First;
                    return Ok(Some(Token::Open(kind)));
                }
                State::First => {
                    let close = if self.in_object() { b'}' } else { b']' };
                    if self.scanner.peek() == Some(close) {
                        self.scanner.pass();
                        return Ok(Some(self.close()));
                    }
                    self.state = if self.in_object() { State::Name } else { State::Value };
                }
                State::Name => {
                    let StringSpan { inner, escaped } = self.scanner.member_name()?;
                    self.state = State::Value;
                    return Ok(Some(Token::Name(Spelled { text: inner.of(self.text), escaped })));
                }
                State::After if self.depth == 0 => self.state = State::Done,
                State::After => {
                    if !self.scanner.another(if self.in_object() { b'}' } else { b']' })? {
                        return Ok(Some(self.close()));
                    }
                    self.state = if self.in_object() { State::Name } else { State::Value };
                }
            }
        }
    }

    fn close(&mut self) -> Token<'a> {
        self.open >>= 1;
        self.depth -= 1;
        self.state = State::After;
        Token::Close
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        // The value is known to be valid JSON; were it not, the walk would end where it stops being.
        self.step().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        let token = |token: Token<'_>| match token {
            Token::Open(Kind::Object) => "{".to_owned(),
            Token::Open(_) => "[".to_owned(),
            Token::Close => "^".to_owned(),
            Token::Name(name) => format!("{}:", name.decoded()),
            Token::Scalar(raw) => raw.text().to_owned(),
        };
        Walk::new(Raw(text)).map(token).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tokens_come_in_the_order_of_the_text() {
        for (text, tokens) in [
            ("1", "1"),
            ("\"a\"", "\"a\""),
            ("{}", "{ ^"),
            ("[]", "[ ^"),
            ("[ 1 , [ ] , { } ]", "[ 1 [ ^ { ^ ^"),
            (r#"{ "a" : 1 , "\u0062" : { "c" : [ null ] } }"#, "{ a: 1 b: { c: [ null ^ ^ ^"),
        ] {
            assert_eq!(shown(text), tokens, "{text}");
        }
    }

    #[test]
    fn the_deepest_nesting_of_a_message_is_walked_to_its_end() {
        let text = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert_eq!(Walk::new(Raw(&text)).count(), 256);
    }

    proptest! {
        #[test]
        fn opens_and_closes_are_balanced(text in "[\\[\\]{}:, \"a1]{0,24}") {
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                let text = text.trim();
                let (mut depth, mut tokens) = (0, 0);
                for token in Walk::new(Raw(text)) {
                    tokens += 1;
                    depth += match token { Token::Open(_) => 1, Token::Close => -1, _ => 0 };
                    prop_assert!(depth >= 0);
                }
                prop_assert_eq!(depth, 0);
                prop_assert!(tokens > 0);
            }
        }
    }
}
