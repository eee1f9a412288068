//! A timer for what is idle.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Measures how long nothing has come. It has no timer until that is so for the first time, and sets it again only when it
/// becomes so, not whenever something comes.
pub(crate) struct IdleTimer {
    period: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Something has come: the period starts again.
    is_due_anew: bool,
}

impl IdleTimer {
    /// A zero period never ends.
    pub(crate) const fn new(period: Duration) -> Self {
        Self { period, timer: None, is_due_anew: true }
    }

    /// Something has come.
    pub(crate) fn restart(&mut self) {
        self.is_due_anew = true;
    }

    /// Ready when nothing has come for the period.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.period.is_zero() {
            return Poll::Pending;
        }
        if self.is_due_anew {
            // A period that no clock can hold never ends.
            let Some(due) = Instant::now().checked_add(self.period) else { return Poll::Pending };
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(due),
                None => self.timer = Some(Box::pin(sleep_until(due))),
            }
            self.is_due_anew = false;
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        let due = timer.as_mut().poll(cx);
        self.is_due_anew = due.is_ready();
        due
    }
}
