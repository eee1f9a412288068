//! Where requests go.

use std::error::Error;
use std::fmt;

use http::header::{HOST, HeaderMap, HeaderValue};
use http::uri::{PathAndQuery, Uri};

use super::headers::LOCALHOST;

/// Where the upstream is.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// In this process: the path leads to it, and it is called `host`.
    Here { host: HeaderValue },
    /// At a URL, whatever the path of the request.
    At(Uri),
}

impl Default for Target {
    fn default() -> Self {
        Self::Here { host: LOCALHOST }
    }
}

impl Target {
    /// Addresses a request. The inbound host is this gateway's own and does not pass; nor does a query, which no MCP
    /// endpoint has, and in which a token may stand.
    pub(super) fn apply(&self, uri: &mut Uri, headers: &mut HeaderMap) {
        match self {
            Self::Here { host } => {
                headers.insert(HOST, host.clone());
                // What was a path is one.
                let path =
                    PathAndQuery::try_from(uri.path()).unwrap_or_else(|_| PathAndQuery::from_static("/"));
                *uri = path.into();
            }
            Self::At(target) => *uri = target.clone(),
        }
    }
}

/// A text that does not say where an upstream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTarget(&'static str);

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not the URL of an upstream: {}", self.0)
    }
}

impl Error for InvalidTarget {}

/// Reads the URL of an upstream. It is not repeated in the error, because there may be a password in it.
pub(super) fn parse(url: &str) -> Result<Uri, InvalidTarget> {
    if url.contains('#') {
        return Err(InvalidTarget("it has a fragment"));
    }
    let uri = Uri::try_from(url).map_err(|_| InvalidTarget("it cannot be read"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(InvalidTarget("it does not begin with `http://` or `https://`"));
    }
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return Err(InvalidTarget("it names no host"));
    };
    if authority.as_str().contains('@') {
        return Err(InvalidTarget("it holds a user: set credentials on the layer"));
    }
    // `host:80.example` is read as the host `host` with something behind it.
    let behind = &authority.as_str()[authority.host().len()..];
    if !behind.is_empty() && authority.port_u16().is_none() {
        return Err(InvalidTarget("its port is not a number"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_http_url_without_user_and_fragment() {
        for url in [
            "http://localhost:3000/mcp",
            "https://tools.example/mcp?v=1",
            "http://[::1]:80",
            "HTTP://10.0.0.1/",
        ] {
            assert!(parse(url).is_ok(), "{url}");
        }
        for (url, reason) in [
            ("https://tools.example/mcp#x", "it has a fragment"),
            ("https://tools.example/a b", "it cannot be read"),
            ("", "it cannot be read"),
            ("/mcp", "it does not begin with `http://` or `https://`"),
            ("ftp://tools.example/", "it does not begin with `http://` or `https://`"),
            ("https://ada:secret@tools.example/", "it holds a user: set credentials on the layer"),
            ("http://127.0.0.1:80.evil.example/", "its port is not a number"),
            ("http://tools.example:/", "its port is not a number"),
        ] {
            assert_eq!(parse(url), Err(InvalidTarget(reason)), "{url}");
        }
    }

    #[test]
    fn a_request_in_this_process_keeps_its_path_alone() {
        for (inbound, expected) in [
            ("http://gateway.example/a/mcp?access_token=x", "/a/mcp"),
            ("/mcp?x", "/mcp"),
            ("*", "*"),
            ("http://gateway.example", "/"),
        ] {
            let (mut uri, mut headers) = (inbound.parse().unwrap(), HeaderMap::new());
            Target::default().apply(&mut uri, &mut headers);
            assert_eq!((uri.to_string().as_str(), &headers[HOST]), (expected, &LOCALHOST), "{inbound}");
        }
    }
}
