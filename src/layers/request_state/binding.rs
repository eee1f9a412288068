//! What a sealed state is bound to.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::message::{Kind, Message, Raw, Token, Walk};
use crate::principal::{Partition, Principal};
use crate::protocol::mirror::Decimal;

/// What a state is bound to: the method, its target and arguments, and who calls.
///
/// Arguments are the same however their members are ordered and however numbers and strings are spelled: `1`, `1.0` and
/// `1e0` are one number, exactly and at any size, and `"é"` and `"\u00e9"` one string. What changes from round to round
/// (the answers, `_meta`, the id) is not part of it.
///
/// ```
/// use mcp_layers::layers::request_state::Binding;
/// use mcp_layers::message::Message;
///
/// let call = |arguments: &str| {
///     let body = format!(
///         r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"rm","arguments":{arguments}}}}}"#
///     );
///     Binding::new(&Message::parse(body).unwrap(), None)
/// };
/// assert_eq!(call(r#"{"a":1,"b":"é"}"#)?, call(r#"{"b":"\u00e9","a":1.0}"#)?);
/// assert_ne!(call(r#"{"a":1}"#)?, call(r#"{"a":2}"#)?);
/// assert!(call(r#"{"a":1,"a":2}"#).is_err());
/// # Ok::<(), mcp_layers::layers::request_state::AmbiguousArguments>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Binding {
    request: [u8; 32],
    arguments: [u8; 32],
    principal: Option<Partition>,
}

/// How many bytes a binding and the audience come to, written out.
pub(super) const BOUND: usize = 32 + 32 + 1 + 32 + 32;

impl Binding {
    /// Binds to `request`, sent by `principal` or by nobody who is known.
    ///
    /// # Errors
    /// If an object in the arguments names a member twice: two readers would take two different values from it.
    pub fn new(request: &Message, principal: Option<&Principal>) -> Result<Self, AmbiguousArguments> {
        let mut digest = Sha256::new();
        let target = request.target();
        for part in [Some(request.method()), target.as_deref()] {
            // Each part is preceded by its length, and an absent one is a length that no part has.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            digest.update(length.to_be_bytes());
            digest.update(part.unwrap_or_default());
        }
        Ok(Self {
            request: digest.finalize().into(),
            arguments: digest_arguments(request.arguments())?,
            principal: principal.map(Principal::partition),
        })
    }

    /// The binding and the audience as bytes that nothing else is written as.
    pub(super) fn to_bytes(&self, audience: &[u8; 32]) -> [u8; BOUND] {
        let mut bytes = [0; BOUND];
        bytes[..32].copy_from_slice(&self.request);
        bytes[32..64].copy_from_slice(&self.arguments);
        if let Some(principal) = &self.principal {
            bytes[64] = 1;
            bytes[65..97].copy_from_slice(principal.as_bytes());
        }
        bytes[97..].copy_from_slice(audience);
        bytes
    }

    /// One byte of each part: enough to say in a log which of them differs, and too little to learn anything from.
    pub(super) fn hints(&self, audience: &[u8; 32]) -> [u8; 4] {
        let principal = self.principal.map_or(0, |principal| principal.as_bytes()[0]);
        [self.request[0], self.arguments[0], principal, audience[0]]
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Binding(..)")
    }
}

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

/// A digest that is equal for equal arguments, and for no others; absent arguments are an empty object.
///
/// Values are written out as text that begins with a tag and ends by itself. An object is written as the digest of its
/// members in the order of their names, so that each byte is hashed once however deep it is.
fn digest_arguments(arguments: Option<Raw<'_>>) -> Result<[u8; 32], AmbiguousArguments> {
    let arguments = arguments.unwrap_or(Raw::valid("{}"));
    let mut text = Vec::with_capacity(arguments.text().len().min(4096) + 64);
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
            Token::Scalar(scalar) => write_scalar(scalar, &mut text),
            Token::Close => match open.pop() {
                Some(Open::Object { start, mut members }) => {
                    end_member(&mut members, text.len());
                    let digest = digest_members(members, &text)?;
                    text.truncate(start);
                    text.push(b'{');
                    text.extend_from_slice(&digest);
                }
                Some(Open::Array) | None => text.push(b']'),
            },
        }
    }
    Ok(Sha256::digest(&text).into())
}

fn end_member(members: &mut [Member<'_>], at: usize) {
    if let Some(member) = members.last_mut() {
        member.end = at;
    }
}

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
            text.push(b's');
            text.extend_from_slice(string.len().to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(string.as_bytes());
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

    fn digest(text: &str) -> Result<[u8; 32], AmbiguousArguments> {
        let text = format!("{{\"a\":{text}}}");
        let object = crate::message::RawObject::parse(text).unwrap();
        digest_arguments(object.get("a"))
    }

    #[test]
    fn equal_arguments_have_equal_digests() {
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
            assert_eq!(digest(one).unwrap(), digest(other).unwrap(), "{one} {other}");
        }
        assert_eq!(digest_arguments(None).unwrap(), digest("{}").unwrap());
    }

    #[test]
    fn different_arguments_have_different_digests() {
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
                assert_ne!(digest(one).unwrap(), digest(other).unwrap(), "{one} {other}");
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
            assert_eq!(digest(text), Err(AmbiguousArguments), "{text}");
        }
        assert!(digest(r#"{"a":{"a":{"a":1}}}"#).is_ok());
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
            digest(&text).unwrap();
            assert!(start.elapsed() < Duration::from_secs(5), "{}", text.len());
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
            prop_assert_eq!(digest(&value.to_string()), digest(&respelled(&value)));
        }

        #[test]
        fn another_value_changes_the_digest(one in value(), other in value()) {
            prop_assert_eq!(one == other, digest(&one.to_string()) == digest(&other.to_string()));
        }
    }
}
