//! Learns from replies that are not for the cache what has changed.

use std::collections::HashSet;

use super::response_cache::ResponseCache;
use crate::message::{Message, Raw, Reply};
use crate::protocol::{code, method};
use crate::store::{CacheStore, Invalidation};

/// How many distinct URIs of a subscription are remembered: as many as the dispatcher lets one have. With more, each
/// updated URI is a change of everything.
const MOST_WATCHED: usize = 1024;

/// What is to be learnt from a reply that is not for the cache.
pub(super) enum After {
    /// Its notifications tell what has changed. These are the URIs that were subscribed to; `None` if they are too many to
    /// look through for each of them.
    Listen(Option<Vec<String>>),
    /// If headers were refused, the caller goes by a list of tools that is out of date.
    Call,
}

impl After {
    pub(super) fn of(message: &Message) -> Option<Self> {
        match message.method() {
            method::TOOLS_CALL => Some(Self::Call),
            method::SUBSCRIPTIONS_LISTEN => {
                let asked = message.params().and_then(|params| params.object("notifications")?.ok());
                let uris = asked.as_ref().and_then(|asked| asked.get("resourceSubscriptions"));
                let uris = uris.into_iter().flat_map(Raw::elements).filter_map(Raw::to_str);
                // One more than may be, so that too many show.
                let mut distinct = HashSet::new();
                for uri in uris {
                    if distinct.len() > MOST_WATCHED {
                        break;
                    }
                    distinct.insert(uri);
                }
                let few = distinct.len() <= MOST_WATCHED;
                Some(Self::Listen(few.then(|| distinct.into_iter().map(Into::into).collect())))
            }
            _ => None,
        }
    }

    pub(super) fn look<S: CacheStore>(self, cache: ResponseCache<S>, reply: &mut Reply) {
        match self {
            // Before the caller can know of the change and ask again.
            Self::Listen(watched) => reply.each_notification(move |notification| {
                let is_change = cache.invalidate_by(notification, watched.as_deref().unwrap_or_default());
                if watched.is_none()
                    && is_change
                    && notification.method() == method::NOTIFICATIONS_RESOURCES_UPDATED
                {
                    // Any of them may be an ancestor.
                    cache.invalidate(&Invalidation::Everything);
                }
            }),
            Self::Call => reply.edit_answer(move |answer| {
                if answer.outcome().is_err_and(|error| error.code == code::HEADER_MISMATCH) {
                    cache.invalidate(&Invalidation::Tools);
                }
            }),
        }
    }
}
