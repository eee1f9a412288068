//! A gateway in front of an MCP server that somebody else wrote, in any language: it checks what that server may not,
//! and answers from a cache what it need not be asked again.
//!
//! ```sh
//! cargo run --example gateway --features upstream -- --upstream https://mcp.example.com/mcp --listen 127.0.0.1:3000
//! ```
//!
//! It is for one person on one machine: whoever reaches the address is the same caller to it, and may be shown what is
//! cached. Where callers differ, give the stack an `AuthLayer` in the place of `one_caller`.
//!
//! States that the server has the client keep are sealed with the secret in `GATEWAY_STATE_KEY`, of at least 32 bytes. Without
//! it with a random one, which no other process and no restart shares.
//!
//! Each request is one line of the log: method, target, HTTP status, error code, duration, and whether the server was asked.
//! Of a request that is refused early it is what its headers claim that the line tells.
//! It tells no arguments, no results and no credentials.

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::middleware::{self, Next};
use axum::serve::ListenerExt as _;
use axum::{Extension, Router};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use mcp_layers::layers::cache::{CacheHintsLayer, ResponseCache};
use mcp_layers::layers::learned::LearnedCatalog;
use mcp_layers::layers::request_state::{StateKey, StateKeys};
use mcp_layers::layers::{CapabilityLayer, LimitsLayer, ParamsLayer, RequestStateLayer};
use mcp_layers::message::{Message, Reply};
use mcp_layers::policy::{Policy, PolicyLayer};
use mcp_layers::principal::Principal;
use mcp_layers::rejection::Rejection;
use mcp_layers::stack::Stack;
use mcp_layers::upstream::{HttpUpstream, UpstreamLayer};
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use tracing_subscriber::EnvFilter;

/// How long requests in progress may take to finish once the gateway has been asked to stop.
const GRACE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colours).init();

    let Arguments { upstream, listen } = arguments()?;
    let gateway = gateway(&upstream, state_keys()?)?;
    let listener =
        TcpListener::bind(&listen).await.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    serve(listener, gateway).await?;
    Ok(())
}

struct Arguments {
    upstream: String,
    listen: String,
}

fn arguments() -> Result<Arguments, &'static str> {
    const USAGE: &str = "usage: gateway --upstream URL [--listen ADDRESS:PORT]";
    let (mut upstream, mut listen) = (None, "127.0.0.1:3000".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match name.as_str() {
            "--upstream" => upstream = Some(value),
            "--listen" => listen = value,
            _ => return Err(USAGE),
        }
    }
    Ok(Arguments { upstream: upstream.ok_or(USAGE)?, listen })
}

fn state_keys() -> Result<StateKeys, Box<dyn Error>> {
    Ok(match std::env::var("GATEWAY_STATE_KEY") {
        Ok(secret) => StateKeys::new([StateKey::new(secret.as_bytes())?])?,
        Err(_) => StateKeys::random_per_process()?,
    })
}

/// The stack in front of the upstream.
fn gateway(upstream: &str, keys: StateKeys) -> Result<Router, Box<dyn Error>> {
    let cache = ResponseCache::new(upstream);
    // Nobody has written down what tools there are: it is learned from the lists that pass.
    let catalog = LearnedCatalog::new(cache.clone());
    let server = ServiceBuilder::new()
        // What a server does not say of caches is said for it: keep nothing.
        .layer(CacheHintsLayer::new())
        .map_request(mark_asked)
        .layer(UpstreamLayer::to(upstream)?.with_catalog(catalog.clone()))
        .service(HttpUpstream::new());
    let mcp = Stack::learning(catalog)
        // What the client cannot do is not asked of it.
        .with_capabilities(CapabilityLayer::new().with_undeclared_left_out(true))
        // Parameters of a wrong shape, which the server may answer as something else.
        .with_layer((PolicyLayer::from_policy(Marking { cache }), ParamsLayer::new()))
        // Arguments that would cost the server more than the caller stay here.
        .with_limits(
            LimitsLayer::new()
                .with_max_elements(NonZeroUsize::new(10_000))
                .with_max_depth(NonZeroUsize::new(32)),
        )
        // Whatever the server wants back from the client comes back as it was given, from the same caller.
        .with_request_state(RequestStateLayer::new(keys, upstream))
        .service(server);
    // Everybody is the same caller, because there is nothing here to tell them apart by: the upstream is not told who asks
    // either.
    let one_caller = Principal::new("gateway", "whoever reaches it").with_credential(b"");
    let mcp = ServiceBuilder::new().layer(Extension(one_caller)).service(mcp);
    Ok(Router::new().route_service("/mcp", mcp).layer(middleware::from_fn(log)))
}

/// What the line of the log will say of a request, noted down on its way.
#[derive(Default)]
struct Marks {
    /// The method, what it is about, and whether its result can be cached.
    request: OnceLock<(String, Option<String>, bool)>,
    /// What the headers say of the first two.
    claimed: (String, Option<String>),
    asked: AtomicBool,
    code: AtomicI64,
}

/// The line of a request: written when its response has been sent, or given up.
struct Line {
    started: Instant,
    marks: Arc<Marks>,
    status: Option<u16>,
}

impl Drop for Line {
    fn drop(&mut self) {
        let (method, target, cacheable) = match self.marks.request.get() {
            Some((method, target, cacheable)) => (method.as_str(), target.as_deref(), *cacheable),
            None => (self.marks.claimed.0.as_str(), self.marks.claimed.1.as_deref(), false),
        };
        let cache = match (cacheable, self.marks.asked.load(Ordering::Relaxed)) {
            (true, false) if self.status == Some(200) => "hit",
            (true, true) => "miss",
            _ => "-",
        };
        tracing::info!(
            method = short(method),
            target = short(target.unwrap_or("-")),
            status = self.status.unwrap_or_default(),
            code = self.marks.code.load(Ordering::Relaxed),
            ms = self.started.elapsed().as_millis(),
            cache,
            "request"
        );
    }
}

/// What callers write is not written without bound, and without characters that draw on a terminal.
fn short(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A query may hold what is nobody's business.
fn without_query(target: &str) -> String {
    target.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// The method and the target, as whoever looks at no bodies sees them.
fn claimed(headers: &HeaderMap) -> (String, Option<String>) {
    let claim = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let method = claim("mcp-method").map_or_else(|| "-".to_owned(), Cow::into_owned);
    (method, claim("mcp-name").map(|target| without_query(&target)))
}

/// Writes one line for each request of HTTP, whoever answers it.
async fn log(mut request: Request<Body>, next: Next) -> Response<Body> {
    let claimed = claimed(request.headers());
    let marks = Arc::new(Marks { claimed, ..Marks::default() });
    request.extensions_mut().insert(Arc::clone(&marks));
    let mut line = Line { started: Instant::now(), marks, status: None };
    let response = next.run(request).await;
    line.status = Some(response.status().as_u16());
    if let Some(rejection) = response.extensions().get::<Rejection>() {
        line.marks.code.store(rejection.code(), Ordering::Relaxed);
    }
    // The body takes the line with it, to where it ends.
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &line;
            frame
        }))
    })
}

/// Notes down what a request asks for, and which error it is answered with.
struct Marking {
    cache: ResponseCache,
}

impl Policy for Marking {
    type Memo = Option<Arc<Marks>>;

    fn on_request(&self, request: &mut Request<Message>) -> Result<Self::Memo, Rejection> {
        let marks = request.extensions().get::<Arc<Marks>>().cloned();
        if let Some(marks) = &marks {
            let message = request.body();
            let target = message.target().map(without_query);
            let cacheable = self.cache.query(request).is_some();
            let _ = marks.request.set((message.method().to_owned(), target, cacheable));
        }
        Ok(marks)
    }

    fn on_reply(&self, marks: Self::Memo, reply: &mut Response<Reply>) {
        let Some(marks) = marks else { return };
        reply.body_mut().edit_answer(move |answer| {
            if let Err(error) = answer.outcome() {
                marks.code.store(error.code, Ordering::Relaxed);
            }
        });
    }
}

fn mark_asked(request: Request<Message>) -> Request<Message> {
    if let Some(marks) = request.extensions().get::<Arc<Marks>>() {
        marks.asked.store(true, Ordering::Relaxed);
    }
    request
}

/// Serves until the process is asked to stop; requests in progress then have [`GRACE`] to finish.
async fn serve(listener: TcpListener, gateway: Router) -> io::Result<()> {
    // Events are small and must not wait for more to come.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::warn!(%error, "TCP_NODELAY could not be set");
        }
    });
    tokio::select! {
        ended = axum::serve(listener, gateway).with_graceful_shutdown(asked_to_stop()) => ended,
        () = async { asked_to_stop().await; tokio::time::sleep(GRACE).await } => {
            tracing::info!("some requests did not finish within {GRACE:?}");
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
