//! Stands for the authorization server: a key, and a token of the usual size, about 900 bytes.

use compare_common::{AUDIENCE, ISSUER, SCOPE};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rsa::Generate as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use serde_json::json;

/// A key set, and a token that it verifies.
pub(crate) fn issue() -> Result<(String, String), Box<dyn std::error::Error>> {
    let key = EncodingKey::from_rsa_der(rsa::PrivateKey::generate().to_pkcs1_der()?.as_bytes());
    let mut jwk = json!(Jwk::from_encoding_key(&key, Algorithm::RS256)?);
    jwk["kid"] = "key-2026-01".into();
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "auth0|5f7c8ec7c33c6c004bbafe82", "client_id": "my-client-application",
        "iat": 1_700_000_000, "exp": 4_000_000_000_u64, "jti": "b7a3f5b2-8f7d-4a3e-9a55-0f1c9be1b9d2",
        "scope": format!("openid profile email {SCOPE} stock:write orders:read"),
    });
    let header = Header { kid: Some("key-2026-01".to_owned()), ..Header::new(Algorithm::RS256) };
    Ok((json!({"keys": [jwk]}).to_string(), jsonwebtoken::encode(&header, &claims, &key)?))
}
