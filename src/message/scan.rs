//! Reads JSON text once, without building anything.
//!
//! The scanner checks the grammar of RFC 8259 over text that is already known to be UTF-8 and hands out
//! byte ranges. It allocates nothing and does not recurse: open containers are bits of one integer, so the
//! depth bound is also the size of its memory.

use std::borrow::Cow;

/// The deepest nesting of arrays and objects that is accepted, the outermost one included.
pub(crate) const MAX_DEPTH: u32 = 128;

/// A range of bytes in the scanned text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    #[inline]
    pub(crate) fn of(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }

    /// The same as bytes, which saves looking for the borders of characters where texts are only compared.
    #[inline]
    pub(crate) fn bytes(self, text: &str) -> &[u8] {
        &text.as_bytes()[self.start as usize..self.end as usize]
    }

    /// Whether it holds `other`. Most differ in length already.
    #[inline]
    pub(crate) fn is(self, other: &[u8], text: &str) -> bool {
        self.len() == other.len() && self.bytes(text) == other
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// Why a text is not JSON, or that it nests deeper than [`MAX_DEPTH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Byte offset of what could not be read.
    pub(crate) at: usize,
    /// What was expected there.
    pub(crate) what: &'static str,
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// A member name: the text between its quotes, and whether it holds escapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringSpan {
    pub(crate) inner: Span,
    pub(crate) escaped: bool,
}

impl StringSpan {
    /// Whether the string stands for `name`.
    #[inline]
    pub(crate) fn is(self, name: &str, text: &str) -> bool {
        if self.escaped {
            *self.decoded(text) == *name.as_bytes()
        } else {
            self.inner.is(name.as_bytes(), text)
        }
    }

    /// The text that the string stands for.
    #[inline]
    pub(crate) fn decoded(self, text: &str) -> Cow<'_, [u8]> {
        if self.escaped {
            Cow::Owned(unescape(self.inner.of(text), true).into_owned().into_bytes())
        } else {
            Cow::Borrowed(self.inner.bytes(text))
        }
    }
}

/// A cursor over JSON text.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// What was expected at the cursor, once something else was there.
    what: &'static str,
}

/// Something else was there than what was to be read. The scanner remembers what and where, so that each of the many
/// small steps returns in a register.
#[derive(Debug)]
pub(crate) struct Fault;

pub(crate) type Scan<T> = Result<T, Fault>;

/// What `read` makes of `text`, which must be read to its end by it but for white space, and must not be longer than
/// `u32::MAX` bytes.
pub(crate) fn scan<'a, T>(
    text: &'a str,
    read: impl FnOnce(&mut Scanner<'a>) -> Scan<T>,
) -> Result<T, SyntaxError> {
    let mut scanner = Scanner::new(text);
    let done = read(&mut scanner).and_then(|read| scanner.finish().map(|()| read));
    done.map_err(|Fault| SyntaxError { at: scanner.at, what: scanner.what })
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of `text`, which must not be longer than `u32::MAX` bytes.
    pub(super) fn new(text: &'a str) -> Self {
        debug_assert!(u32::try_from(text.len()).is_ok());
        Self { bytes: text.as_bytes(), at: 0, what: "" }
    }

    #[cold]
    fn fault<T>(&mut self, what: &'static str) -> Scan<T> {
        self.what = what;
        Err(Fault)
    }

    #[inline]
    fn peek_byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space and returns the byte that follows it, without passing it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.peek_byte() {
                // Most bytes, told by one comparison.
                Some(byte) if byte > b' ' => return Some(byte),
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other,
            }
        }
    }

    /// Passes the byte that [`peek`](Self::peek) has found.
    pub(super) fn pass(&mut self) {
        self.at += 1;
    }

    /// Nothing but white space may be left.
    fn finish(&mut self) -> Scan<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fault("something follows the JSON value"),
        }
    }

    #[inline]
    fn span_from(&self, start: usize) -> Span {
        // The constructor's bound makes both casts exact.
        #[allow(clippy::cast_possible_truncation, reason = "the text is at most u32::MAX bytes long")]
        Span { start: start as u32, end: self.at as u32 }
    }

    /// Reads an object and calls `member` for each of its members, with the scanner before the value;
    /// `member` must read exactly that value. `depth` counts the containers already open.
    pub(crate) fn object(
        &mut self,
        depth: u32,
        mut member: impl FnMut(&mut Self, StringSpan) -> Scan<()>,
    ) -> Scan<Span> {
        if self.peek() != Some(b'{') {
            return self.fault("expected an object");
        }
        let start = self.at;
        self.enter(depth)?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(self.span_from(start));
        }
        loop {
            let name = self.member_name()?;
            member(self, name)?;
            if !self.another(b'}')? {
                return Ok(self.span_from(start));
            }
        }
    }

    /// Reads an array and calls `element` before each value; `element` must read exactly that value.
    pub(crate) fn array(&mut self, depth: u32, mut element: impl FnMut(&mut Self) -> Scan<()>) -> Scan<Span> {
        if self.peek() != Some(b'[') {
            return self.fault("expected an array");
        }
        let start = self.at;
        self.enter(depth)?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(self.span_from(start));
        }
        loop {
            element(self)?;
            if !self.another(b']')? {
                return Ok(self.span_from(start));
            }
        }
    }

    pub(super) fn enter(&mut self, depth: u32) -> Scan<()> {
        if depth >= MAX_DEPTH {
            return self.fault("nested deeper than 128 levels");
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn member_name(&mut self) -> Scan<StringSpan> {
        if self.peek() != Some(b'"') {
            return self.fault("expected a member name");
        }
        let name = self.string()?;
        if self.peek() != Some(b':') {
            return self.fault("expected a colon");
        }
        self.at += 1;
        Ok(name)
    }

    /// After a value inside a container: passes a comma (true) or the closing byte (false).
    #[inline]
    pub(super) fn another(&mut self, close: u8) -> Scan<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => self.fault("expected a comma or the end of the container"),
        }
    }

    /// Reads one value of any kind and returns where it stands. `depth` counts the containers already open.
    #[inline]
    pub(crate) fn value(&mut self, depth: u32) -> Scan<Span> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{' | b'[') => return self.container(depth),
            Some(b'"') => drop(self.rest_of_string()?),
            _ => self.scalar()?,
        }
        Ok(self.span_from(start))
    }

    /// Reads an object or array, the cursor being on its first byte.
    fn container(&mut self, depth: u32) -> Scan<Span> {
        let start = self.at;
        // One bit per open container, the innermost lowest: 1 is an object, 0 an array.
        let mut open: u128 = 0;
        let mut level: u32 = 0;
        loop {
            // Before a value.
            match self.peek() {
                Some(b'{') => {
                    self.enter(depth + level)?;
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        open = open << 1 | 1;
                        level += 1;
                        self.member_name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.enter(depth + level)?;
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        open <<= 1;
                        level += 1;
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // After a value: close containers until one goes on.
            loop {
                if level == 0 {
                    return Ok(self.span_from(start));
                }
                let is_object = open & 1 == 1;
                if self.another(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.member_name()?;
                    }
                    break;
                }
                open >>= 1;
                level -= 1;
            }
        }
    }

    fn scalar(&mut self) -> Scan<()> {
        match self.peek_byte() {
            Some(b'"') => self.rest_of_string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) => self.fault("expected a JSON value"),
            None => self.fault("the JSON text ends early"),
        }
    }

    fn word(&mut self, word: &[u8]) -> Scan<()> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            self.fault("expected a JSON value")
        }
    }

    fn number(&mut self) -> Scan<()> {
        if self.peek_byte() == Some(b'-') {
            self.at += 1;
        }
        match self.peek_byte() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.fault("expected a digit"),
        }
        if self.peek_byte() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek_byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek_byte() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek_byte() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Scan<()> {
        match self.peek_byte() {
            Some(b'0'..=b'9') => {
                self.digits();
                Ok(())
            }
            _ => self.fault("expected a digit"),
        }
    }

    /// Reads a string, the cursor being on its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Scan<StringSpan> {
        let start = self.at + 1;
        let escaped = self.rest_of_string()?;
        let inner = self.span_from(start);
        Ok(StringSpan { inner: Span { end: inner.end - 1, ..inner }, escaped })
    }

    /// Passes a string, the cursor being on its opening quote; says whether it has escapes.
    #[inline(never)]
    fn rest_of_string(&mut self) -> Scan<bool> {
        let end = end_of_plain(self.bytes, self.at + 1);
        self.at = end;
        if self.peek_byte() == Some(b'"') {
            self.at = end + 1;
            return Ok(false);
        }
        self.rest_with_escapes().map(|()| true)
    }

    /// Reads on in a string from the first byte that does not stand for itself.
    #[cold]
    #[inline(never)]
    fn rest_with_escapes(&mut self) -> Scan<()> {
        loop {
            match self.peek_byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return self.fault("a control character in a string must be escaped"),
                None => return self.fault("the JSON text ends inside a string"),
            }
            self.at = end_of_plain(self.bytes, self.at);
        }
    }

    /// Reads an escape, the cursor being on its backslash. A surrogate must come with its partner: alone it
    /// names no character, and readers differ on what they make of it.
    fn escape(&mut self) -> Scan<()> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => match self.code_unit()? {
                0xD800..=0xDBFF => {
                    if self.bytes.get(self.at..self.at + 2) == Some(b"\\u")
                        && matches!(self.code_unit()?, 0xDC00..=0xDFFF)
                    {
                        Ok(())
                    } else {
                        self.fault("a surrogate in a string has no partner")
                    }
                }
                0xDC00..=0xDFFF => self.fault("a surrogate in a string has no partner"),
                _ => Ok(()),
            },
            _ => self.fault("unknown escape in a string"),
        }
    }

    /// Reads `\uXXXX`.
    fn code_unit(&mut self) -> Scan<u32> {
        let mut unit = 0;
        for at in self.at + 2..self.at + 6 {
            match self.bytes.get(at).and_then(|byte| (*byte as char).to_digit(16)) {
                Some(digit) => unit = unit << 4 | digit,
                None => return self.fault("expected four hexadecimal digits"),
            }
        }
        self.at += 6;
        Ok(unit)
    }
}

/// Where the next quote, backslash or control character is, from `at` on; looks at eight bytes at a time.
#[inline]
pub(super) fn end_of_plain(bytes: &[u8], at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        // The classic test for bytes below a bound, twice; bytes of 0x80 and more are plain. With one bit turned round,
        // the quote follows the control characters. A borrow can mark a byte above a real hit, never below it, so the
        // lowest mark is always right.
        let quote_or_control = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
        let backslash = (word ^ (ONES * 0x5C)).wrapping_sub(ONES);
        let hits = (quote_or_control | backslash) & !word & (ONES << 7);
        if hits != 0 {
            return bytes.len() - rest.len() + hits.trailing_zeros() as usize / 8;
        }
        rest = after;
    }
    bytes.len() - rest.len() + plain_bytes(rest)
}

/// How many bytes there are before the first quote, backslash or control character.
#[cold]
#[inline(never)]
fn plain_bytes(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\').count()
}

/// The text between a string's quotes as the text that it stands for.
pub(crate) fn unescape(inner: &str, escaped: bool) -> Cow<'_, str> {
    if escaped {
        // The scanner has accepted the string, so serde_json does too: it refuses nothing more than we do.
        let quoted = format!("\"{inner}\"");
        Cow::Owned(serde_json::from_str(&quoted).unwrap_or_default())
    } else {
        Cow::Borrowed(inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan(text: &str) -> Result<(), SyntaxError> {
        super::scan(text, |scanner| scanner.value(0).map(drop))
    }

    #[test]
    fn what_json_allows_is_accepted() {
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "12",
            "-1.5e+10",
            "1E5",
            "\"\"",
            "\"a\\u00e9\\n\"",
            "\"\\ud83d\\ude00\"",
            "[]",
            "{}",
            " [ 1 , {\"a\" : [ ] } ] ",
            "{\"a\":{\"b\":[{},[],1]},\"c\":2}",
            "\"0123456701234567\u{80}é\"",
        ] {
            assert_eq!(scan(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_json_forbids_is_refused() {
        for text in [
            "",
            " ",
            "nul",
            "nulll",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "--1",
            "'a'",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "[1,]",
            "[,]",
            "[1",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1",
            "1 2",
            "\u{feff}1",
            "\"\t\"",
            "\"0123456\u{1}\"",
            "]",
            "{]",
            "[}",
        ] {
            assert!(scan(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn nesting_is_accepted_up_to_the_bound_and_not_beyond() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |levels: usize| format!("{}0{}", open.repeat(levels), close.repeat(levels));
            assert_eq!(scan(&nested(128)), Ok(()));
            assert_eq!(scan(&nested(129)).unwrap_err().what, "nested deeper than 128 levels");
            assert!(scan(&open.repeat(100_000)).is_err());
        }
    }

    #[test]
    fn containers_close_in_the_order_they_opened() {
        assert!(scan("[{\"a\":[1]}]").is_ok());
        assert!(scan("[{\"a\":[1}]]").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_json_for_us_exactly_if_it_is_for_serde_json(text in "[\\[\\]{}:,\"\\\\u0-9dDeE+.a-f \\-ntrusl\u{1}é]{0,24}") {
            // `Value` refuses two things that are JSON: numbers out of range, and our bound on depth is its own.
            let theirs = match serde_json::from_str::<serde_json::Value>(&text) {
                Err(error) if error.to_string().starts_with("number out of range") => return Ok(()),
                other => other.is_ok(),
            };
            prop_assert_eq!(scan(&text).is_ok(), theirs, "{}", text);
        }

        #[test]
        fn any_string_is_read_to_its_end(string in ".{0,40}") {
            let text = serde_json::to_string(&string).unwrap();
            let span = super::scan(&text, Scanner::string).unwrap();
            prop_assert_eq!(unescape(span.inner.of(&text), span.escaped), string);
        }
    }
}
