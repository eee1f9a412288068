//! A server with some of everything: tools, resources, prompts, completion, change notifications, progress, logging and
//! questions to the client. The official conformance suite is run against it.
//!
//! ```sh
//! cargo run --example everything -- --listen 127.0.0.1:3000
//! ```
//!
//! What starts with `test_` or `test://` is what the suite asks for by name; the tools in `general` are for people.

mod asking;
mod changes;
mod content;
mod general;
mod prompts;
mod resources;

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt as _;
use mcp_layers::dispatch::{BuildError, CacheHint, Dispatch};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::request_state::StateKeys;
use mcp_layers::layers::{CapabilityLayer, HeadersLayer, OriginLayer, RequestStateLayer, VersionLayer};
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use tracing_subscriber::EnvFilter;

/// How long calls in progress may take to finish once the server has been asked to stop.
const GRACE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colours).init();

    let address = listen_address()?;
    let server = server()?;
    let listener =
        TcpListener::bind(&address).await.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    serve(listener, router(&server, StateKeys::random_per_process()?), server).await?;
    Ok(())
}

/// The value of `--listen`.
fn listen_address() -> Result<String, &'static str> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok("127.0.0.1:3000".to_owned()),
        ["--listen", address] => Ok(address.to_owned()),
        _ => Err("usage: everything [--listen ADDRESS:PORT]"),
    }
}

/// What the server offers. Lists keep this order.
fn server() -> Result<Dispatch, BuildError> {
    // Every caller sees the same lists and the same resources, so whoever caches them may share them.
    let hint = CacheHint::public(Duration::from_secs(60));
    let server = Dispatch::builder("everything", env!("CARGO_PKG_VERSION"))
        .with_title("Everything")
        .with_instructions("A server to try clients against. Nothing that it does has an effect.")
        .with_logging()
        .with_list_cache(hint)
        .with_discovery_cache(hint)
        .with_read_cache(hint);
    let server = content::add_tools(server);
    let server = asking::add_to(server);
    let server = general::add_tools(server);
    let server = prompts::add_to(server);
    let server = resources::add_to(server).build()?;
    changes::add_to(&server)?;
    Ok(server)
}

/// The layers around the server, outermost first: each one sees only what those above it have let through.
fn router(server: &Dispatch, keys: StateKeys) -> Router {
    let mcp = ServiceBuilder::new()
        // Web pages that somebody on this machine happens to visit stay out.
        .layer(OriginLayer::new())
        // HTTP ends here: the body is read and parsed, once.
        .layer(EndpointLayer::new().with_max_body_bytes(4 * 1024 * 1024))
        // Only the revision that the rest understands.
        .layer(VersionLayer::new())
        // What a proxy read in the headers is what the body says.
        .layer(HeadersLayer::new().with_catalog(server.clone()))
        // What the client cannot do is neither required of it in vain nor asked of it.
        .layer(CapabilityLayer::new().with_catalog(server.clone()))
        // What a handler wants back from the client comes back as it was given.
        .layer(RequestStateLayer::new(keys, "everything"))
        .service(server.clone());
    Router::new().route_service("/mcp", mcp)
}

/// Serves until the process is asked to stop; calls in progress then have [`GRACE`] to finish.
async fn serve(listener: TcpListener, app: Router, server: Dispatch) -> io::Result<()> {
    // Events are small and must not wait for more to come.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::warn!(%error, "TCP_NODELAY could not be set");
        }
    });
    let quiet = async move {
        asked_to_stop().await;
        tracing::info!("finishing the calls in progress");
        // Ends the streams of `subscriptions/listen` too, which would otherwise stay open for ever.
        server.shutdown().await;
    };
    tokio::select! {
        ended = axum::serve(listener, app).with_graceful_shutdown(quiet) => ended,
        () = async { asked_to_stop().await; tokio::time::sleep(GRACE).await } => {
            tracing::warn!("some calls did not finish within {GRACE:?}");
            Ok(())
        }
    }
}

/// Returns at Ctrl-C, or when a process manager asks the process to stop.
async fn asked_to_stop() {
    let interrupted = async { tokio::signal::ctrl_c().await.expect("Ctrl-C can be listened for") };
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate()).expect("SIGTERM can be listened for").recv().await;
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = interrupted => {}
        () = terminated => {}
    }
}
