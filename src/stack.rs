//! The recommended order of the layers, and a builder that keeps to it.
//!
//! # The order
//! From the outside to the inside. *Always* is in every stack; the others are there when they are asked for, and cost
//! nothing when they are not.
//!
//! | layer | when | reads | writes | rejects |
//! |---|---|---|---|---|
//! | [`OriginLayer`] | always | `Origin`, `Host` | | 403 |
//! | [`AuthLayer`] | [`with_auth`](Stack::with_auth) | `Authorization` | the [`Principal`]; `WWW-Authenticate` | 401, 400, 503 |
//! | [`EndpointLayer`] | always | the head, the body | the parsed message; the framed reply | 413, 405, 415, 406, 400 -32700, -32600, -32602 |
//! | [`VersionLayer`] | always | `_meta`, `MCP-Protocol-Version` | | 400 -32602, -32020, -32022, 404 -32601 |
//! | [`HeadersLayer`] | always | `Mcp-*`, the catalog | lists of tools: without those whose annotations are invalid | 400 -32020 |
#![cfg_attr(
    feature = "cache",
    doc = "| [`LookUpLayer`] | [`learning`](Stack::learning) | the rules of the scopes, lists of tools | what is found out about the tool | 400 -32602, 502, 503 |"
)]
//! | [`ScopeLayer`] | [`with_scopes`](Stack::with_scopes) | the principal, the catalog | lists: without what the caller may not use | 403, 401, 400 -32602 |
//! | [`CapabilityLayer`] | always | `_meta`, the catalog | what leaves | 400 -32021, 404 -32601, 200 -32603 |
//! | your own | [`with_layer`](Stack::with_layer) | | | |
//! | [`LimitsLayer`] | [`with_limits`](Stack::with_limits) | the arguments | | a result with `isError`, or 400 -32602 |
#![cfg_attr(
    feature = "cache",
    doc = "| [`CacheLayer`] | [`with_cache`](Stack::with_cache) | the principal, `ttlMs`, `cacheScope` | what is kept | |"
)]
//! | [`RequestStateLayer`] | [`with_request_state`](Stack::with_request_state) | the principal, `requestState` | `requestState` | 400 -32602 |
//!
//! Why so:
//! 1. What needs the head alone comes first: the body of a request that is refused anyway is not read.
//! 2. What is refused for its version is not judged by headers that the version defines.
//! 3. Who may not use a tool does not learn from another refusal that it exists. With
//!    [hidden denials](crate::layers::ScopeRules::with_hidden_denials) the layers above the scopes are given only the
//!    tools that the caller may see.
//! 4. What filters stands above the cache, which keeps what everybody sees; this builder has no place for a layer
//!    between the cache and what it keeps the results of, but for the state's, which changes no cached method. So
//!    `[cache, filter, service]` cannot be built here; by hand it is harmless as long as the filter says `private`.
//! 5. What must be looked up before a call is judged is looked up for callers alone whom nothing else refuses: below what
//!    needs the head and the message, and only where the scopes let the call pass as far as can be told. The headers of
//!    parameters are then checked below the look-up, with what it has found.
//! 6. Layers of tower and tower-http (timeouts, limits of concurrency, traces, CORS) go around the whole.
//!
//! Whoever needs another order stacks the layers with Tower's `ServiceBuilder`; each says in its module what it reads and
//! writes.
//!
//! # Example
//! ```
//! use bytes::Bytes;
//! use http::{Request, StatusCode};
//! use http_body_util::Full;
//! use mcp_layers::dispatch::{Dispatch, Tool};
//! use mcp_layers::layers::RequestStateLayer;
//! use mcp_layers::layers::request_state::{StateKey, StateKeys};
//! use mcp_layers::stack::Stack;
//! use serde_json::json;
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tool = Tool::raw("ping", json!({"type": "object"}), |_, _| async { Ok("pong") });
//! let server = Dispatch::builder("s", "1.0.0").tool(tool).build()?;
//! let service = Stack::new(server.clone())
//!     .with_request_state(RequestStateLayer::new(StateKeys::new([StateKey::new(&[7; 32])?])?, "http://127.0.0.1:3000/mcp"))
//!     .service(server);
//!
//! let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ping","_meta":{
//!     "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
//! let request = || {
//!     Request::post("/mcp")
//!         .header("host", "localhost")
//!         .header("content-type", "application/json")
//!         .header("mcp-protocol-version", "2026-07-28")
//!         .header("mcp-method", "tools/call")
//! };
//! let call = request().header("mcp-name", "ping").body(Full::<Bytes>::from(body))?;
//! assert_eq!(service.clone().oneshot(call).await?.status(), StatusCode::OK);
//! let without_name = request().body(Full::<Bytes>::from(body))?;
//! assert_eq!(service.oneshot(without_name).await?.status(), StatusCode::BAD_REQUEST);
//! # Ok(())
//! # }
//! ```

use tower::Layer;
use tower::layer::util::Identity;

use crate::catalog::ToolCatalog;
use crate::endpoint::EndpointLayer;
use crate::layers::auth::TokenVerifier;
#[cfg(feature = "cache")]
use crate::layers::cache::{CacheLayer, ResponseCache};
#[cfg(feature = "cache")]
use crate::layers::learned::{Between, LearnedCatalog, LookUpLayer};
use crate::layers::scope::VisibleTools;
use crate::layers::{
    AuthLayer, CapabilityLayer, HeadersLayer, LimitsLayer, OriginLayer, RequestStateLayer, ScopeLayer,
    ScopeRules, VersionLayer,
};
#[cfg(doc)]
use crate::principal::Principal;
use crate::protocol::InvalidScope;
#[cfg(feature = "cache")]
use crate::store::CacheStore;

/// Assembles layers in the [recommended order](self), whatever the order of the calls.
///
/// The type names what is in the stack; what has not been asked for is [`Identity`], which is no layer at all.
#[derive(Clone, Debug)]
#[must_use]
pub struct Stack<
    Catalog,
    Auth = Identity,
    Scopes = Identity,
    Own = Identity,
    Limits = Identity,
    Cache = Identity,
    State = Identity,
    LookUp = Identity,
> {
    catalog: Catalog,
    origin: OriginLayer,
    auth: Auth,
    endpoint: EndpointLayer,
    version: VersionLayer,
    scopes: Scopes,
    capabilities: CapabilityLayer,
    own: Own,
    limits: Limits,
    cache: Cache,
    state: State,
    look_up: LookUp,
}

/// What a [`Stack`] builds: a tuple of layers is a Tower layer, its first element the outermost.
pub type Layers<Catalog, Auth, Scopes, Own, Limits, Cache, State> = (
    OriginLayer,
    Auth,
    EndpointLayer,
    VersionLayer,
    HeadersLayer<Catalog>,
    Scopes,
    CapabilityLayer<Catalog>,
    Own,
    Limits,
    Cache,
    State,
);

impl<Catalog: ToolCatalog + Clone> Stack<Catalog> {
    /// A stack with what is always there, each layer with its defaults.
    ///
    /// `catalog` knows the tools: mostly the [`Dispatch`](crate::dispatch::Dispatch) at the bottom, which is cheap to
    /// clone. [`NoCatalog`](crate::catalog::NoCatalog) knows none; then no `Mcp-Param-*` is checked, and what a tool
    /// needs of scopes and capabilities is only what the rules say.
    pub fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            origin: OriginLayer::new(),
            auth: Identity::new(),
            endpoint: EndpointLayer::new(),
            version: VersionLayer::new(),
            scopes: Identity::new(),
            capabilities: CapabilityLayer::new(),
            own: Identity::new(),
            limits: Identity::new(),
            cache: Identity::new(),
            state: Identity::new(),
            look_up: Identity::new(),
        }
    }
}

/// The stack with one field of another type.
macro_rules! with {
    ($field:ident: $value:expr, $stack:ident { $($kept:ident),+ }) => {
        Stack { $field: $value, $($kept: $stack.$kept),+ }
    };
}

#[cfg(feature = "cache")]
type LearningStack<S> = Stack<
    LearnedCatalog<S>,
    Identity,
    Identity,
    Identity,
    Identity,
    CacheLayer<S>,
    Identity,
    LookUpLayer<(), S>,
>;

#[cfg(feature = "cache")]
impl<S: CacheStore> LearningStack<S> {
    /// A stack in front of a server that somebody else wrote, whose tools `catalog` learns.
    ///
    /// What [`look_up`](LearnedCatalog::look_up) finds serves the headers, the scopes and the capabilities; it asks
    /// whatever is below the catalog's cache, which is in the stack as if it had been given to `with_cache`. The inner
    /// service is cloned for that.
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::Full;
    /// use mcp_layers::body::Body;
    /// use mcp_layers::layers::LearnedCatalog;
    /// use mcp_layers::layers::cache::ResponseCache;
    /// use mcp_layers::stack::Stack;
    /// use mcp_layers::upstream::UpstreamLayer;
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// /// A server that has no tool, and would not say so.
    /// async fn upstream(_: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
    ///     let body = r#"{"jsonrpc":"2.0","id":"tools-0","result":{"resultType":"complete","tools":[]}}"#;
    ///     Ok(Response::builder().header("content-type", "application/json").body(body.into()).expect("a response"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let catalog = LearnedCatalog::new(ResponseCache::new("upstream"));
    /// let gateway = Stack::learning(catalog).service(UpstreamLayer::new().layer(service_fn(upstream)));
    ///
    /// let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","_meta":{
    ///     "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    /// let call = Request::post("/mcp")
    ///     .header("host", "localhost")
    ///     .header("content-type", "application/json")
    ///     .header("mcp-protocol-version", "2026-07-28")
    ///     .header("mcp-method", "tools/call")
    ///     .header("mcp-name", "rm")
    ///     .body(Full::<Bytes>::from(call))?;
    /// assert_eq!(gateway.oneshot(call).await?.status(), 400);
    /// # Ok(())
    /// # }
    /// ```
    pub fn learning(catalog: LearnedCatalog<S>) -> Self {
        let (cache, look_up) = (catalog.cache().clone(), catalog.look_up(()));
        let stack = Stack::new(catalog).with_cache(cache);
        with!(look_up: look_up, stack { catalog, origin, auth, endpoint, version, scopes, capabilities, own, limits, cache, state })
    }
}

impl<C, Auth, Scopes, Own, Limits, Cache, State, LookUp>
    Stack<C, Auth, Scopes, Own, Limits, Cache, State, LookUp>
where
    C: ToolCatalog + Clone,
{
    /// Which hosts and origins are served. Defaults to those of this machine.
    pub fn with_origin(mut self, origin: OriginLayer) -> Self {
        self.origin = origin;
        self
    }

    /// How bodies are read and replies framed. Defaults to [`EndpointLayer::new`].
    pub fn with_endpoint(mut self, endpoint: EndpointLayer) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Which revisions are served. Defaults to [`VersionLayer::new`].
    pub fn with_version(mut self, version: VersionLayer) -> Self {
        self.version = version;
        self
    }

    /// What clients must have declared besides what the catalog says. Defaults to nothing.
    pub fn with_capabilities(mut self, capabilities: CapabilityLayer) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Lets in only who brings a token that `auth` accepts. Defaults to everybody.
    ///
    /// The [metadata](crate::layers::ProtectedResource) is served beside the stack, without a token.
    pub fn with_auth<V: TokenVerifier>(
        self,
        auth: AuthLayer<V>,
    ) -> Stack<C, AuthLayer<V>, Scopes, Own, Limits, Cache, State, LookUp> {
        with!(auth: auth, self { catalog, origin, endpoint, version, scopes, capabilities, own, limits, cache, state, look_up })
    }

    #[allow(clippy::type_complexity, reason = "the type is the stack")]
    fn scoped(
        self,
        rules: ScopeRules,
    ) -> Result<Stack<VisibleTools, Auth, ScopeLayer, Own, Limits, Cache, State, LookUp>, InvalidScope> {
        let scopes = ScopeLayer::new(rules.with_catalog(self.catalog.clone()))?;
        let stack = with!(catalog: scopes.visible_tools(), self { origin, auth, endpoint, version, scopes, capabilities, own, limits, cache, state, look_up });
        Ok(
            with!(scopes: scopes, stack { catalog, origin, auth, endpoint, version, capabilities, own, limits, cache, state, look_up }),
        )
    }

    /// A layer of your own, such as a [`PolicyLayer`](crate::policy::PolicyLayer), or several as a tuple. Defaults to
    /// none.
    ///
    /// It sees messages, and stands above the cache: what it filters is filtered for each caller.
    pub fn with_layer<L>(self, own: L) -> Stack<C, Auth, Scopes, L, Limits, Cache, State, LookUp> {
        with!(own: own, self { catalog, origin, auth, endpoint, version, scopes, capabilities, limits, cache, state, look_up })
    }

    /// How large the arguments of tools may be. Defaults to no bound but the body's.
    ///
    /// The limits are given the stack's catalog: that a tool does not exist is said first.
    pub fn with_limits(
        self,
        limits: LimitsLayer,
    ) -> Stack<C, Auth, Scopes, Own, LimitsLayer, Cache, State, LookUp> {
        with!(limits: limits.with_catalog(self.catalog.clone()), self { catalog, origin, auth, endpoint, version, scopes, capabilities, own, cache, state, look_up })
    }

    /// Seals `requestState`. Defaults to none: then a [`Dispatch`](crate::dispatch::Dispatch) gives and takes no state.
    pub fn with_request_state(
        self,
        state: RequestStateLayer,
    ) -> Stack<C, Auth, Scopes, Own, Limits, Cache, RequestStateLayer, LookUp> {
        with!(state: state, self { catalog, origin, auth, endpoint, version, scopes, capabilities, own, limits, cache, look_up })
    }
}

impl<C, Auth, Scopes, Own, Limits, Cache, State> Stack<C, Auth, Scopes, Own, Limits, Cache, State>
where
    C: ToolCatalog + Clone,
{
    /// Lets callers do what their scopes allow, and shows them nothing else. Defaults to no such rules.
    ///
    /// The rules are given the stack's catalog, and so know the tools and the scopes that were declared with them.
    ///
    /// # Errors
    /// If a rule needs something that cannot be a scope.
    #[allow(clippy::type_complexity, reason = "the type is the stack")]
    pub fn with_scopes(
        self,
        rules: ScopeRules,
    ) -> Result<Stack<VisibleTools, Auth, ScopeLayer, Own, Limits, Cache, State>, InvalidScope> {
        self.scoped(rules)
    }

    /// Answers from `cache` what may be answered again. Defaults to no cache.
    #[cfg(feature = "cache")]
    #[allow(clippy::type_complexity, reason = "the type is the stack")]
    pub fn with_cache<S>(
        self,
        cache: ResponseCache<S>,
    ) -> Stack<C, Auth, Scopes, Own, Limits, CacheLayer<S>, State> {
        with!(cache: CacheLayer::new(cache), self { catalog, origin, auth, endpoint, version, scopes, capabilities, own, limits, state, look_up })
    }

    /// The layers as one Tower layer, for `ServiceBuilder` or [`Layer::layer`].
    pub fn build(self) -> Layers<C, Auth, Scopes, Own, Limits, Cache, State> {
        let headers = HeadersLayer::new().with_catalog(self.catalog.clone());
        let capabilities = self.capabilities.with_catalog(self.catalog);
        (
            self.origin,
            self.auth,
            self.endpoint,
            self.version,
            headers,
            self.scopes,
            capabilities,
            self.own,
            self.limits,
            self.cache,
            self.state,
        )
    }

    /// Puts the layers around `inner`: a service of HTTP requests for `axum::Router::route_service`, for hyper (with
    /// `hyper_util::service::TowerToHyperService`), or for Tower's other layers.
    #[allow(clippy::type_complexity, reason = "the type is the stack")]
    pub fn service<S>(
        self,
        inner: S,
    ) -> <Layers<C, Auth, Scopes, Own, Limits, Cache, State> as Layer<S>>::Service
    where
        Layers<C, Auth, Scopes, Own, Limits, Cache, State>: Layer<S>,
    {
        self.build().layer(inner)
    }
}

/// What a [`Stack::learning`] builds.
#[cfg(feature = "cache")]
pub type LearningLayers<Catalog, Auth, Scopes, Own, Limits, Cache, State, S> = (
    OriginLayer,
    Auth,
    EndpointLayer,
    VersionLayer,
    HeadersLayer,
    Between<(HeadersLayer<Catalog>, Scopes, CapabilityLayer<Catalog>, Own, Limits), (Cache, State), S>,
);

#[cfg(feature = "cache")]
impl<C, Auth, Scopes, Own, Limits, Cache, State, S>
    Stack<C, Auth, Scopes, Own, Limits, Cache, State, LookUpLayer<(), S>>
where
    C: ToolCatalog + Clone,
    S: CacheStore,
{
    /// Lets callers do what their scopes allow, and shows them nothing else. Defaults to no such rules.
    ///
    /// The rules are given the learned catalog. Whoever they refuse whatever it says has nothing
    /// [looked up](crate::layers::learned#scopes).
    ///
    /// # Errors
    /// If a rule needs something that cannot be a scope.
    #[allow(clippy::type_complexity, reason = "the type is the stack")]
    pub fn with_scopes(
        self,
        rules: ScopeRules,
    ) -> Result<
        Stack<VisibleTools, Auth, ScopeLayer, Own, Limits, Cache, State, LookUpLayer<(), S>>,
        InvalidScope,
    > {
        let mut stack = self.scoped(rules)?;
        stack.look_up = stack.look_up.with_scopes(&stack.scopes);
        Ok(stack)
    }

    /// The layers as one Tower layer, for `ServiceBuilder` or [`Layer::layer`].
    pub fn build(self) -> LearningLayers<C, Auth, Scopes, Own, Limits, Cache, State, S> {
        let params = HeadersLayer::params_only(self.catalog.clone());
        let capabilities = self.capabilities.with_catalog(self.catalog);
        let upper = (params, self.scopes, capabilities, self.own, self.limits);
        (
            self.origin,
            self.auth,
            self.endpoint,
            self.version,
            HeadersLayer::new(),
            Between::new(self.look_up, upper, (self.cache, self.state)),
        )
    }

    /// Puts the layers around `inner`, as they are put around a server of one's own.
    #[allow(clippy::type_complexity, reason = "the type is the stack")]
    pub fn service<I>(
        self,
        inner: I,
    ) -> <LearningLayers<C, Auth, Scopes, Own, Limits, Cache, State, S> as Layer<I>>::Service
    where
        LearningLayers<C, Auth, Scopes, Own, Limits, Cache, State, S>: Layer<I>,
    {
        self.build().layer(inner)
    }
}
