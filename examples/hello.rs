//! The smallest useful server: one tool, beside an ordinary route of an axum application.
//!
//! `cargo run --example hello`, then paste the command that it prints.

use axum::{Router, routing::get};
use mcp_layers::dispatch::{Dispatch, Tool};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::{HeadersLayer, OriginLayer, VersionLayer};
use tower::ServiceBuilder;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    /// Who is to be greeted.
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let greet = |Greet { name }: Greet, _| async move { Ok(format!("Hello, {name}!")) };
    let greet = Tool::new("greet", greet).with_description("Greets somebody");
    let server = Dispatch::builder("hello", "1.0.0").tool(greet).build()?;
    let mcp = ServiceBuilder::new()
        .layer(OriginLayer::new())
        .layer(EndpointLayer::new())
        .layer(VersionLayer::new())
        .layer(HeadersLayer::new().with_catalog(server.clone()))
        .service(server);
    let app = Router::new().route("/", get(|| async { "MCP is at /mcp" })).route_service("/mcp", mcp);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("{TRY_IT}");
    Ok(axum::serve(listener, app).await?)
}

const TRY_IT: &str = r#"curl http://127.0.0.1:3000/mcp -H 'Content-Type: application/json' \
  -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: greet' \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"},"_meta":{
  "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'"#;
