//! Checks `Origin` and `Host` against DNS rebinding.
//!
//! A page that somebody visits can have its own name resolve to 127.0.0.1 and then talk to servers on that person's
//! machine as if they were its own. The browser tells on it: `Host` and `Origin` still carry the page's name.
//!
//! # Rules
//! 1. Every HTTP method is checked, `OPTIONS` too: the rule is about connections (`basic/transports/streamable-http`,
//!    "Security & Endpoint", 1).
//! 2. Without `Origin` the request does not come from a page, and passes that half. With it the value must be one
//!    allowed scheme, host and port. `null`, an empty value, several lines and whatever is not exactly
//!    `scheme://host[:port]` are invalid, and invalid means 403 (ibid.).
//! 3. `Host`, or `:authority`, must name an allowed host. Exactly one host must be named: a request without one, with
//!    several `Host` lines, or whose `Host` and `:authority` disagree, is refused. The specification does not ask for
//!    this half; it catches what sends no `Origin`.
//! 4. Hosts are compared as parsed: names without case, addresses as numbers, the ports 80 and 443 as left out for
//!    http and https. Nothing is guessed: a trailing dot, userinfo, `127.1`, a port with leading zeros or bytes
//!    outside ASCII make a host that is not allowed.
//!
//! # Rejections
//! HTTP 403, code 403, without `id`: the body has not been read. Each refusal logs one line that names the setting
//! which would have allowed it.
//!
//! # Order
//! Outermost of what answers with a plain body, above CORS and authentication. Layers that wrap the body of the response
//! (tower-http's trace, compression) go above it: the body below it must be made of `Bytes`. Reads the headers `Origin` and `Host` and the URI; writes nothing.
//!
//! # Example
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use mcp_layers::layers::OriginLayer;
//! use tower::{Layer, Service, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let inner = service_fn(async |_: Request<()>| Ok::<_, std::convert::Infallible>(Response::new(Bytes::new())));
//! let mut service = OriginLayer::new().layer(inner);
//!
//! let mut post = async |host: &str, origin: &str| {
//!     let request = Request::post("/mcp").header("host", host).header("origin", origin).body(()).unwrap();
//!     service.call(request).await.unwrap().status()
//! };
//! assert_eq!(post("localhost:3000", "http://localhost:5173").await, StatusCode::OK);
//! assert_eq!(post("evil.example:3000", "http://evil.example:3000").await, StatusCode::FORBIDDEN);
//! # Ok(())
//! # }
//! ```

pub(super) mod address;

use std::fmt;

use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode, header};

use self::address::{Address, Origin, default_port};
use super::guard::{Guard, GuardLayer};
use crate::rejection::{Rejection, shorten};

/// Checks `Origin` and `Host` against DNS rebinding; see the [module](self).
pub type OriginLayer = GuardLayer<OriginGuard>;

/// The decision of an [`OriginLayer`].
#[derive(Clone, Debug)]
pub struct OriginGuard {
    hosts: Allowed<Address<String>>,
    origins: Allowed<Origin<String>>,
}

#[derive(Clone, Debug)]
enum Allowed<T> {
    Local,
    Listed(Vec<T>),
    Any,
}

/// An entry of an allow list that is no host or no origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEntry {
    entry: String,
    expected: &'static str,
}

impl fmt::Display for InvalidEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", shorten(&self.entry), self.expected)
    }
}

impl std::error::Error for InvalidEntry {}

impl OriginLayer {
    /// Allows what names this machine: `localhost`, `127.0.0.1` and `[::1]`, on any port, as hosts and as http and
    /// https origins.
    #[must_use]
    pub fn new() -> Self {
        Self::from_guard(OriginGuard { hosts: Allowed::Local, origins: Allowed::Local })
    }

    /// Allows exactly these hosts: `api.example.com` on any port, `api.example.com:8443` on that one.
    ///
    /// Behind a proxy this is the host that the proxy passes on. Defaults to the names of this machine.
    ///
    /// # Errors
    /// If an entry is not `host` or `host:port`. Wildcards are not understood.
    pub fn with_allowed_hosts<I>(self, hosts: I) -> Result<Self, InvalidEntry>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let expected = "a host: write `api.example.com` or `api.example.com:8443`";
        let hosts = list(hosts, expected, |entry| Address::parse(entry).map(Address::owned))?;
        Ok(self.map_guard(|guard| guard.hosts = Allowed::Listed(hosts)))
    }

    /// Allows exactly these origins, each `scheme://host` or `scheme://host:port`.
    ///
    /// Requests without `Origin` pass all the same. Defaults to the http and https pages of this machine, on any port.
    ///
    /// # Errors
    /// If an entry is not an origin. A path, even `/`, does not belong to one; wildcards are not understood.
    pub fn with_allowed_origins<I>(self, origins: I) -> Result<Self, InvalidEntry>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let expected = "an origin: write `https://app.example.com` or `https://app.example.com:8443`";
        let origins = list(origins, expected, |entry| Origin::parse(entry).map(Origin::owned))?;
        Ok(self.map_guard(|guard| guard.origins = Allowed::Listed(origins)))
    }

    /// Does not look at `Host` and `:authority`. Safe where a proxy in front decides which hosts get here.
    #[must_use]
    pub fn allow_any_host(self) -> Self {
        self.map_guard(|guard| guard.hosts = Allowed::Any)
    }

    /// Does not look at `Origin`, which the specification requires: any page that can reach this server may then talk
    /// to it. Safe where a layer above checks `Origin`.
    #[must_use]
    pub fn allow_any_origin(self) -> Self {
        self.map_guard(|guard| guard.origins = Allowed::Any)
    }
}

impl Default for OriginLayer {
    fn default() -> Self {
        Self::new()
    }
}

fn list<I, T>(
    entries: I,
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<Vec<T>, InvalidEntry>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let parse = |entry: I::Item| {
        parse(entry.as_ref()).ok_or_else(|| InvalidEntry { entry: entry.as_ref().to_owned(), expected })
    };
    entries.into_iter().map(parse).collect()
}

impl Guard for OriginGuard {
    fn check(&self, head: &mut Parts) -> Result<(), Rejection> {
        self.check_host(head)?;
        self.check_origin(&head.headers)
    }
}

impl OriginGuard {
    fn check_host(&self, head: &Parts) -> Result<(), Rejection> {
        if matches!(self.hosts, Allowed::Any) {
            return Ok(());
        }
        // The port that is meant where none is written is known where the scheme is: in HTTP/2 and absolute URIs.
        let default = head.uri.scheme_str().and_then(default_port);
        let authority = head.uri.authority().map(http::uri::Authority::as_str);
        let host = match line(&head.headers, &header::HOST) {
            Line::One(host) => Some(host),
            Line::None => None,
            Line::Unreadable => return Err(refuse_host("several lines, or bytes that are not ASCII")),
        };
        let address = match (authority, host) {
            (None, None) => return Err(refuse_host("none")),
            (Some(text), None) | (None, Some(text)) => {
                Address::parse(text).ok_or_else(|| refuse_host(text))?
            }
            (Some(authority), Some(host)) => {
                let one = Address::parse(authority).ok_or_else(|| refuse_host(authority))?;
                let other = Address::parse(host).ok_or_else(|| refuse_host(host))?;
                if !one.host.same(&other.host) || one.port.or(default) != other.port.or(default) {
                    return Err(refuse_host("`Host` and `:authority` that disagree"));
                }
                one
            }
        };
        let allowed = match &self.hosts {
            Allowed::Any => true,
            Allowed::Local => address.host.is_local(),
            Allowed::Listed(list) => list.iter().any(|entry| {
                entry.host.same(&address.host)
                    && match (entry.port, address.port.or(default)) {
                        (None, _) => true,
                        (Some(listed), Some(port)) => listed == port,
                        // One of the two that are left out; which one, HTTP/1.1 does not tell.
                        (Some(listed), None) => matches!(listed, 80 | 443),
                    }
            }),
        };
        if allowed { Ok(()) } else { Err(refuse_host(authority.or(host).unwrap_or_default())) }
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        if matches!(self.origins, Allowed::Any) {
            return Ok(());
        }
        let text = match line(headers, &header::ORIGIN) {
            Line::None => return Ok(()),
            Line::One(text) => text,
            Line::Unreadable => return Err(refuse_origin("several lines, or bytes that are not ASCII")),
        };
        let allowed = Origin::parse(text).is_some_and(|origin| match &self.origins {
            Allowed::Any => true,
            Allowed::Local => origin.is_local(),
            Allowed::Listed(list) => list.iter().any(|entry| entry.same(&origin)),
        });
        if allowed { Ok(()) } else { Err(refuse_origin(text)) }
    }
}

enum Line<'a> {
    None,
    One(&'a str),
    Unreadable,
}

/// The value of a field that must have one line at most, without the white space around it.
fn line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Line<'a> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Line::None,
        (Some(value), None) => match value.to_str() {
            Ok(text) => Line::One(text.trim_ascii()),
            Err(_) => Line::Unreadable,
        },
        (Some(_), Some(_)) => Line::Unreadable,
    }
}

fn refuse_host(found: &str) -> Rejection {
    tracing::warn!(
        found = shorten(found),
        "refused a request by its host; `OriginLayer::with_allowed_hosts` sets which hosts are served"
    );
    Rejection::http(
        StatusCode::FORBIDDEN,
        "this server does not serve the host that the request names; its operator sets the allowed hosts",
    )
}

fn refuse_origin(found: &str) -> Rejection {
    tracing::warn!(
        found = shorten(found),
        "refused a request by its origin; `OriginLayer::with_allowed_origins` sets which origins may call"
    );
    Rejection::http(
        StatusCode::FORBIDDEN,
        "this server does not take requests from the page's origin; its operator sets the allowed origins",
    )
}

#[cfg(test)]
mod tests;
