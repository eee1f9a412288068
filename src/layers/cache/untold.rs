//! What a store has still to be told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::key::Operation;
use crate::store::{CacheKey, Invalidation};

/// How many invalidations of one upstream are remembered one by one. More are told as one of everything, which costs
/// misses and is never wrong; in return whoever names what has changed decides neither how long a request waits nor
/// how much memory this takes.
const MOST: usize = 32;

/// Invalidations that the store has not confirmed yet. Each stays until the store has said that it knows of it: neither
/// an error nor a caller who hangs up makes it lost.
#[derive(Default)]
pub(super) struct Untold {
    upstreams: Mutex<HashMap<Arc<str>, Pending>>,
    /// Spares a look-up the lock.
    any: AtomicBool,
}

#[derive(Default)]
struct Pending {
    notes: HashMap<Invalidation, Note>,
    last: u64,
}

#[derive(Clone, Copy)]
struct Note {
    /// Another after each time that it was added: what is added while it is being told must be told again.
    serial: u64,
    /// How often somebody has begun to tell it.
    begun: u64,
}

/// Something that is being told.
pub(super) struct Telling {
    pub(super) what: Invalidation,
    serial: u64,
}

impl Untold {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Pending>> {
        // Nothing under the lock stops half way.
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, upstream: &str, what: &Invalidation) {
        let mut upstreams = self.lock();
        let pending = upstreams.entry(upstream.into()).or_default();
        let is_new = !pending.notes.contains_key(what);
        let what = if pending.notes.contains_key(&Invalidation::Everything)
            || (is_new && pending.notes.len() == MOST)
        {
            pending.notes.retain(|what, _| *what == Invalidation::Everything);
            Invalidation::Everything
        } else {
            what.clone()
        };
        pending.last += 1;
        pending.notes.insert(what, Note { serial: pending.last, begun: 0 });
        // While the lock is held, so that the flag and the notes do not part.
        self.any.store(true, Ordering::SeqCst);
    }

    /// What to tell next: what has been begun least often, so that those who tell at the same time share the work.
    pub(super) fn next(&self, upstream: &str) -> Option<Telling> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        let mut upstreams = self.lock();
        let notes = &mut upstreams.get_mut(upstream)?.notes;
        let (what, note) = notes.iter_mut().min_by_key(|(_, note)| (note.begun, note.serial))?;
        note.begun += 1;
        Some(Telling { what: what.clone(), serial: note.serial })
    }

    /// The store knows.
    pub(super) fn told(&self, upstream: &str, telling: &Telling) {
        let mut upstreams = self.lock();
        let Some(pending) = upstreams.get_mut(upstream) else { return };
        if pending.notes.get(&telling.what).is_some_and(|note| note.serial == telling.serial) {
            pending.notes.remove(&telling.what);
        }
        let any = upstreams.values().any(|pending| !pending.notes.is_empty());
        self.any.store(any, Ordering::SeqCst);
    }

    /// Whether the store may still hold what was invalid before, under this key.
    pub(super) fn covers(&self, key: &CacheKey) -> bool {
        if !self.any.load(Ordering::SeqCst) {
            return false;
        }
        let upstreams = self.lock();
        let Some(Pending { notes, .. }) = upstreams.get(key.upstream()) else { return false };
        let has = |what: &Invalidation| notes.contains_key(what);
        has(&Invalidation::Everything)
            || match key.operation {
                Operation::Discover => false,
                Operation::Tools => has(&Invalidation::Tools),
                Operation::Prompts => has(&Invalidation::Prompts),
                Operation::Resources | Operation::Templates => has(&Invalidation::Resources),
                Operation::Read => key.param.clone().is_some_and(|uri| has(&Invalidation::Resource(uri))),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract::key;

    fn resource(at: usize) -> Invalidation {
        Invalidation::Resource(at.to_string().into())
    }

    fn pending(untold: &Untold) -> usize {
        untold.lock().values().map(|pending| pending.notes.len()).sum()
    }

    #[test]
    fn what_comes_twice_is_told_once_and_too_many_become_everything() {
        let (untold, up) = (Untold::default(), Arc::from("up"));
        for at in (0..MOST).chain(0..MOST) {
            untold.add(&up, &resource(at));
        }
        assert_eq!(pending(&untold), MOST);
        for at in 0..100_000 {
            untold.add(&up, &resource(at));
        }
        assert_eq!(pending(&untold), 1);
        let telling = untold.next("up").unwrap();
        assert_eq!(telling.what, Invalidation::Everything);
        untold.told("up", &telling);
        assert!(untold.next("up").is_none() && !untold.any.load(Ordering::SeqCst));
    }

    #[test]
    fn what_is_invalidated_while_the_store_is_told_is_told_again() {
        let (untold, up) = (Untold::default(), Arc::from("up"));
        untold.add(&up, &Invalidation::Tools);
        let first = untold.next("up").unwrap();
        untold.add(&up, &Invalidation::Tools);
        untold.told("up", &first);
        let second = untold.next("up").unwrap();
        untold.told("up", &second);
        untold.add(&up, &Invalidation::Tools);
        // Late news of what was told before says nothing of what came since.
        untold.told("up", &second);
        assert!(untold.next("up").is_some());
    }

    #[test]
    fn those_who_tell_at_the_same_time_tell_different_things() {
        let (untold, up) = (Untold::default(), Arc::from("up"));
        untold.add(&up, &Invalidation::Tools);
        untold.add(&up, &Invalidation::Prompts);
        let (one, other) = (untold.next("up").unwrap(), untold.next("up").unwrap());
        assert_eq!((one.what, other.what), (Invalidation::Tools, Invalidation::Prompts));
        assert!(untold.next("other").is_none());
    }

    #[test]
    fn exactly_what_is_pending_is_covered() {
        let keys = [
            key("up", "server/discover", None, None),
            key("up", "tools/list", Some("2"), Some("ada")),
            key("up", "prompts/list", None, None),
            key("up", "resources/list", None, None),
            key("up", "resources/templates/list", None, None),
            key("up", "resources/read", Some("1"), None),
            key("up", "resources/read", Some("2"), None),
            key("other", "tools/list", None, None),
        ];
        for what in [
            Invalidation::Tools,
            Invalidation::Prompts,
            Invalidation::Resources,
            resource(1),
            Invalidation::Everything,
        ] {
            let untold = Untold::default();
            untold.add("up", &what);
            for key in &keys {
                assert_eq!(
                    untold.covers(key),
                    key.upstream() == "up" && what.covers(key),
                    "{what:?} {key:?}"
                );
            }
        }
    }
}
