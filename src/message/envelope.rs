//! Reads the body of a request in one pass.

use std::collections::HashSet;

use bytestring::ByteString;

use super::raw::Raw;
use super::scan::{Scan, Scanner, Span, StringSpan, unescape};
use super::text::Text;
use super::{Fault, Inner, MAX_MEMBERS, Meta, ParseError, RawObject, RequestId};
use crate::protocol::method;

/// What has been read of a body: the message as far as it goes, and what has to be looked at when all has been read.
pub(super) struct Envelope {
    /// `params` and `_meta` are there if they are objects. The rest is added last.
    pub(super) message: Inner,
    /// The members that mean something; where a name comes twice, the first of them.
    jsonrpc: Option<Span>,
    id: Option<Span>,
    method: Option<Span>,
    params: Option<Span>,
    /// Whether there is a `result` or an `error`.
    outcome: bool,
    /// The names of all members but the four, up to the bound.
    others: Vec<StringSpan>,
    /// The first name that came a second time.
    twice: Option<StringSpan>,
    /// Which id is meant cannot be known.
    id_twice: bool,
    members: usize,
    /// `params` or `_meta` has more members than allowed.
    overfull: bool,
}

impl Envelope {
    pub(super) fn new(text: ByteString) -> Self {
        Self {
            message: Inner {
                text,
                edited: false,
                id: None,
                method: Text::Static(""),
                target: None,
                params: None,
                meta: None,
            },
            jsonrpc: None,
            id: None,
            method: None,
            params: None,
            outcome: false,
            others: Vec::new(),
            twice: None,
            id_twice: false,
            members: 0,
            overfull: false,
        }
    }

    pub(super) fn read(&mut self, scanner: &mut Scanner<'_>, text: &ByteString) -> Scan<()> {
        scanner.object(0, |scanner, name| {
            self.members += 1;
            let decoded;
            let bytes = if name.escaped {
                decoded = name.decoded(text);
                &*decoded
            } else {
                name.inner.bytes(text)
            };
            let (place, value) = match bytes {
                b"jsonrpc" => (&mut self.jsonrpc, scanner.value(1)?),
                b"id" => {
                    self.id_twice = self.id.is_some();
                    (&mut self.id, scanner.value(1)?)
                }
                b"method" => (&mut self.method, scanner.value(1)?),
                b"params" => {
                    let value = self.read_params(scanner, text)?;
                    (&mut self.params, value)
                }
                other => {
                    self.outcome |= matches!(other, b"result" | b"error");
                    // What is beyond the bound is still read, because whether it is JSON is said first; but it is not
                    // kept.
                    if self.members <= MAX_MEMBERS {
                        self.others.push(name);
                    }
                    return scanner.value(1).map(drop);
                }
            };
            if place.is_none() {
                *place = Some(value);
            } else {
                self.twice.get_or_insert(name);
            }
            Ok(())
        })?;
        if self.twice.is_none() && self.others.len() > 1 {
            let mut seen = HashSet::with_capacity(self.others.len());
            self.twice = self.others.iter().find(|name| !seen.insert(name.decoded(text))).copied();
        }
        Ok(())
    }

    fn read_params(&mut self, scanner: &mut Scanner<'_>, text: &ByteString) -> Scan<Span> {
        if scanner.peek() != Some(b'{') {
            return scanner.value(1);
        }
        let Self { message: Inner { params, meta, .. }, overfull, .. } = self;
        let params = params.insert(RawObject::on(text.clone()));
        let mut too_many = false;
        let all = params.read(scanner, 1, MAX_MEMBERS, |scanner, name| {
            if !name.is("_meta", text) || scanner.peek() != Some(b'{') {
                return Ok(None);
            }
            let Meta(meta) = meta.insert(Meta(RawObject::on(text.clone())));
            too_many |= !meta.read(scanner, 2, MAX_MEMBERS, |_, _| Ok(None))?;
            Ok(meta.whole())
        })?;
        *overfull |= too_many || !all;
        Ok(params.whole().unwrap_or_default())
    }

    /// Looks at what has been read, and adds to the message what is not there yet.
    pub(super) fn complete(&mut self, text: &str) -> Result<(), ParseError> {
        let raw = |span: Option<Span>| span.map(|span| Raw(span.of(text)));
        if self.outcome && self.method.is_none() {
            return Err(ParseError::invalid(
                None,
                "responses are not accepted: the body must be a request or a notification",
            ));
        }
        self.message.id = match raw(self.id) {
            Some(id) if !self.id_twice => Some(RequestId::from_raw(id).ok_or_else(|| {
                ParseError::invalid(
                    None,
                    "`id` must be a string or an integer; leave it out for a notification",
                )
            })?),
            _ => None,
        };
        let id = &self.message.id;
        let invalid = |reason: &str| ParseError::invalid(id.clone(), reason);
        if let Some(name) = self.twice {
            let name = unescape(name.inner.of(text), name.escaped);
            return Err(invalid(&format!("the message names the member `{name}` twice")));
        }
        if self.members > MAX_MEMBERS || self.overfull {
            return Err(invalid("the message has more than 1024 members in one object"));
        }
        if raw(self.jsonrpc).is_none_or(|version| !version.is_str("2.0")) {
            return Err(invalid("`jsonrpc` must be the string \"2.0\""));
        }
        let method = match (self.method, raw(self.method).map(Raw::to_str)) {
            (Some(span), Some(Some(method))) => Text::inside_of(span, method),
            (Some(_), _) => return Err(invalid("`method` must be a string")),
            (None, _) => return Err(invalid("`method` is missing")),
        };
        if self.outcome {
            return Err(invalid("a request has no `result` and no `error`"));
        }
        let Inner { params, meta, .. } = &self.message;
        let check = |object: Option<&RawObject>, place: &str| match object.map(RawObject::check_names) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(invalid(&format!("in `{place}`, {error}"))),
        };
        check(params.as_ref(), "params")?;
        if params.is_none() && self.params.is_some() {
            return Err(invalid("`params` must be an object"));
        }
        check(meta.as_ref().map(|Meta(meta)| meta), "params._meta")?;
        if meta.is_none() && params.as_ref().is_some_and(|params| params.get("_meta").is_some()) {
            return Err(ParseError {
                fault: Fault::Meta,
                reason: "`params._meta` must be an object".into(),
                id: id.clone(),
            });
        }
        self.message.target = params.as_ref().and_then(|params| {
            let span = params.span(method::target_member(method.of(text))?)?;
            Some(Text::inside_of(span, Raw(span.of(text)).to_str()?))
        });
        self.message.method = method;
        Ok(())
    }
}
