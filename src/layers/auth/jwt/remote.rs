//! Keys that are fetched from the issuer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::super::fetch::{FetchError, Fetcher, is_safe};
use super::super::url::Url;
use super::super::verifier::VerifyError;
use super::keys::{InvalidKeys, Key, KeySet, Wanted};

/// Clocks of two cores, and requests that overtake each other, differ by less.
const SKEW: Duration = Duration::from_secs(60);

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
    source: Source,
    refresh_after: Duration,
    cooldown: Duration,
    good_for: Duration,
    fetcher: Fetcher,
}

#[derive(Clone, Debug)]
enum Source {
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

    async fn fetch(&self) -> Result<KeySet, FetchError> {
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

/// Remote keys at work.
pub(super) struct Live {
    settings: RemoteKeys,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    current: ArcSwapOption<Fetched>,
    /// Held for moments, never while something is fetched.
    gate: Mutex<Gate>,
}

pub(super) struct Fetched {
    keys: KeySet,
    at: SystemTime,
}

#[derive(Default)]
struct Gate {
    /// Closes when the fetch in progress is over, however it ends.
    flight: Option<watch::Receiver<()>>,
    tried_at: Option<SystemTime>,
    failed: bool,
}

/// What a look at the keys has found.
enum Looked {
    Found(Arc<Key>),
    /// No key that fits.
    Unknown,
    /// No keys that are good.
    NoKeys,
}

impl Live {
    pub(super) fn new(settings: RemoteKeys) -> Self {
        Self { settings, state: Arc::default() }
    }

    /// The keys, as long as they are good; has them fetched in the background when they get old.
    pub(super) fn usable(&self, now: SystemTime) -> Option<Guard<Option<Arc<Fetched>>>> {
        let current = self.state.current.load();
        let age = now.duration_since(current.as_ref()?.at).unwrap_or_default();
        if age >= self.settings.refresh_after {
            let _ = self.fetch(now);
        }
        (age < self.settings.good_for).then_some(current)
    }

    /// The key that fits.
    pub(super) async fn find(&self, wanted: &Wanted<'_>, now: SystemTime) -> Result<Arc<Key>, VerifyError> {
        if let Looked::Found(key) = self.look(wanted, now)? {
            return Ok(key);
        }
        if let Some(mut flight) = self.fetch(now) {
            // It never changes, it only closes.
            let _ = flight.changed().await;
        }
        // Looked at again even if nothing was fetched: somebody else's fetch may have ended since.
        match self.look(wanted, now)? {
            Looked::Found(key) => Ok(key),
            // Whether the issuer has such a key by now is not known.
            Looked::Unknown if !self.gate().failed => Err(super::UNKNOWN_KEY),
            Looked::Unknown | Looked::NoKeys => Err(self.unavailable()),
        }
    }

    fn look(&self, wanted: &Wanted<'_>, now: SystemTime) -> Result<Looked, VerifyError> {
        let Some(current) = self.usable(now) else { return Ok(Looked::NoKeys) };
        let Some(fetched) = &*current else { return Ok(Looked::NoKeys) };
        Ok(fetched.keys.find(wanted)?.map_or(Looked::Unknown, Looked::Found))
    }

    fn unavailable(&self) -> VerifyError {
        VerifyError::unavailable(self.settings.cooldown.max(Duration::from_secs(1)))
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.state.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to fetch the keys, unless that was done a moment ago. Returns what to wait for, if there is anything.
    fn fetch(&self, now: SystemTime) -> Option<watch::Receiver<()>> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let mut gate = self.gate();
        if let Some(flight) = gate.flight.as_ref().filter(|flight| flight.has_changed().is_ok()) {
            return Some(flight.clone());
        }
        let rested = gate.tried_at.is_none_or(|tried_at| match now.duration_since(tried_at) {
            Ok(since) => since >= self.settings.cooldown,
            // The clock has been set back.
            Err(error) => error.duration() > SKEW.max(self.settings.cooldown),
        });
        if !rested {
            return None;
        }
        let (landing, flight) = watch::channel(());
        gate.tried_at = Some(now);
        gate.flight = Some(flight.clone());
        let (settings, state) = (self.settings.clone(), Arc::clone(&self.state));
        // A task of its own: callers that hang up must not stop what others wait for.
        runtime.spawn(async move {
            let fetched = settings.fetch().await;
            let failed = fetched.is_err();
            match fetched {
                Ok(mut keys) => {
                    if let Some(earlier) = &*state.current.load() {
                        keys.follow(&earlier.keys);
                    }
                    tracing::debug!(?keys, "fetched the issuer's keys");
                    state.current.store(Some(Arc::new(Fetched { keys, at: now })));
                }
                Err(error) => tracing::warn!(
                    source = ?settings.source, %error,
                    "cannot fetch the issuer's keys; those that are there stay good for a while"
                ),
            }
            state.gate.lock().unwrap_or_else(PoisonError::into_inner).failed = failed;
            drop(landing);
        });
        Some(flight)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
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
