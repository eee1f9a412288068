//! All of it together, as a client and an application see it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use bytes::Bytes;
use futures_core::Stream;

use super::*;
use crate::message::{Answer, Event, RawObject, RequestId};

const ALL: Supported = Supported { tools: true, prompts: true, resources: true, subscribe: true };

fn request(id: &str, notifications: &str) -> Message {
    Message::parse(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{notifications}}}}}"#
    ))
    .unwrap()
}

fn all() -> Subscriptions {
    Subscriptions::new(Publisher::new())
}

impl Subscriptions {
    fn stream(&self, notifications: &str) -> ReplyStream {
        opened(self.listen(&request("1", notifications), ALL, None))
    }

    /// A stream whose acknowledgement has been read.
    fn acknowledged(&self, notifications: &str) -> ReplyStream {
        let mut stream = self.stream(notifications);
        assert!(now(&mut stream).unwrap().contains("acknowledged"));
        stream
    }

    fn live(&self) -> usize {
        self.publisher.bus.sizes().0
    }
}

fn opened(response: Response<Reply>) -> ReplyStream {
    assert_eq!(response.status(), StatusCode::OK);
    match response.into_body() {
        Reply::Stream(stream) => stream,
        other => panic!("not a stream: {other:?}"),
    }
}

fn refused(response: &Response<Reply>) -> (u16, i64, &str) {
    let answer = response.body().answer().expect("is refused");
    let error = answer.outcome().unwrap_err();
    (response.status().as_u16(), error.code, &error.message)
}

fn text(event: Event) -> String {
    match event {
        Event::Notification(message) => String::from_utf8(message.bytes().into()).unwrap(),
        Event::Answer(answer) => answer.to_string(),
    }
}

fn poll(stream: &mut ReplyStream, waker: &Waker) -> Poll<Option<String>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker)).map(|event| event.map(text))
}

/// The next message, which must be there; `None` at the end.
fn now(stream: &mut ReplyStream) -> Option<String> {
    match poll(stream, Waker::noop()) {
        Poll::Ready(event) => event,
        Poll::Pending => panic!("nothing is pending"),
    }
}

fn is_quiet(stream: &mut ReplyStream) -> bool {
    poll(stream, Waker::noop()).is_pending()
}

async fn next(stream: &mut ReplyStream) -> Option<String> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await.map(text)
}

fn list_changed(kind: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{kind}/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":1}}}}}}"#
    )
}

fn updated(uri: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":1}},"uri":"{uri}"}}}}"#
    )
}

const DONE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;

#[test]
fn the_acknowledgement_names_what_is_honoured_and_each_change_follows() {
    let subscriptions = all();
    let mut stream = subscriptions.stream(
        r#"{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":true,
            "resourceSubscriptions":["a://x","a://\u0079","a://x"],"other":1}"#,
    );
    assert_eq!(
        now(&mut stream).unwrap(),
        r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://x","a://y"]}}}"#
    );
    assert!(is_quiet(&mut stream));
    let publisher = subscriptions.publisher();
    publisher.resource_updated("a://y");
    publisher.tools_list_changed();
    publisher.prompts_list_changed();
    publisher.resources_list_changed();
    assert_eq!(now(&mut stream).unwrap(), updated("a://y"));
    assert_eq!(now(&mut stream).unwrap(), list_changed("tools"));
    assert_eq!(now(&mut stream).unwrap(), list_changed("resources"));
    assert!(is_quiet(&mut stream));
}

#[test]
fn every_message_carries_the_id_as_the_request_wrote_it() {
    for id in ["7", "\"7\"", "-0", "18446744073709551616", r#""caf\u00e9 \"\/""#] {
        let subscriptions = all();
        let response = subscriptions.listen(
            &request(id, r#"{"promptsListChanged":true,"resourceSubscriptions":["a\"b"]}"#),
            ALL,
            Some(r#"{"name":"s","version":"1"}"#.into()),
        );
        let mut stream = opened(response);
        subscriptions.publisher().prompts_list_changed();
        subscriptions.publisher().resource_updated("a\"b");
        subscriptions.close();
        let stamp = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        for method in ["subscriptions/acknowledged", "prompts/list_changed", "resources/updated"] {
            let message = now(&mut stream).unwrap();
            assert!(message.contains(method) && message.contains(&stamp), "{message}");
        }
        assert_eq!(
            now(&mut stream).unwrap(),
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id},"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"1"}}}}}}}}"#
            )
        );
        assert_eq!(now(&mut stream), None);
    }
}

#[test]
fn an_update_reaches_the_streams_that_asked_for_exactly_this_uri() {
    let subscriptions = all();
    let mut exact = subscriptions.acknowledged(r#"{"resourceSubscriptions":["a://x"]}"#);
    let mut others: Vec<_> = ["a://X", "a://x/", "a://x/y", "a://", "a:///x", ""]
        .into_iter()
        .map(|uri| subscriptions.acknowledged(&format!(r#"{{"resourceSubscriptions":["{uri}"]}}"#)))
        .collect();
    others.push(subscriptions.acknowledged(r#"{"resourcesListChanged":true}"#));
    subscriptions.publisher().resource_updated("a://x");
    assert_eq!(now(&mut exact).unwrap(), updated("a://x"));
    assert!(others.iter_mut().all(is_quiet));
}

#[test]
fn what_the_server_cannot_tell_is_left_out_and_with_nothing_left_the_stream_ends_at_once() {
    let everything = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a"]}"#;
    let nothing = Supported::default();
    for (supported, honoured) in [
        (Supported { tools: true, ..nothing }, r#"{"toolsListChanged":true}"#),
        (Supported { prompts: true, ..nothing }, r#"{"promptsListChanged":true}"#),
        (Supported { resources: true, ..nothing }, r#"{"resourcesListChanged":true}"#),
        (Supported { subscribe: true, ..nothing }, r#"{"resourceSubscriptions":["a"]}"#),
    ] {
        let subscriptions = all();
        let mut stream = opened(subscriptions.listen(&request("1", everything), supported, None));
        assert!(now(&mut stream).unwrap().ends_with(&format!(r#","notifications":{honoured}}}}}"#)));
        assert!(is_quiet(&mut stream));
        assert_eq!(subscriptions.live(), 1);
    }
    for (supported, asked) in [
        (nothing, everything),
        (Supported { tools: false, ..ALL }, r#"{"toolsListChanged":true}"#),
        (ALL, r#"{"toolsListChanged":false,"resourceSubscriptions":[]}"#),
        (ALL, "{}"),
    ] {
        let subscriptions = all();
        let mut stream = opened(subscriptions.listen(&request("1", asked), supported, None));
        assert_eq!(subscriptions.live(), 0);
        assert!(now(&mut stream).unwrap().ends_with(r#","notifications":{}}}"#));
        assert_eq!(now(&mut stream).unwrap(), DONE);
        assert_eq!(now(&mut stream), None);
    }
}

#[test]
fn what_is_published_before_the_acknowledgement_is_delivered_after_it() {
    let subscriptions = all();
    let mut stream = subscriptions.stream(r#"{"toolsListChanged":true}"#);
    subscriptions.publisher().tools_list_changed();
    assert!(now(&mut stream).unwrap().contains("acknowledged"));
    assert_eq!(now(&mut stream).unwrap(), list_changed("tools"));
    assert!(is_quiet(&mut stream));
}

#[test]
fn what_is_pending_already_is_not_sent_twice_and_keeps_its_place() {
    let subscriptions = all();
    let mut stream = subscriptions.acknowledged(
        r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a","b"]}"#,
    );
    let publisher = subscriptions.publisher();
    for _ in 0..1000 {
        publisher.resource_updated("b");
        publisher.prompts_list_changed();
        publisher.resource_updated("a");
        publisher.tools_list_changed();
    }
    assert_eq!(now(&mut stream).unwrap(), updated("b"));
    publisher.resource_updated("b");
    for rest in [list_changed("prompts"), updated("a"), list_changed("tools"), updated("b")] {
        assert_eq!(now(&mut stream).unwrap(), rest);
    }
    assert!(is_quiet(&mut stream));
}

fn many_uris(count: usize) -> String {
    let uris: Vec<_> = (0..count).map(|n| format!("r://{n}")).collect();
    serde_json::json!({ "toolsListChanged": true, "resourceSubscriptions": uris }).to_string()
}

#[test]
fn more_pending_updates_than_the_bound_end_the_stream_without_an_answer() {
    let subscriptions = all();
    let mut full = subscriptions.acknowledged(&many_uris(300));
    let mut unread = subscriptions.stream(&many_uris(300));
    let mut reading = subscriptions.acknowledged(&many_uris(300));
    let publisher = subscriptions.publisher();
    publisher.tools_list_changed();
    assert_eq!(now(&mut reading).unwrap(), list_changed("tools"));
    for n in 0..256 {
        publisher.resource_updated(&format!("r://{n}"));
        assert_eq!(now(&mut reading).unwrap(), updated(&format!("r://{n}")));
    }
    // List changes and repetitions always have room.
    publisher.tools_list_changed();
    publisher.resource_updated("r://255");
    assert_eq!(subscriptions.live(), 3);
    assert_eq!(now(&mut full).unwrap(), list_changed("tools"));

    publisher.resource_updated("r://256");
    assert_eq!(subscriptions.live(), 1);
    assert_eq!(now(&mut full), None);
    assert_eq!(now(&mut full), None);
    assert!(now(&mut unread).unwrap().contains("acknowledged"));
    assert_eq!(now(&mut unread), None);
    for message in [list_changed("tools"), updated("r://255"), updated("r://256")] {
        assert_eq!(now(&mut reading).unwrap(), message);
    }
    assert!(is_quiet(&mut reading));
    drop((full, unread, reading));
    assert_eq!(publisher.bus.sizes(), (0, 0));
}

#[test]
fn closing_lets_each_stream_hear_what_is_pending_and_then_answers() {
    let subscriptions = all().with_max_pending(1);
    let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["a","b"]}"#;
    let mut lost = subscriptions.acknowledged(filter);
    subscriptions.publisher().resource_updated("a");
    subscriptions.publisher().resource_updated("b");
    let mut idle = subscriptions.acknowledged(filter);
    let mut unread = subscriptions.stream(filter);
    subscriptions.publisher().tools_list_changed();
    assert_eq!(now(&mut idle).unwrap(), list_changed("tools"));

    let woken = Flag::new();
    assert!(poll(&mut idle, &woken.waker()).is_pending());
    subscriptions.close();
    assert!(woken.take());
    subscriptions.publisher().tools_list_changed();
    assert_eq!(now(&mut idle).unwrap(), DONE);
    assert_eq!(now(&mut idle), None);
    assert!(now(&mut unread).unwrap().contains("acknowledged"));
    assert_eq!(now(&mut unread).unwrap(), list_changed("tools"));
    assert_eq!(now(&mut unread).unwrap(), DONE);
    assert_eq!(now(&mut lost), None);

    for filter in [filter, "{}", "7"] {
        let response = subscriptions.clone().listen(&request("1", filter), ALL, None);
        assert_eq!(refused(&response), (503, 503, "the server is shutting down"));
    }
    subscriptions.close();
    drop((idle, unread, lost));
    assert_eq!(subscriptions.publisher.bus.sizes(), (0, 0));
}

#[test]
fn the_1025th_stream_is_refused_in_its_answer_and_dropping_one_makes_room() {
    let subscriptions = all();
    let filter = r#"{"toolsListChanged":true}"#;
    let mut streams: Vec<_> = (0..1024).map(|_| subscriptions.stream(filter)).collect();
    for filter in [filter, "7"] {
        let response = subscriptions.listen(&request("\"x\"", filter), ALL, None);
        let (status, code, message) = refused(&response);
        assert_eq!((status, code), (200, -32603));
        assert!(message.starts_with("subscription limit reached"), "{message}");
        assert_eq!(response.body().answer().and_then(Answer::id).map(RequestId::text), Some("\"x\""));
    }
    streams.swap_remove(500);
    let mut last = subscriptions.acknowledged(filter);
    assert_eq!(refused(&subscriptions.listen(&request("1", filter), ALL, None)).0, 200);
    subscriptions.publisher().tools_list_changed();
    assert_eq!(now(&mut last).unwrap(), list_changed("tools"));
}

#[test]
fn a_stream_that_has_answered_frees_its_place_before_it_is_dropped() {
    let subscriptions = all().with_max_streams(1);
    let mut stream = subscriptions.acknowledged(r#"{"toolsListChanged":true}"#);
    assert_eq!(subscriptions.live(), 1);
    subscriptions.close();
    assert_eq!(now(&mut stream).unwrap(), DONE);
    assert_eq!(subscriptions.live(), 0);
}

#[test]
fn a_filter_of_a_wrong_shape_is_refused() {
    let subscriptions = all();
    for notifications in [
        "null",
        "true",
        "[]",
        r#"{"toolsListChanged":null}"#,
        r#"{"toolsListChanged":1}"#,
        r#"{"promptsListChanged":"true"}"#,
        r#"{"resourcesListChanged":{}}"#,
        r#"{"resourceSubscriptions":null}"#,
        r#"{"resourceSubscriptions":"a://x"}"#,
        r#"{"resourceSubscriptions":{"a":"b"}}"#,
        r#"{"resourceSubscriptions":["a",1]}"#,
        r#"{"toolsListChanged":true,"toolsListChanged":true}"#,
        r#"{"toolsListChanged":true,"tools\u004cistChanged":false}"#,
        r#"{"x":1,"x":1}"#,
    ] {
        // Also where the server could not honour it anyway.
        for supported in [ALL, Supported::default()] {
            let response = subscriptions.listen(&request("5", notifications), supported, None);
            let (status, code, message) = refused(&response);
            assert_eq!((status, code), (400, -32602), "{notifications}");
            assert!(message.contains("params.notifications"), "{message}");
            assert_eq!(response.body().answer().and_then(Answer::id).map(RequestId::text), Some("5"));
        }
    }
    for body in [
        r#"{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen"}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}"#,
    ] {
        let response = subscriptions.listen(&Message::parse(body).unwrap(), ALL, None);
        assert_eq!(refused(&response), (400, -32602, "`params.notifications` is missing"));
    }
    let notification = Message::notification("subscriptions/listen", RawObject::new()).unwrap();
    assert_eq!(refused(&subscriptions.listen(&notification, ALL, None)).1, -32600);
    assert_eq!(subscriptions.live(), 0);
}

#[test]
fn a_stream_takes_so_many_uris_and_so_much_text() {
    let subscriptions = all();
    let listen = |id: &str, uris: &[String]| {
        let filter = serde_json::json!({ "resourceSubscriptions": uris }).to_string();
        subscriptions.listen(&request(id, &filter), ALL, None)
    };
    let mut uris: Vec<_> = (0..1024).map(|n| n.to_string()).collect();
    // Only different ones count.
    uris.push("7".to_owned());
    drop(opened(listen("1", &uris)));
    uris.push("x".to_owned());
    let response = listen("1", &uris);
    assert_eq!(refused(&response).1, -32602);
    assert!(refused(&response).2.contains("more than 1024 URIs"));

    let long = ["x".repeat(256 * 1024 - 1)];
    drop(opened(listen("1", &long)));
    assert!(refused(&listen("11", &long)).2.contains("longer than"));
    assert!(refused(&listen(&format!("\"{}\"", "x".repeat(256 * 1024)), &[])).2.contains("longer than"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_lived_long_enough_ends_gracefully() {
    let minute = Duration::from_secs(60);
    let subscriptions = all().with_max_lifetime(Some(minute));
    let filter = r#"{"toolsListChanged":true,"promptsListChanged":true}"#;
    let started = Instant::now();
    let mut stream = subscriptions.acknowledged(filter);
    assert_eq!(next(&mut stream).await.unwrap(), DONE);
    assert!((minute..minute * 2).contains(&started.elapsed()));
    assert_eq!(next(&mut stream).await, None);
    assert_eq!(subscriptions.live(), 0);

    // The shorter of two bounds counts; what is pending at the end is still sent, what comes later is not.
    let started = Instant::now();
    let response = subscriptions.listen_within(Some(minute / 2), &request("1", filter), ALL, None);
    let mut stream = opened(response);
    let longer = subscriptions.listen_within(Some(minute * 9), &request("1", filter), ALL, None);
    let mut longer = opened(longer);
    assert!(next(&mut stream).await.unwrap().contains("acknowledged"));
    assert!(next(&mut longer).await.unwrap().contains("acknowledged"));
    subscriptions.publisher().tools_list_changed();
    subscriptions.publisher().prompts_list_changed();
    tokio::time::sleep(minute / 2 + Duration::from_millis(5)).await;
    assert_eq!(next(&mut stream).await.unwrap(), list_changed("tools"));
    subscriptions.publisher().tools_list_changed();
    assert_eq!(next(&mut stream).await.unwrap(), list_changed("prompts"));
    assert_eq!(next(&mut stream).await.unwrap(), DONE);
    assert!(started.elapsed() < minute);
    for kind in ["tools", "prompts"] {
        assert_eq!(next(&mut longer).await.unwrap(), list_changed(kind));
    }
    assert_eq!(next(&mut longer).await.unwrap(), DONE);
    assert!((minute..minute * 2).contains(&started.elapsed()));

    // A bound beyond all time is none.
    let forever = all().with_max_lifetime(Some(Duration::MAX));
    assert!(is_quiet(&mut forever.acknowledged(filter)));
}

#[test]
fn nothing_is_kept_of_a_stream_that_was_dropped() {
    let subscriptions = all();
    let filter = r#"{"toolsListChanged":true,"resourceSubscriptions":["a"]}"#;
    let woken = Flag::new();
    let mut stream = subscriptions.acknowledged(filter);
    assert!(poll(&mut stream, &woken.waker()).is_pending());
    drop(stream);
    assert_eq!(subscriptions.publisher.bus.sizes(), (0, 0));
    assert_eq!(Arc::strong_count(&woken), 1);
    subscriptions.publisher().tools_list_changed();
    assert!(!woken.take());
    // The next one takes the same place and hears nothing of the one before.
    assert!(is_quiet(&mut subscriptions.acknowledged(filter)));
}

#[test]
fn a_stream_does_not_keep_the_body_of_its_request() {
    struct Body(Vec<u8>, #[expect(dead_code, reason = "it is only counted")] Arc<()>);
    impl AsRef<[u8]> for Body {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let alive = Arc::new(());
    let body = request("\"id\"", r#"{"toolsListChanged":true,"resourceSubscriptions":["a://x"]}"#).bytes();
    let message = Message::parse(Bytes::from_owner(Body(body.into(), Arc::clone(&alive)))).unwrap();
    let stream = opened(all().listen(&message, ALL, None));
    assert_eq!(Arc::strong_count(&alive), 2);
    drop(message);
    assert_eq!(Arc::strong_count(&alive), 1);
    drop(stream);
    assert!(size_of::<Listening>() <= 256);
}

#[test]
fn observers_see_each_change_before_any_listener_does() {
    let subscriptions = all();
    let mut stream = subscriptions.acknowledged(r#"{"toolsListChanged":true,"resourceSubscriptions":["a"]}"#);
    let woken = Flag::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (flag, log) = (Arc::clone(&woken), Arc::clone(&seen));
    subscriptions.publisher().observe(move |change| log.lock().unwrap().push((change.clone(), flag.take())));
    subscriptions.publisher().observe(|_| panic!("an observer fails"));
    let (again, log) = (subscriptions.clone(), Arc::clone(&seen));
    subscriptions.publisher().observe(move |change| {
        log.lock().unwrap().push((change.clone(), false));
        if *change == Change::ToolsListChanged {
            again.publisher().prompts_list_changed();
            again.publisher().observe(|_| ());
        }
    });

    assert!(poll(&mut stream, &woken.waker()).is_pending());
    subscriptions.publisher().tools_list_changed();
    assert!(woken.take());
    subscriptions.publisher().resource_updated("nobody listens for it");
    let tools = (Change::ToolsListChanged, false);
    let prompts = (Change::PromptsListChanged, false);
    let resource = (Change::ResourceUpdated("nobody listens for it".into()), false);
    let expected = [tools.clone(), tools, prompts.clone(), prompts, resource.clone(), resource];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(now(&mut stream).unwrap(), list_changed("tools"));
    assert!(is_quiet(&mut stream));
    // Observers are told even when nobody can listen any more.
    subscriptions.close();
    subscriptions.publisher().prompts_list_changed();
    assert_eq!(seen.lock().unwrap().len(), 8);
}

struct Flag(AtomicBool);

impl Flag {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }

    fn waker(self: &Arc<Self>) -> Waker {
        Arc::clone(self).into()
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_change_wakes_those_who_listen_for_it_and_the_task_that_polled_last() {
    let subscriptions = all();
    let filters = [r#"{"toolsListChanged":true}"#, r#"{"resourceSubscriptions":["a"]}"#];
    let mut streams = filters.map(|filter| subscriptions.acknowledged(filter));
    let flags = [Flag::new(), Flag::new()];
    for (stream, flag) in streams.iter_mut().zip(&flags) {
        assert!(poll(stream, &flag.waker()).is_pending());
    }
    subscriptions.publisher().resource_updated("a");
    subscriptions.publisher().resource_updated("b");
    subscriptions.publisher().resources_list_changed();
    assert_eq!([flags[0].take(), flags[1].take()], [false, true]);

    let other = Flag::new();
    assert!(poll(&mut streams[0], &other.waker()).is_pending());
    assert!(poll(&mut streams[0], &other.waker()).is_pending());
    subscriptions.publisher().tools_list_changed();
    assert_eq!([flags[0].take(), other.take()], [false, true]);
}

/// Comes back to the bus from everywhere a waker can.
struct Reentrant(Publisher);

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {
        self.0.prompts_list_changed();
    }
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        self.0.prompts_list_changed();
    }
}

#[test]
fn wakers_may_come_back_to_the_bus() {
    let subscriptions = all();
    let waker = || Waker::from(Arc::new(Reentrant(subscriptions.publisher().clone())));
    let mut stream = subscriptions.acknowledged(r#"{"toolsListChanged":true}"#);
    let mut prompts = subscriptions.acknowledged(r#"{"promptsListChanged":true}"#);
    // Replaced by another, woken, dropped with the stream, and woken by the end.
    assert!(poll(&mut stream, &waker()).is_pending());
    assert!(poll(&mut stream, &waker()).is_pending());
    assert_eq!(now(&mut prompts).unwrap(), list_changed("prompts"));
    subscriptions.publisher().tools_list_changed();
    assert_eq!(now(&mut prompts).unwrap(), list_changed("prompts"));
    assert_eq!(now(&mut stream).unwrap(), list_changed("tools"));
    assert!(poll(&mut stream, &waker()).is_pending());
    drop(stream);
    assert_eq!(now(&mut prompts).unwrap(), list_changed("prompts"));
    let mut stream = subscriptions.acknowledged(r#"{"toolsListChanged":true}"#);
    assert!(poll(&mut stream, &waker()).is_pending());
    subscriptions.close();
    assert_eq!(now(&mut stream).unwrap(), DONE);
}

#[test]
fn streams_that_come_and_go_hear_what_they_asked_for_and_nothing_else() {
    let subscriptions = all();
    let mut streams: Vec<(Vec<usize>, ReplyStream)> = Vec::new();
    // Any generator does; this one repeats.
    let mut state = 1_usize;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for _ in 0..5000 {
        match random(5) {
            0 | 1 if streams.len() < 40 => {
                let mut wanted: Vec<_> = (0..=random(6)).map(|_| random(12)).collect();
                wanted.sort_unstable();
                wanted.dedup();
                let uris: Vec<_> = wanted.iter().map(ToString::to_string).collect();
                let filter = serde_json::json!({ "resourceSubscriptions": uris }).to_string();
                streams.push((wanted, subscriptions.acknowledged(&filter)));
            }
            2 if !streams.is_empty() => drop(streams.swap_remove(random(streams.len()))),
            _ => {
                let uri = random(12);
                subscriptions.publisher().resource_updated(&uri.to_string());
                for (wanted, stream) in &mut streams {
                    if wanted.contains(&uri) {
                        assert_eq!(now(stream).unwrap(), updated(&uri.to_string()));
                    }
                    assert!(is_quiet(stream));
                }
            }
        }
    }
    streams.clear();
    assert_eq!(subscriptions.publisher.bus.sizes(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_streams_each_hear_one_update() {
    let subscriptions = all().with_max_streams(2000);
    let mut readers = Vec::new();
    for n in 0..2000 {
        let mut stream = subscriptions
            .acknowledged(&format!(r#"{{"toolsListChanged":true,"resourceSubscriptions":["r://{n}"]}}"#));
        readers.push(tokio::spawn(async move {
            let mut heard = [next(&mut stream).await.unwrap(), next(&mut stream).await.unwrap()];
            heard.sort_unstable();
            assert_eq!(heard, [updated(&format!("r://{n}")), list_changed("tools")]);
        }));
    }
    subscriptions.publisher().tools_list_changed();
    for n in 0..2000 {
        subscriptions.publisher().resource_updated(&format!("r://{n}"));
    }
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(subscriptions.publisher.bus.sizes(), (0, 0));
}

/// What the publishers last did to each resource is what every reader last looks at, however they interleave: a
/// wake-up that gets lost makes this test hang until its time is up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_goes_unheard_while_threads_publish_and_streams_are_read() {
    const ROUNDS: usize = 20_000;
    const RESOURCES: usize = 3;
    let subscriptions = all();
    let versions: Arc<[AtomicUsize; RESOURCES]> = Arc::default();
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut stream = subscriptions.acknowledged(r#"{"resourceSubscriptions":["0","1","2"]}"#);
        let versions = Arc::clone(&versions);
        readers.push(tokio::spawn(async move {
            let mut seen = [0; RESOURCES];
            while seen != [2 * ROUNDS; RESOURCES] {
                let message = next(&mut stream).await.unwrap();
                let uri = (0..RESOURCES).find(|uri| message == updated(&uri.to_string())).unwrap();
                seen[uri] = versions[uri].load(Ordering::Relaxed);
            }
        }));
    }
    // Streams that come and go meanwhile shuffle the others' places.
    let visiting = {
        let subscriptions = subscriptions.clone();
        thread::spawn(move || {
            for _ in 0..2000 {
                drop(subscriptions.stream(r#"{"toolsListChanged":true,"resourceSubscriptions":["1"]}"#));
            }
        })
    };
    let publishing: Vec<_> = (0..2)
        .map(|_| {
            let (publisher, versions) = (subscriptions.publisher().clone(), Arc::clone(&versions));
            thread::spawn(move || {
                for round in 0..ROUNDS * RESOURCES {
                    let uri = round % RESOURCES;
                    versions[uri].fetch_add(1, Ordering::Relaxed);
                    publisher.resource_updated(&uri.to_string());
                    if round % 64 == 0 {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    for reader in readers {
        tokio::time::timeout(Duration::from_secs(60), reader).await.expect("a wake-up was lost").unwrap();
    }
    for thread in publishing.into_iter().chain([visiting]) {
        thread.join().unwrap();
    }
}
