//! Keys that are fetched from the issuer.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::fetch::{FetchError, Fetcher, is_safe};
use super::super::url::Url;
use super::keys::{InvalidKeys, KeySet};

/// Keys that are fetched from the issuer, when the first token comes and from then on in the background.
///
/// # Rules
/// - URLs are `https`, or `http` on this very machine. Redirects are not followed, an answer has at most 256 KiB and
///   5 s. The system's certificates are trusted, unless [others](Self::with_authorities) are given; an issuer with
///   another certificate does not answer, as far as this is concerned.
/// - The keys are fetched again when they are older than 10 minutes, and when a token names a key that they do not have,
///   but not within 10 s of the last time. Whoever needs keys while they are being fetched waits for that one fetch.
/// - A key that is no longer published is withdrawn: tokens signed with it are refused, remembered or not.
/// - If the issuer does not answer, the keys stay good until they are an hour old. After that, and for tokens with a key
///   that cannot be looked up, the answer is 503 with `Retry-After`, never 401.
///
/// Fetching needs a Tokio runtime.
#[derive(Clone, Debug)]
#[must_use]
pub struct RemoteKeys {
    pub(super) source: Source,
    pub(super) refresh_after: Duration,
    pub(super) cooldown: Duration,
    pub(super) good_for: Duration,
    fetcher: Fetcher,
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Jwks(String),
    Issuer(String),
}

impl RemoteKeys {
    /// The JWK set at `url`, the `jwks_uri` of the issuer.
    ///
    /// # Errors
    /// If `url` is neither `https` nor on this machine.
    pub fn new(url: impl Into<String>) -> Result<Self, InvalidKeys> {
        let url = url.into();
        if !is_safe(&url) {
            return Err(InvalidKeys("keys are fetched from an `https` URL, or from this machine"));
        }
        Ok(Self::from_source(Source::Jwks(url)))
    }

    /// Finds the JWK set of `issuer` in its metadata: by RFC 8414, else by `OpenID` Connect Discovery. The metadata must
    /// name the issuer as it is written here.
    ///
    /// # Errors
    /// If `issuer` is neither `https` nor on this machine, or has a query.
    pub fn discovered(issuer: impl Into<String>) -> Result<Self, InvalidKeys> {
        let issuer = issuer.into();
        if !Url::parse(&issuer).is_some_and(|url| url.is_safe() && url.query.is_none()) {
            return Err(InvalidKeys("an issuer is an `https` URL without a query, or on this machine"));
        }
        Ok(Self::from_source(Source::Issuer(issuer)))
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            refresh_after: Duration::from_secs(600),
            cooldown: Duration::from_secs(10),
            good_for: Duration::from_secs(3600),
            fetcher: Fetcher::new(),
        }
    }

    /// How old the keys are when they are fetched again. Defaults to 10 minutes.
    pub fn with_refresh_after(mut self, age: Duration) -> Self {
        self.refresh_after = age;
        self
    }

    /// How much time is between two fetches, whatever tokens say. Defaults to 10 s.
    pub fn with_cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// How old keys may get while the issuer does not answer. Defaults to an hour.
    pub fn with_good_for(mut self, age: Duration) -> Self {
        self.good_for = age;
        self
    }

    /// How long one request to the issuer may take. Defaults to 5 s.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.fetcher.timeout = timeout;
        self
    }

    /// The longest answer of the issuer that is read. Defaults to 256 KiB.
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.fetcher.max_bytes = max_bytes;
        self
    }

    /// Trusts the authorities whose certificates are in `pem`, and no others. Defaults to those that the system trusts.
    ///
    /// # Errors
    /// If `pem` is not PEM, or holds no certificate of an authority.
    pub fn with_authorities(mut self, pem: &[u8]) -> Result<Self, InvalidKeys> {
        self.fetcher.trust(pem).map_err(InvalidKeys)?;
        Ok(self)
    }

    pub(super) async fn fetch(&self) -> Result<KeySet, FetchError> {
        let url = match &self.source {
            Source::Jwks(url) => url.clone(),
            Source::Issuer(issuer) => self.discover(issuer).await?,
        };
        let text = self.fetcher.get(&url).await?;
        KeySet::parse(&text).map_err(|error| FetchError::Content(error.0))
    }

    /// The `jwks_uri` of an issuer.
    async fn discover(&self, issuer: &str) -> Result<String, FetchError> {
        let mut last = FetchError::Url;
        for url in metadata_urls(issuer) {
            match self.fetcher.get(&url).await.and_then(|text| read_metadata(&text, issuer)) {
                Ok(jwks) => return Ok(jwks),
                Err(error) => {
                    tracing::debug!(url, %error, "found no metadata of the issuer here");
                    last = error;
                }
            }
        }
        Err(last)
    }
}

/// Specification: `basic/authorization/authorization-server-discovery`, "Authorization Server Metadata Discovery".
fn metadata_urls(issuer: &str) -> Vec<String> {
    let Some(url) = Url::parse(issuer) else { return Vec::new() };
    let (origin, path) = (url.origin, url.path.strip_suffix('/').unwrap_or(url.path));
    let mut urls = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        urls.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    urls
}

fn read_metadata(text: &Bytes, issuer: &str) -> Result<String, FetchError> {
    let metadata: Map<String, Value> =
        serde_json::from_slice(text).map_err(|_| FetchError::Content("the metadata is not a JSON object"))?;
    if metadata.get("issuer").and_then(Value::as_str) != Some(issuer) {
        return Err(FetchError::Content("the metadata is of another issuer, or spells it differently"));
    }
    match metadata.get("jwks_uri").and_then(Value::as_str) {
        Some(url) if is_safe(url) => Ok(url.to_owned()),
        Some(_) => Err(FetchError::Url),
        None => Err(FetchError::Content("the metadata names no `jwks_uri`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_the_specification_says() {
        assert_eq!(
            metadata_urls("https://i.example/tenant"),
            [
                "https://i.example/.well-known/oauth-authorization-server/tenant",
                "https://i.example/.well-known/openid-configuration/tenant",
                "https://i.example/tenant/.well-known/openid-configuration"
            ]
        );
        for root in ["https://i.example", "https://i.example/"] {
            assert_eq!(
                metadata_urls(root),
                [
                    "https://i.example/.well-known/oauth-authorization-server",
                    "https://i.example/.well-known/openid-configuration"
                ]
            );
        }
    }

    #[test]
    fn metadata_of_another_issuer_is_none() {
        let read = |text: &'static str| read_metadata(&Bytes::from(text), "https://i.example").ok();
        let good = r#"{"issuer":"https://i.example","jwks_uri":"https://k.example/keys"}"#;
        assert_eq!(read(good).as_deref(), Some("https://k.example/keys"));
        for bad in [
            r#"{"issuer":"https://i.example/","jwks_uri":"https://k.example/keys"}"#,
            r#"{"jwks_uri":"https://k.example/keys"}"#,
            r#"{"issuer":"https://i.example"}"#,
            r#"{"issuer":"https://i.example","jwks_uri":"http://k.example/keys"}"#,
            "<html>",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn urls_that_others_can_listen_to_are_refused() {
        for good in ["https://a.example/k", "http://127.0.0.1:1/k", "http://localhost/k", "http://[::1]:80/k"]
        {
            assert!(RemoteKeys::new(good).is_ok(), "{good}");
        }
        let bad = [
            "http://a.example/k",
            "http://127.0.0.1:80.evil.com/k",
            "http://localhost@evil.com/",
            "ftp://a",
            "",
            "https://u:p@a.example/",
        ];
        for url in bad {
            assert!(RemoteKeys::new(url).is_err() && RemoteKeys::discovered(url).is_err(), "{url}");
        }
        assert!(RemoteKeys::discovered("https://a.example?x").is_err());
    }
}
