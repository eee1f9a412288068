//! Replies that are event streams.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_core::Stream as _;
use proptest::prelude::*;

use super::*;
use crate::message::ReplyStream;

const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0}}"#;

fn sse(frames: Vec<Bytes>) -> impl Fn() -> Response<Frames> + Clone + Send {
    move || reply(200, "text/event-stream", Frames::of(frames.clone()))
}

fn text(text: &str) -> impl Fn() -> Response<Frames> + Clone + Send {
    sse(vec![Bytes::copy_from_slice(text.as_bytes())])
}

fn error(reason: &str) -> Value {
    let message = format!("the upstream server's answer cannot be used: {reason}");
    json!({"jsonrpc": "2.0", "id": 7, "error": {"code": 502, "message": message}})
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn notifications_come_before_the_answer_with_their_bytes() {
    let body = format!("data: {PROGRESS}\n\nid: 3\nevent: message\ndata: {RESULT}\n\n");
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), text(&body)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let Reply::Stream(stream) = response.into_body() else { panic!("is a stream") };
    let events: Vec<_> = events(stream).await.iter().map(written).collect();
    assert_eq!(events, [PROGRESS, RESULT]);
}

#[tokio::test]
async fn the_answer_of_a_stream_can_be_edited() {
    let (mut response, _) =
        ask(&UpstreamLayer::new(), message(LIST), text(&format!("data: {RESULT}\n\n"))).await;
    response.body_mut().edit_answer(|answer| {
        answer.result_mut().unwrap().set("m", &2).unwrap();
    });
    let got = got(response).await;
    assert_eq!(got.messages, [json!({"jsonrpc": "2.0", "id": 7, "result": {"n": 1.0, "m": 2}})]);
}

/// All the ways to write two events; the frames may be cut anywhere.
fn spelled() -> String {
    let (head, tail) = PROGRESS.split_once(',').unwrap();
    format!(
        "\u{feff}: é comment\r\nretry: 5\r\nid: 1\r\ndata:\r\n\r\ndata: {head},\r\ndata:{tail}\r\n\r\n\
         event: ping\rdata: {{}}\r\revent\n: x\nevent: message\nid: \u{e9}\ndata: {}\n\n",
        RESULT.replace("1.0", "\"é\u{1F600}\"")
    )
}

#[tokio::test]
async fn a_stream_may_be_spelled_and_cut_in_any_way() {
    let body = spelled();
    let expected = [parsed(PROGRESS), parsed(&RESULT.replace("1.0", "\"é\u{1F600}\""))];
    for size in [1, 2, 3, 5, 7, 64, 10_000] {
        let frames = body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let (response, _) = ask(&UpstreamLayer::new(), message(LIST), sse(frames)).await;
        assert_eq!(got(response).await.messages, expected, "{size}");
    }
}

#[tokio::test]
async fn a_fault_ends_the_stream_with_one_error_and_what_came_before_has_passed() {
    let start = format!("data: {PROGRESS}\n\n");
    for (rest, reason) in [
        ("", "it has broken off"),
        (": comment\n\n", "it has broken off"),
        (&format!("data: {RESULT}"), "it has broken off"),
        (&format!("data: {RESULT}\n"), "it has broken off"),
        ("data: {\"jsonrpc\":\n\n", "it is not JSON: the JSON text ends early at byte 11"),
        ("data: [DONE]\n\n", "it is not JSON: expected a JSON value at byte 1"),
        ("data: []\n\n", "it is a batch"),
        (
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\"}\n\n",
            "it is a request, which servers may not send",
        ),
        ("data: {\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n\n", "it answers another request"),
        ("data: {\"jsonrpc\":\"2.0\",\"result\":{}}\n\n", "it is a result without an `id`"),
    ] {
        let body = format!("{start}{rest}");
        let (response, _) = ask(&UpstreamLayer::new(), message(LIST), text(&body)).await;
        let got = got(response).await;
        assert_eq!((got.status, got.streamed), (200, true));
        assert_eq!(got.messages, [parsed(PROGRESS), error(reason)], "{rest}");
    }
}

#[tokio::test]
async fn nothing_after_a_fault_is_read() {
    let body = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{{}}}}\n\ndata: {RESULT}\n\n");
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), text(&body)).await;
    assert_eq!(got(response).await.messages, [error("it answers another request")]);
}

#[tokio::test]
async fn nothing_after_the_answer_is_read() {
    let second = RESULT.replace("1.0", "2.0");
    for rest in [&*format!("data: {second}\n\n"), "data: x\n\n", &format!("data: {PROGRESS}\n\n")] {
        let body = format!("data: {RESULT}\n\n{rest}");
        let (response, _) = ask(&UpstreamLayer::new(), message(LIST), text(&body)).await;
        assert_eq!(got(response).await.messages, [parsed(RESULT)]);
    }
}

#[tokio::test]
async fn bytes_that_are_not_utf8_end_the_stream() {
    let mut body = format!("data: {PROGRESS}\n\ndata: ").into_bytes();
    body.extend_from_slice(b"{\"a\":\"\xff\"}\n\n");
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), sse(vec![body.into()])).await;
    assert_eq!(got(response).await.messages, [parsed(PROGRESS), error("it is not UTF-8")]);
}

#[tokio::test]
async fn a_connection_that_breaks_ends_the_stream_with_an_error() {
    let respond = || reply(200, "text/event-stream", Frames::of([format!("data: {PROGRESS}\n\n")]).broken());
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), respond).await;
    assert_eq!(got(response).await.messages, [parsed(PROGRESS), error("it has broken off")]);
}

#[tokio::test]
async fn an_event_may_be_as_long_as_allowed_and_no_longer() {
    let line = format!("data: {RESULT}");
    let layer = |max| UpstreamLayer::new().with_max_message_bytes(max);
    let body = format!(": {}\n{line}\n\n", "x".repeat(line.len() - 2));
    let (response, _) = ask(&layer(line.len()), message(LIST), text(&body)).await;
    assert_eq!(got(response).await.messages, [parsed(RESULT)]);
    let (response, _) = ask(&layer(line.len() - 1), message(LIST), text(&format!("{line}\n\n"))).await;
    let reason = format!("it is longer than {} bytes", line.len() - 1);
    assert_eq!(got(response).await.messages, [error(&reason)]);
}

#[tokio::test]
async fn an_error_without_an_id_is_the_answer() {
    let body = "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"x\"}}\n\n";
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), text(body)).await;
    let expected = json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "x"}});
    assert_eq!(got(response).await.messages, [expected]);
}

/// Events without end, which count themselves and tell when they are dropped.
struct Endless {
    polled: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.polled.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(format!("data: {PROGRESS}\n\n").into()))))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn the_upstream_is_read_no_faster_than_the_caller_reads_and_dropped_with_the_reply() {
    let (polled, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let respond = {
        let (polled, dropped) = (polled.clone(), dropped.clone());
        move || {
            let body = Endless { polled: polled.clone(), dropped: dropped.clone() };
            Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
        }
    };
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), respond).await;
    assert_eq!(polled.load(Ordering::Relaxed), 0);
    let Reply::Stream(mut stream) = response.into_body() else { panic!("is a stream") };
    for read in 1..=50 {
        let next = std::future::poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await;
        assert!(matches!(next, Some(Event::Notification(_))));
        assert_eq!(polled.load(Ordering::Relaxed), read);
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(stream);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

/// What a stream makes of these frames, wherever they are cut.
async fn all(frames: Vec<Bytes>) -> Vec<Value> {
    let (response, _) = ask(&UpstreamLayer::new(), message(LIST), sse(frames)).await;
    let Reply::Stream(stream) = response.into_body() else { panic!("is a stream") };
    let stream: ReplyStream = stream;
    events(stream).await.iter().map(|event| parsed(&written(event))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_ends_with_one_answer_and_does_not_depend_on_the_cuts(
        parts in prop::collection::vec(0_usize..9, 0..12),
        size in 1_usize..50,
    ) {
        let pieces = [
            format!("data: {PROGRESS}\n\n"), format!("data: {RESULT}\n\n"), "\r".into(), "\n".into(),
            ": c\n".into(), "data: {\n".into(), "event: x\n".into(), "data\n\n".into(), "\u{e9}".into(),
        ];
        let body: String = parts.iter().map(|&part| &*pieces[part]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let whole = runtime.block_on(all(vec![body.clone().into()]));
        let cut = runtime.block_on(all(body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect()));
        prop_assert_eq!(&whole, &cut);
        let answers = whole.iter().filter(|message| message.get("method").is_none()).count();
        prop_assert_eq!(answers, 1);
        prop_assert!(whole.last().unwrap().get("method").is_none());
    }
}
