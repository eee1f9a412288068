//! What a gateway costs one request: instructions and allocations, and how many of them a bare reverse proxy of hyper's
//! takes that forwards the same bytes.
//!
//! `cargo bench --all-features --bench gateway` prints a table; `-- NAME…` only what has NAME in its name. What counts is the
//! gateway's server and its connection to the upstream, which is hyper's in all lines; the upstream does not count.
//!
//! `border` reads and writes messages and does nothing else, `+ stack` is the stack in front of a server of which nothing
//! is known, `+ learned tools` the one that has learned them, and `gateway` has all that the example of that name has.

mod measure;

use std::convert::Infallible;
use std::error::Error;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Extension;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use mcp_layers::catalog::NoCatalog;
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::cache::{CacheHintsLayer, ResponseCache};
use mcp_layers::layers::request_state::{StateKey, StateKeys};
use mcp_layers::layers::{CapabilityLayer, LearnedCatalog, LimitsLayer, ParamsLayer, RequestStateLayer};
use mcp_layers::principal::Principal;
use mcp_layers::stack::Stack;
use mcp_layers::upstream::UpstreamLayer;
use serde_json::{Value, json};
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _};

use self::measure::{Counted, Line, Sample, Tally, drive, params, post, print_table, rows};

const PROXY: &str = "proxy";
const UPSTREAM: &str = "http://upstream/mcp";

/// One line of the table.
#[derive(Clone, Copy)]
struct Case {
    group: &'static str,
    stack: &'static str,
    work: Work,
}

#[derive(Clone, Copy)]
enum Work {
    /// A call with about so many bytes of arguments, which is answered with so many notifications before the result.
    Call { arguments: usize, notifications: usize },
    /// A list of tools that may be kept for so long.
    List { ttl_ms: u32 },
}

impl Line for Case {
    fn group(&self) -> &'static str {
        self.group
    }

    fn stack(&self) -> &'static str {
        self.stack
    }
}

impl Case {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        let mut group = |group, work, stacks: &[&'static str]| {
            all.extend(stacks.iter().map(|stack| Self { group, stack, work }));
        };
        let call = |arguments, notifications| Work::Call { arguments, notifications };
        group("call", call(0, 0), &[PROXY, "border", "+ stack", "+ learned tools", "gateway"]);
        group("call, 64 KiB of arguments", call(64 << 10, 0), &[PROXY, "border", "gateway"]);
        group("call, 20 notifications", call(0, 20), &[PROXY, "border", "gateway"]);
        group("list of 6 KB", Work::List { ttl_ms: 0 }, &[PROXY, "border", "gateway"]);
        group("list of 6 KB, kept", Work::List { ttl_ms: 3_600_000 }, &[PROXY, "gateway"]);
        all
    }

    fn request(self) -> String {
        let (method, name, mut params) = match self.work {
            Work::Call { .. } => ("tools/call", Some("take"), params()),
            Work::List { .. } => ("tools/list", None, params()),
        };
        if let Work::Call { arguments, .. } = self.work {
            params["name"] = "take".into();
            params["arguments"] = rows(arguments);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        post(method, name, "", &body.to_string())
    }

    /// What the upstream says.
    fn response(self, request: &Value) -> Response<BoxBody<Bytes, Infallible>> {
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        let (ttl_ms, notifications) = match self.work {
            Work::Call { notifications, .. } => (3_600_000, notifications),
            Work::List { ttl_ms } => (ttl_ms, 0),
        };
        let answer = match request["method"].as_str() {
            Some("tools/list") => answer(
                json!({"resultType": "complete", "tools": tools(), "ttlMs": ttl_ms, "cacheScope": "private"}),
            ),
            _ => answer(json!({"resultType": "complete", "content": [{"type": "text", "text": "taken"}]})),
        };
        if notifications == 0 {
            let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
            return response.body(Full::from(answer.to_string()).boxed()).expect("is a response");
        }
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {
            "level": "info", "data": "one more of those that have been asked for was taken"}});
        let text = format!("data: {notification}\n\n").repeat(notifications) + &format!("data: {answer}\n\n");
        let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
        // A body of which nobody knows how long it will be.
        response.body(Full::from(text).map_frame(|frame| frame).boxed()).expect("is a response")
    }
}

fn tools() -> Vec<Value> {
    let tool = |at: usize| {
        let name = if at == 0 { "take".to_owned() } else { format!("weather-{at}") };
        json!({"name": name, "description": "Tells the weather of tomorrow for any place that has a name",
               "inputSchema": {"type": "object", "properties": {"place": {"type": "string"}}}})
    };
    (0..32).map(tool).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    print_table(&Case::all(), PROXY, &[], |case, tally| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run(case, &tally))
    })
}

async fn run(case: Case, tally: &Rc<Tally>) -> Result<Sample, Box<dyn Error>> {
    Ok(match case.stack {
        PROXY => {
            let (upstream, beside) = connect(case, tally).await?;
            let proxy = hyper::service::service_fn(move |request: Request<Incoming>| {
                let upstream: Upstream<Incoming> = upstream.clone();
                upstream.oneshot(request)
            });
            drive(tally, proxy, &case.request(), beside).await
        }
        "border" => {
            let (upstream, beside) = connect(case, tally).await?;
            let gateway = EndpointLayer::new().layer(UpstreamLayer::to(UPSTREAM)?.layer(upstream));
            drive(tally, TowerToHyperService::new(gateway), &case.request(), beside).await
        }
        "+ stack" => {
            let (upstream, beside) = connect(case, tally).await?;
            let gateway = Stack::new(NoCatalog).service(UpstreamLayer::to(UPSTREAM)?.layer(upstream));
            drive(tally, TowerToHyperService::new(gateway), &case.request(), beside).await
        }
        "+ learned tools" => {
            let (upstream, beside) = connect(case, tally).await?;
            let catalog = LearnedCatalog::new(ResponseCache::new(UPSTREAM));
            let server = UpstreamLayer::to(UPSTREAM)?.with_catalog(catalog.clone()).layer(upstream);
            let gateway = Stack::learning(catalog).service(server);
            let gateway = ServiceBuilder::new().layer(one_caller()).service(gateway);
            drive(tally, TowerToHyperService::new(gateway), &case.request(), beside).await
        }
        "gateway" => {
            let (upstream, beside) = connect(case, tally).await?;
            let catalog = LearnedCatalog::new(ResponseCache::new(UPSTREAM));
            let server = ServiceBuilder::new()
                .layer(CacheHintsLayer::new())
                .layer(UpstreamLayer::to(UPSTREAM)?.with_catalog(catalog.clone()))
                .service(upstream);
            let limits = LimitsLayer::new()
                .with_max_elements(NonZeroUsize::new(100_000))
                .with_max_depth(NonZeroUsize::new(32));
            let gateway = Stack::learning(catalog)
                .with_capabilities(CapabilityLayer::new().with_undeclared_left_out(true))
                .with_layer(ParamsLayer::new())
                .with_limits(limits)
                .with_request_state(RequestStateLayer::new(
                    StateKeys::new([StateKey::new(&[7; 32])?])?,
                    UPSTREAM,
                ))
                .service(server);
            let gateway = ServiceBuilder::new().layer(one_caller()).service(gateway);
            drive(tally, TowerToHyperService::new(gateway), &case.request(), beside).await
        }
        other => unreachable!("{other} is not in the list"),
    })
}

/// Everybody is the same caller.
fn one_caller() -> Extension<Principal> {
    Extension(Principal::new("gateway", "whoever reaches it").with_credential(b""))
}

/// A connection to the upstream, and what must be done for it.
async fn connect<B>(
    case: Case,
    tally: &Rc<Tally>,
) -> Result<(Upstream<B>, impl Future<Output = ()> + use<B>), Box<dyn Error>>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let (near, far) = tokio::io::duplex(1 << 20);
    let upstream = hyper::service::service_fn(move |request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.expect("is whole").to_bytes();
        let request = serde_json::from_slice(&body).expect("is JSON");
        Ok::<_, Infallible>(case.response(&request))
    });
    let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), upstream);
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
    let connection = Counted::new(connection, tally);
    let beside = async move {
        let (connection, server) = tokio::join!(connection, server);
        connection.and(server).expect("the gateway ends well");
    };
    Ok((Upstream(Arc::new(Mutex::new(sender))), beside))
}

/// The upstream as a service.
struct Upstream<B>(Arc<Mutex<SendRequest<B>>>);

impl<B> Clone for Upstream<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Body + Send + 'static> Service<Request<B>> for Upstream<B> {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.0.lock().unwrap_or_else(PoisonError::into_inner).send_request(request))
    }
}
