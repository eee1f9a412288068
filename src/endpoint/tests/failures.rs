//! Inner services that fail, are not ready, or have little room.

use std::time::Duration;

use tower::ServiceBuilder;
use tower::buffer::Buffer;
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::timeout::TimeoutLayer;

use super::*;

/// Hides an error behind its `source`.
#[derive(Debug)]
struct Wrapped(BoxError);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wrapped")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

fn fails(error: impl Fn() -> BoxError + Clone) -> Inner<impl FnMut(Request<Message>) -> Done + Clone> {
    Inner::new(move |_| std::future::ready(Err(error())))
}

/// What an inner service that is never done returns.
type Never = std::future::Pending<Result<Response<Reply>, BoxError>>;

/// A service that never answers.
fn hangs() -> Inner<impl FnMut(Request<Message>) -> Never + Clone> {
    Inner::new(|_| std::future::pending())
}

/// A service whose `poll_ready` fails. It must not be touched afterwards.
#[derive(Default)]
struct Broken {
    failed: bool,
    clones: Arc<AtomicUsize>,
}

impl Clone for Broken {
    fn clone(&self) -> Self {
        self.clones.fetch_add(1, Ordering::Relaxed);
        Self { failed: false, clones: Arc::clone(&self.clones) }
    }
}

impl Service<Request<Message>> for Broken {
    type Response = Response<Reply>;
    type Error = BoxError;
    type Future = Done;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        assert!(!std::mem::replace(&mut self.failed, true), "polled after it had failed");
        Poll::Ready(Err("the secret pool is gone".into()))
    }

    fn call(&mut self, _: Request<Message>) -> Done {
        panic!("called although it was not ready");
    }
}

#[tokio::test]
async fn what_failed_inside_is_not_told() {
    let inner = fails(|| Wrapped("the secret is 42".into()).into());
    let (parts, body) = send(EndpointLayer::new().layer(inner.clone()), post(PING)).await;
    assert_error(&parts, &body, 500, -32603, Some("7"));
    assert!(!body.contains("secret") && !body.contains("wrapped"), "{body}");
    let (parts, body) = send(EndpointLayer::new().layer(inner), post(NOTE)).await;
    assert_error(&parts, &body, 500, -32603, None);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_a_504() {
    let inner = ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_secs(5))).service(hangs());
    let (parts, body) = send(EndpointLayer::new().layer(inner.clone()), post(PING)).await;
    assert_error(&parts, &body, 504, 504, Some("7"));
    let (parts, body) = send(EndpointLayer::new().layer(inner), post(NOTE)).await;
    assert_error(&parts, &body, 504, 504, None);
}

#[tokio::test]
async fn overload_is_a_503() {
    let inner = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(hangs());
    let service = EndpointLayer::new().layer(inner);
    let mut first = Box::pin(service.clone().oneshot(post(PING)));
    assert!(poll_once(&mut first).is_pending());
    let (parts, body) = send(service.clone(), post(PING)).await;
    assert_error(&parts, &body, 503, 503, Some("7"));
    let (parts, body) = send(service, post(NOTE)).await;
    assert_error(&parts, &body, 503, 503, None);
}

#[tokio::test]
async fn a_timeout_or_overload_is_found_behind_other_errors() {
    let timeout = fails(|| Wrapped(Wrapped(tower::timeout::error::Elapsed::new().into()).into()).into());
    let (parts, body) = send(EndpointLayer::new().layer(timeout), post(PING)).await;
    assert_error(&parts, &body, 504, 504, Some("7"));
    let overload = fails(|| Wrapped(tower::load_shed::error::Overloaded::new().into()).into());
    let (parts, body) = send(EndpointLayer::new().layer(overload), post(PING)).await;
    assert_error(&parts, &body, 503, 503, Some("7"));
}

#[tokio::test]
async fn a_service_that_does_not_become_ready_is_an_answer_with_the_id() {
    let mut service = EndpointLayer::new().layer(Broken::default());
    for _ in 0..3 {
        let service = ready(&mut service).await;
        // Asking again does not ask the service that has failed.
        let service = ready(service).await;
        let (parts, body) = service.call(post(PING)).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert_error(&parts, std::str::from_utf8(&body).unwrap(), 500, -32603, Some("7"));
        assert!(!body.windows(6).any(|word| word == b"secret"));
    }
    let (parts, body) = send(service.clone(), post(NOTE)).await;
    assert_error(&parts, &body, 500, -32603, None);
    // A fault of the request is told first: mending it costs the client nothing.
    let (parts, body) = send(service, post("{")).await;
    assert_error(&parts, &body, 400, -32700, None);
}

#[tokio::test]
async fn a_buffer_whose_service_has_failed_is_an_answer() {
    let (buffer, worker) = Buffer::pair(Broken::default(), 4);
    tokio::spawn(worker);
    let service = EndpointLayer::new().layer(buffer);
    for _ in 0..3 {
        let (parts, body) = send(service.clone(), post(PING)).await;
        assert_error(&parts, &body, 500, -32603, Some("7"));
    }
}

#[tokio::test]
async fn no_permit_is_lost_and_no_service_is_called_unready() {
    let inner = empty();
    let limited = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).service(inner.clone());
    let mut service = EndpointLayer::new().with_max_body_bytes(100).layer(limited);
    for _ in 0..10 {
        for body in [PING, NOTE, "{", &"x".repeat(200)] {
            let service = ready(&mut service).await;
            service.call(post(body.to_owned())).await.unwrap();
        }
        // Given up before and while the body is read.
        let mut clone = service.clone();
        ready(&mut clone).await;
        drop(clone);
        let mut clone = service.clone();
        drop(ready(&mut clone).await.call(post(PING)));
    }
    assert_eq!(inner.calls(), 20);

    let (buffer, worker) = Buffer::pair(service, 1);
    tokio::spawn(worker);
    for _ in 0..10 {
        assert_eq!(buffer.clone().oneshot(post(PING)).await.unwrap().status(), 200);
    }
    let twice = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(TimeoutLayer::new(Duration::from_secs(60)))
        .layer(EndpointLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(inner.clone());
    for _ in 0..10 {
        assert_eq!(twice.clone().oneshot(post(PING)).await.unwrap().status(), 200);
    }
    assert_eq!(inner.calls(), 40);
}

#[tokio::test]
async fn a_refused_request_gives_its_permit_back_at_once() {
    let limited = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).service(empty());
    let mut service = EndpointLayer::new().with_max_body_bytes(100).layer(limited);
    let mut other = service.clone();
    assert_eq!(ready(&mut service).await.call(post("x".repeat(200))).await.unwrap().status(), 413);
    assert!(poll_once(&mut Box::pin(ready(&mut other))).is_ready());
}
