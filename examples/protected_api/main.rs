//! The main job: an internal API becomes an MCP server that lets everybody do what their tokens allow, and no more.
//!
//! ```sh
//! cargo run --release --example protected_api              # serves, and prints commands to paste
//! cargo run --release --example protected_api -- --demo    # runs them all against itself
//! ```
//!
//! Three servers run in this process: the [inventory](inventory), which knows nothing of MCP or tokens; an
//! [issuer](issuer) of tokens, which stands for your identity provider; and the MCP server in front of the inventory.

mod demo;
mod http;
mod inventory;
mod issuer;
mod tools;

use std::net::SocketAddr;

use axum::Router;
use mcp_layers::layers::auth::{AuthLayer, JwtVerifier, ProtectedResource, RemoteKeys};
use mcp_layers::layers::cache::ResponseCache;
use mcp_layers::layers::request_state::StateKeys;
use mcp_layers::layers::{LimitsLayer, OriginLayer, RequestStateLayer, ScopeRules};
use mcp_layers::stack::Stack;
use mcp_layers::store::MemoryReplayStore;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::demo::Demo;
use crate::http::{BoxError, HttpClient};
use crate::inventory::Inventory;
use crate::issuer::Issuer;
use crate::tools::{ADMIN, ORDER, READ};

const USAGE: &str = "usage: protected_api [--listen ADDRESS:PORT] [--demo]";

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (listen, is_demo) = arguments()?;
    // The demo provokes refusals, and shows them itself.
    let level = if is_demo { "off" } else { "info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();

    let inventory = Inventory::new()?;
    let (listener, address) = bind("127.0.0.1:0").await?;
    tokio::spawn(serve(listener, inventory.router()));
    let inventory_url = format!("http://{address}");

    let (listener, address) = bind("127.0.0.1:0").await?;
    let issuer = Issuer::new(format!("http://{address}"))?;
    tokio::spawn(serve(listener, issuer.router()));

    let (listener, address) = bind(&listen).await?;
    let url = format!("http://{address}/mcp");
    let app = app(&url, address, &issuer, inventory_url.clone())?;

    let demo = Demo::new(url, &issuer, inventory_url, inventory)?;
    if is_demo {
        tokio::spawn(serve(listener, app));
        return demo.run().await;
    }
    demo.print_commands();
    serve(listener, app).await;
    Ok(())
}

/// The MCP server at `url`, with the metadata that tells clients where to get tokens.
fn app(url: &str, address: SocketAddr, issuer: &Issuer, inventory: String) -> Result<Router, BoxError> {
    let server = tools::server(HttpClient::new(), inventory)?;

    let resource = ProtectedResource::new(url, [issuer.url()])?.with_scopes([READ, ORDER, ADMIN])?;
    let verifier = JwtVerifier::new(issuer.url(), url, RemoteKeys::discovered(issuer.url())?);
    let rules = ScopeRules::new()
        .with_resource_prefix("inventory://", READ)
        .with_prompt("restock", READ)
        // Whoever administers the inventory may read it, too.
        .with_implication(|granted, needed| (granted, needed) == (ADMIN, READ));

    let cache = ResponseCache::new("inventory");
    let changed = cache.clone();
    server.publisher().observe(move |change| changed.invalidate(&change.into()));

    // Whoever runs several replicas gives all of them the same keys, and a store that they share.
    let state = RequestStateLayer::new(StateKeys::random_per_process()?, url)
        .with_single_use(MemoryReplayStore::new());

    let mcp = Stack::new(server.clone())
        .with_origin(OriginLayer::new().with_allowed_hosts([address.to_string(), "localhost".to_owned()])?)
        .with_auth(AuthLayer::new(verifier, &resource))
        .with_scopes(rules)?
        .with_limits(LimitsLayer::new().with_max_depth(std::num::NonZeroUsize::new(8)))
        .with_cache(cache)
        .with_request_state(state)
        .service(server);
    Ok(Router::new().route_service(resource.path(), resource.clone()).route_service("/mcp", mcp))
}

async fn bind(address: &str) -> Result<(TcpListener, SocketAddr), BoxError> {
    let cannot = |error| format!("cannot listen on {address}: {error}; choose another with --listen");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn serve(listener: TcpListener, app: Router) {
    if let Err(error) = axum::serve(listener, app).await {
        tracing::error!(%error, "a server has stopped");
    }
}

/// Where to listen, and whether to run the demo, which takes any free port.
fn arguments() -> Result<(String, bool), &'static str> {
    let (mut listen, mut demo) = (None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--listen" => listen = Some(arguments.next().ok_or(USAGE)?),
            "--demo" => demo = true,
            _ => return Err(USAGE),
        }
    }
    let default = if demo { "127.0.0.1:0" } else { "127.0.0.1:3000" };
    Ok((listen.unwrap_or_else(|| default.to_owned()), demo))
}
