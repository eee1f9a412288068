//! Lets those who want the same share one piece of work.
//!
//! Nobody owns the work: it is polled by whichever waiter is polled, so it goes on while anybody waits, whoever began
//! it, and it is dropped with the last waiter. A task of its own (`tokio::spawn`) would do the first, but not the
//! second, and would tie the work to a runtime.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The pieces of work that are under way; equal keys share one.
pub(crate) struct Flights<K, T>(Mutex<HashMap<K, Arc<Flight<K, T>>>>);

/// What a key has to be.
pub(crate) trait Key: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}

struct Flight<K, T> {
    key: K,
    state: Mutex<State<T>>,
}

struct State<T> {
    phase: Phase<T>,
    /// Not there while somebody polls it.
    work: Option<Work<T>>,
    /// Whether the work wants to be polled.
    ready: bool,
    /// Those who wait, in the order in which they came.
    wakers: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

enum Phase<T> {
    Flying,
    Landed(T),
    /// The work panicked.
    Broken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks stops half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, T> Flights<K, T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Key, T: Clone + Send + 'static> Flights<K, T> {
    /// Waits for work that is under way for `key`, or for what `begin` makes.
    pub(crate) fn join(self: &Arc<Self>, key: K, begin: impl FnOnce() -> Work<T>) -> Waiter<K, T> {
        let mut begin = Some(begin);
        let mut flights = lock(&self.0);
        let flight = flights.entry(key).or_insert_with_key(|key| {
            Arc::new(Flight {
                key: key.clone(),
                state: Mutex::new(State {
                    phase: Phase::Flying,
                    // Made here and now, but it does nothing before it is polled.
                    work: begin.take().map(|begin| begin()),
                    ready: true,
                    wakers: BTreeMap::new(),
                    next: 0,
                }),
            })
        });
        let flight = Arc::clone(flight);
        let mut state = lock(&flight.state);
        let id = state.next;
        state.next += 1;
        state.wakers.insert(id, None);
        drop(state);
        drop(flights);
        Waiter { flights: Arc::clone(self), flight, id }
    }

    fn remove(&self, flight: &Arc<Flight<K, T>>) {
        let mut flights = lock(&self.0);
        if flights.get(&flight.key).is_some_and(|found| Arc::ptr_eq(found, flight)) {
            flights.remove(&flight.key);
        }
    }
}

#[cfg(test)]
impl<K, T> Flights<K, T> {
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl<K: Key, T: Clone + Send + 'static> Flight<K, T> {
    /// Tells everybody how it ended.
    fn land(self: &Arc<Self>, flights: &Flights<K, T>, phase: Phase<T>) {
        // In this order: who no longer finds the flight finds in the store what it brought.
        flights.remove(self);
        let mut state = lock(&self.state);
        state.phase = phase;
        let wakers: Vec<_> = state.wakers.values_mut().filter_map(Option::take).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<K: Key, T: Send + 'static> Wake for Flight<K, T> {
    /// Wakes all who wait, because one of them may have stopped to look.
    fn wake(self: Arc<Self>) {
        let mut state = lock(&self.state);
        state.ready = true;
        let wakers: Vec<_> = state.wakers.values_mut().filter_map(Option::take).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Waits for shared work: a future of its outcome, or of `None` if it panicked in somebody else's hands.
pub(crate) struct Waiter<K: Key, T: Clone + Send + 'static> {
    flights: Arc<Flights<K, T>>,
    flight: Arc<Flight<K, T>>,
    id: u64,
}

impl<K: Key, T: Clone + Send + 'static> Waiter<K, T> {
    /// Whether this one began the work.
    #[cfg(feature = "cache")]
    pub(crate) fn leads(&self) -> bool {
        self.id == 0
    }
}

/// Lands a flight that breaks while it is polled.
struct Breakage<'a, K: Key, T: Clone + Send + 'static>(Option<&'a Waiter<K, T>>);

impl<K: Key, T: Clone + Send + 'static> Drop for Breakage<'_, K, T> {
    fn drop(&mut self) {
        if let Some(waiter) = self.0 {
            waiter.flight.land(&waiter.flights, Phase::Broken);
        }
    }
}

impl<K: Key, T: Clone + Send + 'static> Future for Waiter<K, T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &*self;
        // Wakers are code that is not ours: they are cloned, woken and dropped outside of the lock.
        let waker = cx.waker().clone();
        let mut state = lock(&this.flight.state);
        match &state.phase {
            Phase::Flying => {}
            Phase::Landed(outcome) => return Poll::Ready(Some(outcome.clone())),
            Phase::Broken => return Poll::Ready(None),
        }
        let replaced = state.wakers.insert(this.id, Some(waker));
        let work = if state.ready { state.work.take() } else { None };
        if work.is_some() {
            state.ready = false;
        }
        drop(state);
        drop(replaced);
        let Some(mut work) = work else { return Poll::Pending };

        let mut breakage = Breakage(Some(this));
        let waker = Waker::from(Arc::clone(&this.flight));
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        breakage.0 = None;
        match polled {
            Poll::Ready(outcome) => {
                drop(work);
                this.flight.land(&this.flights, Phase::Landed(outcome.clone()));
                Poll::Ready(Some(outcome))
            }
            Poll::Pending => {
                let mut state = lock(&this.flight.state);
                state.work = Some(work);
                // It wants to be polled again, and whoever was woken for that found it gone.
                let again = state.ready;
                drop(state);
                if again {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}

impl<K: Key, T: Clone + Send + 'static> Drop for Waiter<K, T> {
    fn drop(&mut self) {
        // Both locks, or somebody might join a flight that is about to be given up.
        let mut flights = lock(&self.flights.0);
        let mut state = lock(&self.flight.state);
        let gone = state.wakers.remove(&self.id);
        let (mut work, mut other) = (None, None);
        if state.wakers.is_empty() {
            work = state.work.take();
            if flights.get(&self.flight.key).is_some_and(|found| Arc::ptr_eq(found, &self.flight)) {
                flights.remove(&self.flight.key);
            }
        } else if state.ready && matches!(state.phase, Phase::Flying) {
            // This one may have been woken to poll the work, and will not do it.
            other = state.wakers.values_mut().find_map(Option::take);
        }
        drop(state);
        drop(flights);
        // Code that is not ours again.
        drop(gone);
        drop(work);
        if let Some(other) = other {
            other.wake();
        }
    }
}
