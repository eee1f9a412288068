//! Arguments, written so that equal ones are written alike.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use sha2::{Digest as _, Sha256};

use crate::message::{Kind, Raw, Token, Walk};
use crate::protocol::mirror::Decimal;

/// An object in the arguments names a member twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbiguousArguments;

impl fmt::Display for AmbiguousArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object in `params.arguments` names a member twice: name each once")
    }
}

impl std::error::Error for AmbiguousArguments {}

/// An array or object that is open, its values being the end of the text that is being written.
enum Open<'a> {
    Array,
    Object { start: usize, members: Vec<Member<'a>> },
}

struct Member<'a> {
    name: Cow<'a, str>,
    /// Where its value stands in the text.
    start: usize,
    end: usize,
}

/// Appends text that is equal for equal arguments, and for no others; absent arguments are an empty object.
///
/// Values are written out as text that begins with a tag and ends by itself. An object is written as the digest of its
/// members in the order of their names, so that each byte is hashed once however deep it is.
pub(super) fn write_arguments(
    arguments: Option<Raw<'_>>,
    text: &mut Vec<u8>,
) -> Result<(), AmbiguousArguments> {
    let arguments = arguments.unwrap_or(Raw::valid("{}"));
    let mut open: Vec<Open<'_>> = Vec::new();
    for token in Walk::new(arguments) {
        match token {
            Token::Open(Kind::Object) => {
                open.push(Open::Object { start: text.len(), members: Vec::new() });
            }
            Token::Open(_) => {
                text.push(b'[');
                open.push(Open::Array);
            }
            Token::Name(name) => {
                if let Some(Open::Object { members, .. }) = open.last_mut() {
                    end_member(members, text.len());
                    members.push(Member { name: name.decoded(), start: text.len(), end: text.len() });
                }
            }
            Token::Scalar(scalar) => write_scalar(scalar, text),
            Token::Close => match open.pop() {
                Some(Open::Object { start, mut members }) => {
                    end_member(&mut members, text.len());
                    let digest = digest_members(members, text)?;
                    text.truncate(start);
                    text.push(b'{');
                    text.extend_from_slice(&digest);
                }
                Some(Open::Array) | None => text.push(b']'),
            },
        }
    }
    Ok(())
}

fn end_member(members: &mut [Member<'_>], at: usize) {
    if let Some(member) = members.last_mut() {
        member.end = at;
    }
}

/// One run over the text of the values: a name has its length before it, and a value ends by itself.
fn digest_members(mut members: Vec<Member<'_>>, text: &[u8]) -> Result<[u8; 32], AmbiguousArguments> {
    members.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    if members.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return Err(AmbiguousArguments);
    }
    let mut digest = Sha256::new();
    for member in members {
        digest.update((member.name.len() as u64).to_be_bytes());
        digest.update(member.name.as_bytes());
        digest.update(&text[member.start..member.end]);
    }
    Ok(digest.finalize().into())
}

fn write_scalar(scalar: Raw<'_>, text: &mut Vec<u8>) {
    match scalar.kind() {
        Kind::String => {
            let string = scalar.to_str().unwrap_or_default();
            // Writing to a vector does not fail.
            let _ = write!(text, "s{}:{string}", string.len());
        }
        Kind::Number => {
            match Decimal::json(scalar.text()) {
                Some(number) => {
                    text.push(b'n');
                    number.write_to(text);
                }
                // An exponent out of all proportion is told apart by its spelling.
                None => {
                    text.push(b'N');
                    text.extend_from_slice(scalar.text().as_bytes());
                }
            }
            text.push(b';');
        }
        // `null`, `true` and `false` have first letters of their own.
        _ => text.push(scalar.text().as_bytes()[0]),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn written(text: &str) -> Result<Vec<u8>, AmbiguousArguments> {
        let text = format!("{{\"a\":{text}}}");
        let object = crate::message::RawObject::parse(text).unwrap();
        let mut written = Vec::new();
        write_arguments(object.get("a"), &mut written).map(|()| written)
    }

    #[test]
    fn equal_arguments_are_written_alike() {
        for (one, other) in [
            (r#"{"a":1,"b":2}"#, r#"{ "b" : 2 , "a" : 1 }"#),
            (r#"{"a":{"x":[1,{"p":1,"q":2}],"y":0}}"#, r#"{"a":{"y":0,"x":[1,{"q":2,"p":1}]}}"#),
            ("1", "1.0"),
            ("1", "1e0"),
            ("10", "1E+1"),
            ("0", "-0"),
            ("0", "0e99"),
            ("18446744073709551616", "18446744073709551616.00"),
            ("0.1", "1e-1"),
            (r#""é😀/""#, r#""\u00e9\ud83d\ude00\/""#),
            (r#"{"é":1}"#, r#"{"\u00E9":1}"#),
        ] {
            assert_eq!(written(one).unwrap(), written(other).unwrap(), "{one} {other}");
        }
        let mut absent = Vec::new();
        write_arguments(None, &mut absent).unwrap();
        assert_eq!(absent, written("{}").unwrap());
    }

    #[test]
    fn different_arguments_are_written_differently() {
        let all = [
            "null",
            "true",
            "false",
            "0",
            "1",
            "-1",
            "10",
            "0.1",
            "9007199254740993",
            "9007199254740992",
            "1e400",
            "\"\"",
            "\"1\"",
            "\"null\"",
            "[]",
            "{}",
            "[[]]",
            "[{}]",
            "[1]",
            "[1,2]",
            "[12]",
            "[2,1]",
            "[[1],2]",
            "[[1,2]]",
            "{\"a\":1}",
            "{\"a\":\"1\"}",
            "{\"a\":[1]}",
            "{\"a\":{\"b\":1}}",
            "{\"a\":1,\"b\":1}",
            "{\"ab\":1}",
            "{\"b\":1}",
            "{\"a\":null}",
            "[\"a\",\"b\"]",
            "[\"ab\"]",
            "[\"a\\\"b\"]",
            "1e99999999999999999999",
            "1e99999999999999999998",
            "\"e\u{301}\"",
            "\"é\"",
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                assert_ne!(written(one).unwrap(), written(other).unwrap(), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_member_that_is_named_twice_is_refused_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":1}"#,
            r#"[[{"x":{"a":1,"a":2}}]]"#,
            r#"{"":1,"":1}"#,
        ] {
            assert_eq!(written(text), Err(AmbiguousArguments), "{text}");
        }
        assert!(written(r#"{"a":{"a":{"a":1}}}"#).is_ok());
    }

    #[test]
    fn the_work_grows_with_the_text_and_with_nothing_else() {
        let nested = format!("{}1{}", r#"{"b":"#.repeat(120), r#","a":0}"#.repeat(120));
        let hostile = [
            format!("1e{}", "9".repeat(2_000_000)),
            format!("1e-{}", "9".repeat(2_000_000)),
            format!("0.{}1", "0".repeat(2_000_000)),
            format!("[{}1]", "1e999999999,".repeat(200_000)),
            format!("[{nested},{nested}]"),
            format!("{}\"{}\"{}", r#"{"b":"#.repeat(120), "x".repeat(2_000_000), r#","a":0}"#.repeat(120)),
        ];
        for text in hostile {
            let start = Instant::now();
            written(&text).unwrap();
            // Work that grows faster takes hours.
            assert!(start.elapsed() < Duration::from_secs(60), "{}", text.len());
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-cé\"\\\\ ]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-cé]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same value with members in reverse order, numbers and strings spelled in another way.
    fn respelled(value: &Value) -> String {
        let string = |string: &str| {
            let units = string.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect::<Vec<_>>();
            format!("\"{}\"", units.concat())
        };
        match value {
            Value::Number(number) => format!("{number}.000e+00"),
            Value::String(text) => string(text),
            Value::Array(elements) => {
                format!("[ {} ]", elements.iter().map(respelled).collect::<Vec<_>>().join(" , "))
            }
            Value::Object(members) => {
                let members = members.iter().rev();
                let members = members.map(|(name, value)| format!("{}:{}", string(name), respelled(value)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn another_spelling_changes_nothing(value in value()) {
            prop_assert_eq!(written(&value.to_string()), written(&respelled(&value)));
        }

        #[test]
        fn another_value_changes_the_written(one in value(), other in value()) {
            prop_assert_eq!(one == other, written(&one.to_string()) == written(&other.to_string()));
        }
    }
}
