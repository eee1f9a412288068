//! Why what an upstream says cannot be used, and what the caller is told then.

use std::error::Error;
use std::fmt;

use http::StatusCode;
use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;

use crate::body::BoxError;
use crate::cause::{Chain, is_caused_by};
use crate::message::{RequestId, Unusable};
use crate::rejection::Rejection;

/// An upstream took too long. [`UpstreamLayer`](super::UpstreamLayer) answers 504 to what fails with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    waited_for: &'static str,
}

impl TimedOut {
    /// `waited_for` is what did not come; it is logged.
    #[must_use]
    pub const fn new(waited_for: &'static str) -> Self {
        Self { waited_for }
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waited too long for {}", self.waited_for)
    }
}

impl Error for TimedOut {}

/// Why an answer cannot be used. It says nothing of what the answer holds.
#[derive(Debug)]
pub(super) enum Fault {
    /// A redirect, which is not followed: it could lead anywhere.
    Redirect,
    /// A request was taken like a notification.
    Accepted,
    /// A status with which no answer comes.
    Status(StatusCode),
    Compressed,
    MediaType,
    TooLong(usize),
    /// It ended before it was complete. With the error that it ended with, if there was one.
    BrokenOff(Option<BoxError>),
    NotUtf8,
    Empty,
    Unusable(Unusable),
    /// A notification came where only an answer can be.
    NotAnAnswer,
    OtherId,
    /// A result came with an error status.
    Contradiction(StatusCode),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redirect => "it is a redirect",
            Self::Accepted => "it accepts the request like a notification",
            Self::Status(status) => return write!(f, "it has the status {}", status.as_u16()),
            Self::Compressed => "it is compressed",
            Self::MediaType => "it is neither JSON nor an event stream",
            Self::TooLong(max) => return write!(f, "it is longer than {max} bytes"),
            Self::BrokenOff(_) => "it has broken off",
            Self::NotUtf8 => "it is not UTF-8",
            Self::Empty => "it is empty",
            Self::Unusable(unusable) => return unusable.fmt(f),
            Self::NotAnAnswer => "it is a notification",
            Self::OtherId => "it answers another request",
            Self::Contradiction(status) => {
                return write!(f, "it is a result with the status {}", status.as_u16());
            }
        })
    }
}

impl Fault {
    /// What the caller is told. The rest is logged.
    pub(super) fn refuse(&self, id: Option<&RequestId>) -> Rejection {
        match self {
            Self::TooLong(_) => tracing::warn!(
                ?id,
                fault = %self,
                "refused an upstream's answer; `UpstreamLayer::with_max_message_bytes` sets how long it may be"
            ),
            Self::BrokenOff(Some(error)) => {
                tracing::warn!(?id, error = %Chain(&**error), "an upstream's answer has broken off");
                if is_timeout(error) {
                    return Rejection::gateway_timeout();
                }
            }
            _ => tracing::warn!(?id, fault = %self, "refused an upstream's answer"),
        }
        Rejection::bad_gateway(format!("the upstream server's answer cannot be used: {self}"))
    }
}

fn is_timeout(error: &BoxError) -> bool {
    is_caused_by::<TimedOut>(&**error) || is_caused_by::<Elapsed>(&**error)
}

/// What the caller is told when the upstream could not be asked, or gave no answer.
pub(super) fn unreachable(error: &BoxError, id: Option<&RequestId>) -> Rejection {
    tracing::warn!(?id, error = %Chain(&**error), "an upstream cannot be asked");
    if is_timeout(error) {
        Rejection::gateway_timeout()
    } else if is_caused_by::<Overloaded>(&**error) {
        Rejection::overloaded()
    } else {
        Rejection::bad_gateway("the upstream server cannot be reached, or has given no answer")
    }
}
