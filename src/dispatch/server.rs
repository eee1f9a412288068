//! What all calls of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytestring::ByteString;
use tokio::sync::watch;

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
    in_flight: watch::Sender<usize>,
}

impl Server {
    pub(super) fn new(info: ByteString) -> Self {
        let meta = format!("{{\"{}\":{info}}}", meta::SERVER_INFO).into();
        Self { info, meta, closing: AtomicBool::new(false), in_flight: watch::Sender::new(0) }
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
        self.in_flight.send_modify(|calls| *calls += 1);
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

    /// Waits until no call is at work.
    pub(super) async fn idle(&self) {
        // The sender lives as long as `self`, so there is no error to see.
        let _ = self.in_flight.subscribe().wait_for(|calls| *calls == 0).await;
    }
}

/// One call at work.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Server>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|calls| *calls -= 1);
    }
}
