//! Measures JSON text against bounds.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;

use crate::message::{Kind, Mark, Marks, Raw, Spelled, Token, Walk};

/// What may be in the arguments of one call; `None` bounds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) elements: Option<NonZeroUsize>,
    pub(super) depth: Option<NonZeroUsize>,
    pub(super) string_bytes: Option<NonZeroUsize>,
}

/// The bound that a value breaks; shown as the end of a sentence about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    Elements(NonZeroUsize),
    Depth(NonZeroUsize),
    StringBytes(NonZeroUsize),
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elements(max) => {
                write!(
                    f,
                    "have too many elements: at most {max} are allowed, array elements and object members together"
                )
            }
            Self::Depth(max) => write!(f, "are nested too deeply: at most {max} levels are allowed"),
            Self::StringBytes(max) => {
                write!(f, "hold a string that is too long: at most {max} bytes are allowed")
            }
        }
    }
}

impl Bounds {
    /// Checks `value` against all bounds in one pass that allocates nothing as long as they hold.
    pub(super) fn check(self, value: Raw<'_>) -> Result<(), Exceeded> {
        if self.elements.or(self.depth).or(self.string_bytes).is_none() {
            return Ok(());
        }
        let mut max_elements = self.elements;
        let (mut elements, mut depth) = (0_usize, 0_usize);
        // One bit per open container, the innermost lowest: 1 is an array.
        let mut arrays: u128 = 0;
        for mark in Marks::of(value) {
            match mark {
                Mark::Open { kind, is_empty } => {
                    depth += 1;
                    if let Some(max) = self.depth.filter(|max| depth > max.get()) {
                        return Err(Exceeded::Depth(max));
                    }
                    let is_array = kind == Kind::Array;
                    arrays = arrays << 1 | u128::from(is_array);
                    if !is_array || is_empty {
                        continue;
                    }
                }
                Mark::Close => {
                    depth -= 1;
                    arrays >>= 1;
                    continue;
                }
                Mark::String(string) => {
                    self.check_string(string)?;
                    continue;
                }
                Mark::Comma if arrays & 1 == 0 => continue,
                Mark::Comma | Mark::Colon => {}
            }
            // An element or a member begins.
            elements += 1;
            if let Some(max) = max_elements.filter(|max| elements > max.get()) {
                // Members that are named twice have been counted twice.
                if has_more_elements_than(max.get(), value) {
                    return Err(Exceeded::Elements(max));
                }
                max_elements = None;
            }
        }
        Ok(())
    }

    /// What is spelled is never shorter than what it stands for, so that only suspects are decoded.
    fn check_string(self, string: Spelled<'_>) -> Result<(), Exceeded> {
        let too_long =
            |max: &NonZeroUsize| string.text().len() > max.get() && string.decoded().len() > max.get();
        self.string_bytes.filter(too_long).map_or(Ok(()), |max| Err(Exceeded::StringBytes(max)))
    }
}

/// An open array or object, and how much it holds so far.
#[derive(Default)]
struct Frame<'a> {
    /// How much each member of an object adds, so that another of the same name can take its place.
    members: HashMap<Cow<'a, str>, usize>,
    /// The name of the member that comes next; `None` in an array.
    name: Option<Cow<'a, str>>,
    elements: usize,
    /// It certainly holds more than the maximum; nothing in it is looked at any more.
    full: bool,
}

impl Frame<'_> {
    fn add(&mut self, elements: usize, max: usize) {
        if self.full {
            return;
        }
        match self.name.take() {
            None => {
                self.elements += elements;
                self.full = self.elements > max;
            }
            Some(name) => {
                let replaced = self.members.insert(name, elements).unwrap_or(0);
                self.elements = self.elements + elements - replaced;
                // Names only become more. What they hold may yet be replaced by less.
                self.full = self.members.len() > max;
            }
        }
        if self.full {
            self.members = HashMap::new();
            self.elements = max.saturating_add(1);
        }
    }
}

/// Counts the elements of `value` as they are once the last of several members of one name has won.
///
/// One pass and one open container at a time; it keeps at most `max` names for each of the 128 levels. It returns early
/// where nothing that follows can make the count less.
fn has_more_elements_than(max: usize, value: Raw<'_>) -> bool {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for token in Walk::new(value) {
        match token {
            Token::Open(_) => {
                let full = frames.last().is_some_and(|frame| frame.full);
                frames.push(Frame { full, ..Frame::default() });
            }
            Token::Name(name) => {
                if let Some(frame) = frames.last_mut().filter(|frame| !frame.full) {
                    frame.name = Some(name.decoded());
                }
            }
            Token::Scalar(_) => {
                if let Some(frame) = frames.last_mut() {
                    frame.add(1, max);
                }
            }
            Token::Close => {
                let Some(closed) = frames.pop() else { return false };
                match frames.last_mut() {
                    Some(parent) => parent.add(closed.elements.saturating_add(1), max),
                    None => return closed.elements > max,
                }
            }
        }
        if frames.first().is_some_and(|root| root.full) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::message::RawObject;

    fn with_raw<T>(text: &str, look: impl FnOnce(Raw<'_>) -> T) -> T {
        let object = RawObject::parse(format!("{{\"v\":{text}}}")).unwrap();
        look(object.get("v").unwrap())
    }

    fn check(bounds: Bounds, text: &str) -> Result<(), Exceeded> {
        with_raw(text, |raw| bounds.check(raw))
    }

    fn elements(max: usize) -> Bounds {
        Bounds { elements: NonZeroUsize::new(max), ..Bounds::default() }
    }

    #[track_caller]
    fn holds(text: &str, count: usize) {
        if count > 0 {
            assert_eq!(check(elements(count), text), Ok(()), "{text}");
        }
        if count > 1 {
            let max = NonZeroUsize::new(count - 1).unwrap();
            assert_eq!(check(elements(count - 1), text), Err(Exceeded::Elements(max)), "{text}");
        }
        assert_eq!(check(elements(usize::MAX), text), Ok(()), "{text}");
    }

    #[test]
    fn each_element_and_member_counts_one_and_the_root_none() {
        for (text, count) in [
            ("{}", 0),
            (r#"{"a":1,"b":2,"c":3}"#, 3),
            (r#"{"a":[1,2]}"#, 3),
            (r#"{"a":[1,2,3]}"#, 4),
            (r#"{"a":{"b":{"c":{}}}}"#, 3),
            (r#"{"a":[[],[]]}"#, 3),
            (r#"{"a":[[],[],[]]}"#, 4),
            ("[1,2,3]", 3),
            (r#"{"a":null}"#, 1),
            (r#"{"a":[1]}"#, 2),
            ("null", 0),
            ("1", 0),
            ("\"abc\"", 0),
            ("[]", 0),
        ] {
            holds(text, count);
        }
    }

    #[test]
    fn of_members_with_one_name_the_last_counts_with_what_is_in_it() {
        for (text, count) in [
            (r#"{"a":1,"a":2,"\u0061":3}"#, 1),
            (r#"{"a":[1,2,3],"a":1}"#, 1),
            (r#"{"a":1,"a":[1,2,3]}"#, 4),
            (r#"{"x":{"a":[1,2,3],"a":[1]},"y":0}"#, 4),
            (r#"[{"a":[1,2,3,4]},{"a":[1,2,3,4],"a":0}]"#, 8),
            (r#"{"a":{"b":[1,2,3,4,5]},"a":{"b":[1,2,3,4,5],"b":0}}"#, 2),
        ] {
            holds(text, count);
        }
    }

    #[test]
    fn a_long_text_is_one_element() {
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(1_000_000));
        holds(&text, 1);
    }

    #[test]
    fn counting_stops_at_one_more_than_the_limit() {
        let text = format!("[{}0]", "0,".repeat(1_000_000));
        let mut frame = Frame::default();
        let mut counted = 0;
        while !frame.full {
            frame.add(1, 100);
            counted += 1;
        }
        assert_eq!((counted, frame.elements), (101, 101));
        assert_eq!(check(elements(100), &text), Err(Exceeded::Elements(NonZeroUsize::new(100).unwrap())));
        // The text behind the element that is one too many is not even looked at: here it is no JSON.
        let broken = &text[..400];
        assert!(elements(100).check(Raw::valid(broken)).is_err());
    }

    #[test]
    fn depth_counts_the_root() {
        let depth = |max| Bounds { depth: NonZeroUsize::new(max), ..Bounds::default() };
        for (text, levels) in [("{}", 1), (r#"{"a":1}"#, 1), (r#"{"a":{}}"#, 2), (r#"{"a":[],"b":[[]]}"#, 3)]
        {
            assert_eq!(check(depth(levels), text), Ok(()), "{text}");
            if levels > 1 {
                let max = NonZeroUsize::new(levels - 1).unwrap();
                assert_eq!(check(depth(levels - 1), text), Err(Exceeded::Depth(max)), "{text}");
            }
        }
        assert_eq!(check(depth(1), "3"), Ok(()));
    }

    #[test]
    fn string_bytes_are_those_of_the_decoded_text_of_values_and_names() {
        let bytes = |max| Bounds { string_bytes: NonZeroUsize::new(max), ..Bounds::default() };
        for (text, count) in [
            (r#""abc""#, 3),
            (r#"{"a":"abcd"}"#, 4),
            (r#"{"abcd":"a"}"#, 4),
            (r#"["\u0061\u0061"]"#, 2),
            (r#"["\ud83d\ude00"]"#, 4),
            (r#"{"\u00e9\n":0}"#, 3),
            ("[123456789,true,null]", 1),
        ] {
            assert_eq!(check(bytes(count), text), Ok(()), "{text}");
            if count > 1 {
                let max = NonZeroUsize::new(count - 1).unwrap();
                assert_eq!(check(bytes(count - 1), text), Err(Exceeded::StringBytes(max)), "{text}");
            }
        }
    }

    #[test]
    fn the_other_bounds_hold_behind_members_that_are_named_twice() {
        let max = NonZeroUsize::new(2).unwrap();
        let bounds = Bounds { elements: Some(max), depth: Some(max), string_bytes: Some(max) };
        assert_eq!(check(bounds, r#"{"a":1,"a":2,"a":3}"#), Ok(()));
        assert_eq!(check(bounds, r#"{"a":1,"a":2,"a":"abc"}"#), Err(Exceeded::StringBytes(max)));
        assert_eq!(check(bounds, r#"{"a":1,"a":2,"a":[[]]}"#), Err(Exceeded::Depth(max)));
    }

    fn count(value: &Value) -> usize {
        match value {
            Value::Array(elements) => elements.iter().map(|element| 1 + count(element)).sum(),
            Value::Object(members) => members.values().map(|member| 1 + count(member)).sum(),
            _ => 0,
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![Just("1".to_owned()), Just("\"x\"".to_owned()), Just("null".to_owned())];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let member = ("[ab]", inner.clone()).prop_map(|(name, value)| format!("\"{name}\":{value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|values| format!("[{}]", values.join(","))),
                prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_parsed_value(text in json(), max in 1_usize..12) {
            let exceeds = count(&serde_json::from_str(&text).unwrap()) > max;
            prop_assert_eq!(check(elements(max), &text).is_err(), exceeds, "{}", text);
            prop_assert_eq!(with_raw(&text, |raw| has_more_elements_than(max, raw)), exceeds, "{}", text);
        }
    }
}
