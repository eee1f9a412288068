//! Tokens that only the issuer can read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64_simd::STANDARD;
use http::{Request, header};
use serde_json::{Map, Value};

use super::claims::Expected;
use super::fetch::{FetchError, Fetcher, is_safe};
use super::verifier::{Token, TokenVerifier, Verified, VerifyError};
use crate::flight::Flights;
use crate::principal::Partition;

/// How a server asks the issuer about tokens (RFC 7662); the way to an [`IntrospectionVerifier`].
#[derive(Clone)]
#[must_use]
pub struct Introspection {
    url: String,
    authorization: Option<String>,
    expected: Expected,
    kept_for: Duration,
    fetcher: Fetcher,
}

impl Introspection {
    /// Asks at `url` about tokens of `issuer` for `audience`, mostly the URL of this server.
    pub fn new(url: impl Into<String>, issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        let mut expected = Expected::new(issuer.into(), audience.into());
        expected.issuer_is_known = true;
        Self {
            url: url.into(),
            authorization: None,
            expected,
            kept_for: Duration::from_secs(30),
            fetcher: Fetcher::new(),
        }
    }

    /// Says who asks: the name and secret that the issuer knows this server by. Defaults to saying nothing.
    pub fn with_client(mut self, id: &str, secret: &str) -> Self {
        let credentials = STANDARD.encode_to_string(format!("{}:{}", encode(id), encode(secret)));
        self.authorization = Some(format!("Basic {credentials}"));
        self
    }

    /// Says who asks with a bearer token. Defaults to saying nothing.
    pub fn with_bearer(mut self, token: &str) -> Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// Takes tokens for this audience as well.
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.expected.audiences.push(audience.into());
        self
    }

    /// Takes tokens for any audience, also where the issuer does not say whom they are meant for. Only safe if the issuer
    /// itself sees to it that a token is active for nobody but this server.
    pub fn with_any_audience(mut self) -> Self {
        self.expected.audiences.clear();
        self
    }

    /// Takes tokens that never expire, as far as the issuer says. Defaults to refusing them.
    pub fn with_optional_expiry(mut self) -> Self {
        self.expected.expiry_is_optional = true;
        self
    }

    /// How long an answer is remembered: for that long a token that was revoked may still be taken. Defaults to 30 s.
    pub fn with_kept_for(mut self, kept_for: Duration) -> Self {
        self.kept_for = kept_for;
        self
    }

    /// How long one request to the issuer may take. Defaults to 5 s.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.fetcher.timeout = timeout;
        self
    }

    /// Trusts the authorities whose certificates are in `pem`, and no others. Defaults to those that the system trusts.
    ///
    /// # Errors
    /// If `pem` is not PEM, or holds no certificate of an authority.
    pub fn with_authorities(mut self, pem: &[u8]) -> Result<Self, InvalidIntrospection> {
        self.fetcher.trust(pem).map_err(InvalidIntrospection)?;
        Ok(self)
    }

    /// The verifier.
    ///
    /// # Errors
    /// If the URL is neither `https` nor on this machine, or a credential has characters that no header has.
    pub fn build(self) -> Result<IntrospectionVerifier, InvalidIntrospection> {
        if !is_safe(&self.url) {
            return Err(InvalidIntrospection("tokens are sent to an `https` URL, or to this machine"));
        }
        let is_header = |text: &String| header::HeaderValue::from_str(text).is_ok();
        if !self.authorization.as_ref().is_none_or(is_header) {
            return Err(InvalidIntrospection("a credential has characters that no header has"));
        }
        Ok(IntrospectionVerifier { settings: Arc::new(self), flights: Arc::new(Flights::new()) })
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("url", &self.url)
            .field("expected", &self.expected)
            .field("kept_for", &self.kept_for)
            .finish_non_exhaustive()
    }
}

/// An [`Introspection`] that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidIntrospection(&'static str);

impl fmt::Display for InvalidIntrospection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidIntrospection {}

/// Verifies opaque tokens by asking the issuer (RFC 7662).
///
/// `active` must be true. The audience must be this server's and the expiry must be there, unless the settings say
/// otherwise; an `iss` that is there must be the issuer's. What the issuer does not answer is 503, as is an issuer whose
/// certificate is not trusted. A token that is not active is refused, and remembered as that for a moment.
///
/// Requests with the same token at the same time share one question, which goes on while any of them waits.
///
/// ```
/// use mcp_layers::layers::auth::Introspection;
///
/// let verifier = Introspection::new(
///     "https://issuer.example/introspect",
///     "https://issuer.example",
///     "https://mcp.example.com/mcp",
/// )
/// .with_client("mcp-server", "the secret")
/// .build()?;
/// assert!(!format!("{verifier:?}").contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct IntrospectionVerifier {
    settings: Arc<Introspection>,
    flights: Arc<Flights<Partition, Result<Verified, VerifyError>>>,
}

impl TokenVerifier for IntrospectionVerifier {
    async fn verify(&self, token: &Token) -> Result<Verified, VerifyError> {
        let flight = self.flights.join(token.digest(), || {
            let (settings, token) = (Arc::clone(&self.settings), token.clone());
            Box::pin(async move { settings.ask(&token).await })
        });
        // Nothing comes of a question that panicked.
        flight.await.unwrap_or(Err(UNANSWERED))
    }
}

impl fmt::Debug for IntrospectionVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IntrospectionVerifier").field(&self.settings).finish()
    }
}

const UNANSWERED: VerifyError = VerifyError::unavailable(Duration::from_secs(5));

impl Introspection {
    async fn ask(&self, token: &Token) -> Result<Verified, VerifyError> {
        let Self { url, authorization, expected, kept_for, fetcher } = self;
        let mut request = Request::post(url.as_str())
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let body = format!("token={}&token_type_hint=access_token", encode(token.as_str()));
        let claims = fetcher.send(request, body.into()).await.and_then(|text| {
            serde_json::from_slice::<Map<String, Value>>(&text)
                .map_err(|_| FetchError::Content("the answer is not a JSON object"))
        });
        let claims = claims.map_err(|error| {
            tracing::warn!(url, %error, "cannot ask the issuer about a token");
            UNANSWERED
        })?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(VerifyError::invalid("the token is not active"));
        }
        let now = token.received_at();
        let verified = Verified::from(expected.check(claims, now)?);
        Ok(match now.checked_add(*kept_for) {
            Some(until) if !kept_for.is_zero() => verified.kept_until(until),
            _ => verified,
        })
    }
}

/// Percent-encodes for a form.
fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
