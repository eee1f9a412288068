//! The members of an object: where they stand, or what they have become.

use std::collections::HashSet;
use std::ops::Deref;

use super::super::scan::{Span, StringSpan, unescape};
use super::super::text::Text;

/// From this many names on, a duplicate is looked for with a hash set instead of by comparing all pairs.
const FEW: usize = 16;

#[derive(Clone)]
pub(super) enum Members {
    /// As they stand in the source, without escapes in their names.
    Found(Found),
    /// There are many, or some have been edited or have names with escapes.
    Listed(Vec<Member>),
}

/// Members of an object that has few of them, as most have: they need no memory of their own.
#[derive(Clone, Copy, Default)]
pub(super) struct Found {
    pairs: [Pair; 6],
    count: u8,
}

impl Found {
    /// Adds a member, if there is room for it.
    #[inline]
    fn push(&mut self, pair: Pair) -> bool {
        let place = self.pairs.get_mut(usize::from(self.count));
        place.is_some_and(|place| {
            *place = pair;
            self.count += 1;
            true
        })
    }
}

impl Deref for Found {
    type Target = [Pair];

    #[inline]
    fn deref(&self) -> &[Pair] {
        // No more are counted than there are: the default is never taken.
        self.pairs.get(..usize::from(self.count)).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct Pair {
    pub(super) name: Span,
    pub(super) value: Span,
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: Text,
    pub(super) value: Text,
}

impl Default for Members {
    fn default() -> Self {
        Self::Found(Found::default())
    }
}

impl Members {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Found(pairs) => pairs.len(),
            Self::Listed(list) => list.len(),
        }
    }

    /// The name with the number `at` as bytes, which saves looking for the borders of characters where texts are only
    /// compared.
    #[inline]
    pub(super) fn name<'a>(&'a self, at: usize, source: &'a str) -> &'a [u8] {
        match self {
            Self::Found(pairs) => pairs[at].name.bytes(source),
            Self::Listed(list) => list[at].name.bytes(source),
        }
    }

    #[inline]
    pub(super) fn position(&self, name: &str, source: &str) -> Option<usize> {
        match self {
            Self::Found(pairs) => pairs.iter().position(|pair| pair.name.is(name.as_bytes(), source)),
            Self::Listed(list) => list.iter().position(|member| member.name.bytes(source) == name.as_bytes()),
        }
    }

    /// The first name that comes a second time.
    pub(super) fn duplicate(&self, source: &str) -> Option<usize> {
        let Self::Found(pairs) = self else { return self.duplicate_of_many(source) };
        let has =
            |some: &[Pair], name: Span| some.iter().any(|pair| pair.name.is(name.bytes(source), source));
        (1..pairs.len()).find(|&at| has(&pairs[..at], pairs[at].name))
    }

    #[cold]
    fn duplicate_of_many(&self, source: &str) -> Option<usize> {
        if self.len() <= FEW {
            return (1..self.len()).find(|&at| {
                let name = self.name(at, source);
                (0..at).any(|before| self.name(before, source) == name)
            });
        }
        let mut seen = HashSet::with_capacity(self.len());
        (0..self.len()).find(|&at| !seen.insert(self.name(at, source)))
    }

    /// Adds a member that has been found.
    #[inline]
    pub(super) fn push(&mut self, name: StringSpan, value: Span, source: &str) {
        let StringSpan { inner, escaped } = name;
        if let Self::Found(pairs) = self
            && !escaped
            && pairs.push(Pair { name: inner, value })
        {
            return;
        }
        self.push_listed(name, value, source);
    }

    #[cold]
    fn push_listed(&mut self, name: StringSpan, value: Span, source: &str) {
        let name = match name {
            StringSpan { inner, escaped: false } => Text::Source(inner),
            StringSpan { inner, escaped } => {
                Text::Shared(unescape(inner.of(source), escaped).into_owned().into())
            }
        };
        self.list().push(Member { name, value: Text::Source(value) });
    }

    /// Makes them a list that can be edited.
    pub(super) fn list(&mut self) -> &mut Vec<Member> {
        if let Self::Found(pairs) = self {
            let member =
                |pair: &Pair| Member { name: Text::Source(pair.name), value: Text::Source(pair.value) };
            *self = Self::Listed(pairs.iter().map(member).collect());
        }
        match self {
            Self::Listed(list) => list,
            Self::Found(_) => unreachable!("they are a list now"),
        }
    }
}
