//! The body of an event stream.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body, Frame};

use super::frame::correlate;
use crate::idle::IdleTimer;
use crate::message::{Event, ReplyStream, RequestId};
use crate::sse;

/// Writes each event of a reply as one Server-Sent Event, and a comment whenever nothing has come for a while.
///
/// Dropping it drops the reply, and with it the work behind.
pub(super) struct EventBody {
    /// `None` after the answer.
    events: Option<ReplyStream>,
    id: Option<RequestId>,
    keep_alive: IdleTimer,
}

impl EventBody {
    pub(super) fn new(events: ReplyStream, id: Option<RequestId>, keep_alive: Duration) -> Self {
        Self { events: Some(events), id, keep_alive: IdleTimer::new(keep_alive) }
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Some(events) = &mut this.events else { return Poll::Ready(None) };
        let bytes = match Pin::new(events).poll_next(cx) {
            Poll::Ready(Some(Event::Notification(notification))) => {
                this.keep_alive.restart();
                write(notification.written_len(), |out| notification.write_to(out))
            }
            Poll::Ready(Some(Event::Answer(mut answer))) => {
                this.events = None;
                correlate(&mut answer, this.id.as_ref());
                write(answer.written_len(), |out| answer.write_to(out))
            }
            Poll::Ready(None) => {
                this.events = None;
                tracing::warn!(id = ?this.id, "an event stream has ended without an answer");
                return Poll::Ready(None);
            }
            Poll::Pending if this.keep_alive.poll(cx).is_ready() => Bytes::from_static(sse::KEEP_ALIVE),
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.events.is_none()
    }
}

impl fmt::Debug for EventBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBody").field("events", &self.events).finish_non_exhaustive()
    }
}

fn write(len: usize, write_json: impl FnOnce(&mut String)) -> Bytes {
    let mut out = String::with_capacity(len + sse::EVENT_OVERHEAD);
    sse::write_event(&mut out, write_json);
    out.into()
}

/// A stream of at most one event, which is there.
pub(super) struct Once(pub(super) Option<Event>);

impl Stream for Once {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
        Poll::Ready(self.0.take())
    }
}
