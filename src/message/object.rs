//! A JSON object opened one level.

mod members;

use std::fmt;

use bytestring::ByteString;
use serde::{Serialize, Serializer};

use self::members::{Member, Members};
use super::raw::Raw;
use super::scan::{Scan, Scanner, Span, StringSpan, SyntaxError, scan};
use super::text::{Number, Text};

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
    /// Where the whole object stands in `source`, as long as that is what it says, but perhaps for `number`.
    whole: Option<Span>,
    /// The value of the first member, where it is another than in `source`.
    number: Option<Number>,
    members: Members,
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
        Self { members: Members::Listed(Vec::with_capacity(members)), ..Self::default() }
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
        let mut object = Self::on(source.clone());
        let is_object = scan(&source, |scanner| match scanner.peek() {
            Some(b'{') => object.read(scanner, 0, usize::MAX, |_, _| Ok(None)).map(|_| true),
            _ => scanner.value(0).map(|_| false),
        })?;
        if !is_object {
            return Err(NotAnObject::OtherKind);
        }
        object.check_names()?;
        Ok(object)
    }

    /// An object that is to be [read](Self::read) from `source`.
    pub(super) fn on(source: ByteString) -> Self {
        Self { source, ..Self::default() }
    }

    /// Reads the object that the scanner has before it in the source, member by member; says whether all were kept,
    /// which are no more than `max_members`. `open` may read a member's value itself (and then returns its span)
    /// instead of having it skipped.
    ///
    /// What stands there may [name a member twice](Self::check_names).
    pub(super) fn read<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        depth: u32,
        max_members: usize,
        mut open: impl FnMut(&mut Scanner<'a>, StringSpan) -> Scan<Option<Span>>,
    ) -> Scan<bool> {
        let Self { source, members, whole, .. } = self;
        let mut all = true;
        *whole = Some(scanner.object(depth, |scanner, name| {
            let value = match open(scanner, name)? {
                Some(span) => span,
                None => scanner.value(depth + 1)?,
            };
            // What is beyond the bound is still read, because whether it is JSON is said first; but it is not kept.
            all &= members.len() < max_members;
            if all {
                members.push(name, value, source);
            }
            Ok(())
        })?);
        Ok(all)
    }

    /// Where it stands in the source, if that is what it says.
    pub(super) fn whole(&self) -> Option<Span> {
        self.whole
    }

    /// # Errors
    /// If a name comes twice.
    pub(super) fn check_names(&self) -> Result<(), NotAnObject> {
        match self.members.duplicate(&self.source) {
            Some(at) => Err(NotAnObject::Duplicate(self.name(at).to_owned())),
            None => Ok(()),
        }
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
        self.len() == 0
    }

    /// The value of the member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Raw<'_>> {
        Some(Raw(self.value(self.position(name)?)))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.members.position(name, &self.source)
    }

    fn name(&self, at: usize) -> &str {
        match &self.members {
            Members::Found(pairs) => pairs[at].name.of(&self.source),
            Members::Listed(list) => list[at].name.of(&self.source),
        }
    }

    fn write_value(&self, at: usize, out: &mut String) {
        match &self.members {
            Members::Found(_) => out.push_str(self.value(at)),
            Members::Listed(list) => list[at].value.write_to(&self.source, out),
        }
    }

    fn value_len(&self, at: usize) -> usize {
        match (&self.members, &self.number) {
            (Members::Found(_), Some(number)) if at == 0 => number.len(),
            (Members::Found(pairs), _) => pairs[at].value.len(),
            (Members::Listed(list), _) => list[at].value.len(),
        }
    }

    fn value(&self, at: usize) -> &str {
        match (&self.members, &self.number) {
            (Members::Found(_), Some(number)) if at == 0 => number.text(),
            (Members::Found(pairs), _) => pairs[at].value.of(&self.source),
            (Members::Listed(list), _) => list[at].value.of(&self.source),
        }
    }

    /// Where the value of the member `name` stands in the text that this object was parsed from, if it does.
    pub(super) fn span(&self, name: &str) -> Option<Span> {
        let at = self.position(name)?;
        match &self.members {
            Members::Found(_) if at == 0 && self.number.is_some() => None,
            Members::Found(pairs) => Some(pairs[at].value),
            Members::Listed(list) => list[at].value.span(),
        }
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
        Some(self.shared(self.position(name)?))
    }

    /// The value of the member with the number `at`.
    fn shared(&self, at: usize) -> ByteString {
        match (&self.members, &self.number) {
            (Members::Found(_), Some(number)) if at == 0 => number.text().into(),
            (Members::Found(pairs), _) => self.source.slice_ref(pairs[at].value.of(&self.source)),
            (Members::Listed(list), _) => list[at].value.shared(&self.source),
        }
    }

    /// The names of all members in order.
    #[cfg(feature = "cache")]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|at| self.name(at))
    }

    /// All members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Raw<'_>)> {
        (0..self.len()).map(|at| (self.name(at), Raw(self.value(at))))
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
        let number = Number::new(number);
        match &self.members {
            Members::Found(pairs)
                if pairs.first().is_some_and(|first| first.name.of(&self.source) == name) =>
            {
                self.number = Some(number);
            }
            _ => self.put(name, Text::Number(number)),
        }
    }

    /// The same object on a text of its own, with the member `first` before the others. The text goes on with the brace
    /// that closes an answer, so that both can be given away in one piece.
    #[cfg(feature = "cache")]
    pub(crate) fn detached(mut self, first: &str) -> Result<Self, NotAnObject> {
        if let Some(at) = self.position(first) {
            self.edit()[..=at].rotate_right(1);
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
        self.push(name, Text::Number(Number::new(number)));
    }

    fn push(&mut self, name: &'static str, value: Text) {
        debug_assert!(self.get(name).is_none(), "{name} is there already");
        self.edit().push(Member { name: Text::Static(name), value });
    }

    fn put(&mut self, name: &str, value: Text) {
        let at = self.position(name);
        let list = self.edit();
        match at {
            Some(at) => list[at].value = value,
            None => list.push(Member { name: Text::Shared(name.into()), value }),
        }
    }

    /// The members as a list that is the whole truth from now on.
    fn edit(&mut self) -> &mut Vec<Member> {
        self.whole = None;
        let list = self.members.list();
        if let (Some(number), Some(first)) = (self.number.take(), list.first_mut()) {
            first.value = Text::Number(number);
        }
        list
    }

    /// Removes the member `name`; says whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.retain(|member, _| member != name)
    }

    /// Removes all members that `keep` is false of, in one pass; says whether there were any.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, Raw<'_>) -> bool) -> bool {
        let Some(first) = self.iter().position(|(name, value)| !keep(name, value)) else { return false };
        self.edit();
        let (source, mut at) = (&self.source, 0);
        self.members.list().retain(|member| {
            at += 1;
            at <= first || (at > first + 1 && keep(member.name.of(source), Raw(member.value.of(source))))
        });
        true
    }

    /// Appends the object as JSON text.
    pub(crate) fn write_to(&self, out: &mut String) {
        self.write_around(None, out);
    }

    /// What of the source is what the object says: what goes before the number, if there is one, and the rest.
    fn intact(&self) -> Option<(Span, Span)> {
        let whole = self.whole?;
        Some(match (&self.members, &self.number) {
            (Members::Found(pairs), Some(_)) => {
                let number = pairs[0].value;
                (Span { end: number.start, ..whole }, Span { start: number.end, ..whole })
            }
            _ => (Span { end: whole.start, ..whole }, whole),
        })
    }

    /// The longest piece of at least `at_least` bytes that can be given away as it is.
    pub(super) fn longest(&self, at_least: usize) -> Option<Piece> {
        if let Some((_, mut span)) = self.intact() {
            if span.len() < at_least {
                return None;
            }
            let closes = self.source.as_bytes().get(span.end as usize) == Some(&b'}');
            span.end += u32::from(closes);
            let text = self.source.slice_ref(span.of(&self.source));
            return Some(Piece { place: Place::Intact, text, closes });
        }
        let lengths = (0..self.len()).map(|at| self.value_len(at));
        let (longest, length) = lengths.enumerate().max_by_key(|&(_, length)| length)?;
        let piece = || Piece { place: Place::Value(longest), text: self.shared(longest), closes: false };
        (length >= at_least).then(piece)
    }

    /// Appends the object without what is written elsewhere; says where that belongs in `out`.
    pub(super) fn write_around(&self, left_out: Option<Place>, out: &mut String) -> usize {
        let Some((before, rest)) = self.intact() else { return self.write_members(left_out, out) };
        if let Some(number) = &self.number {
            out.push_str(before.of(&self.source));
            number.write_to(out);
        }
        let gap = out.len();
        if left_out.is_none() {
            out.push_str(rest.of(&self.source));
        }
        gap
    }

    /// Appends the members one by one, but for the value that is written elsewhere; says where that belongs.
    fn write_members(&self, left_out: Option<Place>, out: &mut String) -> usize {
        let mut gap = out.len();
        out.push('{');
        for at in 0..self.len() {
            if at > 0 {
                out.push(',');
            }
            match &self.members {
                Members::Listed(list) if list[at].name.may_need_escapes() => write_string(self.name(at), out),
                _ => write_quoted(self.name(at), out),
            }
            out.push(':');
            if left_out == Some(Place::Value(at)) {
                gap = out.len();
            } else {
                self.write_value(at, out);
            }
        }
        out.push('}');
        gap
    }

    /// About how many bytes [`write_to`](Self::write_to) will add: exact but for escapes in names.
    pub(crate) fn written_len(&self) -> usize {
        let member = |at| self.members.name(at, &self.source).len() + self.value_len(at) + 4;
        match self.intact() {
            Some((before, rest)) => before.len() + self.number.as_ref().map_or(0, Number::len) + rest.len(),
            None if self.is_empty() => 2,
            // One comma less than there are members.
            None => 1 + (0..self.len()).map(member).sum::<usize>(),
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

#[cfg(test)]
mod tests;
