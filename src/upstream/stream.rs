//! The messages of an event stream.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::Body;
use pin_project::pin_project;

use super::fault::Fault;
use super::read::{Call, Said};
use crate::body::BoxError;
use crate::message::Event;
use crate::sse::{self, Reader};

/// No more bytes than this are taken apart at once: they may be many events, and each takes memory.
const PIECE: usize = 16 * 1024;

/// Reads events while somebody asks for them. Dropping it drops the upstream's response.
#[pin_project]
pub(super) struct EventStream<B> {
    /// `None` once nothing more is read.
    #[pin]
    body: Option<B>,
    reader: Reader,
    /// What has been received and not taken apart.
    chunk: Bytes,
    events: VecDeque<sse::Event>,
    /// Why the stream cannot be read on, once the events before that have passed.
    failed: Option<Fault>,
    call: Call,
}

impl<B> EventStream<B> {
    pub(super) fn new(body: B, call: Call) -> Self {
        Self {
            body: Some(body),
            reader: Reader::new(call.settings.max_message_bytes),
            chunk: Bytes::new(),
            events: VecDeque::new(),
            failed: None,
            call,
        }
    }
}

impl<B> Stream for EventStream<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut this = self.project();
        let fault = loop {
            let Some(body) = this.body.as_mut().as_pin_mut() else { return Poll::Ready(None) };
            if let Some(event) = this.events.pop_front() {
                if !carries_message(&event) {
                    continue;
                }
                match this.call.message(event.data) {
                    Ok(Said::Notification(message)) => {
                        return Poll::Ready(Some(Event::Notification(message)));
                    }
                    Ok(Said::Answer(answer)) => {
                        this.body.set(None);
                        return Poll::Ready(Some(Event::Answer(answer)));
                    }
                    Err(fault) => break fault,
                }
            }
            if let Some(fault) = this.failed.take() {
                break fault;
            }
            if !this.chunk.is_empty() {
                let piece = this.chunk.split_to(this.chunk.len().min(PIECE));
                *this.failed = this.reader.push(&piece, this.events).err().map(|error| match error {
                    sse::Error::NotUtf8 => Fault::NotUtf8,
                    sse::Error::TooLong => Fault::TooLong(this.call.settings.max_message_bytes),
                });
                continue;
            }
            match ready!(body.poll_frame(cx)) {
                // Trailers mean nothing here.
                Some(Ok(frame)) => *this.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => break Fault::BrokenOff(Some(error.into())),
                None => break Fault::BrokenOff(None),
            }
        };
        // Nothing that comes later is read: it could be about anything.
        this.body.set(None);
        let answer = this.call.refuse(&fault).answer(this.call.id.clone());
        Poll::Ready(Some(Event::Answer(answer)))
    }
}

/// True for what a client takes for a message: events of another name are somebody else's, and one without data only
/// tells an id or when to reconnect.
fn carries_message(event: &sse::Event) -> bool {
    event.event.as_deref().is_none_or(|name| name == "message") && !event.data.is_empty()
}

impl<B> fmt::Debug for EventStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}
