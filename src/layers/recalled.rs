//! What was found out about lists that come again, as they do from a cache.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytestring::ByteString;

/// How many lists are remembered: pages of the few lists that there are.
const LISTS: usize = 8;
/// How many bytes they may have together, since remembering a list keeps its memory. One that is longer is looked at
/// each time.
const MAX_BYTES: usize = 2 << 20;

/// Findings by list.
///
/// A list that comes from a cache once more is the same piece of memory, which is not given to another as long as it is
/// remembered here. That it is the same is seen by where it lies, without a look at the text.
pub(super) struct Recalled<T>(ArcSwap<Vec<(ByteString, Arc<T>)>>);

impl<T> Default for Recalled<T> {
    fn default() -> Self {
        Self(ArcSwap::default())
    }
}

impl<T> Recalled<T> {
    /// What was found out about `list`, or what `look` finds.
    pub(super) fn of(&self, list: &ByteString, look: impl FnOnce() -> T) -> Arc<T> {
        let is_same = |other: &ByteString| other.as_ptr() == list.as_ptr() && other.len() == list.len();
        if let Some((_, found)) = self.0.load().iter().find(|(other, _)| is_same(other)) {
            return Arc::clone(found);
        }
        let found = Arc::new(look());
        if !list.is_empty() && list.len() <= MAX_BYTES {
            // Of two who write at once one may be forgotten, and is then found out again.
            let before = self.0.load();
            let newest = std::iter::once((list.clone(), Arc::clone(&found)));
            let mut room = MAX_BYTES;
            let fits = |(list, _): &(ByteString, Arc<T>)| {
                let left = room.checked_sub(list.len());
                room = left.unwrap_or_default();
                left.is_some()
            };
            let lists = newest.chain(before.iter().cloned()).take(LISTS).take_while(fits);
            self.0.store(Arc::new(lists.collect()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_looked_at_once_as_long_as_it_is_the_same_memory() {
        let recalled = Recalled::default();
        let list = ByteString::from("[1, 2, 3]".to_owned());
        assert_eq!(*recalled.of(&list, || 1), 1);
        assert_eq!(*recalled.of(&list.clone(), || 2), 1);
        // Equal text elsewhere, and a part of the same memory, are other lists.
        assert_eq!(*recalled.of(&ByteString::from("[1, 2, 3]".to_owned()), || 3), 3);
        assert_eq!(*recalled.of(&list.slice_ref(&list[..3]), || 4), 4);
        assert_eq!(*recalled.of(&list, || 5), 1);
    }

    #[test]
    fn no_more_is_remembered_than_has_room() {
        let recalled = Recalled::default();
        let lists: Vec<_> = (0..=LISTS).map(|n| ByteString::from(format!("[{n}]"))).collect();
        for list in &lists {
            recalled.of(list, || 1);
        }
        assert_eq!(*recalled.of(&lists[LISTS], || 2), 1);
        assert_eq!(*recalled.of(&lists[0], || 2), 2);
    }

    #[test]
    fn no_more_bytes_are_remembered_than_have_room_and_the_oldest_go_first() {
        let recalled = Recalled::default();
        let of_length = |length| ByteString::from("x".repeat(length));
        let (too_long, short, half) = (of_length(MAX_BYTES + 1), of_length(1), of_length(MAX_BYTES / 2));
        recalled.of(&short, || 1);
        recalled.of(&half, || 1);
        recalled.of(&too_long, || 1);
        assert_eq!(*recalled.of(&too_long, || 2), 2);
        assert_eq!((*recalled.of(&short, || 2), *recalled.of(&half, || 2)), (1, 1));
        let whole = of_length(MAX_BYTES);
        recalled.of(&whole, || 1);
        assert_eq!((*recalled.of(&whole, || 2), *recalled.of(&half, || 2)), (1, 2));
    }
}
