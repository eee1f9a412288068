//! What one listener wants and has yet to hear.

use std::collections::VecDeque;
use std::task::Waker;

use super::Change;

pub(super) struct Listener {
    pub(super) wants: Box<[Want]>,
    /// Places in `wants`, each at most once, in the order in which they were published.
    pending: VecDeque<u16>,
    pending_uris: usize,
    max_pending: usize,
    pub(super) end: Option<End>,
    pub(super) waker: Option<Waker>,
}

pub(super) struct Want {
    pub(super) change: Change,
    /// The place in the topic's list of subscribers, so that leaving does not search it.
    pub(super) place: usize,
}

/// How a listener's stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With an answer, once it has heard what was pending.
    Graceful,
    /// Without: it has missed something.
    Lost,
}

impl Listener {
    pub(super) fn new(wants: Box<[Want]>, max_pending: usize) -> Self {
        Self { wants, pending: VecDeque::new(), pending_uris: 0, max_pending, end: None, waker: None }
    }

    /// False if there is no room for one more.
    pub(super) fn push(&mut self, want: u16) -> bool {
        if self.pending.contains(&want) {
            // It is yet to be heard of, and then it will be true of this change too.
            return true;
        }
        if self.wants_uri(want) {
            if self.pending_uris == self.max_pending {
                return false;
            }
            self.pending_uris += 1;
        }
        self.pending.push_back(want);
        true
    }

    pub(super) fn pop(&mut self) -> Option<Change> {
        let want = self.pending.pop_front()?;
        if self.wants_uri(want) {
            self.pending_uris -= 1;
        }
        Some(self.wants[usize::from(want)].change.clone())
    }

    /// Forgets what it has yet to hear.
    pub(super) fn forget(&mut self) {
        self.pending = VecDeque::new();
    }

    fn wants_uri(&self, want: u16) -> bool {
        matches!(self.wants[usize::from(want)].change, Change::ResourceUpdated(_))
    }
}
