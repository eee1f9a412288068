//! A JSON object opened one level.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use bytestring::ByteString;
use serde::{Serialize, Serializer};

use super::raw::Raw;
use super::scan::{Scan, Scanner, Span, StringSpan, SyntaxError, scan, unescape};

/// From this many names on, a duplicate is looked for with a hash set instead of by comparing all pairs.
const FEW: usize = 16;

/// A JSON object opened one level: its members in order, each value kept as text.
///
/// Reading or replacing a member parses nothing inside the others, and what nobody edited is written again
/// with the same digits and escapes. An object that names a member twice is refused, because two readers
/// would take two different values from it.
///
/// ```
/// use mcp_layers::message::RawObject;
///
/// let mut result = RawObject::parse(r#"{"tools": [{"n": 1.0}], "ttlMs": 5}"#)?;
/// result.set("ttlMs", &7)?;
/// result.set("cacheScope", "private")?;
/// assert_eq!(result.to_string(), r#"{"tools":[{"n": 1.0}],"ttlMs":7,"cacheScope":"private"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct RawObject {
    /// What the spans point into.
    source: ByteString,
    intact: Intact,
    members: Vec<Member>,
}

/// How much of the source still is what the object says.
#[derive(Clone, Copy, Default)]
enum Intact {
    #[default]
    Nothing,
    /// All of it: it stands here.
    Whole(Span),
    /// All that follows the value of the first member, which is another number now.
    AfterNumber(Span),
}

/// A piece of an object that can be given away as it is.
pub(super) struct Piece {
    pub(super) place: Place,
    pub(super) text: ByteString,
    /// Whether the brace that closes the answer around the object is the last byte of the text.
    pub(super) closes: bool,
}

/// Which part of an object is written elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// What is intact of the source.
    Intact,
    /// The value of the member with this number.
    Value(usize),
}

#[derive(Clone)]
struct Member {
    name: Text,
    value: Text,
}

/// Text that is part of the source, or has replaced a part of it.
#[derive(Clone)]
pub(super) enum Text {
    Source(Span),
    Static(&'static str),
    Shared(ByteString),
    /// A number that is short enough to need no memory of its own.
    Digits(Digits),
}

/// The decimal digits of a `u64`: ASCII, from `start` on.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    digits: [u8; 20],
    start: usize,
}

impl Digits {
    fn of(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] += (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { digits, start };
            }
        }
    }

    fn as_str(&self) -> &str {
        // Digits are ASCII: the error is never taken.
        std::str::from_utf8(&self.digits[self.start..]).unwrap_or("0")
    }
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

    fn len(&self) -> usize {
        match self {
            Self::Source(span) => span.len(),
            Self::Static(text) => text.len(),
            Self::Shared(text) => text.len(),
            Self::Digits(digits) => digits.digits.len() - digits.start,
        }
    }

    /// Whether it is `text`.
    #[inline]
    fn is(&self, text: &str, source: &str) -> bool {
        self.len() == text.len() && self.bytes(source) == text.as_bytes()
    }

    /// The same as bytes, which saves looking for the borders of characters where texts are only compared.
    #[inline]
    fn bytes<'a>(&'a self, source: &'a str) -> &'a [u8] {
        match self {
            Self::Source(span) => span.bytes(source),
            other => other.of(source).as_bytes(),
        }
    }
}

/// The text is not a JSON object without duplicate names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAnObject {
    /// Not JSON, or nested deeper than 128 levels; says what was expected where.
    Syntax(String),
    /// JSON, but not an object.
    OtherKind,
    /// The object names this member twice.
    Duplicate(String),
}

impl fmt::Display for NotAnObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(what) => f.write_str(what),
            Self::OtherKind => f.write_str("expected a JSON object"),
            Self::Duplicate(name) => write!(f, "the object names the member `{name}` twice"),
        }
    }
}

impl std::error::Error for NotAnObject {}

impl From<SyntaxError> for NotAnObject {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error.to_string())
    }
}

impl RawObject {
    /// An object without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An object without members, with room for `members` of them.
    pub(crate) fn with_capacity(members: usize) -> Self {
        Self { members: Vec::with_capacity(members), ..Self::default() }
    }

    /// Opens the object that `text` holds, keeping `text` as it is.
    ///
    /// # Errors
    /// If `text` is not one JSON object, nests deeper than 128 levels or names a member twice.
    pub fn parse(text: impl Into<ByteString>) -> Result<Self, NotAnObject> {
        let source = text.into();
        if u32::try_from(source.len()).is_err() {
            return Err(NotAnObject::Syntax("the text is longer than 4 GiB".to_owned()));
        }
        let opened = scan(&source, |scanner| match scanner.peek() {
            Some(b'{') => Opened::read(scanner, &source, 0, usize::MAX, |_, _| Ok(None)).map(Some),
            _ => scanner.value(0).map(|_| None),
        })?;
        opened.ok_or(NotAnObject::OtherKind)?.into_object(source)
    }

    /// Turns any value that serializes as a JSON object into one.
    ///
    /// # Errors
    /// If `value` does not serialize, or not as an object.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        let text = serde_json::to_string(value)?;
        Self::parse(text).map_err(serde::ser::Error::custom)
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The value of the member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Raw<'_>> {
        self.member(name).map(|member| Raw(member.value.of(&self.source)))
    }

    /// Where the value of the member `name` stands in the text that this object was parsed from.
    pub(super) fn span(&self, name: &str) -> Option<Span> {
        match self.member(name)?.value {
            Text::Source(span) => Some(span),
            Text::Static(_) | Text::Shared(_) | Text::Digits(_) => None,
        }
    }

    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name.is(name, &self.source))
    }

    /// Opens the member `name`, sharing this object's text; `None` if there is no such member.
    ///
    /// # Errors
    /// If the member is not an object, or names one of its own members twice.
    pub fn object(&self, name: &str) -> Option<Result<Self, NotAnObject>> {
        Some(Self::parse(self.get_shared(name)?))
    }

    /// The value of the member `name` as shared text that outlives this object without a copy.
    #[must_use]
    pub fn get_shared(&self, name: &str) -> Option<ByteString> {
        Some(self.shared(&self.member(name)?.value))
    }

    fn shared(&self, text: &Text) -> ByteString {
        match text {
            Text::Source(span) => self.source.slice_ref(span.of(&self.source)),
            Text::Static(text) => ByteString::from_static(text),
            Text::Shared(text) => text.clone(),
            Text::Digits(digits) => digits.as_str().into(),
        }
    }

    /// All members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Raw<'_>)> {
        self.members.iter().map(|member| (member.name.of(&self.source), Raw(member.value.of(&self.source))))
    }

    /// Gives the member `name` the value `value`, in its old place or at the end.
    ///
    /// # Errors
    /// If `value` does not serialize as JSON.
    pub fn set<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> serde_json::Result<()> {
        let text = serde_json::to_string(value)?;
        self.put(name, Text::Shared(text.into()));
        Ok(())
    }

    /// Gives the member `name` a copy of `value`, in its old place or at the end.
    pub fn set_raw(&mut self, name: &str, value: Raw<'_>) {
        self.put(name, Text::Shared(value.text().into()));
    }

    /// Gives the member `name` the object `value`, in its old place or at the end.
    pub fn set_object(&mut self, name: &str, value: &Self) {
        self.put(name, Text::Shared(value.to_string().into()));
    }

    /// `text` must be one valid JSON value.
    pub(crate) fn set_text(&mut self, name: &str, text: ByteString) {
        debug_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{text}");
        self.put(name, Text::Shared(text));
    }

    /// Gives the member `name` a number, without an allocation if it is there already. If it is the first, what follows
    /// it can still be given away in one piece.
    #[cfg(feature = "cache")]
    pub(crate) fn set_number(&mut self, name: &str, number: u64) {
        let intact = match (self.intact, self.members.first()) {
            (intact, Some(first)) if first.name.is(name, &self.source) => intact.after(&first.value),
            _ => Intact::Nothing,
        };
        self.put(name, Text::Digits(Digits::of(number)));
        self.intact = intact;
    }

    /// The same object on a text of its own, with the member `first` before the others. The text goes on with the brace
    /// that closes an answer, so that both can be given away in one piece.
    #[cfg(feature = "cache")]
    pub(crate) fn detached(mut self, first: &str) -> Result<Self, NotAnObject> {
        if let Some(at) = self.members.iter().position(|member| member.name.is(first, &self.source)) {
            self.members[..=at].rotate_right(1);
            self.intact = Intact::Nothing;
        }
        let mut text = String::with_capacity(self.written_len() + 1);
        self.write_to(&mut text);
        text.push('}');
        let source = ByteString::from(text);
        let object = Self::parse(source.slice_ref(&source[..source.len() - 1]))?;
        Ok(Self { source, ..object })
    }

    /// Adds a member whose name is known not to be there and needs no escapes; `text` must be valid JSON.
    pub(crate) fn push_static(&mut self, name: &'static str, text: &'static str) {
        self.push(name, Text::Static(text));
    }

    /// Like [`push_static`](Self::push_static) with text that is shared.
    pub(crate) fn push_text(&mut self, name: &'static str, text: ByteString) {
        debug_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{text}");
        self.push(name, Text::Shared(text));
    }

    /// Like [`push_static`](Self::push_static) with a number.
    pub(crate) fn push_number(&mut self, name: &'static str, number: u64) {
        self.push(name, Text::Digits(Digits::of(number)));
    }

    fn push(&mut self, name: &'static str, value: Text) {
        debug_assert!(self.get(name).is_none(), "{name} is there already");
        self.intact = Intact::Nothing;
        self.members.push(Member { name: Text::Static(name), value });
    }

    fn put(&mut self, name: &str, value: Text) {
        self.intact = Intact::Nothing;
        let source = &self.source;
        match self.members.iter_mut().find(|member| member.name.is(name, source)) {
            Some(member) => member.value = value,
            None => self.members.push(Member { name: Text::Shared(name.into()), value }),
        }
    }

    /// Removes the member `name`; says whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.retain(|member, _| member != name)
    }

    /// Removes all members that `keep` is false of, in one pass; says whether there were any.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, Raw<'_>) -> bool) -> bool {
        let source = &self.source;
        let before = self.members.len();
        self.members.retain(|member| keep(member.name.of(source), Raw(member.value.of(source))));
        let removed = self.members.len() < before;
        if removed {
            self.intact = Intact::Nothing;
        }
        removed
    }

    /// Appends the object as JSON text.
    pub(crate) fn write_to(&self, out: &mut String) {
        self.write_around(None, out);
    }

    /// The longest piece of at least `at_least` bytes that can be given away as it is.
    pub(super) fn longest(&self, at_least: usize) -> Option<Piece> {
        if let Intact::Whole(mut span) | Intact::AfterNumber(mut span) = self.intact {
            if span.len() < at_least {
                return None;
            }
            let closes = self.source.as_bytes().get(span.end as usize) == Some(&b'}');
            span.end += u32::from(closes);
            return Some(Piece { place: Place::Intact, text: self.shared(&Text::Source(span)), closes });
        }
        let lengths = self.members.iter().map(|member| member.value.len());
        let (longest, length) = lengths.enumerate().max_by_key(|&(_, length)| length)?;
        let piece = || {
            let text = self.shared(&self.members[longest].value);
            Piece { place: Place::Value(longest), text, closes: false }
        };
        (length >= at_least).then(piece)
    }

    /// Appends the object without what is written elsewhere; says where that belongs in `out`.
    pub(super) fn write_around(&self, left_out: Option<Place>, out: &mut String) -> usize {
        let intact = match self.intact {
            Intact::Nothing => return self.write_members(left_out, out),
            Intact::Whole(whole) => whole,
            Intact::AfterNumber(rest) => {
                out.push('{');
                self.write_member_until_value(0, out);
                out.push_str(self.members[0].value.of(&self.source));
                rest
            }
        };
        let gap = out.len();
        if left_out.is_none() {
            out.push_str(intact.of(&self.source));
        }
        gap
    }

    /// Appends the members one by one, but for the value that is written elsewhere; says where that belongs.
    fn write_members(&self, left_out: Option<Place>, out: &mut String) -> usize {
        let mut gap = out.len();
        out.push('{');
        for (at, member) in self.members.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            self.write_member_until_value(at, out);
            if left_out == Some(Place::Value(at)) {
                gap = out.len();
            } else {
                out.push_str(member.value.of(&self.source));
            }
        }
        out.push('}');
        gap
    }

    fn write_member_until_value(&self, at: usize, out: &mut String) {
        let name = &self.members[at].name;
        match name {
            // It had no escapes, and needs none.
            Text::Source(_) | Text::Static(_) => write_quoted(name.of(&self.source), out),
            Text::Shared(_) | Text::Digits(_) => write_string(name.of(&self.source), out),
        }
        out.push(':');
    }

    /// About how many bytes [`write_to`](Self::write_to) will add: exact but for escapes in names.
    pub(crate) fn written_len(&self) -> usize {
        let member = |member: &Member| member.name.len() + member.value.len() + 4;
        match self.intact {
            Intact::Whole(whole) => whole.len(),
            Intact::AfterNumber(rest) => self.members.first().map_or(0, member) + rest.len(),
            Intact::Nothing if self.members.is_empty() => 2,
            // One comma less than there are members.
            Intact::Nothing => 1 + self.members.iter().map(member).sum::<usize>(),
        }
    }
}

impl Intact {
    /// What is left when the value `first` of the first member becomes a number.
    #[cfg(feature = "cache")]
    fn after(self, first: &Text) -> Self {
        match (self, first) {
            (Self::Whole(whole), Text::Source(value)) => {
                Self::AfterNumber(Span { start: value.end, end: whole.end })
            }
            (Self::AfterNumber(rest), _) => Self::AfterNumber(rest),
            _ => Self::Nothing,
        }
    }
}

/// Appends `string` as a JSON string.
pub(crate) fn write_string(string: &str, out: &mut String) {
    if string.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        write_quoted(string, out);
    } else {
        out.push_str(&serde_json::Value::from(string).to_string());
    }
}

fn write_quoted(string: &str, out: &mut String) {
    out.push('"');
    out.push_str(string);
    out.push('"');
}

impl fmt::Display for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(self.written_len());
        self.write_to(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for RawObject {
    /// Shows the names of the members; their values may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// An object whose members have been found, but which has no source of its own yet.
pub(super) struct Opened {
    whole: Span,
    members: Vec<Member>,
    /// There were more members than wanted.
    overfull: bool,
}

impl Opened {
    /// Reads an object member by member. `open` may read a member's value itself (and then returns its span)
    /// instead of having it skipped. No more than `max_members` are kept.
    pub(super) fn read<'a>(
        scanner: &mut Scanner<'a>,
        text: &str,
        depth: u32,
        max_members: usize,
        mut open: impl FnMut(&mut Scanner<'a>, StringSpan) -> Scan<Option<Span>>,
    ) -> Scan<Self> {
        let mut members = Vec::with_capacity(4);
        let mut overfull = false;
        let whole = scanner.object(depth, |scanner, name| {
            let value = match open(scanner, name)? {
                Some(span) => span,
                None => scanner.value(depth + 1)?,
            };
            // What is beyond the bound is still read, because whether it is JSON is said first; but it is not kept.
            overfull |= members.len() == max_members;
            if overfull {
                return Ok(());
            }
            let name = match name {
                StringSpan { inner, escaped: false } => Text::Source(inner),
                StringSpan { inner, escaped } => {
                    Text::Shared(unescape(inner.of(text), escaped).into_owned().into())
                }
            };
            members.push(Member { name, value: Text::Source(value) });
            Ok(())
        })?;
        Ok(Self { whole, members, overfull })
    }

    pub(super) fn span(&self) -> Span {
        self.whole
    }

    pub(super) fn is_overfull(&self) -> bool {
        self.overfull
    }

    /// The object, unless a name comes twice in it.
    pub(super) fn into_object(self, source: ByteString) -> Result<RawObject, NotAnObject> {
        match duplicate(&self.members, &source) {
            Some(duplicate) => Err(NotAnObject::Duplicate(duplicate.to_owned())),
            None => Ok(RawObject { intact: Intact::Whole(self.whole), members: self.members, source }),
        }
    }
}

/// The first name that comes a second time.
fn duplicate<'a>(members: &'a [Member], source: &'a str) -> Option<&'a str> {
    let second = if members.len() <= FEW {
        let mut all = members.iter().enumerate();
        all.find(|&(at, member)| {
            let name = member.name.bytes(source);
            // Most pairs differ in length already.
            members[..at]
                .iter()
                .any(|other| other.name.len() == name.len() && other.name.bytes(source) == name)
        })
        .map(|(_, member)| member)
    } else {
        let mut seen = HashSet::with_capacity(members.len());
        members.iter().find(|member| !seen.insert(member.name.bytes(source)))
    };
    second.map(|member| member.name.of(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_edited_is_written_as_it_was() {
        let text = r#"{ "a" : 1.0, "b": [1e2 , "\u0041"] }"#;
        assert_eq!(RawObject::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn an_edit_leaves_the_other_members_as_they_were() {
        let mut object = RawObject::parse(r#"{ "a" : 1.0, "b\n": 18446744073709551616 , "c": 3}"#).unwrap();
        object.set("a", &[1]).unwrap();
        assert!(object.remove("c"));
        assert!(!object.remove("c"));
        object.set_raw("d", Raw("1e2"));
        assert_eq!(object.to_string(), r#"{"a":[1],"b\n":18446744073709551616,"d":1e2}"#);
        assert_eq!(object.len(), 3);
    }

    #[test]
    fn many_members_are_removed_in_one_pass() {
        let all: Vec<_> = (0..100_000).map(|n| format!("\"{n}\":{n}")).collect();
        let mut object = RawObject::parse(format!("{{{}}}", all.join(", "))).unwrap();
        let mut looked_at = 0;
        let removed = object.retain(|name, value| {
            looked_at += 1;
            name == "7" || value.text() == "9"
        });
        assert!(removed);
        assert_eq!((object.to_string().as_str(), looked_at), (r#"{"7":7,"9":9}"#, 100_000));
        assert!(!object.retain(|_, _| true));
    }

    #[cfg(feature = "cache")]
    #[test]
    fn a_number_is_written_with_its_digits() {
        let mut object = RawObject::parse(r#"{"a":"x"}"#).unwrap();
        for number in [0, 7, 10, 86_400_000, u64::MAX] {
            object.set_number("a", number);
            assert_eq!(object.get("a").unwrap().text(), number.to_string());
            assert_eq!(object.get_shared("a").unwrap(), number.to_string());
        }
    }

    #[test]
    fn a_name_that_comes_twice_is_refused_however_it_is_spelled() {
        let twice = |text: &str| RawObject::parse(text.to_owned()).unwrap_err();
        assert_eq!(twice(r#"{"a":1,"b":2,"a":1}"#), NotAnObject::Duplicate("a".to_owned()));
        assert_eq!(twice(r#"{"a":1,"\u0061":1}"#), NotAnObject::Duplicate("a".to_owned()));
        let many: Vec<_> = (0..40).map(|n| format!("\"{n}\":0")).collect();
        assert!(RawObject::parse(format!("{{{}}}", many.join(","))).is_ok());
        assert_eq!(twice(&format!("{{{},\"7\":1}}", many.join(","))), NotAnObject::Duplicate("7".to_owned()));
    }

    #[test]
    fn what_is_not_an_object_says_so() {
        assert_eq!(RawObject::parse("[]").unwrap_err(), NotAnObject::OtherKind);
        assert!(matches!(RawObject::parse("{").unwrap_err(), NotAnObject::Syntax(_)));
        assert!(matches!(RawObject::parse("{} {}").unwrap_err(), NotAnObject::Syntax(_)));
    }

    #[test]
    fn a_member_is_opened_without_a_copy() {
        let object = RawObject::parse(r#"{"a": {"b": [1]}, "c": 1}"#).unwrap();
        let inner = object.object("a").unwrap().unwrap();
        assert_eq!(inner.get("b").unwrap().text(), "[1]");
        assert_eq!(inner.source.as_ptr(), object.get("a").unwrap().text().as_ptr());
        assert_eq!(object.object("c").unwrap().unwrap_err(), NotAnObject::OtherKind);
        assert!(object.object("d").is_none());
    }
}
