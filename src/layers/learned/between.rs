//! Puts the look-up between the layers that need the catalog and those that it asks.

use tower::Layer;

use super::LearnLayer;
use super::look_up::{LookUpLayer, LookUpService};
use crate::store::{CacheStore, MemoryStore};

/// A [look-up](LookUpLayer), the layers below it that need the catalog, and those that a look-up goes through: what
/// [`Stack::learning`](crate::stack::Stack::learning) builds.
#[derive(Clone, Debug)]
#[must_use]
pub struct Between<U, L, S = MemoryStore> {
    look_up: LookUpLayer<(), S>,
    upper: U,
    lower: (LearnLayer<S>, L),
}

impl<U, L, S: CacheStore> Between<U, L, S> {
    /// `lower` begins with the cache.
    pub(crate) fn new(look_up: LookUpLayer<(), S>, upper: U, lower: L) -> Self {
        let learn = look_up.catalog().learn();
        Self { look_up, upper, lower: (learn, lower) }
    }
}

impl<I, U, L, S> Layer<I> for Between<U, L, S>
where
    L: Layer<I, Service: Clone>,
    U: Layer<<LearnLayer<S> as Layer<L::Service>>::Service>,
    S: CacheStore,
{
    type Service = LookUpService<U::Service, <LearnLayer<S> as Layer<L::Service>>::Service, S>;

    fn layer(&self, inner: I) -> Self::Service {
        let bottom = self.lower.layer(inner);
        self.look_up.with_bottom(bottom.clone()).layer(self.upper.layer(bottom))
    }
}
