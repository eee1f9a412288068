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

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytestring::ByteString;
use futures_core::Stream;
use http::{Response, StatusCode};
use tokio::time::{Instant, Sleep, sleep_until};

use self::bus::{Bus, End, Next, Refused, Seat};
use self::filter::Filter;
use crate::message::{Answer, Event, Message, RawObject, Reply, ReplyStream, RequestId};
use crate::protocol::{meta, method};
use crate::rejection::{Rejection, shorten};

/// Something that clients can be told has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// `tools/list` gives another result now.
    ToolsListChanged,
    /// `prompts/list` gives another result now.
    PromptsListChanged,
    /// `resources/list` or `resources/templates/list` gives another result now.
    ResourcesListChanged,
    /// `resources/read` gives another result for this URI now.
    ResourceUpdated(Arc<str>),
}

impl Change {
    /// The method of the notification that tells it.
    ///
    /// ```
    /// use mcp_layers::dispatch::subscriptions::Change;
    ///
    /// assert_eq!(Change::ToolsListChanged.method(), "notifications/tools/list_changed");
    /// ```
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self {
            Self::ToolsListChanged => method::NOTIFICATIONS_TOOLS_LIST_CHANGED,
            Self::PromptsListChanged => method::NOTIFICATIONS_PROMPTS_LIST_CHANGED,
            Self::ResourcesListChanged => method::NOTIFICATIONS_RESOURCES_LIST_CHANGED,
            Self::ResourceUpdated(_) => method::NOTIFICATIONS_RESOURCES_UPDATED,
        }
    }
}

/// Publishes changes to the clients that listen for them.
///
/// It is cheap to clone, and clones publish to the same listeners. All methods can be called from any thread and
/// from async code: they do not wait for anybody, and cost next to nothing if nobody listens.
///
/// ```
/// use mcp_layers::dispatch::subscriptions::Publisher;
///
/// let publisher = Publisher::new();
/// let in_thread = publisher.clone();
/// std::thread::spawn(move || in_thread.resource_updated("file:///project/config.json")).join().unwrap();
/// publisher.tools_list_changed();
/// ```
#[derive(Clone, Default)]
pub struct Publisher {
    bus: Arc<Bus>,
}

impl Publisher {
    /// A publisher that nobody listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes any change.
    pub fn publish(&self, change: &Change) {
        self.bus.publish(change);
    }

    /// Publishes that `tools/list` gives another result now.
    pub fn tools_list_changed(&self) {
        self.publish(&Change::ToolsListChanged);
    }

    /// Publishes that `prompts/list` gives another result now.
    pub fn prompts_list_changed(&self) {
        self.publish(&Change::PromptsListChanged);
    }

    /// Publishes that `resources/list` or `resources/templates/list` gives another result now.
    pub fn resources_list_changed(&self) {
        self.publish(&Change::ResourcesListChanged);
    }

    /// Publishes that `resources/read` gives another result for `uri` now.
    ///
    /// It reaches those who asked for exactly this URI: no other spelling of it, and no prefix.
    pub fn resource_updated(&self, uri: &str) {
        self.publish(&Change::ResourceUpdated(uri.into()));
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

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

    /// Has `observer` called with every change that is published from now on, by the thread that publishes it and
    /// before any listener can hear of it: what a cache evicts then is gone when a client asks again.
    ///
    /// It may publish other changes. If it panics, that is logged, and the change goes on.
    pub(crate) fn observe(&self, observer: impl Fn(&Change) + Send + Sync + 'static) {
        self.publisher.bus.observe(Arc::new(observer));
    }

    /// Ends all streams gracefully, each after what is pending on it, and refuses new ones.
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
        let mut params = head.params();
        let honoured = serde_json::to_string(&filter).expect("flags and strings are JSON");
        params.push_text("notifications", honoured.into());
        let acknowledgement = notification(method::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, params);

        let lifetime = self.max_lifetime.into_iter().chain(lifetime).min();
        let deadline = lifetime
            .filter(|_| seat.is_some())
            // A time too far off to be told is none.
            .and_then(|lifetime| Instant::now().checked_add(lifetime))
            .map(|deadline| Box::pin(sleep_until(deadline)));
        let stage = Stage::Opening(acknowledgement);
        Ok(Listening { stage, head, server_info, seat, deadline })
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

/// What all messages of one stream say: to which request they belong.
struct Head {
    /// The `_meta` of notifications.
    meta: ByteString,
    /// Shares the text of `meta`.
    id: RequestId,
}

impl Head {
    /// Copies `id`, so that the stream does not keep alive the body of the request.
    fn new(id: &RequestId) -> Self {
        let meta = ByteString::from(format!("{{\"{}\":{id}}}", meta::SUBSCRIPTION_ID));
        let start = meta.len() - 1 - id.text().len();
        let id = RequestId::from_shared(meta.slice_ref(&meta[start..meta.len() - 1]))
            .expect("it is the text of an id");
        Self { meta, id }
    }

    fn params(&self) -> RawObject {
        let mut params = RawObject::new();
        params.push_text("_meta", self.meta.clone());
        params
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
struct Listening {
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

impl Stream for Listening {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let this = self.get_mut();
        match std::mem::replace(&mut this.stage, Stage::Open) {
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

#[cfg(test)]
mod tests;
