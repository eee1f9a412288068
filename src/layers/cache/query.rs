//! Which requests can be answered from the cache, and with what.

use std::borrow::Cow;

use bytestring::ByteString;
use http::{HeaderMap, Request, header};

use super::flight::{FlightKey, Who};
use super::generation::Topics;
use super::patience::Patience;
use super::response_cache::ResponseCache;
use super::settings::PartitionBy;
use crate::clock::Timestamp;
use crate::message::{Message, RawObject};
use crate::principal::{Partition, Principal};
use crate::protocol::{Era, Revision};
use crate::store::key::Operation;
use crate::store::{CacheKey, CacheStore};

/// What a caller wants of the cache, in the extensions of the request. [`Use`](Self::Use) without.
///
/// ```
/// use http::Request;
/// use mcp_layers::layers::cache::CacheMode;
/// use mcp_layers::message::Message;
///
/// let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
/// let mut request = Request::new(Message::parse(list)?);
/// request.extensions_mut().insert(CacheMode::Refresh);
/// # Ok::<(), mcp_layers::message::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// Answer with an entry, or ask the inner service and keep what it says.
    #[default]
    Use,
    /// Ask the inner service and keep what it says, or forget what is kept if that is not to be: whatever it says, and
    /// even if it fails, what was kept before is not served again.
    Refresh,
    /// Neither answer with an entry nor keep anything.
    Bypass,
}

/// A request that can be answered from the cache: where to look, and what the cache knew when it came.
#[derive(Clone, Debug)]
pub struct Query {
    /// Where the caller's own entries are; `None` without a partition.
    pub(in crate::layers) own: Option<CacheKey>,
    /// Where the entries for everybody are; `None` if public is not trusted.
    pub(super) shared: Option<CacheKey>,
    pub(super) topics: Topics,
    pub(in crate::layers) generation: u64,
    pub(super) requested: Timestamp,
    pub(super) refresh: bool,
    pub(super) patience: Patience,
}

impl Query {
    /// The caller's own place first.
    pub(in crate::layers) fn keys(&self) -> impl Iterator<Item = &CacheKey> {
        self.own.iter().chain(&self.shared)
    }

    /// With whom a request may share what it is answered; see [`Who`] for errors.
    pub(in crate::layers) fn flight_key(&self, request: &Request<Message>) -> Option<FlightKey> {
        let who = match (&self.own, request.extensions().get::<Principal>()) {
            (Some(CacheKey { partition: Some(partition), .. }), _) => Who::One(*partition),
            (_, Some(principal)) => Who::One(by_principal(principal)),
            _ => presented(request.headers()),
        };
        let key = CacheKey { partition: None, ..self.any_key()?.detached() };
        Some(FlightKey { key, who, generation: self.generation })
    }

    pub(super) fn any_key(&self) -> Option<&CacheKey> {
        self.keys().next()
    }
}

impl<S: CacheStore> ResponseCache<S> {
    /// What to ask the cache for this request; `None` if it must not be answered from a cache.
    ///
    /// Make it before the request goes to whoever answers it: what is invalidated in between is then not kept.
    #[must_use]
    pub fn query(&self, request: &Request<Message>) -> Option<Query> {
        let extensions = request.extensions();
        let mode = extensions.get::<CacheMode>().copied().unwrap_or_default();
        if mode == CacheMode::Bypass {
            return None;
        }
        let message = request.body();
        let operation = Operation::of(message.method())?;
        // A notification has no answer.
        message.id()?;
        let param = affecting(operation, message.params())?;
        Some(Query { refresh: mode == CacheMode::Refresh, ..self.query_for(request, operation, param)? })
    }

    /// What this caller would ask the cache to have `operation` answered.
    pub(in crate::layers) fn query_for(
        &self,
        request: &Request<Message>,
        operation: Operation,
        param: Option<ByteString>,
    ) -> Option<Query> {
        let revision = modern(request)?;
        let partition = self.partition(request.extensions().get::<Principal>());
        let key = CacheKey { upstream: self.upstream_shared(), revision, operation, param, partition };
        let topics = self.generations().topics(&key);
        let generation = self.generations().current(topics);
        let (own, shared) = match (partition, self.settings().trust_public) {
            (None, false) => return None,
            (None, true) => (None, Some(key)),
            (Some(_), false) => (Some(key), None),
            (Some(_), true) => {
                let shared = CacheKey { partition: None, ..key.clone() };
                (Some(key), Some(shared))
            }
        };
        Some(Query {
            own,
            shared,
            topics,
            generation,
            requested: self.now(),
            refresh: false,
            patience: Patience::default(),
        })
    }

    fn partition(&self, principal: Option<&Principal>) -> Option<Partition> {
        let principal = principal?;
        match self.settings().partition {
            PartitionBy::Token => principal.credential(),
            PartitionBy::Principal => Some(by_principal(principal)),
        }
    }
}

/// The principal with what it has been granted: a token with fewer scopes may be answered less.
fn by_principal(principal: &Principal) -> Partition {
    let identity = principal.partition();
    let parts: Vec<_> = std::iter::once(&identity.as_bytes()[..])
        .chain(principal.scopes().iter().map(String::as_bytes))
        .map(Some)
        .collect();
    Partition::of("cache by principal", &parts)
}

/// Callers who nobody has identified, but who may show the inner service who they are.
fn presented(headers: &HeaderMap) -> Who {
    let names = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];
    let mut parts = Vec::new();
    for name in &names {
        for value in headers.get_all(name) {
            parts.push(Some(name.as_str().as_bytes()));
            parts.push(Some(value.as_bytes()));
        }
    }
    if parts.is_empty() { Who::Anonymous } else { Who::One(Partition::of("cache by headers", &parts)) }
}

/// The revision, if it is one in which results say how long they may be kept.
fn modern(request: &Request<Message>) -> Option<Revision> {
    Revision::of(request).filter(|revision| revision.era() == Era::Modern)
}

/// The parameter that affects the result. `None` if there are others, or one that is not understood: the request is
/// then none for a cache.
#[expect(clippy::option_option, reason = "one says whether it is understood, the other whether it is there")]
fn affecting(operation: Operation, params: Option<&RawObject>) -> Option<Option<ByteString>> {
    let wanted = operation.param();
    let is_understood = |name| name == "_meta" || wanted.is_some_and(|(wanted, _)| wanted == name);
    if params.is_some_and(|params| !params.names().all(is_understood)) {
        return None;
    }
    let Some((name, required)) = wanted else { return Some(None) };
    let Some(value) = params.and_then(|params| params.get(name)) else { return (!required).then_some(None) };
    Some(Some(match value.to_str()? {
        Cow::Owned(text) => text.into(),
        // Shares the message, without the quotes.
        Cow::Borrowed(text) => params?.get_shared(name)?.slice_ref(text),
    }))
}
