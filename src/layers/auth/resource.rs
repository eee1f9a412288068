//! Tells clients which authorization servers make tokens for a resource.

use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tower::Service;

use super::url::Url;
use crate::body::Body;
use crate::protocol::check_scope;

/// Where the metadata of a resource without a path is.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The metadata of a protected resource (RFC 9728): a Tower service that answers with it, on whatever path it is put.
///
/// [`path`](Self::path) is where clients look for it. It must be reachable without a token and from any web page: put it
/// beside [`AuthLayer`](super::AuthLayer), not below. Every resource of a host has its own.
///
/// It answers `GET`, `HEAD` and `OPTIONS`; other methods get 405.
///
/// ```
/// use http::Request;
/// use mcp_layers::layers::auth::ProtectedResource;
/// use tower::ServiceExt as _;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let resource = ProtectedResource::new("https://mcp.example.com/mcp", ["https://issuer.example"])?
///     .with_scopes(["files:read"])?
///     .with_name("Files");
/// assert_eq!(resource.path(), "/.well-known/oauth-protected-resource/mcp");
/// assert_eq!(
///     resource.document(),
///     concat!(
///         r#"{"resource":"https://mcp.example.com/mcp","authorization_servers":["https://issuer.example"],"#,
///         r#""bearer_methods_supported":["header"],"scopes_supported":["files:read"],"resource_name":"Files"}"#,
///     ),
/// );
///
/// let request = Request::get(resource.path()).body(())?;
/// let response = resource.oneshot(request).await?;
/// assert_eq!(response.headers()["content-type"], "application/json");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ProtectedResource(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    /// Scheme and authority.
    origin: String,
    path: String,
    query: Option<String>,
    root: bool,
    scopes: Vec<String>,
    members: Vec<(&'static str, Value)>,
    document: Bytes,
}

impl ProtectedResource {
    /// The resource `resource`, an absolute URL, with the issuers of its tokens. All are told exactly as they are given.
    ///
    /// # Errors
    /// If `resource` is not an `http` or `https` URL, or has a fragment or a user; if there is no issuer; if an issuer is
    /// not an `https` URL (`http` is allowed for this very machine), or has a query, a fragment or a user.
    pub fn new<S: Into<String>>(
        resource: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidResource> {
        let resource = resource.into();
        let fault = |reason| Err(InvalidResource { what: resource.clone(), reason });
        let Some(url) = Url::parse(&resource) else {
            return fault(
                "a resource is an absolute `http` or `https` URL without a user and without a fragment",
            );
        };
        let mut issuers = Vec::new();
        for issuer in authorization_servers {
            let issuer = issuer.into();
            let reason = match Url::parse(&issuer) {
                None => "an authorization server is an absolute URL without a user and without a fragment",
                Some(url) if url.query.is_some() => "the URL of an authorization server has no query",
                Some(url) if !url.is_safe() => "the URL of an authorization server begins with `https`",
                Some(_) => {
                    issuers.push(Value::from(issuer));
                    continue;
                }
            };
            return Err(InvalidResource { what: issuer, reason });
        }
        if issuers.is_empty() {
            return fault("a resource has at least one authorization server");
        }
        let path = if url.path == "/" { "" } else { url.path };
        let members = vec![
            ("resource", Value::from(resource.as_str())),
            ("authorization_servers", issuers.into()),
            ("bearer_methods_supported", Value::from(["header"].map(Value::from).to_vec())),
        ];
        let inner = Inner {
            origin: url.origin.to_owned(),
            path: format!("{WELL_KNOWN}{path}"),
            query: url.query.map(ToOwned::to_owned),
            root: false,
            scopes: Vec::new(),
            members,
            document: Bytes::new(),
        };
        Ok(Self(Arc::new(inner)).set(|_| {}))
    }

    fn set(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        change(inner);
        let mut text = String::from("{");
        for (name, value) in &inner.members {
            let comma = if text.len() > 1 { "," } else { "" };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}\"{name}\":{value}");
        }
        text.push('}');
        inner.document = text.into();
        self
    }

    fn say(self, name: &'static str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.set(|inner| {
            inner.members.retain(|(other, _)| *other != name);
            inner.members.push((name, value));
        })
    }

    /// The scopes that a client asks for to begin with: few, as others can be asked for when they are needed.
    ///
    /// Defaults to saying nothing of scopes.
    ///
    /// # Errors
    /// If a scope has characters that OAuth does not allow, or is `offline_access`.
    pub fn with_scopes<S: Into<String>>(
        self,
        scopes: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidResource> {
        let scopes: Vec<String> = scopes.into_iter().map(Into::into).collect();
        for scope in &scopes {
            if check_scope(scope).is_err() {
                let reason = "a scope is visible ASCII without quotation marks and backslashes, and no resource \
                              needs `offline_access`";
                return Err(InvalidResource { what: scope.clone(), reason });
            }
        }
        let this = self.say("scopes_supported", scopes.clone());
        Ok(this.set(|inner| inner.scopes = scopes))
    }

    /// The resource's name for people. Defaults to saying none.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        self.say("resource_name", name.into())
    }

    /// A page for developers. Defaults to saying none.
    #[must_use]
    pub fn with_documentation(self, url: impl Into<String>) -> Self {
        self.say("resource_documentation", url.into())
    }

    /// One more member, for instance `jwks_uri`. What has a method here is better said with that.
    #[must_use]
    pub fn with_member(self, name: &'static str, value: impl Into<Value>) -> Self {
        self.say(name, value)
    }

    /// Also counts the root of the host, `/.well-known/oauth-protected-resource`, among its [paths](Self::paths): some
    /// clients look there when they have seen no challenge. Only one resource of a host can have it.
    ///
    /// Defaults to false.
    #[must_use]
    pub fn with_root(self, root: bool) -> Self {
        self.set(|inner| inner.root = root)
    }

    /// The path of the metadata, for a router.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// All paths of the metadata: one, or two with the [root](Self::with_root).
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let root = (self.0.root && self.0.path != WELL_KNOWN).then_some(WELL_KNOWN);
        std::iter::once(self.path()).chain(root)
    }

    /// The URL of the metadata, for challenges.
    #[must_use]
    pub fn metadata_url(&self) -> String {
        let inner = &*self.0;
        match &inner.query {
            Some(query) => format!("{}{}?{query}", inner.origin, inner.path),
            None => format!("{}{}", inner.origin, inner.path),
        }
    }

    /// The metadata as JSON.
    #[must_use]
    pub fn document(&self) -> &str {
        std::str::from_utf8(&self.0.document).unwrap_or_default()
    }

    pub(super) fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    fn respond<B>(&self, request: &Request<B>) -> Response<Body> {
        let (status, body) = match *request.method() {
            Method::GET => (StatusCode::OK, Body::from(self.0.document.clone())),
            Method::HEAD => (StatusCode::OK, Body::empty()),
            Method::OPTIONS => (StatusCode::NO_CONTENT, Body::empty()),
            _ => (StatusCode::METHOD_NOT_ALLOWED, Body::empty()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let mut set =
            |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        set(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        if status == StatusCode::OK {
            set(header::CONTENT_TYPE, "application/json");
            set(header::CACHE_CONTROL, "public, max-age=3600");
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(self.0.document.len()));
        } else if status == StatusCode::METHOD_NOT_ALLOWED {
            set(header::ALLOW, "GET, HEAD, OPTIONS");
        } else {
            set(header::ALLOW, "GET, HEAD, OPTIONS");
            set(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, OPTIONS");
            set(header::ACCESS_CONTROL_MAX_AGE, "3600");
            set(header::VARY, "Access-Control-Request-Headers");
            // Nothing here depends on a header, so a page may send the ones that its library always sends.
            if let Some(wanted) = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
            }
        }
        response
    }
}

impl<B> Service<Request<B>> for ProtectedResource {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(self.respond(&request)))
    }
}

impl fmt::Debug for ProtectedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtectedResource").field(&self.document()).finish()
    }
}

/// A protected resource that cannot be described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResource {
    what: String,
    reason: &'static str,
}

impl fmt::Display for InvalidResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.what, self.reason)
    }
}

impl std::error::Error for InvalidResource {}
