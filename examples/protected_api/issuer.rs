//! Stands for the authorization server, which is somebody else's: publishes a key, and signs tokens for whoever asks.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::{Json, Router, routing::get};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rsa::Generate as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use serde_json::{Value, json};

use crate::http::BoxError;

#[derive(Clone)]
pub(crate) struct Issuer {
    url: String,
    key: Arc<EncodingKey>,
    jwks: Value,
}

impl Issuer {
    /// With a new key; `url` is where it is served.
    pub(crate) fn new(url: String) -> Result<Self, BoxError> {
        let key = rsa::PrivateKey::generate().to_pkcs1_der()?;
        let key = EncodingKey::from_rsa_der(key.as_bytes());
        let mut jwk = json!(Jwk::from_encoding_key(&key, Algorithm::RS256)?);
        jwk["kid"] = "1".into();
        Ok(Self { url, key: Arc::new(key), jwks: json!({ "keys": [jwk] }) })
    }

    /// Its metadata (RFC 8414) and its keys.
    pub(crate) fn router(&self) -> Router {
        let metadata = json!({ "issuer": self.url, "jwks_uri": format!("{}/jwks", self.url) });
        let jwks = self.jwks.clone();
        Router::new()
            .route("/.well-known/oauth-authorization-server", get(|| async { Json(metadata) }))
            .route("/jwks", get(|| async { Json(jwks) }))
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A token for `audience` that is good for an hour.
    pub(crate) fn token(&self, audience: &str, subject: &str, scope: &str) -> Result<String, BoxError> {
        let header = Header { kid: Some("1".to_owned()), ..Header::new(Algorithm::RS256) };
        let expiry = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + Duration::from_secs(3600);
        let claims = json!({
            "iss": self.url, "aud": audience, "sub": subject, "exp": expiry.as_secs(), "scope": scope,
        });
        Ok(jsonwebtoken::encode(&header, &claims, &self.key)?)
    }
}
