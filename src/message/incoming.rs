//! What a server says: an answer, or a notification before it.

use std::borrow::Cow;
use std::fmt;

use bytestring::ByteString;

use super::object::RawObject;
use super::raw::{Kind, Raw};
use super::reply::ErrorObject;
use super::scan::{SyntaxError, scan};
use super::{MAX_MEMBERS, Message, RequestId};

/// One message of a server.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box for each answer would cost more than the room")]
pub(crate) enum Incoming {
    /// The answer to a request. Only an error may be without an id.
    Answer { id: Option<RequestId>, outcome: Result<RawObject, ErrorObject> },
    /// Something that belongs to a request and comes before its answer.
    Notification(Message),
}

/// Why a text is no message that a server may send. It says nothing of what the text holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable(Cow<'static, str>);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SyntaxError> for Unusable {
    fn from(error: SyntaxError) -> Self {
        Self(format!("it is not JSON: {error}").into())
    }
}

const fn because(reason: &'static str) -> Unusable {
    Unusable(Cow::Borrowed(reason))
}

impl Incoming {
    /// Parses one message, in one pass if it is an answer. The result shares the text.
    pub(crate) fn parse(text: ByteString) -> Result<Self, Unusable> {
        if u32::try_from(text.len()).is_err() {
            return Err(because("it is longer than 4 GiB"));
        }
        let (mut envelope, mut result) = (RawObject::on(text.clone()), None);
        let mut all = true;
        let first = scan(&text, |scanner| {
            let first = scanner.peek();
            if first != Some(b'{') {
                return scanner.value(0).map(|_| first);
            }
            all = envelope.read(scanner, 0, MAX_MEMBERS, |scanner, name| {
                if !name.is("result", &text) || scanner.peek() != Some(b'{') {
                    return Ok(None);
                }
                let result = result.insert(RawObject::on(text.clone()));
                result.read(scanner, 1, usize::MAX, |_, _| Ok(None))?;
                Ok(result.whole())
            })?;
            Ok(first)
        })?;
        match first {
            Some(b'{') => {}
            Some(b'[') => return Err(because("it is a batch")),
            _ => return Err(because("it is not a JSON object")),
        }
        if !all {
            return Err(because("it has more than 1024 members"));
        }
        envelope.check_names().map_err(|_| because("it names a member twice"))?;
        if envelope.get("jsonrpc").and_then(Raw::to_str).as_deref() != Some("2.0") {
            return Err(because("its `jsonrpc` is not \"2.0\""));
        }
        if envelope.get("method").is_some() {
            return notification(&envelope, text);
        }
        let outcome = match (envelope.get("result"), envelope.object("error")) {
            (Some(_), Some(_)) => return Err(because("it has a `result` and an `error`")),
            (None, None) => return Err(because("it has neither `result` nor `error`")),
            (Some(_), None) => {
                let result = result.ok_or_else(|| because("its `result` is not an object"))?;
                result.check_names().map_err(|_| because("its `result` names a member twice"))?;
                Ok(result)
            }
            (None, Some(Ok(error))) => Err(error_of(&error)?),
            (None, Some(Err(_))) => return Err(because("its `error` cannot be read")),
        };
        let id = match envelope.get("id") {
            Some(id) if !id.is_null() => {
                Some(RequestId::from_raw(id).ok_or_else(|| because("its `id` is not one"))?)
            }
            _ => None,
        };
        if id.is_none() && outcome.is_ok() {
            return Err(because("it is a result without an `id`"));
        }
        Ok(Self::Answer { id, outcome })
    }
}

fn notification(envelope: &RawObject, text: ByteString) -> Result<Incoming, Unusable> {
    if envelope.get("id").is_some() {
        return Err(because("it is a request, which servers may not send"));
    }
    match Message::parse(text.into_bytes()) {
        Ok(message) => Ok(Incoming::Notification(message)),
        Err(_) => Err(because("it is a notification that is not well-formed")),
    }
}

fn error_of(error: &RawObject) -> Result<ErrorObject, Unusable> {
    let code = error.get("code").filter(|code| code.kind() == Kind::Number);
    let code = code.and_then(|code| code.text().parse().ok());
    let message = error.get("message").and_then(Raw::to_str);
    match (code, message) {
        (Some(code), Some(message)) => {
            Ok(ErrorObject::new(code, message.into_owned()).with_data_text(error.get_shared("data")))
        }
        _ => Err(because("its `error` has no `code` or no `message`")),
    }
}

impl RequestId {
    /// Whether `other` is this id, perhaps spelled anew by somebody who has parsed and written it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (Raw(self.text()).to_str(), Raw(other.text()).to_str()) {
            (Some(one), Some(other)) => one == other,
            (None, None) => canonical(self) == canonical(other),
            _ => false,
        }
    }
}

/// Of all integers only zero can be written in two ways.
fn canonical(id: &RequestId) -> &str {
    if id.text() == "-0" { "0" } else { id.text() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Incoming, String> {
        Incoming::parse(text.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_is_a_result_or_an_error() {
        let Ok(Incoming::Answer { id, outcome: Ok(result) }) =
            parse(r#" {"id":7,"result":{"a" : 1.0},"jsonrpc":"2.0"} "#)
        else {
            panic!("is a result")
        };
        assert_eq!((id, result.to_string()), (Some(7.into()), r#"{"a" : 1.0}"#.to_owned()));
        for (id, expected) in [("", None), (r#""id":null,"#, None), (r#""id":"a","#, Some("a".into()))] {
            let text = format!(
                r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32020,"message":"\u0061","data":[1.0]}}}}"#
            );
            let Ok(Incoming::Answer { id, outcome: Err(error) }) = parse(&text) else {
                panic!("is an error")
            };
            assert_eq!((id, error.code, &*error.message), (expected, -32020, "a"));
            assert_eq!(error.data().map(Raw::text), Some("[1.0]"));
        }
    }

    #[test]
    fn a_notification_is_a_message() {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1.0}}"#;
        let Ok(Incoming::Notification(message)) = parse(text) else { panic!("is a notification") };
        assert_eq!((message.method(), &message.bytes()[..]), ("notifications/x", text.as_bytes()));
    }

    #[test]
    fn whatever_else_there_is_says_why() {
        for (text, reason) in [
            ("", "it is not JSON: the JSON text ends early at byte 0"),
            ("<html>", "it is not JSON: expected a JSON value at byte 0"),
            ("{}{}", "it is not JSON: something follows the JSON value at byte 2"),
            ("[]", "it is a batch"),
            ("7", "it is not a JSON object"),
            (r#"{"id":1,"result":{}}"#, "its `jsonrpc` is not \"2.0\""),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#, "it names a member twice"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#, "it names a member twice"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#, "its `result` names a member twice"),
            (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, "its `result` is not an object"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "it has neither `result` nor `error`"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
                "it has a `result` and an `error`",
            ),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "it is a result without an `id`"),
            (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, "its `id` is not one"),
            (r#"{"jsonrpc":"2.0","id":1,"error":7}"#, "its `error` cannot be read"),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}"#,
                "its `error` has no `code` or no `message`",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, "its `error` has no `code` or no `message`"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
                "it is a request, which servers may not send",
            ),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "it is a request, which servers may not send"),
            (r#"{"jsonrpc":"2.0","method":"x","params":[]}"#, "it is a notification that is not well-formed"),
        ] {
            assert_eq!(parse(text).unwrap_err(), reason, "{text}");
        }
        let many: Vec<_> = (0..1025).map(|n| format!("\"{n}\":0")).collect();
        let many = format!("{{{}}}", many.join(","));
        assert_eq!(parse(&many).unwrap_err(), "it has more than 1024 members");
    }

    #[test]
    fn an_id_is_the_same_however_it_is_spelled() {
        let id = |text: &str| RequestId::from_raw(Raw(text)).unwrap();
        for (one, other, same) in [
            ("7", "7", true),
            ("-0", "0", true),
            (r#""a""#, r#""\u0061""#, true),
            ("7", "\"7\"", false),
            ("7", "8", false),
            (r#""a""#, r#""A""#, false),
        ] {
            assert_eq!(id(one).is_same(&id(other)), same, "{one} {other}");
        }
    }
}
