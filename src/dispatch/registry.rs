//! What a server offers: ordered, looked up by name, changed while it serves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::error::BuildError;

/// Everything of one kind, in the order in which it was registered.
///
/// Readers take a snapshot without waiting; a change copies the map, so its cost grows with the number of items,
/// and that of a call does not.
pub(super) struct Registry<T> {
    kind: &'static str,
    items: ArcSwap<Items<T>>,
    /// Changes come one after the other. Holds the serial of the item that is registered next.
    changing: Mutex<u64>,
    /// How many changes there have been.
    changes: AtomicU64,
}

pub(super) type Items<T> = IndexMap<Arc<str>, Item<T>, RandomState>;

pub(super) struct Item<T> {
    pub(super) value: Arc<T>,
    /// Its place: higher than that of everything that was registered before it, and never given twice.
    serial: u64,
    enabled: bool,
}

impl<T> Clone for Item<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), serial: self.serial, enabled: self.enabled }
    }
}

impl<T> Registry<T> {
    pub(super) fn new(kind: &'static str) -> Self {
        Self { kind, items: ArcSwap::default(), changing: Mutex::new(0), changes: AtomicU64::new(0) }
    }

    /// Has `change` work on a copy of all items, which takes their place if it says that something changed.
    ///
    /// What is replaced is dropped after the lock has been given back: a handler may own what changes the registry when
    /// it is dropped.
    fn change(&self, change: impl FnOnce(&mut Items<T>, &mut u64) -> bool) -> bool {
        // Nothing panics while the lock is held; should it, the serial is still right.
        let mut serial = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut items = Items::clone(&self.items.load());
        let changed = change(&mut items, &mut serial);
        let replaced = if changed { Some(self.items.swap(Arc::new(items))) } else { None };
        if changed {
            // Not before: whoever sees the new number must not find the old items.
            self.changes.fetch_add(1, Ordering::Release);
        }
        drop(serial);
        drop(replaced);
        changed
    }

    /// Adds an item at the end.
    pub(super) fn insert(&self, name: &str, value: Arc<T>) -> Result<(), BuildError> {
        if name.is_empty() {
            return Err(BuildError::Unnamed { kind: self.kind });
        }
        let added = self.change(|items, serial| {
            if items.contains_key(name) {
                return false;
            }
            *serial += 1;
            items.insert(name.into(), Item { value: Arc::clone(&value), serial: *serial, enabled: true });
            true
        });
        if added { Ok(()) } else { Err(BuildError::Duplicate { kind: self.kind, name: name.to_owned() }) }
    }

    /// Takes an item out; says whether it was there.
    pub(super) fn remove(&self, name: &str) -> bool {
        self.change(|items, _| items.shift_remove(name).is_some())
    }

    /// Shows or hides an item; says whether that changed anything, or `None` if there is no such item.
    pub(super) fn set_enabled(&self, name: &str, enabled: bool) -> Option<bool> {
        let mut found = false;
        let changed = self.change(|items, _| match items.get_mut(name) {
            Some(item) => {
                found = true;
                std::mem::replace(&mut item.enabled, enabled) != enabled
            }
            None => false,
        });
        found.then_some(changed)
    }

    /// Another number after each change.
    pub(super) fn generation(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The serial of the item that was registered last.
    pub(super) fn last_serial(&self) -> u64 {
        *self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The enabled item of that name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<T>> {
        let items = self.items.load();
        items.get(name).filter(|item| item.enabled).map(|item| Arc::clone(&item.value))
    }

    /// All items as they are now.
    pub(super) fn snapshot(&self) -> Guard<Arc<Items<T>>> {
        self.items.load()
    }

    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }
}

impl<T> Item<T> {
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn enabled(&self) -> Option<&Arc<T>> {
        self.enabled.then_some(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(registry: &Registry<u8>) -> Vec<String> {
        registry
            .snapshot()
            .iter()
            .filter(|(_, item)| item.enabled().is_some())
            .map(|(name, _)| name.to_string())
            .collect()
    }

    fn registry() -> Registry<u8> {
        let registry = Registry::new("tool");
        for name in ["b", "42", "a", "constructor"] {
            registry.insert(name, Arc::new(0)).unwrap();
        }
        registry
    }

    #[test]
    fn the_order_is_that_of_registration_whatever_the_names() {
        let registry = registry();
        assert_eq!(names(&registry), ["b", "42", "a", "constructor"]);
        assert!(registry.remove("42"));
        assert!(!registry.remove("42"));
        assert_eq!(names(&registry), ["b", "a", "constructor"]);
    }

    #[test]
    fn a_name_is_taken_once() {
        let registry = registry();
        let error = registry.insert("a", Arc::new(1)).unwrap_err();
        assert!(matches!(error, BuildError::Duplicate { kind: "tool", name } if name == "a"));
        assert_eq!(*registry.get("a").unwrap(), 0, "the first stays");
        assert!(matches!(registry.insert("", Arc::new(1)), Err(BuildError::Unnamed { .. })));
    }

    #[test]
    fn what_is_disabled_is_hidden_and_keeps_its_place() {
        let registry = registry();
        assert_eq!(registry.set_enabled("42", false), Some(true));
        assert_eq!(registry.set_enabled("42", false), Some(false), "no change");
        assert_eq!(registry.set_enabled("x", false), None);
        assert!(registry.get("42").is_none());
        assert!(registry.insert("42", Arc::new(1)).is_err(), "the name is still taken");
        assert_eq!(registry.set_enabled("42", true), Some(true));
        assert_eq!(names(&registry), ["b", "42", "a", "constructor"]);
    }

    #[test]
    fn what_is_removed_may_change_the_registry_when_it_is_dropped() {
        struct CleansUp(Arc<Registry<CleansUp>>, &'static str);
        impl Drop for CleansUp {
            fn drop(&mut self) {
                self.0.remove(self.1);
            }
        }
        let registry = Arc::new(Registry::new("tool"));
        registry.insert("a", Arc::new(CleansUp(Arc::clone(&registry), "b"))).unwrap();
        registry.insert("b", Arc::new(CleansUp(Arc::clone(&registry), "c"))).unwrap();
        assert!(registry.remove("a"));
        assert!(registry.snapshot().is_empty());
    }
}
