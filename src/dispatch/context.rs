//! What a handler sees of its request, and what it can send while it works.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use http::request::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::error::HandlerError;
use crate::message::{Kind, Message, Raw, RawObject};
use crate::protocol::{ClientCapabilities, LogLevel};
use crate::trusted_state::TrustedState;

/// How many notifications may wait for the socket before a handler that sends more has to wait too.
const OUTBOX: usize = 16;

/// What a handler sees of its request, and what it can send while it works.
///
/// It is cheap to clone and may be moved into tasks; what such a task sends after the answer is dropped.
///
/// Only a [`Dispatch`](super::Dispatch) makes one. A test of a handler calls the dispatcher, as the example of the
/// [module](super) does, with a request whose extensions hold what [`extension`](Self::extension) is to find.
///
/// A request that has sent nothing is answered as plain JSON; the first notification turns the response into a
/// stream of Server-Sent Events. From then on the handler goes on only while the client reads: a client that stops
/// reading stops the handler, timers in it included. Work that must go on belongs into a task of its own, and what must
/// not be held for long (locks, transactions) is given back before something is sent.
///
/// ```
/// use mcp_layers::dispatch::{Context, Dispatch, Tool};
/// use serde_json::json;
///
/// let tool = Tool::raw("count", json!({"type": "object"}), |_arguments, context: Context| async move {
///     for step in 1..=3_i32 {
///         context.progress(step.into(), Some(3.0), "counting").await;
///     }
///     Ok("counted")
/// });
/// let server = Dispatch::builder("counter", "1.0.0").tool(tool).build()?;
/// # let _ = server;
/// # Ok::<(), mcp_layers::dispatch::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Context(Arc<Call>);

struct Call {
    parts: Parts,
    message: Message,
    /// Whether the server has declared that it logs.
    logging: bool,
    /// Whether states are trusted that no layer protects.
    unprotected_state: bool,
    outbox: Mutex<Outbox>,
    /// Wakes handlers that wait for room.
    room: Notify,
}

#[derive(Default)]
struct Outbox {
    waiting: VecDeque<Message>,
    /// The highest progress told so far.
    progress: Option<f64>,
    /// True once the answer is on its way, or nobody waits for it any more.
    closed: bool,
    /// Who writes the response.
    reader: Option<Waker>,
}

impl Context {
    pub(super) fn new(parts: Parts, message: Message, logging: bool, unprotected_state: bool) -> Self {
        Self(Arc::new(Call {
            parts,
            message,
            logging,
            unprotected_state,
            outbox: Mutex::default(),
            room: Notify::new(),
        }))
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // Nothing panics while the lock is held; should it, the queue is still whole.
        self.0.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request as it arrived, changed by the layers that it passed.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.0.message
    }

    /// The HTTP side of the request: headers, URI and the extensions in which layers leave what they found out.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// What a layer has left for the handler, such as the principal.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.parts.extensions.get()
    }

    /// The capabilities that the client has declared for this request: an object.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<Raw<'_>> {
        self.0.message.meta()?.client_capabilities()
    }

    /// Whether the client has declared all of `capabilities` for this request. What it has not declared must not be
    /// asked of it.
    ///
    /// ```
    /// use mcp_layers::dispatch::{Context, HandlerError, InputRequired, ToolResult};
    /// use mcp_layers::protocol::ClientCapabilities;
    ///
    /// async fn where_am_i(context: Context) -> Result<ToolResult, HandlerError> {
    ///     if context.can(&ClientCapabilities::new().with_roots()) {
    ///         return Ok(InputRequired::new().list_roots("roots").into());
    ///     }
    ///     Ok("somewhere".into())
    /// }
    /// # let _ = where_am_i;
    /// ```
    #[must_use]
    pub fn can(&self, capabilities: &ClientCapabilities) -> bool {
        capabilities.missing_from(self.client_capabilities()).is_empty()
    }

    /// The client's answer to the input request `key` of an earlier round.
    ///
    /// `None` if it is missing, is no object, or looks like a JSON-RPC envelope; the handler then asks again.
    ///
    /// Specification: `basic/patterns/mrtr`.
    #[must_use]
    pub fn input_response(&self, key: &str) -> Option<RawObject> {
        let responses = self.0.message.params()?.object("inputResponses")?.ok()?;
        let response = responses.object(key)?.ok()?;
        let is_envelope = response.get("method").is_some() || response.get("result").is_some();
        (!is_envelope).then_some(response)
    }

    /// The client's answer to the elicitation `key`, if it accepted; `None` as for
    /// [`input_response`](Self::input_response), or if the content is not a `T`.
    #[must_use]
    pub fn elicited<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let response = self.input_response(key)?;
        if response.get("action")?.to_str()? != "accept" {
            return None;
        }
        response.get("content")?.decode_owned().ok()
    }

    /// The state that an earlier round has [given](super::InputRequired::with_state), which a layer above has verified.
    ///
    /// `None` if there is none, or if it is not a `T`, as may be when another version of the server has given it; the
    /// handler then begins anew.
    ///
    /// Specification: `basic/patterns/mrtr`.
    #[must_use]
    pub fn request_state<T: DeserializeOwned>(&self) -> Option<T> {
        let state = self.0.message.request_state()?.to_str()?;
        serde_json::from_str(&state)
            .inspect_err(|error| {
                // The error itself may quote the state.
                let fault = error.classify();
                tracing::warn!(request = ?self.0.message, ?fault, "a requestState is not of the type that is read");
            })
            .ok()
    }

    /// Whether states can be given out and taken back.
    pub(super) fn keeps_state(&self) -> bool {
        self.0.unprotected_state || self.extension::<TrustedState>().is_some()
    }

    /// The parameters as a `T`; members that it does not have are ignored, `_meta` among them.
    ///
    /// # Errors
    /// Whatever `T` does not accept: 400 -32602.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let params = self.0.message.params().map_or_else(|| "{}".to_owned(), RawObject::to_string);
        serde_json::from_str(&params)
            .map_err(|error| HandlerError::invalid_params(format!("invalid params: {error}")))
    }

    /// Tells the client how far the work has come. Does nothing if the client has not asked for it, and drops
    /// values that do not increase or are not finite.
    ///
    /// Waits while the client is slow to read.
    ///
    /// Specification: `basic/patterns/progress`.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            progress_token: Raw<'a>,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'a str,
        }
        let token = self.0.message.meta().and_then(crate::message::Meta::progress_token);
        let Some(progress_token) = token else { return };
        {
            let mut outbox = self.outbox();
            if !progress.is_finite() || outbox.progress.is_some_and(|last| last >= progress) {
                tracing::debug!(progress, "a progress value that does not increase was dropped");
                return;
            }
            outbox.progress = Some(progress);
        }
        let total = total.filter(|total| total.is_finite());
        self.notify("notifications/progress", &Params { progress_token, progress, total, message }).await;
    }

    /// Sends a log message to the client, if the server
    /// [declares logging](super::Builder::with_logging) and the client has asked for messages of this level.
    ///
    /// Waits while the client is slow to read.
    ///
    /// Specification: `server/utilities/logging`.
    pub async fn log<T: Serialize + ?Sized + Sync>(&self, level: LogLevel, logger: &str, data: &T) {
        #[derive(Serialize)]
        struct Params<'a, T: ?Sized> {
            level: &'static str,
            #[serde(skip_serializing_if = "str::is_empty")]
            logger: &'a str,
            data: &'a T,
        }
        let wanted = self.0.message.meta().and_then(crate::message::Meta::log_level);
        if !self.0.logging || wanted.is_none_or(|wanted| level < wanted) {
            return;
        }
        self.notify("notifications/message", &Params { level: level.as_str(), logger, data }).await;
    }

    async fn notify<T: Serialize>(&self, method: &str, params: &T) {
        let made = RawObject::from_value(params)
            .map_err(|error| error.to_string())
            .and_then(|params| Message::notification(method, params).map_err(|error| error.to_string()));
        let mut message = match made {
            Ok(message) => Some(message),
            Err(error) => {
                tracing::error!(method, error, "a notification could not be written as JSON");
                return;
            }
        };
        loop {
            let room = self.0.room.notified();
            let mut room = std::pin::pin!(room);
            // Waits from before the look at the outbox: room that is made in between is not missed.
            room.as_mut().enable();
            if self.send(&mut message) {
                return;
            }
            room.await;
        }
    }

    /// Puts `message` into the outbox; says whether that is settled, or there is no room.
    fn send(&self, message: &mut Option<Message>) -> bool {
        let mut outbox = self.outbox();
        if outbox.closed {
            return true;
        }
        if outbox.waiting.len() >= OUTBOX {
            return false;
        }
        outbox.waiting.extend(message.take());
        let reader = outbox.reader.take();
        drop(outbox);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }

    /// The next notification to write; remembers the caller if there is none.
    pub(super) fn poll_outbox(&self, cx: &mut TaskContext<'_>) -> Poll<Message> {
        let mut outbox = self.outbox();
        match outbox.waiting.pop_front() {
            Some(message) => {
                drop(outbox);
                self.0.room.notify_waiters();
                Poll::Ready(message)
            }
            None => {
                match &mut outbox.reader {
                    Some(reader) => reader.clone_from(cx.waker()),
                    reader => *reader = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    /// From now on nothing is sent any more; tasks that wait for room go on. Says whether something waits to be written.
    pub(super) fn close(&self) -> bool {
        let mut outbox = self.outbox();
        outbox.closed = true;
        let waits = !outbox.waiting.is_empty();
        drop(outbox);
        self.0.room.notify_waiters();
        waits
    }

    /// The request's parameter `name` as an object, or an empty one if it is absent.
    pub(super) fn object_param(&self, name: &str) -> Result<RawObject, String> {
        match self.0.message.param(name) {
            None => Ok(RawObject::new()),
            Some(value) if value.kind() != Kind::Object => Err(format!("`params.{name}` must be an object")),
            Some(_) => match self.0.message.params().and_then(|params| params.object(name)) {
                Some(Ok(object)) => Ok(object),
                Some(Err(error)) => Err(format!("in `params.{name}`, {error}")),
                None => Ok(RawObject::new()),
            },
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("message", &self.0.message).finish_non_exhaustive()
    }
}
