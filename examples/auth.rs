//! Two tools and two scopes: who calls, and what they may do.
//!
//! `cargo run --example auth --all-features`, then paste the commands that it prints: no token, a token that lacks a
//! scope, a list that shows what may be called, and a call that is answered. The issuer is somebody else's business; here
//! it is this program, which makes a key and signs three tokens with it.

use std::time::{Duration, SystemTime};

use axum::Router;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use mcp_layers::dispatch::{Dispatch, Tool};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::auth::{AuthLayer, JwtVerifier, ProtectedResource, StaticKeys};
use mcp_layers::layers::scope::{ScopeLayer, ScopeRules};
use mcp_layers::layers::{HeadersLayer, OriginLayer, VersionLayer};
use rsa::Generate as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use serde_json::json;
use tower::ServiceBuilder;

const ISSUER: &str = "https://issuer.example";
const ME: &str = "http://127.0.0.1:3000/mcp";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let issuer = Issuer::new()?;

    let tool = |name: &str| Tool::raw(name, json!({"type": "object"}), |_, _| async { Ok("done") });
    let server = Dispatch::builder("files", "1.0.0")
        .tool(tool("read").with_scopes("files:read"))
        .tool(tool("write").with_scopes("files:write"))
        .build()?;

    // Who calls. With a real issuer: `RemoteKeys::discovered(ISSUER)?`.
    let resource = ProtectedResource::new(ME, [ISSUER])?.with_scopes(["files:read"])?;
    let verifier = JwtVerifier::new(ISSUER, ME, StaticKeys::from_jwks(issuer.jwks()?)?);
    // What they may do.
    let scopes = ScopeLayer::new(ScopeRules::new().with_catalog(server.clone()))?;

    let mcp = ServiceBuilder::new()
        .layer(OriginLayer::new())
        .layer(AuthLayer::new(verifier, &resource))
        .layer(EndpointLayer::new())
        .layer(VersionLayer::new())
        .layer(HeadersLayer::new().with_catalog(server.clone()))
        .layer(scopes)
        .service(server);
    // The metadata is beside the layer: it is read without a token.
    let app = Router::new().route_service(resource.path(), resource.clone()).route_service("/mcp", mcp);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let reader = issuer.token("files:read")?;
    let writer = issuer.token("files:read files:write")?;
    println!("# 401: where to get a token\n{}\n", curl(None, "tools/call", "write"));
    println!("# the metadata that the challenge points to\ncurl -i {}\n", resource.metadata_url());
    println!("# 403: which scopes it takes\n{}\n", curl(Some(&reader), "tools/call", "write"));
    println!("# the list of somebody who may only read\n{}\n", curl(Some(&reader), "tools/list", ""));
    println!("# 200\n{}\n", curl(Some(&writer), "tools/call", "write"));
    Ok(axum::serve(listener, app).await?)
}

fn curl(token: Option<&str>, method: &str, tool: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut params = json!({"_meta": meta});
    let mut headers = vec![
        "Content-Type: application/json".to_owned(),
        "MCP-Protocol-Version: 2026-07-28".to_owned(),
        format!("Mcp-Method: {method}"),
    ];
    if !tool.is_empty() {
        params["name"] = tool.into();
        headers.push(format!("Mcp-Name: {tool}"));
    }
    headers.extend(token.map(|token| format!("Authorization: Bearer {token}")));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    format!("curl -i {ME} -H '{}' -d '{body}'", headers.join("' -H '"))
}

/// Stands for the authorization server.
struct Issuer {
    key: EncodingKey,
}

impl Issuer {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let key = rsa::PrivateKey::generate().to_pkcs1_der()?;
        Ok(Self { key: EncodingKey::from_rsa_der(key.as_bytes()) })
    }

    fn jwks(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut jwk = json!(Jwk::from_encoding_key(&self.key, Algorithm::RS256)?);
        jwk["kid"] = "1".into();
        Ok(json!({"keys": [jwk]}).to_string())
    }

    /// A token that is good for an hour.
    fn token(&self, scope: &str) -> Result<String, Box<dyn std::error::Error>> {
        let header = Header { kid: Some("1".to_owned()), ..Header::new(Algorithm::RS256) };
        let expiry = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + Duration::from_secs(3600);
        let claims = json!({"iss": ISSUER, "aud": ME, "sub": "ada", "exp": expiry.as_secs(), "scope": scope});
        Ok(jsonwebtoken::encode(&header, &claims, &self.key)?)
    }
}
