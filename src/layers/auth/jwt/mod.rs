//! Tokens that are JWTs.

mod keys;
#[cfg(feature = "jwks")]
mod live;
#[cfg(feature = "jwks")]
mod remote;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64_simd::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use jsonwebtoken::crypto::CryptoProvider;
use serde_json::{Map, Value};

pub use self::keys::{InvalidKeys, StaticKeys};
#[cfg(feature = "jwks")]
pub use self::remote::RemoteKeys;

use self::keys::{Key, KeySet, Wanted};
#[cfg(feature = "jwks")]
use self::live::Live;
use super::claims::Expected;
use super::verifier::{Token, TokenVerifier, Verified, VerifyError};
use crate::message::RawObject;

/// Verifies tokens that are JWTs, made for this server by one issuer.
///
/// # Rules
/// - `iss` is the issuer and `aud` is, or has, the audience: texts are compared as they are, so a trailing slash counts.
///   `exp` must be there; `nbf` counts where it is. Leeway is 60 s unless set.
/// - Signatures are RSA (`RS*`, `PS*`), ECDSA (`ES256`, `ES384`) or `EdDSA` with Ed25519. `HS*` is only taken with a
///   [shared secret](StaticKeys::from_secret), and nothing else then. `none` is never taken.
/// - The key is the one that fits the header's `kid` and `alg`; without a `kid`, the only one that fits `alg`. Keys that
///   say `use` or `key_ops` for something else do not fit. `jku`, `jwk` and `x5c` in a token are not looked at.
/// - A token with `crit`, with other than three parts, or that is encrypted, is refused, and so is one whose header or
///   claims name a member twice: two readers could take two values (RFC 7519, section 4).
/// - Scopes are read from `scope` and `scp`, the client from `client_id`, else `azp`.
///
/// # Example
/// ```
/// use mcp_layers::layers::auth::{JwtVerifier, StaticKeys};
///
/// let jwks = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig",
///     "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// let keys = StaticKeys::from_jwks(jwks)?;
/// let verifier = JwtVerifier::new("https://issuer.example", "https://mcp.example.com/mcp", keys);
/// # let _ = verifier;
/// # Ok::<(), mcp_layers::layers::auth::InvalidKeys>(())
/// ```
#[must_use]
pub struct JwtVerifier {
    expected: Expected,
    keys: KeySource,
    typ: Option<String>,
}

/// Where a [`JwtVerifier`] has its keys from: [`StaticKeys`], or `RemoteKeys` with the feature `jwks`.
pub struct KeySource(Source);

enum Source {
    Static(KeySet),
    #[cfg(feature = "jwks")]
    Remote(Arc<Live>),
}

impl From<StaticKeys> for KeySource {
    fn from(keys: StaticKeys) -> Self {
        Self(Source::Static(keys.0))
    }
}

#[cfg(feature = "jwks")]
impl From<RemoteKeys> for KeySource {
    fn from(keys: RemoteKeys) -> Self {
        Self(Source::Remote(Arc::new(Live::new(keys))))
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Static(keys) => keys.fmt(f),
            #[cfg(feature = "jwks")]
            Source::Remote(live) => live.fmt(f),
        }
    }
}

impl JwtVerifier {
    /// Takes tokens of `issuer` for `audience`, mostly the URL of this server, signed with one of `keys`.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>, keys: impl Into<KeySource>) -> Self {
        // Where another crate has turned on another cryptography in `jsonwebtoken` as well, it asks for a choice, and
        // would panic with the first token.
        if CryptoProvider::try_get_default().is_none() {
            // Somebody may have been faster, which is as good.
            let _ = jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.install_default();
        }
        Self { expected: Expected::new(issuer.into(), audience.into()), keys: keys.into(), typ: None }
    }

    /// Takes tokens for this audience as well.
    pub fn with_audience(mut self, audience: impl Into<String>) -> Self {
        self.expected.audiences.push(audience.into());
        self
    }

    /// How far the clocks of issuer and server may be apart. Defaults to 60 s.
    pub fn with_leeway(mut self, leeway: Duration) -> Self {
        self.expected.leeway = leeway;
        self
    }

    /// Takes only tokens whose header says this `typ`, for instance `at+jwt` (RFC 9068), in any case and with or without
    /// `application/` before it. Defaults to any.
    pub fn with_type(mut self, typ: impl Into<String>) -> Self {
        self.typ = Some(typ.into());
        self
    }

    #[cfg_attr(
        not(feature = "jwks"),
        allow(clippy::unused_async, reason = "only keys that are fetched are awaited")
    )]
    async fn key(&self, wanted: &Wanted<'_>, now: SystemTime) -> Result<Arc<Key>, VerifyError> {
        match &self.keys.0 {
            Source::Static(keys) => {
                let _ = now;
                keys.find(wanted)?.ok_or(UNKNOWN_KEY)
            }
            #[cfg(feature = "jwks")]
            Source::Remote(live) => live.find(wanted, now).await,
        }
    }
}

/// It may be published in a moment.
const UNKNOWN_KEY: VerifyError =
    VerifyError::not_now("the token is signed with a key that the issuer does not publish");
const MALFORMED: VerifyError = VerifyError::invalid("the token is not a signed JWT");

impl TokenVerifier for JwtVerifier {
    async fn verify(&self, token: &Token) -> Result<Verified, VerifyError> {
        let text = token.as_str();
        let (message, signature) = text.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, claims) = message.split_once('.').ok_or(MALFORMED)?;
        // Encrypted tokens have five parts.
        if claims.contains('.') {
            return Err(MALFORMED);
        }
        let header = read_object(header)?;
        let algorithm = self.check_header(&header)?;
        let kid = match header.get("kid") {
            None => None,
            Some(kid) => Some(kid.as_str().ok_or(MALFORMED)?),
        };
        let key = self.key(&Wanted { kid, algorithm }, token.received_at()).await?;
        let signed = jsonwebtoken::crypto::verify(signature, message.as_bytes(), &key.decoding, algorithm);
        if !signed.unwrap_or(false) {
            return Err(VerifyError::invalid("the token's signature is wrong"));
        }
        let principal = self.expected.check(read_object(claims)?, token.received_at())?;
        let expiry = principal.expires_at();
        let verified = Verified::from(principal).signed_by(key.state.clone());
        Ok(match expiry {
            Some(expiry) => verified.kept_until(expiry),
            None => verified,
        })
    }

    fn still_trusts(&self, verified: &Verified, now: SystemTime) -> bool {
        let has_keys = match &self.keys.0 {
            Source::Static(_) => {
                let _ = now;
                true
            }
            // Nobody else asks for the keys while all tokens are remembered.
            #[cfg(feature = "jwks")]
            Source::Remote(live) => live.usable(now).is_some(),
        };
        has_keys && !verified.key_is_withdrawn()
    }
}

impl JwtVerifier {
    fn check_header(&self, header: &Map<String, Value>) -> Result<Algorithm, VerifyError> {
        if header.contains_key("crit") {
            return Err(VerifyError::invalid(
                "the token asks for an extension that this server does not know (crit)",
            ));
        }
        if let Some(expected) = &self.typ {
            let plain = |typ: &str| {
                let typ = typ.to_ascii_lowercase();
                typ.strip_prefix("application/").map_or(typ.clone(), ToOwned::to_owned)
            };
            let typ = header.get("typ").and_then(Value::as_str);
            if typ.map(plain) != Some(plain(expected)) {
                return Err(VerifyError::invalid(
                    "the token is of a type that this server does not take (typ)",
                ));
            }
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(read_algorithm);
        algorithm
            .ok_or(VerifyError::invalid("the token is signed in a way that this server does not take (alg)"))
    }
}

fn read_algorithm(text: &str) -> Option<Algorithm> {
    Some(match text {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" => Algorithm::EdDSA,
        // Keys for these are only there where a secret was given.
        "HS256" => Algorithm::HS256,
        "HS384" => Algorithm::HS384,
        "HS512" => Algorithm::HS512,
        _ => return None,
    })
}

fn read_object(part: &str) -> Result<Map<String, Value>, VerifyError> {
    let bytes = URL_SAFE_NO_PAD.decode_to_vec(part).map_err(|_| MALFORMED)?;
    let text = String::from_utf8(bytes).map_err(|_| MALFORMED)?;
    // It refuses members that are named twice.
    let object = RawObject::parse(text).map_err(|_| MALFORMED)?;
    let members = object.iter().map(|(name, value)| Ok((name.to_owned(), value.decode_owned()?)));
    members.collect::<serde_json::Result<_>>().map_err(|_| MALFORMED)
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier")
            .field("expected", &self.expected)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
