//! Who listens for what, and what each has yet to hear.
//!
//! One lock guards everything. It is held for moments only: never while a waker or an observer runs, is cloned
//! or is dropped, for those are code that is not ours and may come back here.

use std::collections::HashMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;

use super::Change;
use super::listener::{End, Listener, Want};

pub(super) type Observer = Arc<dyn Fn(&Change) + Send + Sync>;

#[derive(Default)]
pub(super) struct Bus {
    state: Mutex<State>,
    observers: ArcSwap<Vec<Observer>>,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Listeners that still take part; those that only drain what they have are not among them.
    live: usize,
    /// Places in here are what listeners are known by. An empty one is in `free`.
    listeners: Vec<Option<Listener>>,
    free: Vec<usize>,
    /// Only what somebody listens for, so that publishing anything else costs one look-up.
    topics: HashMap<Change, Vec<Subscriber>>,
}

#[derive(Clone, Copy)]
struct Subscriber {
    listener: usize,
    /// The place in the listener's `wants`.
    want: u16,
}

/// What a listener hears next.
pub(super) enum Next {
    Change(Change),
    End(End),
}

/// Why nobody can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Closed,
    Full,
}

impl Bus {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock stops half way, so what a panic left behind is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether one more could join now.
    pub(super) fn admits(&self, max_streams: usize) -> Result<(), Refused> {
        self.lock().admits(max_streams)
    }

    /// Joins for `changes`, which are all different and fewer than 2^16.
    pub(super) fn join(
        self: &Arc<Self>,
        changes: Vec<Change>,
        max_streams: usize,
        max_pending: usize,
    ) -> Result<Seat, Refused> {
        let mut state = self.lock();
        state.admits(max_streams)?;
        let key = state.free.pop().unwrap_or(state.listeners.len());
        if key == state.listeners.len() {
            state.listeners.push(None);
        }
        let wants = (0_u16..)
            .zip(changes)
            .map(|(want, change)| state.subscribe(change, Subscriber { listener: key, want }))
            .collect();
        state.live += 1;
        state.listeners[key] = Some(Listener::new(wants, max_pending));
        drop(state);
        Ok(Seat { bus: Arc::clone(self), key })
    }

    /// Tells the observers, then everybody who listens for `change`.
    pub(super) fn publish(&self, change: &Change) {
        for observer in self.observers.load().iter() {
            // One that fails must not keep the change from the others.
            if catch_unwind(AssertUnwindSafe(|| observer(change))).is_err() {
                tracing::error!(?change, "an observer of published changes panicked");
            }
        }
        let wakers = self.lock().publish(change);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn observe(&self, observer: &Observer) {
        self.observers.rcu(|observers| {
            let mut observers = Vec::clone(observers);
            observers.push(Arc::clone(observer));
            observers
        });
    }

    /// Ends all streams gracefully and admits no more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.live = 0;
        let topics = mem::take(&mut state.topics);
        let mut wakers = Vec::new();
        for listener in state.listeners.iter_mut().flatten() {
            listener.end = listener.end.or(Some(End::Graceful));
            wakers.extend(listener.waker.take());
        }
        drop(state);
        drop(topics);
        wakers.into_iter().for_each(Waker::wake);
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        let state = self.lock();
        (state.live, state.topics.len())
    }
}

impl State {
    fn admits(&self, max_streams: usize) -> Result<(), Refused> {
        if self.closed {
            Err(Refused::Closed)
        } else if self.live >= max_streams {
            Err(Refused::Full)
        } else {
            Ok(())
        }
    }

    fn subscribe(&mut self, change: Change, subscriber: Subscriber) -> Want {
        // Everybody who listens for a URI shares one copy of it.
        let change = match self.topics.get_key_value(&change) {
            Some((shared, _)) => shared.clone(),
            None => change,
        };
        let subscribers = self.topics.entry(change.clone()).or_default();
        subscribers.push(subscriber);
        Want { change, place: subscribers.len() - 1 }
    }

    /// Puts `change` before everybody who listens for it; returns those who are to be woken.
    fn publish(&mut self, change: &Change) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut lost = Vec::new();
        for subscriber in self.topics.get(change).into_iter().flatten() {
            let Some(listener) = &mut self.listeners[subscriber.listener] else { continue };
            if listener.push(subscriber.want) {
                wakers.extend(listener.waker.take());
            } else {
                lost.push(subscriber.listener);
            }
        }
        for key in lost {
            wakers.extend(self.retire(key, End::Lost));
        }
        wakers
    }

    /// Takes a listener out of all topics and frees its place among the live ones. Returns its waker.
    fn retire(&mut self, key: usize, end: End) -> Option<Waker> {
        let listener = self.listeners[key].as_mut().filter(|listener| listener.end.is_none())?;
        listener.end = Some(end);
        let waker = listener.waker.take();
        let wants = mem::take(&mut listener.wants);
        if end == End::Lost {
            // It reads everything anew: there is no use in what it has not heard yet.
            listener.forget();
        }
        self.live -= 1;
        for want in &wants {
            self.unsubscribe(want);
        }
        if let Some(listener) = self.listeners[key].as_mut().filter(|_| end == End::Graceful) {
            listener.wants = wants;
        }
        waker
    }

    fn unsubscribe(&mut self, want: &Want) {
        let Some(subscribers) = self.topics.get_mut(&want.change) else { return };
        subscribers.swap_remove(want.place);
        if subscribers.is_empty() {
            self.topics.remove(&want.change);
            return;
        }
        // The last one has moved here, unless this was the last.
        let Some(&moved) = subscribers.get(want.place) else { return };
        if let Some(listener) = &mut self.listeners[moved.listener] {
            listener.wants[usize::from(moved.want)].place = want.place;
        }
    }
}

/// A listener's place on the bus. Dropping it leaves.
pub(super) struct Seat {
    bus: Arc<Bus>,
    key: usize,
}

impl Seat {
    /// What comes next; remembers whom to wake if nothing has come yet.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Next> {
        let waker = cx.waker();
        self.look(waker, None)
            // Cloned outside the lock, hence the second look: something may have come meanwhile.
            .or_else(|| self.look(waker, Some(waker.clone())))
            .unwrap_or(Poll::Pending)
    }

    /// Looks once. `None` says that nothing has come, and that `waker` is not the one that is known: it is if a
    /// clone of it comes along.
    fn look(&self, waker: &Waker, clone: Option<Waker>) -> Option<Poll<Next>> {
        let mut state = self.bus.lock();
        let Some(listener) = &mut state.listeners[self.key] else {
            return Some(Poll::Ready(Next::End(End::Lost)));
        };
        if let Some(change) = listener.pop() {
            return Some(Poll::Ready(Next::Change(change)));
        }
        if let Some(end) = listener.end {
            return Some(Poll::Ready(Next::End(end)));
        }
        if listener.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return Some(Poll::Pending);
        }
        let old = listener.waker.replace(clone?);
        drop(state);
        drop(old);
        Some(Poll::Pending)
    }

    /// Takes part no longer, but hears what is pending.
    pub(super) fn finish(&self) {
        let waker = self.bus.lock().retire(self.key, End::Graceful);
        drop(waker);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.bus.lock();
        let waker = state.retire(self.key, End::Lost);
        let listener = state.listeners[self.key].take();
        state.free.push(self.key);
        drop(state);
        drop((waker, listener));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_the_waker_is_cloned_is_seen() {
        for close in [false, true] {
            let bus = Arc::new(Bus::default());
            let seat = bus.join(vec![Change::ToolsListChanged], 1, 1).ok().unwrap();
            let waker = Waker::noop();
            assert!(seat.look(waker, None).is_none());
            if close {
                bus.close();
            } else {
                bus.publish(&Change::ToolsListChanged);
            }
            let seen = seat.look(waker, Some(waker.clone()));
            assert!(matches!(
                (close, seen),
                (false, Some(Poll::Ready(Next::Change(Change::ToolsListChanged))))
                    | (true, Some(Poll::Ready(Next::End(End::Graceful))))
            ));
        }
    }

    #[test]
    fn a_place_that_was_taken_meanwhile_is_not_given_twice() {
        let bus = Arc::new(Bus::default());
        assert_eq!(bus.admits(1), Ok(()));
        let seat = bus.join(vec![Change::ToolsListChanged], 1, 1).ok().unwrap();
        assert_eq!(bus.join(vec![Change::ToolsListChanged], 1, 1).err(), Some(Refused::Full));
        drop(seat);
        bus.close();
        assert_eq!(bus.join(vec![Change::ToolsListChanged], 1, 1).err(), Some(Refused::Closed));
    }
}
