//! Who may share a request to the server.

use crate::principal::Partition;
use crate::store::CacheKey;

/// The requests that are under way.
pub(in crate::layers) type Flights<T> = crate::flight::Flights<FlightKey, T>;

/// Who may share: equal keys do.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in crate::layers) struct FlightKey {
    /// Without partition, which `who` stands for.
    pub(in crate::layers) key: CacheKey,
    pub(in crate::layers) who: Who,
    /// Who asks after an invalidation must not get what was asked for before it.
    pub(in crate::layers) generation: u64,
}

/// Callers who may be answered alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::layers) enum Who {
    /// The partition, the principal or the credentials. They share errors as well.
    One(Partition),
    /// All those who showed nothing that is known here. They may have shown the inner service something else, which an
    /// error may be about, so they share no errors.
    Anonymous,
}

impl Who {
    pub(super) const fn share_errors(self) -> bool {
        matches!(self, Self::One(_))
    }
}
