//! What all calls of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytestring::ByteString;
use tokio::sync::Notify;

use crate::message::RawObject;
use crate::protocol::meta;

/// What all calls of a server share: who it is, and how many are at work.
#[derive(Debug)]
pub(super) struct Server {
    /// The JSON text of the server's name and version.
    pub(super) info: ByteString,
    /// The `_meta` of a result that has none of its own.
    meta: ByteString,
    closing: AtomicBool,
    in_flight: AtomicUsize,
    /// Tells those who wait for it that a closed server has no call at work any more.
    idle: Notify,
}

impl Server {
    pub(super) fn new(info: ByteString) -> Self {
        let meta = format!("{{\"{}\":{info}}}", meta::SERVER_INFO).into();
        Self {
            info,
            meta,
            closing: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            idle: Notify::new(),
        }
    }

    /// Adds to a result what every result has: its type and who gave it. What the handler said stays.
    ///
    /// Specification: `basic/index`, "`ResultType`" and "`_meta`".
    pub(super) fn complete(&self, result: &mut RawObject) {
        if result.get("resultType").is_none() {
            result.push_static("resultType", "\"complete\"");
        }
        match result.object("_meta") {
            Some(Ok(mut own)) => {
                if own.get(meta::SERVER_INFO).is_none() {
                    own.set_text(meta::SERVER_INFO, self.info.clone());
                    result.set_object("_meta", &own);
                }
            }
            // A handler's `_meta` is an object, or there is none.
            Some(Err(_)) => result.set_text("_meta", self.meta.clone()),
            None => result.push_text("_meta", self.meta.clone()),
        }
    }

    /// Counts one more call; `None` once the server is closing.
    pub(super) fn begin(self: &Arc<Self>) -> Option<InFlight> {
        // Counted first: a close that misses the flag then waits for this call.
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let call = InFlight(Arc::clone(self));
        (!self.closing.load(Ordering::SeqCst)).then_some(call)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// From now on no call begins.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Waits until no call is at work. The server must be closed, or else nobody tells of the last call's end.
    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            let mut idle = std::pin::pin!(idle);
            // Waits from before the look at the count: an end that comes in between is not missed.
            idle.as_mut().enable();
            if self.in_flight.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// One call at work.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Server>);

impl InFlight {
    pub(super) fn server(&self) -> &Server {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_closing() {
            self.0.idle.notify_waiters();
        }
    }
}
