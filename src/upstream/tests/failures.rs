//! Upstreams that do not answer.

use std::future::{Ready, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tower::ServiceBuilder;

use super::*;

const UNREACHABLE: &str = "the upstream server cannot be reached, or has given no answer";

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_502() {
    let service = UpstreamLayer::new().layer(service_fn(async |_: Request<Body>| {
        Err::<Response<Body>, BoxError>("connection refused by 10.0.0.1, password 123".into())
    }));
    let response = service.oneshot(message(LIST)).await.unwrap();
    assert_refused(&got(response).await, 502, UNREACHABLE);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_takes_too_long_is_504() {
    const SLOW: &str = "the server did not finish in time; try again later";
    let inner = ServiceBuilder::new().timeout(Duration::from_secs(3)).service(service_fn(
        async |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>().await,
    ));
    let response = UpstreamLayer::new().layer(inner).oneshot(message(LIST)).await.unwrap();
    assert_refused(&got(response).await, 504, SLOW);
    let inner = service_fn(async |_: Request<Body>| {
        Err::<Response<Body>, _>(BoxError::from(TimedOut::new("anything")))
    });
    let response = UpstreamLayer::new().layer(inner).oneshot(message(LIST)).await.unwrap();
    assert_refused(&got(response).await, 504, SLOW);
}

#[tokio::test]
async fn an_upstream_that_sheds_load_is_503() {
    let (service, _held) = {
        let inner = service_fn(async |_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>().await
        });
        let inner = ServiceBuilder::new().load_shed().concurrency_limit(1).service(inner);
        let mut busy = inner.clone();
        let held = busy.ready().await.unwrap().call(Request::new(Body::empty()));
        (UpstreamLayer::new().layer(inner), held)
    };
    let response = service.oneshot(message(LIST)).await.unwrap();
    assert_refused(&got(response).await, 503, "the server is overloaded; try again later");
}

/// Fails to become ready once, and counts.
#[derive(Clone)]
struct Failing {
    polled: Arc<AtomicUsize>,
    broken: bool,
}

impl Service<Request<Body>> for Failing {
    type Response = Response<Frames>;
    type Error = BoxError;
    type Future = Ready<Result<Response<Frames>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        assert!(!self.broken, "polled after it has failed");
        if self.polled.fetch_add(1, Ordering::Relaxed) == 0 {
            return Poll::Ready(Err("broken".into()));
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(reply(200, "application/json", Frames::of([RESULT]))))
    }
}

#[tokio::test]
async fn a_service_that_fails_to_become_ready_fails_one_request() {
    let mut service = UpstreamLayer::new().layer(Failing { polled: Arc::default(), broken: false });
    let response = service.ready().await.unwrap().call(message(LIST)).await.unwrap();
    assert_refused(&got(response).await, 502, UNREACHABLE);
    let response = service.ready().await.unwrap().call(message(LIST)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

/// Wants to be asked whether it is ready before each call.
pub(super) struct Strict {
    pub(super) ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Frames>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Frames>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been ready");
        ready(Ok(reply(200, "application/json", Frames::of([RESULT]))))
    }
}

struct Later;

impl Credentials for Later {
    async fn headers(&self, _: &Request<Message>) -> Result<HeaderMap, Rejection> {
        tokio::task::yield_now().await;
        Ok(HeaderMap::new())
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    for layer in [UpstreamLayer::new(), UpstreamLayer::new().with_credentials(Later)] {
        let mut service = layer.layer(Strict { ready: false });
        for _ in 0..2 {
            let response = service.ready().await.unwrap().call(message(LIST)).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
        }
    }
}

/// Counts how often it is dropped.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

struct Guard(Counted);

impl Drop for Guard {
    fn drop(&mut self) {
        (self.0).0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn dropping_the_future_drops_the_request_to_the_upstream() {
    let dropped = Counted::default();
    let inner = service_fn({
        let dropped = dropped.clone();
        move |_: Request<Body>| {
            let guard = Guard(dropped.clone());
            async move {
                let _guard = guard;
                std::future::pending::<Result<Response<Body>, Infallible>>().await
            }
        }
    });
    let mut future = Box::pin(UpstreamLayer::new().layer(inner).oneshot(message(LIST)));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending());
    assert_eq!(dropped.0.load(Ordering::Relaxed), 0);
    drop(future);
    assert_eq!(dropped.0.load(Ordering::Relaxed), 1);
}
