//! Several upstreams behind one stack.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response, StatusCode};
use pin_project::pin_project;
use tower::Service;

use crate::message::{Message, Reply};
use crate::rejection::Rejection;

/// Leads each request to the service whose path it has, exactly as it is written. Any other path is refused with
/// HTTP 404, code 404.
///
/// It sits below the layers that all share, and above what each upstream has for itself. Nothing is put together: every
/// path is an MCP server of its own. A cache that all share keeps them apart if each gets it by its own name:
///
/// ```
/// # #[cfg(feature = "cache")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use http::{Request, Response};
/// use mcp_layers::body::Body;
/// use mcp_layers::layers::cache::{CacheLayer, ResponseCache};
/// use mcp_layers::message::Message;
/// use mcp_layers::upstream::{Routes, UpstreamLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// async fn server(request: Request<Body>) -> Result<Response<Body>, std::convert::Infallible> {
///     let answer = format!(
///         r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","tools":[],"from":"{}",
///             "ttlMs":60000,"cacheScope":"public"}}}}"#,
///         request.uri()
///     );
///     let response = Response::builder().header("content-type", "application/json");
///     Ok(response.body(answer.into()).expect("is valid"))
/// }
///
/// let cache = ResponseCache::new("");
/// let service = Routes::new()
///     .route("/a/mcp", UpstreamLayer::new().layer(service_fn(server)))?
///     .route("/b/mcp", UpstreamLayer::new().layer(service_fn(server)))?
///     .map(|path, upstream| CacheLayer::new(cache.for_upstream(path)).layer(upstream));
///
/// let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
///     "io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
/// for path in ["/a/mcp", "/b/mcp"] {
///     let request = Request::post(path).body(Message::parse(list)?)?;
///     let response = service.clone().oneshot(request).await.expect("does not fail");
///     let result = response.body().answer().and_then(|answer| answer.outcome().ok()).expect("is a result");
///     assert_eq!(result.get("from").and_then(|from| from.to_str()).as_deref(), Some(path));
/// }
/// let response = service.oneshot(Request::post("/c").body(Message::parse(list)?)?).await.expect("does not fail");
/// assert_eq!(response.status(), 404);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "cache"))]
/// # fn main() {}
/// ```
#[must_use]
pub struct Routes<S> {
    services: Arc<HashMap<Box<str>, S>>,
}

/// A path that cannot be added to [`Routes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidRoute {
    /// No request has this path: it does not begin with a slash, or holds a `?` or `#`.
    NotAPath(String),
    /// The path leads somewhere already.
    Taken(String),
}

impl fmt::Display for InvalidRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPath(path) => write!(f, "`{path}` is not the path of a request"),
            Self::Taken(path) => write!(f, "the path `{path}` leads somewhere already"),
        }
    }
}

impl Error for InvalidRoute {}

impl<S> Routes<S> {
    /// No routes.
    pub fn new() -> Self {
        Self { services: Arc::default() }
    }

    /// Leads requests for `path` to `service`. Services of several types fit if each is in a
    /// `tower::util::BoxCloneSyncService`.
    ///
    /// # Errors
    /// If `path` is no path, or leads somewhere already.
    pub fn route(mut self, path: &str, service: S) -> Result<Self, InvalidRoute>
    where
        S: Clone,
    {
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(InvalidRoute::NotAPath(path.to_owned()));
        }
        if self.services.contains_key(path) {
            return Err(InvalidRoute::Taken(path.to_owned()));
        }
        Arc::make_mut(&mut self.services).insert(path.into(), service);
        Ok(self)
    }

    /// Puts something around each service. `layer` gets the service's path as well.
    pub fn map<T>(self, mut layer: impl FnMut(&str, S) -> T) -> Routes<T>
    where
        S: Clone,
    {
        let services = Arc::unwrap_or_clone(self.services).into_iter().map(|(path, service)| {
            let service = layer(&path, service);
            (path, service)
        });
        Routes { services: Arc::new(services.collect()) }
    }
}

impl<S> Default for Routes<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Clone for Routes<S> {
    fn clone(&self) -> Self {
        Self { services: Arc::clone(&self.services) }
    }
}

impl<S> fmt::Debug for Routes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.services.keys()).finish()
    }
}

impl<S> Service<Request<Message>> for Routes<S>
where
    S: Service<Request<Message>, Response = Response<Reply>> + Clone,
{
    type Response = Response<Reply>;
    type Error = S::Error;
    type Future = RoutesFuture<S>;

    /// Always ready: which service must be is known only with the request.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let state = match self.services.get(request.uri().path()) {
            Some(service) => State::Readying { service: service.clone(), request: Some(request) },
            None => {
                let rejection = Rejection::http(StatusCode::NOT_FOUND, "there is no MCP server at this path");
                State::Refused(Some(rejection.into_response(request.body().id().cloned())))
            }
        };
        RoutesFuture { state }
    }
}

/// The future of [`Routes`].
#[pin_project]
pub struct RoutesFuture<S: Service<Request<Message>>> {
    #[pin]
    state: State<S, S::Future>,
}

#[pin_project(project = StateProject)]
#[allow(clippy::large_enum_variant, reason = "a box for each request would cost more than the room")]
enum State<S, F> {
    Readying {
        service: S,
        request: Option<Request<Message>>,
    },
    Calling(#[pin] F),
    /// `None` once the response has been taken.
    Refused(Option<Response<Reply>>),
}

impl<S: Service<Request<Message>>> fmt::Debug for RoutesFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutesFuture").finish_non_exhaustive()
    }
}

impl<S> Future for RoutesFuture<S>
where
    S: Service<Request<Message>, Response = Response<Reply>>,
{
    type Output = Result<Response<Reply>, S::Error>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const COMPLETED: &str = "polled after completion";
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProject::Readying { service, request } => {
                    ready!(service.poll_ready(cx))?;
                    State::Calling(service.call(request.take().expect(COMPLETED)))
                }
                StateProject::Calling(future) => return future.poll(cx),
                StateProject::Refused(response) => {
                    return Poll::Ready(Ok(response.take().expect(COMPLETED)));
                }
            };
            state.set(next);
        }
    }
}
