//! Learns what an upstream's tools are from the lists that pass, and looks up what is not known.
//!
//! Layers that judge calls ask a [`ToolCatalog`]. In front of a server that somebody else wrote, nobody has declared one:
//! it is learned. There are three parts, all made by one [`LearnedCatalog`]:
//! - [`learn`](LearnedCatalog::learn), a layer above the cache: it reads the `tools/list` results that pass;
//! - [`look_up`](LearnedCatalog::look_up), a layer above whatever checks calls: it finds out about the tool of a call
//!   before the call is judged, and asks the service at the bottom of the stack where nobody has asked yet;
//! - the catalog itself, for [`HeadersLayer`](crate::layers::HeadersLayer), [`ScopeLayer`](crate::layers::ScopeLayer) and
//!   others between the two.
//!
//! # Rules
//! 1. What is known of a tool comes from a `tools/list` result, however it was framed: the `x-mcp-header` annotations, the
//!    `outputSchema`, which is told and [not applied](ToolFacts::output_schema), and
//!    the scopes that [`with_scopes`](LearnedCatalog::with_scopes) finds in it. A tool whose annotations break a rule, or
//!    that is listed twice, is none (`basic/transports/streamable-http`, "Schema Extension").
//! 2. What one caller was told is not held against another one: lists are kept as the [cache](crate::layers::cache) keeps
//!    results, in the caller's partition unless they are `public`. Without a partition a private list is not kept, and
//!    is asked for with each call.
//! 3. A list is gone by for its `ttlMs`. One that gives none, or 0, may be used but "SHOULD be considered immediately
//!    stale" (`server/utilities/caching`): its tools are known for a [while](LearnedCatalog::with_default_lifetime), and
//!    what is not on it is asked for again, at most once a second.
//! 4. Whatever makes the cache forget lists of tools makes the catalog forget them, at once: `list_changed`, a call that
//!    the upstream refused with -32020, [`invalidate`](crate::layers::cache::ResponseCache::invalidate). The next call
//!    looks its tool up anew.
//! 5. Looking up is a `tools/list` of this very caller: its extensions, its HTTP headers without those about the call,
//!    its `_meta` without what belongs to the call (`progressToken`, log level). It goes through the cache, page by page
//!    until the tool is there, over at most [so many](LearnedCatalog::with_max_pages) pages. Calls of one partition that
//!    need the same page wait for one request, which goes on while anybody waits.
//! 6. Callers without a partition are told apart by nobody, and what they were told in private is not kept. So that made-up
//!    names do not have the upstream list its tools for each of them, all such callers together may look in vain for 32
//!    tools that none of them has found within the last minute, and for one more in each second; and for no more than 32
//!    at once.
//! 7. A cursor that is refused is that of a list which has changed: the walk starts again, past the cache, once.
//!
//! # Rejections
//! | what | HTTP | code |
//! |---|---|---|
//! | the complete list does not have the tool | 400 | -32602 |
//! | `params.name` of a call is not a string | 400 | -32602 |
//! | the upstream refuses to list its tools | as it says | as it says |
//! | callers without a partition have called too many unknown tools | 503 | 503 |
//! | the list cannot be had, cannot be understood or has too many pages | 502 | 502 |
//!
//! With [`with_fail_open`](LearnedCatalog::with_fail_open) there are none: the call passes, and nothing is known of its
//! tool.
//!
//! # Scopes
//! What the scopes refuse is refused before anybody is asked, as far as it can be told. With
//! [`LookUpLayer::with_scopes`], which [`Stack::learning`](crate::stack::Stack::learning) sets:
//! - Where the tool is known, the [`ScopeLayer`](crate::layers::ScopeLayer) below judges with all that is known.
//! - Where it is not, the rules are asked first without the catalog: those of the endpoint, the method, the tool's name and
//!   the call. Who lacks one of their scopes is refused, and nobody is asked. The challenge names what these rules need.
//! - The [default](crate::layers::ScopeRules::with_default) is among them, unless scopes are learned
//!   ([`with_scopes`](LearnedCatalog::with_scopes)): those of the tool would take its place. Callers without any scope are
//!   refused then as well, for they lack the one or the other.
//!
//! Where tools need nothing but scopes that are learned, there is nothing to refuse beforehand; a rule of the endpoint
//! or of `tools/call` changes that.
//!
//! # Order
//! `look_up` sits below the checks that need no catalog, so that only sound requests cause others, and above those that
//! need it: `[Version, HeadersLayer::new(), look_up, HeadersLayer::params_only(catalog), Scope, …]`. `learn` sits
//! directly above the cache, below every layer that edits lists. What is asked is whatever `look_up` was given: the part
//! of the stack from `learn` down, cloned. [`Stack::learning`](crate::stack::Stack::learning) does all of this. Reads the principal and the [`CacheMode`](crate::layers::cache::CacheMode) in
//! the extensions, and leaves there what was found out, where the catalog finds it. The catalog knows nothing of
//! requests that have not passed `look_up`. A layer in between must not rename the tool.
//!
//! # Example
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response, StatusCode};
//! use mcp_layers::layers::HeadersLayer;
//! use mcp_layers::layers::cache::{CacheLayer, ResponseCache};
//! use mcp_layers::layers::learned::LearnedCatalog;
//! use mcp_layers::message::{Answer, Message, RawObject, Reply};
//! use tower::{ServiceBuilder, ServiceExt as _, service_fn};
//!
//! /// A server that checks no headers.
//! async fn upstream(request: Request<Message>) -> Result<Response<Reply>, Infallible> {
//!     let result = match request.body().method() {
//!         "tools/list" => r#"{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"sql",
//!             "inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}"#,
//!         _ => r#"{"resultType":"complete","content":[]}"#,
//!     };
//!     let result = RawObject::parse(result).expect("is an object");
//!     Ok(Response::new(Reply::Answer(Answer::result(request.body().id().cloned(), result))))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = ResponseCache::new("database");
//! let catalog = LearnedCatalog::new(cache.clone());
//! let bottom =
//!     ServiceBuilder::new().layer(catalog.learn()).layer(CacheLayer::new(cache)).service(service_fn(upstream));
//! let service = ServiceBuilder::new()
//!     .layer(catalog.look_up(bottom.clone()))
//!     .layer(HeadersLayer::params_only(catalog))
//!     .service(bottom);
//!
//! let call = async |tool: &str, region: &str| {
//!     let body = format!(
//!         r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"region":"eu"}},
//!             "_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
//!     );
//!     let request = Request::post("/mcp").header("mcp-param-region", region).body(Message::parse(body).unwrap());
//!     service.clone().oneshot(request.unwrap()).await.unwrap()
//! };
//! assert_eq!(call("sql", "eu").await.status(), StatusCode::OK);
//! assert_eq!(call("sql", "us").await.status(), StatusCode::BAD_REQUEST);
//! let unknown = call("rm", "eu").await;
//! let error = unknown.body().answer().and_then(|answer| answer.outcome().err()).expect("an error");
//! assert_eq!(error.code, -32602);
//! # Ok(())
//! # }
//! ```

mod between;
mod brake;
mod learn;
mod look_up;
mod page;
mod walk;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Extensions, StatusCode};
use moka::sync::Cache;

pub use self::between::Between;
pub use self::learn::{LearnLayer, Learning};
pub use self::look_up::{LookUpFuture, LookUpLayer, LookUpService};

use self::brake::Brake;
use self::page::{Frame, NotAPage, Page};
use self::walk::Failure;
use super::cache::{Flights, Query, ResponseCache};
use crate::catalog::{ToolCatalog, ToolFacts};
use crate::message::{Raw, RawObject};
use crate::policy::PolicyLayer;
use crate::protocol::Scopes;
use crate::store::{CacheKey, CacheStore, MemoryStore};

type ScopesOf = Arc<dyn Fn(Raw<'_>) -> Scopes + Send + Sync>;

/// What is known of the tools of one upstream. A clone knows the same; see the [module](self).
///
/// ```
/// use std::time::Duration;
/// use mcp_layers::layers::cache::ResponseCache;
/// use mcp_layers::layers::learned::LearnedCatalog;
/// use mcp_layers::protocol::Scopes;
///
/// let catalog = LearnedCatalog::new(ResponseCache::new("weather"))
///     .with_default_lifetime(Duration::from_secs(10))
///     .with_scopes(|tool| match tool.members().any(|(name, _)| name == "x-writes") {
///         true => Scopes::from("write"),
///         false => Scopes::none(),
///     });
/// # drop(catalog);
/// ```
pub struct LearnedCatalog<S = MemoryStore> {
    shared: Arc<Shared<S>>,
    settings: Arc<Settings>,
}

struct Shared<S> {
    /// Says who may know what, what time it is, and when lists have changed.
    cache: ResponseCache<S>,
    pages: Cache<CacheKey, Arc<Page>>,
    flights: Arc<Flights<Result<Arc<Page>, Failure>>>,
    brake: Brake,
    /// How many lists have been asked for.
    asked: AtomicU64,
}

#[derive(Clone)]
struct Settings {
    fail_open: bool,
    max_pages: usize,
    default_lifetime: Duration,
    scopes_of: Option<ScopesOf>,
}

impl<S> Clone for LearnedCatalog<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), settings: Arc::clone(&self.settings) }
    }
}

impl<S: CacheStore> LearnedCatalog<S> {
    /// Knows nothing yet, and will keep 16 MiB of lists at most.
    ///
    /// `cache` is that of the stack: who may share a list, until when it is fresh and when it has changed is what the
    /// cache says.
    #[must_use]
    pub fn new(cache: ResponseCache<S>) -> Self {
        Self {
            shared: Arc::new(Shared {
                cache,
                pages: pages(16 << 20),
                flights: Arc::new(Flights::new()),
                brake: Brake::new(),
                asked: AtomicU64::new(0),
            }),
            settings: Arc::new(Settings {
                fail_open: false,
                max_pages: 100,
                default_lifetime: Duration::from_secs(60),
                scopes_of: None,
            }),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Whether calls pass where nothing can be found out about the tool: the upstream is then the only one to judge them.
    /// A [`ScopeLayer`](crate::layers::ScopeLayer) that has this catalog refuses them all the same. Defaults to `false`: they
    /// are refused.
    #[must_use]
    pub fn with_fail_open(self, fail_open: bool) -> Self {
        self.with(|settings| settings.fail_open = fail_open)
    }

    /// Over how many pages a tool is looked for at most. Defaults to 100.
    #[must_use]
    pub fn with_max_pages(self, max_pages: usize) -> Self {
        self.with(|settings| settings.max_pages = max_pages)
    }

    /// For how long tools are known from a list that says no `ttlMs`, or 0. With zero, such a list is asked for with each
    /// call. Defaults to 60 s.
    #[must_use]
    pub fn with_default_lifetime(self, lifetime: Duration) -> Self {
        self.with(|settings| settings.default_lifetime = lifetime)
    }

    /// Which scopes a tool needs by its element of `tools`, where the upstream gives a hint in a way of its own. They
    /// become the [facts](ToolFacts::scopes) of the tool. Defaults to none.
    #[must_use]
    pub fn with_scopes(self, scopes_of: impl Fn(Raw<'_>) -> Scopes + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.scopes_of = Some(Arc::new(scopes_of)))
    }

    /// A layer that learns from the lists that pass: directly above the cache.
    #[must_use]
    pub fn learn(&self) -> LearnLayer<S> {
        PolicyLayer::from_policy(Learning(self.clone()))
    }

    /// A layer that finds out about the tools of calls, and asks `bottom` where it must: above what needs the catalog.
    pub fn look_up<B>(&self, bottom: B) -> LookUpLayer<B, S> {
        LookUpLayer::new(self.clone(), bottom)
    }

    pub(crate) fn cache(&self) -> &ResponseCache<S> {
        &self.shared.cache
    }

    /// Whether it may say of a tool which scopes it needs.
    fn tells_scopes(&self) -> bool {
        self.settings.scopes_of.is_some()
    }

    /// Takes note of a result of `tools/list`. It is kept for as long and for whom it and `query` say.
    fn take_note(
        &self,
        query: Option<&Query>,
        status: StatusCode,
        result: &RawObject,
    ) -> Result<Arc<Page>, NotAPage> {
        if status != StatusCode::OK {
            return Err(NotAPage("the HTTP status is not 200"));
        }
        let frame = Frame::of(result)?;
        let (cache, settings) = (&self.shared.cache, &*self.settings);
        let generation = query.map_or(0, |query| query.generation);
        let place = query.and_then(|query| Some((query, query.place(result)?)));
        // Mostly it is the list that is known already, which the cache has given again.
        let known = place.and_then(|(_, key)| self.shared.pages.get(key));
        let known = known.filter(|known| known.is_same(&frame, generation));
        let is_new = known.is_none();
        let page = known.unwrap_or_else(|| Arc::new(Page::new(&frame, settings, generation)));
        page.renew(&frame, settings, cache.now(), cache.lifetime(Duration::MAX));
        if let Some((query, key)) = place.filter(|_| is_new) {
            self.shared.pages.insert(key.detached(), Arc::clone(&page));
            // The list may have been for others than it is now.
            for other in query.keys().filter(|other| *other != key) {
                self.shared.pages.invalidate(other);
            }
        }
        Ok(page)
    }

    /// The page that `query` asks for, if it is known.
    fn kept(&self, query: &Query) -> Option<Arc<Page>> {
        let now = self.shared.cache.now();
        query
            .keys()
            .find_map(|key| self.shared.pages.get(key).filter(|page| page.is_good(now, query.generation)))
    }
}

fn pages(max_bytes: u64) -> Cache<CacheKey, Arc<Page>> {
    let weigh =
        |key: &CacheKey, page: &Arc<Page>| u32::try_from(key.size() + page.size()).unwrap_or(u32::MAX);
    Cache::builder().max_capacity(max_bytes).weigher(weigh).build()
}

/// What was found out about the tool of a call, in the extensions of the request.
#[derive(Clone)]
struct LookedUp {
    tool: Box<str>,
    facts: Arc<ToolFacts>,
}

/// The page that a `tools/list` is answered with, in the extensions of the request once it passes.
#[derive(Clone, Default)]
struct Passing(Arc<OnceLock<Arc<Page>>>);

impl<S: CacheStore> ToolCatalog for LearnedCatalog<S> {
    fn tool(&self, name: &str, extensions: &Extensions) -> Option<Arc<ToolFacts>> {
        if let Some(call) = extensions.get::<LookedUp>() {
            return (*call.tool == *name).then(|| Arc::clone(&call.facts));
        }
        extensions.get::<Passing>()?.0.get()?.tool(name).cloned()
    }
}

impl<S> fmt::Debug for LearnedCatalog<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearnedCatalog")
            .field("cache", &self.shared.cache)
            .field("fail_open", &self.settings.fail_open)
            .field("max_pages", &self.settings.max_pages)
            .field("default_lifetime", &self.settings.default_lifetime)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
