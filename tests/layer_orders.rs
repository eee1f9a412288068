//! Every layer twice, and beside Tower's own layers in every order: no service is called that was not polled ready, and
//! no permit is lost, whether requests pass, are refused, are shed or are dropped half-way.

use std::convert::Infallible;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use mcp_layers::catalog::StaticCatalog;
use mcp_layers::layers::{HeadersLayer, LimitsLayer, OriginLayer, VersionLayer};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::buffer::BufferLayer;
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::timeout::TimeoutLayer;
use tower::{Layer, Service, ServiceExt as _};

const PERMITS: u8 = 2;

/// Takes a permit in `poll_ready`, hands it to the future in `call`, and panics without one.
struct Strict<R> {
    permits: Arc<Semaphore>,
    waiting: Option<Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>>,
    permit: Option<OwnedSemaphorePermit>,
    answer: fn() -> R,
}

impl<R> Strict<R> {
    fn new(permits: &Arc<Semaphore>, answer: fn() -> R) -> Self {
        Self { permits: Arc::clone(permits), waiting: None, permit: None, answer }
    }
}

impl<R> Clone for Strict<R> {
    /// A permit is not cloned.
    fn clone(&self) -> Self {
        Self::new(&self.permits, self.answer)
    }
}

impl<B, R: Send + 'static> Service<Request<B>> for Strict<R> {
    type Response = Response<R>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.permit.is_none() {
            let permits = &self.permits;
            let waiting = self.waiting.get_or_insert_with(|| {
                let acquire = Arc::clone(permits).acquire_owned();
                Box::pin(async { acquire.await.expect("never closed") })
            });
            self.permit = Some(ready!(waiting.as_mut().poll(cx)));
            self.waiting = None;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        let permit = self.permit.take().expect("called without having been polled ready");
        let answer = (self.answer)();
        Box::pin(async move {
            tokio::task::yield_now().await;
            drop(permit);
            Ok(Response::new(answer))
        })
    }
}

/// Sends requests in every way there is, and then looks whether all permits are back.
async fn drive<S, B>(name: &str, permits: &Arc<Semaphore>, service: S, request: impl Fn(bool) -> Request<B>)
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send + std::fmt::Debug,
    B: Send + 'static,
{
    // One service, one request after the other. Tower's rule: a service that was polled ready is called or dropped.
    let mut one = service.clone();
    for turn in 0..8 {
        let answer = one.ready().await.unwrap().call(request(turn % 2 == 0)).await;
        assert!(answer.is_ok(), "{name}: {turn}");
    }
    drop(one);

    // Many at once. What is shed under load is an error, and no answer.
    let many: Vec<_> =
        (0..32).map(|turn| tokio::spawn(service.clone().oneshot(request(turn % 3 != 0)))).collect();
    let mut answered = 0;
    for task in many {
        answered += usize::from(task.await.expect("no panic").is_ok());
    }
    assert!(answered > 0, "{name}");

    // Given up half-way: before the first poll, after one, and while waiting to become ready.
    for turn in 0..8 {
        let mut service = service.clone();
        let Ok(ready) = service.ready().await else { continue };
        let mut call = Box::pin(ready.call(request(turn % 4 != 0)));
        if turn % 2 == 0 {
            let _ = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        }
        let mut waiting = Box::pin(service.clone().oneshot(request(true)));
        let _ = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
    }

    // A worker behind a buffer may still have to notice that nobody waits for it.
    drop(service);
    let all = tokio::time::timeout(Duration::from_secs(5), permits.acquire_many(PERMITS.into())).await;
    assert!(all.is_ok(), "{name}: {} of {PERMITS} permits are back", permits.available_permits());
}

/// Drives `$layer` twice in a row, and with each of Tower's layers outside, between and inside the two.
macro_rules! drive_all {
    ($name:literal, $layer:expr, $answer:expr, $request:expr) => {{
        let layer = $layer;
        drive_all!(@one $name, "alone", layer, $answer, $request, tower::layer::util::Identity::new());
        drive_all!(@one $name, "Buffer", layer, $answer, $request, BufferLayer::new(4));
        drive_all!(@one $name, "ConcurrencyLimit", layer, $answer, $request, ConcurrencyLimitLayer::new(1));
        drive_all!(@one $name, "LoadShed", layer, $answer, $request, LoadShedLayer::new());
        drive_all!(@one $name, "Timeout", layer, $answer, $request, TimeoutLayer::new(Duration::from_secs(30)));
    }};
    (@one $name:literal, $other:literal, $layer:ident, $answer:expr, $request:expr, $tower:expr) => {{
        let (layer, other) = (&$layer, $tower);
        let permits = Arc::new(Semaphore::new(PERMITS.into()));
        let outside = other.layer(layer.layer(layer.layer(Strict::new(&permits, $answer))));
        drive(concat!($other, " outside ", $name), &permits, outside, $request).await;

        let permits = Arc::new(Semaphore::new(PERMITS.into()));
        let between = layer.layer(other.layer(layer.layer(Strict::new(&permits, $answer))));
        drive(concat!($other, " between ", $name), &permits, between, $request).await;

        let permits = Arc::new(Semaphore::new(PERMITS.into()));
        let inside = layer.layer(layer.layer(other.layer(Strict::new(&permits, $answer))));
        drive(concat!($other, " inside ", $name), &permits, inside, $request).await;
    }};
}

fn answer() -> Reply {
    Reply::Answer(Answer::result(Some(1.into()), RawObject::new()))
}

/// A call of a tool that all layers let pass, or that all of them refuse.
fn call(passes: bool) -> Request<Message> {
    let (version, arguments) = if passes { ("2026-07-28", "[1]") } else { ("2025-11-25", "[1,2]") };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"sum","arguments":{arguments},"_meta":{{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    Request::post("/mcp")
        .header("mcp-protocol-version", version)
        .header("mcp-method", "tools/call")
        .header("mcp-name", if passes { "sum" } else { "rm" })
        .body(Message::parse(body).unwrap())
        .unwrap()
}

fn page(passes: bool) -> Request<()> {
    let origin = if passes { "http://localhost" } else { "http://evil.example" };
    Request::post("/mcp").header("host", "localhost").header("origin", origin).body(()).unwrap()
}

#[tokio::test]
async fn the_origin_layer_keeps_the_rules_of_readiness() {
    drive_all!("Origin", OriginLayer::new(), || Bytes::from("inside"), page);
}

#[tokio::test]
async fn the_version_layer_keeps_the_rules_of_readiness() {
    drive_all!("Version", VersionLayer::new(), answer, call);
}

#[tokio::test]
async fn the_headers_layer_keeps_the_rules_of_readiness() {
    let catalog = StaticCatalog::new([("sum", &json!({}))]).unwrap();
    drive_all!("Headers", HeadersLayer::new().with_catalog(catalog), answer, call);
}

#[tokio::test]
async fn the_limits_layer_keeps_the_rules_of_readiness() {
    drive_all!("Limits", LimitsLayer::new().with_max_elements(NonZeroUsize::new(1)), answer, call);
}

#[tokio::test]
async fn the_layers_stack_in_every_order() {
    let (version, headers) = (VersionLayer::new(), HeadersLayer::new());
    let limits = LimitsLayer::new().with_max_elements(NonZeroUsize::new(1));
    let permits = Arc::new(Semaphore::new(PERMITS.into()));
    let inner = || Strict::new(&permits, answer);
    drive("vhl", &permits, (&version, &headers, &limits).layer(inner()), call).await;
    drive("vlh", &permits, (&version, &limits, &headers).layer(inner()), call).await;
    drive("hvl", &permits, (&headers, &version, &limits).layer(inner()), call).await;
    drive("hlv", &permits, (&headers, &limits, &version).layer(inner()), call).await;
    drive("lvh", &permits, (&limits, &version, &headers).layer(inner()), call).await;
    drive("lhv", &permits, (&limits, &headers, &version).layer(inner()), call).await;
}
