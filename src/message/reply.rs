//! What a request is answered with.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use bytestring::ByteString;
use futures_core::Stream;
#[cfg(feature = "cache")]
use http::StatusCode;
use serde::Serialize;

use super::Message;
use super::id::RequestId;
use super::object::{Piece, RawObject, write_string};
use super::raw::Raw;

/// A part of a result that is at least this long is sent from where it lies; shorter ones are cheaper to copy.
const SHARED_FROM: usize = 1024;

/// What a request is answered with: the body of the response below
/// [`EndpointLayer`](crate::endpoint::EndpointLayer), which frames it as JSON or as Server-Sent Events.
///
/// ```
/// use mcp_layers::message::{Answer, RawObject, Reply};
///
/// let mut reply = Reply::Answer(Answer::result(Some(1.into()), RawObject::parse(r#"{"tools":[]}"#)?));
/// // The same call edits the last message of a stream.
/// reply.edit_answer(|answer| {
///     if let Some(result) = answer.result_mut() {
///         result.set("ttlMs", &0).expect("a number is JSON");
///     }
/// });
/// let Reply::Answer(answer) = reply else { unreachable!() };
/// assert_eq!(answer.to_string(), r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":0}}"#);
/// # Ok::<(), mcp_layers::message::NotAnObject>(())
/// ```
#[derive(Debug)]
pub enum Reply {
    /// One answer.
    Answer(Answer),
    /// Notifications, then one answer.
    Stream(ReplyStream),
    /// A notification was taken: there is nothing to say.
    Accepted,
}

impl Reply {
    /// Has `edit` change the answer: now if it is there, or when it comes at the end of a stream.
    ///
    /// Edits run in the order in which they were asked for. Without an answer `edit` never runs.
    pub fn edit_answer(&mut self, edit: impl FnOnce(&mut Answer) + Send + 'static) {
        match self {
            Self::Answer(answer) => edit(answer),
            Self::Stream(stream) => stream.edits.push(Box::new(edit)),
            Self::Accepted => {}
        }
    }

    /// Has `watch` see, and change, every notification of a stream before it goes on.
    pub fn each_notification(&mut self, watch: impl FnMut(&mut Message) + Send + 'static) {
        if let Self::Stream(stream) = self {
            stream.watches.push(Box::new(watch));
        }
    }

    /// The answer, if it is there already.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Stream(_) | Self::Accepted => None,
        }
    }
}

/// The answer to one request: a result or an error.
#[derive(Clone, Debug)]
pub struct Answer {
    id: Option<RequestId>,
    outcome: Result<RawObject, ErrorObject>,
}

/// The `error` of an answer.
#[derive(Clone)]
pub struct ErrorObject {
    /// Which error it is; see [`protocol::code`](crate::protocol::code).
    pub code: i64,
    /// What was wrong and what to do, for a person.
    pub message: Cow<'static, str>,
    data: Option<ByteString>,
}

impl ErrorObject {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds data.
    ///
    /// # Errors
    /// If `data` does not serialize as JSON.
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> serde_json::Result<Self> {
        self.data = Some(serde_json::to_string(data)?.into());
        Ok(self)
    }

    /// `text` must be valid JSON.
    pub(crate) fn with_data_text(mut self, text: Option<ByteString>) -> Self {
        self.data = text;
        self
    }

    /// The status of this error where the head of its response says `told`. A failure after a stream has begun can tell
    /// its status by its code alone, which is equal to it.
    #[cfg(feature = "cache")]
    pub(crate) fn status(&self, told: StatusCode) -> StatusCode {
        let by_code = u16::try_from(self.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
        by_code.filter(|status| told == StatusCode::OK && status.is_server_error()).unwrap_or(told)
    }

    /// What a program may want to know beside the code.
    #[must_use]
    pub fn data(&self) -> Option<Raw<'_>> {
        self.data.as_deref().map(Raw)
    }
}

impl fmt::Debug for ErrorObject {
    /// Leaves the data out: it may hold what is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorObject")
            .field("code", &self.code)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl Answer {
    /// A result. `id` is the request's.
    #[must_use]
    pub fn result(id: Option<RequestId>, result: RawObject) -> Self {
        Self { id, outcome: Ok(result) }
    }

    /// An error. `id` is the request's, or `None` where it could not be read; it is then left out.
    #[must_use]
    pub fn error(id: Option<RequestId>, error: ErrorObject) -> Self {
        Self { id, outcome: Err(error) }
    }

    /// The id of the request that this answers.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// Makes this the answer to the request `id`.
    pub(crate) fn set_id(&mut self, id: Option<RequestId>) {
        self.id = id;
    }

    /// The result, or the error.
    ///
    /// # Errors
    /// The error that the request was answered with.
    pub fn outcome(&self) -> Result<&RawObject, &ErrorObject> {
        self.outcome.as_ref()
    }

    /// The result, unless this is an error.
    pub fn result_mut(&mut self) -> Option<&mut RawObject> {
        self.outcome.as_mut().ok()
    }

    /// Replaces the result or error; the id stays.
    pub fn set_outcome(&mut self, outcome: Result<RawObject, ErrorObject>) {
        self.outcome = outcome;
    }

    /// The answer as one JSON-RPC response, in pieces that follow on each other; some may be empty.
    ///
    /// The longest part of a result, if it is at least 1024 bytes long, is shared and not copied: what it costs to
    /// send a result that is kept somewhere does not grow with its size.
    ///
    /// ```
    /// use mcp_layers::body::Body;
    /// use mcp_layers::message::{Answer, RawObject};
    ///
    /// let mut result = RawObject::parse(format!(r#"{{"tools":"{}","ttlMs":9}}"#, "x".repeat(2000)))?;
    /// let stored = result.get("tools").expect("is there").text().as_ptr();
    /// result.set("ttlMs", &5).expect("a number is JSON");
    /// let chunks = Answer::result(Some(1.into()), result).into_chunks();
    /// assert_eq!(&chunks[0][..], br#"{"jsonrpc":"2.0","id":1,"result":{"tools":"#);
    /// assert_eq!((chunks[1].len(), chunks[1].as_ptr()), (2002, stored));
    /// assert_eq!(&chunks[2][..], br#","ttlMs":5}}"#);
    /// let body = Body::from(chunks);
    /// # Ok::<(), mcp_layers::message::NotAnObject>(())
    /// ```
    #[must_use]
    pub fn into_chunks(self) -> [Bytes; 3] {
        let length = self.written_len();
        let found = match &self.outcome {
            Ok(result) if length > SHARED_FROM => result.longest(SHARED_FROM).map(|found| (result, found)),
            _ => None,
        };
        let Some((result, Piece { place, text: piece, closes })) = found else {
            let mut text = String::with_capacity(length);
            self.write_to(&mut text);
            return [text.into(), Bytes::new(), Bytes::new()];
        };
        let mut text = String::with_capacity(length.saturating_sub(piece.len()));
        self.write_head(&mut text);
        text.push_str(",\"result\":");
        let gap = result.write_around(Some(place), &mut text);
        if closes {
            return [text.into(), piece.into_bytes(), Bytes::new()];
        }
        text.push('}');
        let mut before = Bytes::from(text);
        let after = before.split_off(gap);
        [before, piece.into_bytes(), after]
    }

    fn write_head(&self, out: &mut String) {
        out.push_str("{\"jsonrpc\":\"2.0\"");
        if let Some(id) = &self.id {
            out.push_str(",\"id\":");
            out.push_str(id.text());
        }
    }

    /// Appends the answer as one JSON-RPC response.
    pub(crate) fn write_to(&self, out: &mut String) {
        self.write_head(out);
        match &self.outcome {
            Ok(result) => {
                out.push_str(",\"result\":");
                result.write_to(out);
            }
            Err(error) => {
                out.push_str(",\"error\":{\"code\":");
                out.push_str(&error.code.to_string());
                out.push_str(",\"message\":");
                write_string(&error.message, out);
                if let Some(data) = &error.data {
                    out.push_str(",\"data\":");
                    out.push_str(data);
                }
                out.push('}');
            }
        }
        out.push('}');
    }

    /// How many bytes [`write_to`](Self::write_to) will add: exact for a result without escapes in its names, which makes
    /// one allocation of text and bytes, else about as many.
    pub(crate) fn written_len(&self) -> usize {
        let outcome = match &self.outcome {
            Ok(result) => ",\"result\":".len() + result.written_len(),
            Err(error) => error.message.len() + error.data.as_ref().map_or(0, |data| data.len()) + 48,
        };
        let id = self.id.as_ref().map_or(0, |id| ",\"id\":".len() + id.len());
        "{\"jsonrpc\":\"2.0\"}".len() + id + outcome
    }
}

impl fmt::Display for Answer {
    /// Writes one JSON-RPC response.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(self.written_len());
        self.write_to(&mut text);
        f.write_str(&text)
    }
}

/// One message of a [`ReplyStream`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box for each answer would cost more than the room")]
pub enum Event {
    /// A notification that belongs to the request.
    Notification(Message),
    /// The answer; nothing comes after it.
    Answer(Answer),
}

/// Changes the answer when it comes.
type Edit = Box<dyn FnOnce(&mut Answer) + Send>;
/// Sees each notification that passes.
type Watch = Box<dyn FnMut(&mut Message) + Send>;

/// Notifications, then one answer.
///
/// A stream that ends without an answer has broken off, and the caller sees it as that. Dropping the stream
/// cancels the work behind it.
pub struct ReplyStream {
    /// `None` once the answer has passed.
    events: Option<Pin<Box<dyn Stream<Item = Event> + Send>>>,
    edits: Vec<Edit>,
    watches: Vec<Watch>,
}

impl ReplyStream {
    /// Wraps a stream of events. Whatever comes after the first [`Event::Answer`] is dropped.
    pub fn new(events: impl Stream<Item = Event> + Send + 'static) -> Self {
        Self { events: Some(Box::pin(events)), edits: Vec::new(), watches: Vec::new() }
    }
}

impl Stream for ReplyStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let this = &mut *self;
        let Some(events) = &mut this.events else { return Poll::Ready(None) };
        match events.as_mut().poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Event::Notification(mut notification))) => {
                for watch in &mut this.watches {
                    watch(&mut notification);
                }
                Poll::Ready(Some(Event::Notification(notification)))
            }
            Poll::Ready(Some(Event::Answer(mut answer))) => {
                this.events = None;
                for edit in this.edits.drain(..) {
                    edit(&mut answer);
                }
                Poll::Ready(Some(Event::Answer(answer)))
            }
            Poll::Ready(None) => {
                this.events = None;
                Poll::Ready(None)
            }
        }
    }
}

impl fmt::Debug for ReplyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyStream").field("edits", &self.edits.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_result_is_known_before_it_is_written() {
        for text in ["{}", r#"{"a":1}"#, r#"{ "a" : [1], "b":"\n" }"#] {
            for id in [None, Some(RequestId::from(7))] {
                for edited in [false, true] {
                    let mut result = RawObject::parse(text).unwrap();
                    if edited {
                        result.push_number("ttlMs", 12);
                    }
                    let answer = Answer::result(id.clone(), result);
                    assert_eq!(answer.to_string().len(), answer.written_len(), "{answer}");
                }
            }
        }
    }
}
