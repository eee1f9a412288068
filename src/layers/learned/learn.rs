//! The layer that learns from the lists that pass.

use std::fmt;

use http::{Request, Response};

use super::{LearnedCatalog, Passing};
use crate::layers::cache::Query;
use crate::message::{Message, Reply};
use crate::policy::{Policy, PolicyLayer};
use crate::protocol::method::TOOLS_LIST;
use crate::rejection::Rejection;
use crate::store::{CacheStore, MemoryStore};

/// Learns from the lists of tools that pass: [`LearnedCatalog::learn`].
pub type LearnLayer<S = MemoryStore> = PolicyLayer<Learning<S>>;

/// What a [`LearnLayer`] does. It refuses nothing and changes nothing.
#[derive(Clone, Debug)]
pub struct Learning<S = MemoryStore>(pub(super) LearnedCatalog<S>);

/// What is remembered of a `tools/list`; nothing of other requests.
pub struct Listing(Option<(Option<Query>, Option<Passing>)>);

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listing").field(&self.0.is_some()).finish()
    }
}

impl<S: CacheStore> Policy for Learning<S> {
    type Memo = Listing;

    fn on_request(&self, request: &mut Request<Message>) -> Result<Listing, Rejection> {
        if request.body().method() != TOOLS_LIST {
            return Ok(Listing(None));
        }
        let query = self.0.shared.cache.query(request);
        Ok(Listing(Some((query, request.extensions().get().cloned()))))
    }

    fn on_reply(&self, listing: Listing, reply: &mut Response<Reply>) {
        let Some((query, passing)) = listing.0 else { return };
        let (catalog, status) = (self.0.clone(), reply.status());
        reply.body_mut().edit_answer(move |answer| {
            let Ok(result) = answer.outcome() else { return };
            // Whoever is about to be shown the list sees it however it is; only nothing is learned from it.
            if let (Ok(page), Some(passing)) = (catalog.take_note(query.as_ref(), status, result), passing) {
                // It is set once: a request has one answer.
                let _ = passing.0.set(page);
            }
        });
    }
}
