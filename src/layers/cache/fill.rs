//! What is kept of a response, and what others may have of it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Response, StatusCode, header};

use super::query::Query;
use super::response_cache::{Found, Hit, ResponseCache};
use super::statistics::count;
use crate::body::BoxError;
use crate::message::{Answer, ErrorObject, Kind, Raw, RawObject, Reply, RequestId};
use crate::protocol::code;
use crate::rejection::Rejection;
use crate::store::entry::Stamp;
use crate::store::key::Operation;
use crate::store::{CacheKey, CacheStore, Entry, Invalidation};

/// What shared work has brought.
#[derive(Clone)]
pub(super) enum Landed {
    /// A result that all who waited may have.
    Fresh(Entry),
    /// The inner service has failed, but an expired entry is at hand.
    Stale(Hit),
    /// The inner service has answered with an error.
    Refused(Arc<Refusal>),
    /// The inner service has failed.
    Failed(InnerError),
    /// An answer that only the one who asked may have.
    Alone,
}

/// What an answer was good for.
pub(super) enum Learnt<'a> {
    /// A result that has been kept, if nothing has changed since it was asked for.
    Fresh(Entry),
    /// The inner service has failed, but an expired entry is at hand.
    Stale(Hit),
    Refused(&'a ErrorObject),
    /// A result that is not to be kept.
    Alone,
}

/// An answer that is an error.
pub(in crate::layers) struct Refusal {
    status: StatusCode,
    headers: HeaderMap,
    rejection: Option<Rejection>,
    pub(in crate::layers) error: ErrorObject,
}

impl Refusal {
    pub(in crate::layers) fn of(response: &Response<Reply>, error: &ErrorObject) -> Self {
        // What belongs to the error; the others belong to the one response they came with.
        let mut headers = HeaderMap::new();
        for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER] {
            for value in response.headers().get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        Self {
            status: response.status(),
            headers,
            rejection: response.extensions().get::<Rejection>().cloned(),
            error: error.clone(),
        }
    }

    pub(in crate::layers) fn response(&self, id: Option<RequestId>) -> Response<Reply> {
        let mut response = Response::new(Reply::Answer(Answer::error(id, self.error.clone())));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        if let Some(rejection) = &self.rejection {
            response.extensions_mut().insert(rejection.clone());
        }
        response
    }
}

/// The inner service has failed; what it failed with is the [source](Error::source). All who waited for it get this.
#[derive(Clone, Debug)]
pub struct InnerError(Arc<dyn Error + Send + Sync>);

impl From<BoxError> for InnerError {
    fn from(error: BoxError) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for InnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the service behind the cache failed")
    }
}

impl Error for InnerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// Whether asking again may help: what an expired entry is better than.
fn is_transient(status: StatusCode, error: &ErrorObject) -> bool {
    error.code == code::INTERNAL_ERROR
        || matches!(
            error.status(status),
            StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        )
}

/// Whether an error that is not [transient](is_transient) is about what was asked for, and not about how often or when.
fn is_definite(status: StatusCode) -> bool {
    !matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS)
}

/// The value of `ttlMs`: zero for whatever is not written as a positive integer.
pub(in crate::layers) fn ttl_of(raw: Option<Raw<'_>>) -> Duration {
    let Some(text) = raw.filter(|raw| raw.kind() == Kind::Number).map(Raw::text) else {
        return Duration::ZERO;
    };
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Duration::ZERO;
    }
    // One with more digits than this is longer than any bound on it.
    Duration::from_millis(text.parse().unwrap_or(u64::MAX))
}

/// The smallest change that is about `key`.
fn covering(key: &CacheKey) -> Invalidation {
    match (key.operation, &key.param) {
        (Operation::Tools, _) => Invalidation::Tools,
        (Operation::Prompts, _) => Invalidation::Prompts,
        (Operation::Resources | Operation::Templates, _) => Invalidation::Resources,
        (Operation::Read, Some(uri)) => Invalidation::Resource(uri.clone()),
        (Operation::Read, None) | (Operation::Discover, _) => Invalidation::Everything,
    }
}

fn says(result: &RawObject, name: &str, value: &str) -> bool {
    result.get(name).and_then(Raw::to_str).as_deref() == Some(value)
}

impl Query {
    /// Where `result` belongs: with everybody's only if it says that it is for everybody.
    pub(in crate::layers) fn place(&self, result: &RawObject) -> Option<&CacheKey> {
        self.shared.as_ref().filter(|_| says(result, "cacheScope", "public")).or(self.own.as_ref())
    }
}

impl<S: CacheStore> ResponseCache<S> {
    /// Keeps the answer of `response` if it is one to keep, for as long and for whom it says; tells whether it was.
    ///
    /// It is not kept if something has been invalidated since `query` was made.
    pub async fn insert(&self, query: &Query, response: &Response<Reply>) -> bool {
        let entry = match response.body() {
            Reply::Answer(answer) => self.entry(query, response.status(), answer),
            Reply::Stream(_) | Reply::Accepted => None,
        };
        self.replace(query, query.refresh, entry.as_ref()).await
    }

    /// Keeps what has been said; if it is not to be kept, what it `supersedes` is forgotten all the same.
    async fn replace(&self, query: &Query, supersedes: bool, entry: Option<&Entry>) -> bool {
        let kept = match entry {
            Some(entry) => self.keep_entry(query, entry).await,
            None => false,
        };
        if !kept && supersedes {
            self.forget_all(query).await;
        }
        kept
    }

    pub(super) async fn forget_all(&self, query: &Query) {
        for key in query.keys() {
            self.forget_surely(query, key).await;
        }
    }

    /// Forgets what must not be served any more: if the store cannot, with all that is invalidated alike.
    async fn forget_surely(&self, query: &Query, key: &CacheKey) {
        if self.forget(query, key).await.is_none() {
            self.invalidate(&covering(key));
        }
    }

    /// The entry that an answer makes.
    pub(super) fn entry(&self, query: &Query, status: StatusCode, answer: &Answer) -> Option<Entry> {
        let result = answer.outcome().ok()?;
        if status != StatusCode::OK || !says(result, "resultType", "complete") {
            return None;
        }
        let ttl = self.lifetime(ttl_of(result.get("ttlMs")));
        if ttl.is_zero() {
            return None;
        }
        let key = query.place(result)?.detached();
        let stamp = Stamp {
            requested: query.requested.as_millis(),
            received: self.now().as_millis(),
            ttl: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            writer: self.generations().writer(),
            generation: query.generation,
        };
        // A text of its own: the one that the result came in may be longer, and would be kept as a whole. What differs
        // between hits goes first, so that they share the rest.
        Some(Entry::new(key, stamp, self.without_call(result).detached("ttlMs").ok()?))
    }

    /// The result without what belongs to the one response that it came in.
    fn without_call(&self, result: &RawObject) -> RawObject {
        let mut kept = result.clone();
        match result.object("_meta") {
            None => {}
            Some(Err(_)) => drop(kept.remove("_meta")),
            Some(Ok(mut meta)) => {
                let others = meta.retain(|name, _| self.settings().kept_meta.iter().any(|key| key == name));
                if meta.is_empty() {
                    kept.remove("_meta");
                } else if others {
                    kept.set_object("_meta", &meta);
                }
            }
        }
        kept
    }

    /// Keeps an entry, unless it has been made invalid while it was on its way.
    pub(super) async fn keep_entry(&self, query: &Query, entry: &Entry) -> bool {
        if !self.is_current(entry, query.topics) || self.put(query, entry.clone()).await.is_none() {
            return false;
        }
        if !self.is_current(entry, query.topics) {
            self.forget(query, entry.key()).await;
            return false;
        }
        count(&self.counters().stores);
        // The result may have been for others than it is now.
        let other = if entry.key().partition().is_some() { &query.shared } else { &query.own };
        if let Some(other) = other {
            self.forget_surely(query, other).await;
        }
        true
    }

    /// Judges what the inner service has said to `query`: what of it others may have, and the response itself.
    pub(super) async fn settle(
        &self,
        query: &Query,
        found: Found,
        outcome: Result<Response<Reply>, InnerError>,
    ) -> (Landed, Option<Response<Reply>>) {
        match outcome {
            Ok(response) => {
                let Reply::Answer(answer) = response.body() else { return (Landed::Alone, Some(response)) };
                match self.learn(query, found, response.status(), answer).await {
                    Learnt::Fresh(entry) => (Landed::Fresh(entry), Some(response)),
                    Learnt::Stale(hit) => (Landed::Stale(hit), None),
                    Learnt::Refused(error) => {
                        (Landed::Refused(Arc::new(Refusal::of(&response, error))), Some(response))
                    }
                    Learnt::Alone => (Landed::Alone, Some(response)),
                }
            }
            Err(error) => {
                if query.refresh {
                    self.forget_all(query).await;
                }
                match found.stale.and_then(|entry| self.stale_hit(query, entry)) {
                    Some(hit) => (Landed::Stale(hit), None),
                    None => (Landed::Failed(error), None),
                }
            }
        }
    }

    /// Keeps, replaces or forgets what is kept for `query`, by what has been answered: at once or at the end of a stream.
    pub(super) async fn learn<'a>(
        &self,
        query: &Query,
        found: Found,
        status: StatusCode,
        answer: &'a Answer,
    ) -> Learnt<'a> {
        match answer.outcome() {
            Ok(_) => {
                let entry = self.entry(query, status, answer);
                // What is kept is older than what has just been said, and no longer to be kept.
                self.replace(query, query.refresh || found.expired, entry.as_ref()).await;
                entry.map_or(Learnt::Alone, Learnt::Fresh)
            }
            Err(error) if is_transient(status, error) => {
                if query.refresh {
                    self.forget_all(query).await;
                }
                // It may have become too old, or invalid, while the inner service was asked.
                let hit = found.stale.and_then(|entry| self.stale_hit(query, entry));
                hit.map_or(Learnt::Refused(error), Learnt::Stale)
            }
            Err(error) => {
                if error.code == code::INVALID_PARAMS && found.expired {
                    self.discard_pages(query);
                }
                // A refusal is newer than what is kept, too: what it revokes must not come back.
                if query.refresh || (found.expired && is_definite(status)) {
                    self.forget_all(query).await;
                }
                Learnt::Refused(error)
            }
        }
    }

    /// A cursor that was good once is not any more: the list has changed.
    fn discard_pages(&self, query: &Query) {
        let is_page = |key: &&CacheKey| key.param.is_some() && key.operation != Operation::Read;
        if let Some(key) = query.any_key().filter(is_page) {
            self.invalidate(&covering(key));
        }
    }

    /// An entry that has just come, if it is still fresh.
    pub(super) fn hit(&self, entry: Entry) -> Option<Hit> {
        let age = self.now().since(entry.received())?;
        let remaining =
            self.lifetime(entry.ttl()).checked_sub(age).filter(|remaining| !remaining.is_zero())?;
        Some(Hit { entry, remaining })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_a_positive_integer_or_nothing() {
        let ttl = |text: &str| {
            let object = RawObject::parse(format!("{{\"ttlMs\":{text}}}")).unwrap();
            ttl_of(object.get("ttlMs")).as_millis()
        };
        assert_eq!(ttl("5"), 5);
        assert_eq!(ttl("1180591620717411303424"), u128::from(u64::MAX));
        for text in ["0", "-0", "-5", "1e400", "-1e400", "5.0", "5e3", "\"5\"", "null", "true", "[5]", "{}"] {
            assert_eq!(ttl(text), 0, "{text}");
        }
        assert_eq!(ttl_of(None), Duration::ZERO);
    }
}
