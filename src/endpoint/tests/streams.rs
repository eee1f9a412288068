//! Replies that are streams, and what becomes of the work when nobody listens.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::*;

const PROGRESS: &str = "{\"jsonrpc\":\"2.0\",\r\n\"method\":\"notifications/progress\"\n}";

fn two_and_an_answer() -> Response<Reply> {
    let events = [notification(PROGRESS), notification(NOTE), Event::Answer(result("{\n\"a\":\r1}"))];
    Events::new(events).into_reply()
}

/// A stream that is fed by a channel.
struct Fed(mpsc::UnboundedReceiver<Event>);

impl Stream for Fed {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// An open event stream and what feeds it.
async fn open(layer: EndpointLayer) -> (mpsc::UnboundedSender<Event>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let inner = replies(move || {
        let receiver = receiver.lock().unwrap().take().unwrap();
        Response::new(Reply::Stream(ReplyStream::new(Fed(receiver))))
    });
    let response = layer.layer(inner).oneshot(post(LISTEN)).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    (sender, response.into_body())
}

#[tokio::test]
async fn each_message_of_a_stream_is_one_event_and_the_answer_is_the_last() {
    let service = EndpointLayer::new().layer(replies(|| {
        let mut response = two_and_an_answer();
        response.headers_mut().insert("content-length", "5".parse().unwrap());
        response.headers_mut().insert("cache-control", "public".parse().unwrap());
        response
    }));
    let response = service.oneshot(post(PING)).await.unwrap();
    assert_eq!(response.status(), 200);
    let headers = response.headers();
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert_eq!(headers.len(), 3);
    let mut body = response.into_body();
    assert_eq!(body.size_hint().exact(), None);
    for json in [
        r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#,
        NOTE,
        r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#,
    ] {
        assert!(!body.is_end_stream());
        assert_eq!(next(&mut body).await.unwrap(), format!("event: message\ndata: {json}\n\n"));
    }
    assert!(body.is_end_stream());
    assert_eq!(next(&mut body).await, None);
}

#[tokio::test]
async fn edits_of_layers_and_the_id_reach_the_answer_of_a_stream() {
    let service = EndpointLayer::new().layer(replies(|| {
        let mut response = Events::new([Event::Answer(Answer::result(None, RawObject::new()))]).into_reply();
        response.body_mut().edit_answer(|answer| answer.result_mut().unwrap().set("a", &1).unwrap());
        response
    }));
    let (_, body) = send(service, post(PING)).await;
    assert_eq!(body, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1}}\n\n");
}

#[tokio::test]
async fn a_stream_without_an_answer_just_ends() {
    let service = EndpointLayer::new().layer(replies(|| Events::new([notification(NOTE)]).into_reply()));
    let (parts, body) = send(service, post(PING)).await;
    assert_eq!(parts.status, 200);
    assert_eq!(body, format!("event: message\ndata: {NOTE}\n\n"));
}

#[tokio::test]
async fn a_client_that_takes_no_stream_gets_the_answer_as_json() {
    let request = || with(post(PING), "accept", "application/json");
    let service = EndpointLayer::new().layer(replies(two_and_an_answer));
    let (parts, body) = send(service, request()).await;
    assert_eq!((parts.status.as_u16(), parts.headers.len()), (200, 1));
    assert_eq!(parts.headers["content-type"], "application/json");
    assert_eq!(body, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\n\"a\":\r1}}");

    let service = EndpointLayer::new().layer(replies(|| Events::new([notification(NOTE)]).into_reply()));
    let (parts, body) = send(service, request()).await;
    assert_error(&parts, &body, 500, -32603, Some("7"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_says_something_every_fifteen_seconds() {
    let (sender, mut body) = open(EndpointLayer::new()).await;
    let start = Instant::now();
    assert_eq!(next(&mut body).await.unwrap(), ": keep-alive\n\n");
    assert_eq!(start.elapsed(), Duration::from_secs(15));
    assert_eq!(next(&mut body).await.unwrap(), ": keep-alive\n\n");
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    // A message starts the period again.
    timeout(Duration::from_secs(10), next(&mut body)).await.unwrap_err();
    sender.send(notification(NOTE)).unwrap();
    assert!(next(&mut body).await.unwrap().contains("notifications/x"));
    assert_eq!(next(&mut body).await.unwrap(), ": keep-alive\n\n");
    assert_eq!(start.elapsed(), Duration::from_secs(55));
    sender.send(Event::Answer(result("{}"))).unwrap();
    assert!(next(&mut body).await.unwrap().contains("\"id\":\"l\""));
    assert_eq!(next(&mut body).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_busy_stream_says_nothing_of_its_own() {
    let (sender, body) = open(EndpointLayer::new().with_keep_alive(Duration::from_secs(2))).await;
    tokio::spawn(async move {
        for _ in 0..100 {
            sleep(Duration::from_millis(1900)).await;
            sender.send(notification(NOTE)).unwrap();
        }
        sender.send(Event::Answer(result("{}"))).unwrap();
    });
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().into()).unwrap();
    assert_eq!(text.matches("event: message").count(), 101);
    assert!(!text.contains("keep-alive"));
}

#[tokio::test(start_paused = true)]
async fn keep_alive_can_be_turned_off_and_no_period_is_too_long() {
    for period in [Duration::ZERO, Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
        let (_sender, mut body) = open(EndpointLayer::new().with_keep_alive(period)).await;
        timeout(Duration::from_secs(1_000_000), next(&mut body)).await.unwrap_err();
    }
}

/// The work of an inner service, and a reply that holds on to it.
fn silent() -> (Arc<()>, Inner<impl FnMut(Request<Message>) -> Done + Clone>) {
    let work = Arc::new(());
    let held = Arc::clone(&work);
    let inner = replies(move || Events::silent(Arc::clone(&held)).into_reply());
    (work, inner)
}

#[test]
fn without_keep_alive_no_timer_is_needed() {
    let (_, inner) = silent();
    let service = EndpointLayer::new().with_keep_alive(Duration::ZERO).layer(inner);
    let Poll::Ready(Ok(response)) = poll_once(&mut Box::pin(service.oneshot(post(PING)))) else {
        panic!("the response was not ready");
    };
    assert!(poll_once(&mut Box::pin(next(&mut response.into_body()))).is_pending());
}

#[tokio::test]
async fn dropping_the_body_of_a_stream_cancels_the_work() {
    let (work, inner) = silent();
    let service = EndpointLayer::new().layer(inner);
    let idle = Arc::strong_count(&work);
    let mut body = service.clone().oneshot(post(PING)).await.unwrap().into_body();
    assert!(poll_once(&mut Box::pin(next(&mut body))).is_pending());
    assert_eq!(Arc::strong_count(&work), idle + 1);
    drop(body);
    assert_eq!(Arc::strong_count(&work), idle);
}

#[test]
fn dropping_the_future_cancels_the_wait_for_an_answer() {
    let (work, inner) = silent();
    let mut service = EndpointLayer::new().layer(inner);
    let idle = Arc::strong_count(&work);
    assert!(
        Service::<Request<Full<Bytes>>>::poll_ready(&mut service, &mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
    let clones = Arc::strong_count(&work);
    let mut future = Box::pin(service.call(with(post(PING), "accept", "application/json")));
    assert!(poll_once(&mut future).is_pending());
    assert!(Arc::strong_count(&work) > clones);
    drop(future);
    assert_eq!(Arc::strong_count(&work), idle);
}

#[test]
fn dropping_the_future_cancels_a_call() {
    let work = Arc::new(());
    let held = Arc::clone(&work);
    let inner = Inner::new(move |_| {
        let held = Arc::clone(&held);
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(held);
            Err(BoxError::from("never"))
        })
    });
    let mut future = Box::pin(EndpointLayer::new().layer(inner).oneshot(post(PING)));
    assert!(poll_once(&mut future).is_pending());
    assert!(poll_once(&mut future).is_pending());
    drop(future);
    assert_eq!(Arc::strong_count(&work), 1);
}

#[test]
fn an_idle_stream_is_small() {
    let size = size_of::<super::super::stream::EventBody>() + size_of::<tokio::time::Sleep>();
    assert!(size <= 512, "{size} bytes");
}
