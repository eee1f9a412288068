//! Fetched keys at work: when they are fetched, how long they are good, and who waits for what.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwapOption, Guard};
use tokio::sync::watch;

use super::super::verifier::VerifyError;
use super::keys::{Key, KeySet, Wanted};
use super::remote::RemoteKeys;

/// Clocks of two cores, and requests that overtake each other, differ by less.
const SKEW: Duration = Duration::from_secs(60);

/// Remote keys at work.
pub(super) struct Live {
    settings: RemoteKeys,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    current: ArcSwapOption<Fetched>,
    /// Held for moments, never while something is fetched.
    gate: Mutex<Gate>,
}

pub(super) struct Fetched {
    keys: KeySet,
    at: SystemTime,
}

#[derive(Default)]
struct Gate {
    /// Closes when the fetch in progress is over, however it ends.
    flight: Option<watch::Receiver<()>>,
    tried_at: Option<SystemTime>,
    failed: bool,
}

/// What a look at the keys has found.
enum Looked {
    Found(Arc<Key>),
    /// No key that fits.
    Unknown,
    /// No keys that are good.
    NoKeys,
}

impl Live {
    pub(super) fn new(settings: RemoteKeys) -> Self {
        Self { settings, state: Arc::default() }
    }

    /// The keys, as long as they are good; has them fetched in the background when they get old.
    pub(super) fn usable(&self, now: SystemTime) -> Option<Guard<Option<Arc<Fetched>>>> {
        let current = self.state.current.load();
        let age = now.duration_since(current.as_ref()?.at).unwrap_or_default();
        if age >= self.settings.refresh_after {
            let _ = self.fetch(now);
        }
        (age < self.settings.good_for).then_some(current)
    }

    /// The key that fits.
    pub(super) async fn find(&self, wanted: &Wanted<'_>, now: SystemTime) -> Result<Arc<Key>, VerifyError> {
        if let Looked::Found(key) = self.look(wanted, now)? {
            return Ok(key);
        }
        if let Some(mut flight) = self.fetch(now) {
            // It never changes, it only closes.
            let _ = flight.changed().await;
        }
        // Looked at again even if nothing was fetched: somebody else's fetch may have ended since.
        match self.look(wanted, now)? {
            Looked::Found(key) => Ok(key),
            // Whether the issuer has such a key by now is not known.
            Looked::Unknown if !self.gate().failed => Err(super::UNKNOWN_KEY),
            Looked::Unknown | Looked::NoKeys => Err(self.unavailable()),
        }
    }

    fn look(&self, wanted: &Wanted<'_>, now: SystemTime) -> Result<Looked, VerifyError> {
        let Some(current) = self.usable(now) else { return Ok(Looked::NoKeys) };
        let Some(fetched) = &*current else { return Ok(Looked::NoKeys) };
        Ok(fetched.keys.find(wanted)?.map_or(Looked::Unknown, Looked::Found))
    }

    fn unavailable(&self) -> VerifyError {
        VerifyError::unavailable(self.settings.cooldown.max(Duration::from_secs(1)))
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.state.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to fetch the keys, unless that was done a moment ago. Returns what to wait for, if there is anything.
    fn fetch(&self, now: SystemTime) -> Option<watch::Receiver<()>> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let mut gate = self.gate();
        if let Some(flight) = gate.flight.as_ref().filter(|flight| flight.has_changed().is_ok()) {
            return Some(flight.clone());
        }
        let rested = gate.tried_at.is_none_or(|tried_at| match now.duration_since(tried_at) {
            Ok(since) => since >= self.settings.cooldown,
            // The clock has been set back.
            Err(error) => error.duration() > SKEW.max(self.settings.cooldown),
        });
        if !rested {
            return None;
        }
        let (landing, flight) = watch::channel(());
        gate.tried_at = Some(now);
        gate.flight = Some(flight.clone());
        let (settings, state) = (self.settings.clone(), Arc::clone(&self.state));
        // A task of its own: callers that hang up must not stop what others wait for.
        runtime.spawn(async move {
            let fetched = settings.fetch().await;
            let failed = fetched.is_err();
            match fetched {
                Ok(mut keys) => {
                    if let Some(earlier) = &*state.current.load() {
                        keys.follow(&earlier.keys);
                    }
                    tracing::debug!(?keys, "fetched the issuer's keys");
                    state.current.store(Some(Arc::new(Fetched { keys, at: now })));
                }
                Err(error) => tracing::warn!(
                    source = ?settings.source, %error,
                    "cannot fetch the issuer's keys; those that are there stay good for a while"
                ),
            }
            state.gate.lock().unwrap_or_else(PoisonError::into_inner).failed = failed;
            drop(landing);
        });
        Some(flight)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}
