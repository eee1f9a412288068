//! The messages of one stream, in their order.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytestring::ByteString;
use futures_core::Stream;
use tokio::time::Sleep;

use super::Change;
use super::bus::{Next, Seat};
use super::filter::Filter;
use super::listener::End;
use crate::message::{Answer, Event, Message, RawObject, RequestId};
use crate::protocol::{meta, method};
use crate::rejection::shorten;

/// What all messages of one stream say: to which request they belong.
pub(super) struct Head {
    /// The `_meta` of notifications.
    meta: ByteString,
    id: RequestId,
}

impl Head {
    pub(super) fn new(id: &RequestId) -> Self {
        Self { meta: format!("{{\"{}\":{id}}}", meta::SUBSCRIPTION_ID).into(), id: id.clone() }
    }

    fn params(&self) -> RawObject {
        let mut params = RawObject::new();
        params.push_text("_meta", self.meta.clone());
        params
    }

    /// The first message: what of the request is honoured.
    pub(super) fn acknowledgement(&self, honoured: &Filter<'_>) -> Message {
        let honoured = serde_json::to_string(honoured).expect("flags and strings are JSON");
        let mut params = self.params();
        params.push_text("notifications", honoured.into());
        notification(method::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, params)
    }

    fn change(&self, change: &Change) -> Message {
        let mut params = self.params();
        if let Change::ResourceUpdated(uri) = change {
            params.push_text("uri", serde_json::Value::from(&**uri).to_string().into());
        }
        notification(change.method(), params)
    }

    fn answer(&self, server_info: Option<&str>) -> Answer {
        let meta = match server_info {
            None => self.meta.clone(),
            Some(info) => {
                let mut meta = self.meta[..self.meta.len() - 1].to_owned();
                meta.extend([",\"", meta::SERVER_INFO, "\":", info, "}"]);
                meta.into()
            }
        };
        let mut result = RawObject::new();
        result.push_static("resultType", "\"complete\"");
        result.push_text("_meta", meta);
        Answer::result(Some(self.id.clone()), result)
    }
}

fn notification(method: &str, params: RawObject) -> Message {
    Message::notification(method, params).expect("`_meta` is an object")
}

/// One stream.
pub(super) struct Listening {
    stage: Stage,
    head: Head,
    server_info: Option<ByteString>,
    /// `None` if nothing of the request can be honoured, and at the end.
    seat: Option<Seat>,
    deadline: Option<Pin<Box<Sleep>>>,
}

enum Stage {
    /// The acknowledgement has not gone out yet.
    Opening(Message),
    Open,
    Ended,
}

impl Listening {
    pub(super) fn new(
        acknowledgement: Message,
        head: Head,
        server_info: Option<ByteString>,
        seat: Option<Seat>,
        deadline: Option<Pin<Box<Sleep>>>,
    ) -> Self {
        Self { stage: Stage::Opening(acknowledgement), head, server_info, seat, deadline }
    }
}

impl Stream for Listening {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let this = self.get_mut();
        match mem::replace(&mut this.stage, Stage::Open) {
            Stage::Opening(acknowledgement) => {
                return Poll::Ready(Some(Event::Notification(acknowledgement)));
            }
            Stage::Open => {}
            Stage::Ended => {
                this.stage = Stage::Ended;
                return Poll::Ready(None);
            }
        }
        if this.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready()) {
            this.deadline = None;
            if let Some(seat) = &this.seat {
                seat.finish();
            }
        }
        let next = match &this.seat {
            Some(seat) => ready!(seat.poll_next(cx)),
            None => Next::End(End::Graceful),
        };
        let end = match next {
            Next::Change(change) => {
                return Poll::Ready(Some(Event::Notification(this.head.change(&change))));
            }
            Next::End(end) => end,
        };
        this.stage = Stage::Ended;
        this.seat = None;
        this.deadline = None;
        Poll::Ready(match end {
            End::Graceful => Some(Event::Answer(this.head.answer(this.server_info.as_deref()))),
            End::Lost => {
                let id = shorten(this.head.id.text());
                tracing::debug!(id, "a subscription fell behind by more than `max_pending` updates");
                None
            }
        })
    }
}
