//! The keys that JWTs are signed with.

use std::fmt;
use std::sync::Arc;

use base64_simd::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::super::verifier::{KeyState, VerifyError};

/// More keys than this in one set are not looked at.
const MAX_KEYS: usize = 100;
const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
const HMAC: &[Algorithm] = &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];

/// A key, and what it may be used for.
pub(super) struct Key {
    kid: Option<String>,
    /// A shared secret is the only key there is, whatever a token calls it.
    is_secret: bool,
    algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
    /// Tells keys apart.
    print: String,
    pub(super) state: KeyState,
}

/// What the header of a token says of its key.
pub(super) struct Wanted<'a> {
    pub(super) kid: Option<&'a str>,
    pub(super) algorithm: Algorithm,
}

/// The keys of an issuer.
#[derive(Clone, Default)]
pub(super) struct KeySet(Vec<Arc<Key>>);

impl KeySet {
    /// Reads a JWK set. Keys that cannot be used are skipped, with a line in the log.
    pub(super) fn parse(text: &[u8]) -> Result<Self, InvalidKeys> {
        #[derive(Deserialize)]
        struct Jwks {
            keys: Vec<Value>,
        }
        let Jwks { keys } = serde_json::from_slice(text)
            .map_err(|_| InvalidKeys("the keys are not a JWK set: a JSON object with a list `keys`"))?;
        let some = !keys.is_empty();
        let mut set: Vec<Key> = Vec::new();
        for (at, key) in keys.into_iter().take(MAX_KEYS).enumerate() {
            match Key::parse(key) {
                Ok(key) => {
                    match set.iter_mut().find(|other| other.kid == key.kid && other.print == key.print) {
                        // One key, listed once for each of its algorithms.
                        Some(known) => known.algorithms.extend(key.algorithms),
                        None => set.push(key),
                    }
                }
                Err(reason) => tracing::warn!(at, reason, "skipped a key of a JWK set"),
            }
        }
        if some && set.is_empty() {
            return Err(InvalidKeys("the JWK set has no key that can be used"));
        }
        Ok(Self(set.into_iter().map(Arc::new).collect()))
    }

    /// The one key that fits, if there is one.
    ///
    /// # Errors
    /// If there is a key, but it does not fit, or if several do.
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Result<Option<Arc<Key>>, VerifyError> {
        let mut named = self.0.iter().filter(|key| key.is_called(wanted.kid)).peekable();
        if named.peek().is_none() {
            return Ok(None);
        }
        let mut fitting = named.filter(|key| key.algorithms.contains(&wanted.algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(Some(Arc::clone(key))),
            // Another key of the issuer may fit that has not been fetched yet.
            (None, _) if wanted.kid.is_none() => Ok(None),
            (None, _) => {
                Err(VerifyError::invalid("the token is signed in a way that does not fit its key (alg)"))
            }
            (Some(_), Some(_)) => Err(VerifyError::invalid(
                "the token does not say with which of several keys it is signed (kid)",
            )),
        }
    }

    /// Withdraws the keys of `earlier` that are not here, and goes on with those that are.
    #[cfg_attr(not(feature = "jwks"), allow(dead_code, reason = "keys that are given do not change"))]
    pub(super) fn follow(&mut self, earlier: &Self) {
        for old in &earlier.0 {
            let same = |new: &&mut Arc<Key>| {
                new.kid == old.kid && new.print == old.print && new.algorithms == old.algorithms
            };
            match self.0.iter_mut().find(same) {
                Some(new) => *new = Arc::clone(old),
                None => old.state.withdraw(),
            }
        }
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.kid)).finish()
    }
}

/// The members of a JWK that count here; of private ones nothing is kept.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    /// Without a name in the token, every key may be meant.
    fn is_called(&self, kid: Option<&str>) -> bool {
        self.is_secret || kid.is_none() || self.kid.as_deref() == kid
    }

    fn parse(key: Value) -> Result<Self, &'static str> {
        let jwk: Jwk = serde_json::from_value(key).map_err(|_| "it is not a JWK")?;
        if jwk.r#use.as_deref().is_some_and(|wanted| wanted != "sig")
            || jwk.key_ops.as_ref().is_some_and(|ops| !ops.iter().any(|op| op == "verify"))
        {
            return Err("it is not for signatures");
        }
        let missing = "a member is missing";
        let (algorithms, decoding, print) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (jwk.n.ok_or(missing)?, jwk.e.ok_or(missing)?);
                let bits = bytes(&n)?.iter().skip_while(|byte| **byte == 0).count() * 8;
                if !(2048..=8192).contains(&bits) {
                    return Err("an RSA key has 2048 to 8192 bits");
                }
                let decoding =
                    DecodingKey::from_rsa_components(&n, &e).map_err(|_| "it is not an RSA key")?;
                (RSA, decoding, format!("RSA.{n}.{e}"))
            }
            ("EC", Some(curve @ ("P-256" | "P-384"))) => {
                let (x, y) = (jwk.x.ok_or(missing)?, jwk.y.ok_or(missing)?);
                let (len, algorithm) = match curve {
                    "P-256" => (32, &[Algorithm::ES256][..]),
                    _ => (48, &[Algorithm::ES384][..]),
                };
                if bytes(&x)?.len() != len || bytes(&y)?.len() != len {
                    return Err("it is not a point of its curve");
                }
                let decoding = DecodingKey::from_ec_components(&x, &y).map_err(|_| "it is not an EC key")?;
                (algorithm, decoding, format!("EC.{x}.{y}"))
            }
            ("OKP", Some("Ed25519")) => {
                let x = jwk.x.ok_or(missing)?;
                if bytes(&x)?.len() != 32 {
                    return Err("it is not a point of its curve");
                }
                let decoding = DecodingKey::from_ed_components(&x).map_err(|_| "it is not an Ed25519 key")?;
                (&[Algorithm::EdDSA][..], decoding, format!("OKP.{x}"))
            }
            // Whoever can read a published secret can make tokens.
            ("oct", _) => return Err("it is a secret"),
            _ => return Err("its type or curve is not supported"),
        };
        let mut algorithms = algorithms.to_vec();
        if let Some(alg) = jwk.alg {
            let alg = super::read_algorithm(&alg);
            algorithms.retain(|algorithm| Some(*algorithm) == alg);
            if algorithms.is_empty() {
                return Err("its algorithm is not supported, or not one of its type");
            }
        }
        Ok(Self { kid: jwk.kid, is_secret: false, algorithms, decoding, print, state: KeyState::default() })
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    URL_SAFE_NO_PAD.decode_to_vec(text).map_err(|_| "a member is not base64url")
}

/// Keys that are given and stay.
#[derive(Clone, Debug)]
#[must_use]
pub struct StaticKeys(pub(super) KeySet);

impl StaticKeys {
    /// The public keys of a JWK set. Keys that cannot be used are skipped, with a line in the log.
    ///
    /// # Errors
    /// If `text` is not a JWK set, or has no key that can be used.
    pub fn from_jwks(text: impl AsRef<[u8]>) -> Result<Self, InvalidKeys> {
        let set = KeySet::parse(text.as_ref())?;
        if set.0.is_empty() {
            return Err(InvalidKeys("the JWK set has no key"));
        }
        Ok(Self(set))
    }

    /// A secret that issuer and server share, for `HS256`, `HS384` and `HS512`: whoever has it can make tokens.
    ///
    /// ```
    /// use mcp_layers::layers::auth::StaticKeys;
    ///
    /// assert!(StaticKeys::from_secret([7; 32]).is_ok());
    /// assert!(StaticKeys::from_secret("hunter2").is_err());
    /// ```
    ///
    /// # Errors
    /// If it has fewer than 32 bytes.
    pub fn from_secret(secret: impl AsRef<[u8]>) -> Result<Self, InvalidKeys> {
        let secret = secret.as_ref();
        let too_short = InvalidKeys("a shared secret has at least 32 bytes");
        if secret.len() < 32 {
            return Err(too_short);
        }
        let decoding = DecodingKey::from_secret(secret).map_err(|_| too_short)?;
        debug_assert_eq!(decoding.family(), AlgorithmFamily::Hmac);
        let key = Key {
            kid: None,
            is_secret: true,
            algorithms: HMAC.to_vec(),
            decoding,
            print: String::new(),
            state: KeyState::default(),
        };
        Ok(Self(KeySet(vec![Arc::new(key)])))
    }
}

/// Keys that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeys(pub(super) &'static str);

impl fmt::Display for InvalidKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidKeys {}
