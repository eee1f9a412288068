//! Puts the stack in front of an MCP server that somebody else wrote.
//!
//! This is the border opposite to [`EndpointLayer`](crate::endpoint::EndpointLayer): [`UpstreamLayer`] turns a service of
//! HTTP requests into a service of [`Message`]s, so that every layer protects a server that it has never seen. The
//! service may be another crate's in the same process (an axum `Router`, rmcp's `StreamableHttpService`), or a client of
//! a server in any language behind a URL; `HttpUpstream` of the feature `upstream` is one. [`Routes`] leads to several.
//!
//! # Rules
//! Sections are those of `basic/transports/streamable-http`.
//!
//! *Requests*
//! 1. The body is forwarded byte for byte, unless a layer has edited the message: then it is written anew. `Content-Length`
//!    fits in both cases.
//! 2. As a client of the upstream, the gateway sends what a client must ("Request Metadata", "Client Behavior"): `Mcp-Method`,
//!    `Mcp-Name`, `MCP-Protocol-Version`, and `Mcp-Param-*` of tools that the [catalog](UpstreamLayer::with_catalog) knows. If
//!    the message was edited, all of them are mirrored anew. If not, those that are there pass as they are, and what is
//!    missing is added; whether they agree with the body, a layer above or the upstream judges. Of a known tool, an
//!    `Mcp-Param-*` that agrees is written in the message's notation (`42` for `42.0`): some servers compare texts.
//!    `Mcp-Param-*` that nobody here knows pass ("Server Behavior for Custom Headers").
//! 3. Of the other headers, those pass that are known to be about the request and to make no claim about who sends it:
//!    `traceparent`, `tracestate`, `baggage` (W3C), `x-request-id`, `accept-language`, `user-agent`, and
//!    [what is asked for](UpstreamLayer::with_forwarded_headers). An upstream that trusts its gateway could take any
//!    other for the gateway's word. What belongs to one hop (RFC 9110, section 7.6.1), what `Connection` names,
//!    `Authorization`, cookies, `Host` and all that describes a body never pass, asked for or not.
//! 4. Credentials come from the gateway: a [fixed header](UpstreamLayer::with_header), [claims](UpstreamLayer::with_claim) of the
//!    principal, or [`Credentials`] of your own. They replace inbound headers of the same name.
//! 5. The request is a POST with HTTP/1.1 as its version, `Accept: application/json, text/event-stream` and
//!    `Accept-Encoding: identity`. Its extensions, the [`Principal`](crate::principal::Principal) among them, are passed on.
//!
//! *Replies*
//!
//! 6. A result has the status 200 and is one JSON object, or an event of a stream. Events of a stream are passed on one by
//!    one as they come, no faster than somebody reads them. Nothing is read after the answer.
//! 7. An error keeps its code, message, data, and HTTP status. An id that it lacks is supplied.
//! 8. Whatever cannot be understood for sure is not passed on, in no part: see below.
//! 9. A notification that gets any 2xx was accepted; what comes with it is not read.
//! 10. Of the response's headers, `Retry-After`, `RateLimit`, `RateLimit-Policy`, `traceresponse`, `x-request-id` and
//!     [what is asked for](UpstreamLayer::with_returned_headers) pass. Others are about a body that a layer may change, about one
//!     connection, or about an origin that the caller does not know. Extensions pass.
//! 11. `WWW-Authenticate` of an upstream does not pass, because it would send the caller to get a token for another server;
//!     [`with_challenges`](UpstreamLayer::with_challenges) lets it.
//! 12. Dropping the response, or the future before it, drops the upstream's.
//!
//! # Rejections
//! All carry the request's id. Code and HTTP status are equal. After a stream has begun, the same error comes as its answer,
//! and the stream ends.
//!
//! | the upstream | HTTP |
//! |---|---|
//! | cannot be reached, breaks off before it answers | 502 |
//! | took too long: [`TimedOut`], [`Elapsed`](tower::timeout::error::Elapsed) | 504 |
//! | [`Overloaded`](tower::load_shed::error::Overloaded), of [`tower::load_shed`] | 503 |
//! | 401 or 407 (401 only unless [configured](UpstreamLayer::with_challenges)): it is the gateway that was refused | 502 |
//! | 403, 413, 429, 503, 504 without a JSON-RPC error; keeps `Retry-After` | the same |
//! | any other status from 400 on without a JSON-RPC error: an HTML error page, say | 502 |
//! | a redirect; it is not followed | 502 |
//! | 202, or any other 2xx but 200, for a request | 502 |
//! | a compressed body | 502 |
//! | a media type other than JSON or event stream, none, or several | 502 |
//! | a message longer than [allowed](UpstreamLayer::with_max_message_bytes) | 502 |
//! | a body or stream that breaks off, or a stream that ends without an answer; so does an event without its blank line | 502 |
//! | an empty body; not UTF-8; not JSON; a batch; not a JSON-RPC 2.0 message; a member that is named twice | 502 |
//! | a result or error with another id; a result without one; a result with an error status | 502 |
//! | a request to the client; a notification in place of the answer | 502 |
//! | a second answer | not read |
//!
//! # Order
//! At the bottom, in place of [`Dispatch`](crate::dispatch::Dispatch). Reads the message, headers and extensions, which are the
//! upstream's input. It never fails: what the inner service fails with, also in `poll_ready`, becomes an answer.
//!
//! # Example
//! ```
//! use std::convert::Infallible;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use mcp_layers::body::Body;
//! use mcp_layers::message::Message;
//! use mcp_layers::upstream::UpstreamLayer;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Any HTTP service: here one that knows nothing of this crate's types but the body.
//! let server = service_fn(|request: Request<Body>| async move {
//!     assert_eq!(request.headers()["mcp-method"], "tools/list");
//!     let body = request.into_body().collect().await.expect("does not break off").to_bytes();
//!     assert_eq!(body, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
//!     let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
//!     let response = Response::builder().header("content-type", "application/json");
//!     Ok::<_, Infallible>(response.body(Full::new(Bytes::from(answer))).expect("is valid"))
//! });
//!
//! let service = UpstreamLayer::new().layer(server);
//! let message = Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)?;
//! let response = service.oneshot(Request::new(message)).await?;
//! let answer = response.body().answer().expect("is no stream");
//! assert_eq!(answer.outcome().expect("is a result").to_string(), r#"{"tools":[]}"#);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "upstream")]
mod client;
mod credentials;
mod fault;
mod future;
mod headers;
mod read;
mod routes;
mod stream;
mod target;

use std::convert::Infallible;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response};
use tower::{Layer, Service};

#[cfg(feature = "upstream")]
pub use self::client::{HttpBody, HttpFuture, HttpUpstream, InvalidAuthorities};
pub use self::credentials::Credentials;
pub use self::fault::TimedOut;
pub use self::future::UpstreamFuture;
pub use self::routes::{InvalidRoute, Routes, RoutesFuture};
pub use self::target::InvalidTarget;

use self::credentials::Identity;
use self::read::Call;
use self::target::Target;
use crate::body::{Body, BoxError};
use crate::catalog::{NoCatalog, ToolCatalog};
use crate::message::{Message, Reply};

/// Turns an HTTP service into a service of messages; see the [module](self).
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UpstreamLayer {
    settings: Arc<Settings>,
}

#[derive(Clone)]
struct Settings {
    target: Target,
    identity: Identity,
    catalog: Arc<dyn ToolCatalog>,
    request_headers: Vec<HeaderName>,
    response_headers: Vec<HeaderName>,
    challenges: bool,
    max_message_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            target: Target::default(),
            identity: Identity::default(),
            catalog: Arc::new(NoCatalog),
            request_headers: Vec::new(),
            response_headers: Vec::new(),
            challenges: false,
            max_message_bytes: 16 * 1024 * 1024,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("target", &self.target)
            .field("identity", &self.identity)
            .field("request_headers", &self.request_headers)
            .field("response_headers", &self.response_headers)
            .field("challenges", &self.challenges)
            .field("max_message_bytes", &self.max_message_bytes)
            .finish_non_exhaustive()
    }
}

impl UpstreamLayer {
    /// For a service in this process. A request keeps its path, without a query, and is sent to `localhost`.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a client: every request is sent to `url`, which is kept as it is.
    ///
    /// `http` is allowed for any host, since servers inside a network often have no TLS; what is sent there can be read on
    /// the way, credentials included.
    ///
    /// ```
    /// use mcp_layers::upstream::UpstreamLayer;
    ///
    /// assert!(UpstreamLayer::to("https://tools.example/mcp").is_ok());
    /// assert!(UpstreamLayer::to("tools.example").is_err());
    /// ```
    ///
    /// # Errors
    /// If `url` is not an absolute `http` or `https` URL, or has a user or a fragment.
    pub fn to(url: &str) -> Result<Self, InvalidTarget> {
        let target = Target::At(target::parse(url)?);
        Ok(Self::new().set(|settings| settings.target = target))
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// What a service in this process reads in `Host`. Without effect for a URL. Defaults to `localhost`.
    pub fn with_host(self, host: HeaderValue) -> Self {
        self.set(|settings| {
            if let Target::Here { host: current } = &mut settings.target {
                *current = host;
            }
        })
    }

    /// Sends the header `name` with this value, an API key for example. May be called for several names.
    /// Defaults to none.
    ///
    /// Names that describe the message, the body or the connection are not taken: the layer writes those.
    pub fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        self.set(|settings| settings.identity.fix(name, value))
    }

    /// Sends the principal's claim `claim` in the header `name`, and takes that header away from callers who have no such
    /// claim. May be called for several claims. Defaults to none.
    ///
    /// `sub`, `iss`, `client_id` and `scope` are what the [`Principal`](crate::principal::Principal) says of itself; any other is
    /// looked for in what the issuer said. Strings are sent as they are, numbers and booleans as JSON, arrays of these with
    /// commas between. A request whose claim has another form, or is not visible ASCII, is refused with 403: the upstream would
    /// take it for somebody else's.
    pub fn with_claim(self, claim: &str, name: HeaderName) -> Self {
        self.set(|settings| settings.identity.tell(claim, name))
    }

    /// Asks `credentials` for headers before each request. Defaults to nobody.
    pub fn with_credentials(self, credentials: impl Credentials) -> Self {
        self.set(|settings| settings.identity.ask_of(credentials))
    }

    /// Tells which arguments a tool mirrors into `Mcp-Param-*` headers. Defaults to a catalog that knows no tool.
    pub fn with_catalog(self, catalog: impl ToolCatalog) -> Self {
        self.set(|settings| settings.catalog = Arc::new(catalog))
    }

    /// Lets these request headers pass as well. Defaults to none besides those that the [module](self) names.
    ///
    /// Do not name one by which the upstream knows who asks: callers choose what they write there.
    pub fn with_forwarded_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.set(|settings| settings.request_headers.extend(names))
    }

    /// Lets these response headers pass as well. Defaults to none besides those that the [module](self) names.
    pub fn with_returned_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.set(|settings| settings.response_headers.extend(names))
    }

    /// Whether a 401 of the upstream, and the `WWW-Authenticate` of a 401 or 403, are passed on as this server's own: right
    /// where the upstream judges the caller, and not the gateway. Defaults to `false`.
    pub fn with_challenges(self, pass: bool) -> Self {
        self.set(|settings| settings.challenges = pass)
    }

    /// How long one message of the upstream may be, as a JSON body or as one event of a stream. Defaults to 16 MiB.
    pub fn with_max_message_bytes(self, bytes: usize) -> Self {
        self.set(|settings| settings.max_message_bytes = bytes)
    }
}

impl<S> Layer<S> for UpstreamLayer {
    type Service = UpstreamService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        UpstreamService { inner, failure: None, settings: Arc::clone(&self.settings) }
    }
}

/// The service of an [`UpstreamLayer`].
pub struct UpstreamService<S> {
    inner: S,
    /// Why `inner` will not become ready. The next request is answered with it, and takes `inner` with it.
    failure: Option<BoxError>,
    settings: Arc<Settings>,
}

impl<S: Clone> Clone for UpstreamService<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), failure: None, settings: Arc::clone(&self.settings) }
    }
}

impl<S: fmt::Debug> fmt::Debug for UpstreamService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamService")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S, B> Service<Request<Message>> for UpstreamService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = UpstreamFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // A service that has failed is not polled again.
        if self.failure.is_none() {
            self.failure = ready!(self.inner.poll_ready(cx)).err().map(Into::into);
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let id = request.body().id().cloned();
        if let Some(error) = self.failure.take() {
            self.inner = self.inner.clone();
            return UpstreamFuture::refused(fault::unreachable(&error, id.as_ref()), id);
        }
        let call = Call { id, settings: Arc::clone(&self.settings) };
        match self.settings.identity.to_ask() {
            Some(credentials) => {
                // The service that was polled ready is the one to call; its clone is not ready.
                let clone = self.inner.clone();
                UpstreamFuture::asking(credentials.ask(request), mem::replace(&mut self.inner, clone), call)
            }
            None => UpstreamFuture::calling(&mut self.inner, request, call),
        }
    }
}

#[cfg(test)]
mod tests;
