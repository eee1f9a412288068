//! Tells clients what has changed: `subscriptions/listen` and the bus behind it.
//!
//! # Rules
//! Specification: `basic/patterns/subscriptions`.
//! 1. The first message of a stream is the acknowledgement; it names what of the request is honoured ("Acknowledgment").
//! 2. Nothing goes out that was not asked for ("Opening a Stream"). A resource is one that was asked for if the URIs
//!    are equal byte for byte.
//! 3. Every message, the answer among them, carries the id of the request that opened the stream, written as the
//!    request wrote it ("Receiving Notifications").
//! 4. A stream that the server ends has an answer; one that lost something ends without ("Graceful Closure").
//!
//! A change says "look again", not what is new. So one that is published again before a stream has carried it is
//! carried once, and a stream of a slow reader takes bounded memory.
//!
//! # Rejections
//! | | HTTP | code |
//! |---|---|---|
//! | the server is shutting down | 503 | 503 |
//! | too many streams | 200 | -32603 |
//! | `params.notifications` is missing, of a wrong shape or too large | 400 | -32602 |

mod bus;
mod filter;
mod listener;
mod publisher;
mod stream;

use std::time::Duration;

use bytestring::ByteString;
use http::{Response, StatusCode};
use tokio::time::{Instant, sleep_until};

pub use self::publisher::{Change, Publisher};

use self::bus::Refused;
use self::filter::Filter;
use self::stream::{Head, Listening};
use crate::message::{Message, Reply, ReplyStream};
use crate::rejection::Rejection;

/// Which kinds of change this server tells: its capabilities.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
pub(crate) struct Supported {
    /// `tools.listChanged`
    pub(crate) tools: bool,
    /// `prompts.listChanged`
    pub(crate) prompts: bool,
    /// `resources.listChanged`
    pub(crate) resources: bool,
    /// `resources.subscribe`
    pub(crate) subscribe: bool,
}

/// Answers `subscriptions/listen` with streams of what is published.
///
/// Clones share the streams; each keeps its own limits.
#[derive(Clone, Debug)]
pub(crate) struct Subscriptions {
    publisher: Publisher,
    max_streams: usize,
    max_pending: usize,
    max_lifetime: Option<Duration>,
}

impl Subscriptions {
    /// Streams what `publisher` publishes.
    pub(crate) fn new(publisher: Publisher) -> Self {
        Self { publisher, max_streams: 1024, max_pending: 256, max_lifetime: None }
    }

    /// How many streams may be live. Defaults to 1024.
    pub(crate) fn with_max_streams(mut self, max_streams: usize) -> Self {
        self.max_streams = max_streams;
        self
    }

    /// How many resources' updates may wait for the reader of one stream; one more ends the stream, without an
    /// answer. List changes do not count. Defaults to 256.
    pub(crate) fn with_max_pending(mut self, max_pending: usize) -> Self {
        self.max_pending = max_pending;
        self
    }

    /// How long a stream may live; it ends gracefully then. Credentials are only looked at when a stream opens, so
    /// this bounds how long they are trusted. Defaults to no bound.
    ///
    /// With a bound, [`listen`](Self::listen) must be called inside a Tokio runtime.
    pub(crate) fn with_max_lifetime(mut self, max_lifetime: Option<Duration>) -> Self {
        self.max_lifetime = max_lifetime;
        self
    }

    /// What publishes to these streams.
    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Ends all streams gracefully, each after what is pending on it, and refuses new ones: those of everybody who
    /// streams what the same publisher publishes.
    pub(crate) fn close(&self) {
        self.publisher.bus.close();
    }

    /// Answers the request `message`. `server_info` is JSON text for `_meta` of the answer that ends the stream.
    pub(crate) fn listen(
        &self,
        message: &Message,
        supported: Supported,
        server_info: Option<ByteString>,
    ) -> Response<Reply> {
        self.listen_within(None, message, supported, server_info)
    }

    /// Like [`listen`](Self::listen), for no longer than `lifetime`: what is left of the caller's credentials.
    pub(crate) fn listen_within(
        &self,
        lifetime: Option<Duration>,
        message: &Message,
        supported: Supported,
        server_info: Option<ByteString>,
    ) -> Response<Reply> {
        match self.open(lifetime, message, supported, server_info) {
            Ok(stream) => Response::new(Reply::Stream(ReplyStream::new(stream))),
            Err(rejection) => rejection.into_response(message.id().cloned()),
        }
    }

    fn open(
        &self,
        lifetime: Option<Duration>,
        message: &Message,
        supported: Supported,
        server_info: Option<ByteString>,
    ) -> Result<Listening, Rejection> {
        let Some(id) = message.id() else {
            return Err(Rejection::invalid_request("`subscriptions/listen` must have an `id`"));
        };
        // Before anything is read, and once more when the place is taken.
        self.publisher.bus.admits(self.max_streams).map_err(|refused| self.refusal(refused))?;
        let notifications = match message.params().and_then(|params| params.object("notifications")) {
            Some(Ok(notifications)) => notifications,
            Some(Err(error)) => {
                return Err(Rejection::invalid_params(format!("in `params.notifications`, {error}")));
            }
            None => return Err(Rejection::invalid_params("`params.notifications` is missing")),
        };
        let filter = Filter::read(message, &notifications)?.honoured(supported);
        let changes = filter.changes();
        // From here on nothing is missed: what is published before the acknowledgement has gone out comes after it.
        let join = || self.publisher.bus.join(changes, self.max_streams, self.max_pending);
        let seat = (!filter.is_empty()).then(join).transpose().map_err(|refused| self.refusal(refused))?;

        let head = Head::new(id);
        let acknowledgement = head.acknowledgement(&filter);

        let lifetime = self.max_lifetime.into_iter().chain(lifetime).min();
        let deadline = lifetime
            .filter(|_| seat.is_some())
            // A time too far off to be told is none.
            .and_then(|lifetime| Instant::now().checked_add(lifetime))
            .map(|deadline| Box::pin(sleep_until(deadline)));
        Ok(Listening::new(acknowledgement, head, server_info, seat, deadline))
    }

    fn refusal(&self, refused: Refused) -> Rejection {
        match refused {
            Refused::Closed => {
                Rejection::http(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")
            }
            Refused::Full => {
                let max_streams = self.max_streams;
                tracing::warn!(max_streams, "refused a subscription: `max_streams` of them are live");
                Rejection::subscription_limit(max_streams)
            }
        }
    }
}

#[cfg(test)]
mod tests;
