use super::*;
use crate::dispatch::Publisher;

fn notification(text: &str) -> Message {
    Message::parse(format!(r#"{{"jsonrpc":"2.0","method":"notifications/{text}}}"#)).unwrap()
}

const TOOLS: &str = r#"tools/list_changed""#;

fn updated(uri: &str) -> String {
    format!(r#"resources/updated","params":{{"uri":"{uri}"}}"#)
}

fn everything() -> Vec<Request<Message>> {
    let mut requests: Vec<_> = [
        ("server/discover", ""),
        ("tools/list", ""),
        ("tools/list", r#""cursor":"2""#),
        ("prompts/list", ""),
        ("resources/list", ""),
        ("resources/templates/list", ""),
    ]
    .into_iter()
    .map(|(method, params)| request_with("1", method, params))
    .collect();
    requests.extend(["file:///a", "file:///a/b", "file:///ab"].map(read));
    requests
}

/// Which of everything is no longer there after `change`.
async fn dropped_by(change: impl FnOnce(&ResponseCache)) -> Vec<usize> {
    let (cache, _) = cache();
    let service = layered(&cache, &Upstream::saying(result("public", "5000")));
    for request in everything() {
        ask(&service, request).await;
    }
    change(&cache);
    let is_gone = |request: &Request<Message>| !is_kept(&cache, request);
    everything().iter().enumerate().filter(|(_, request)| is_gone(request)).map(|(at, _)| at).collect()
}

#[tokio::test]
async fn each_change_drops_what_it_is_about() {
    assert_eq!(dropped_by(|cache| cache.invalidate(&Invalidation::Tools)).await, [1, 2]);
    assert_eq!(dropped_by(|cache| cache.invalidate(&Invalidation::Prompts)).await, [3]);
    assert_eq!(dropped_by(|cache| cache.invalidate(&Invalidation::Resources)).await, [4, 5]);
    let a = Invalidation::Resource("file:///a".into());
    assert_eq!(dropped_by(|cache| cache.invalidate(&a)).await, [6]);
    let all = Invalidation::Everything;
    assert_eq!(dropped_by(|cache| cache.invalidate(&all)).await, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(dropped_by(|_| ()).await, [0; 0]);
}

#[tokio::test]
async fn notifications_drop_what_they_are_about() {
    let by = |text: &str, watched: &[&str]| {
        let (message, watched) =
            (notification(text), watched.iter().map(ToString::to_string).collect::<Vec<_>>());
        dropped_by(move |cache| {
            cache.invalidate_by(&message, &watched);
        })
    };
    assert_eq!(by(TOOLS, &[]).await, [1, 2]);
    assert_eq!(by(r#"prompts/list_changed""#, &[]).await, [3]);
    assert_eq!(by(r#"resources/list_changed""#, &[]).await, [4, 5]);
    assert_eq!(by(&updated("file:///a/b"), &[]).await, [7]);
    // A parent counts where it was subscribed to, and a name that only begins alike is no parent.
    assert_eq!(by(&updated("file:///a/b"), &["file:///a", "file:///ab"]).await, [6, 7]);
    assert_eq!(by(&updated("file:///ab"), &["file:///a"]).await, [8]);
    assert_eq!(by(&updated("file:///a"), &["file:///a/b"]).await, [6]);
    for nothing in [r#"progress""#, r#"resources/updated""#, r#"resources/updated","params":{"uri":5}"#] {
        assert_eq!(by(nothing, &["file:///a"]).await, [0; 0]);
    }
}

#[tokio::test]
async fn a_publisher_drops_before_it_returns() {
    let publisher = Publisher::new();
    let dropped = dropped_by(|cache| {
        let observing = cache.clone();
        publisher.observe(move |change| observing.invalidate(&change.into()));
        publisher.resource_updated("file:///a/b");
        publisher.resources_list_changed();
    });
    assert_eq!(dropped.await, [4, 5, 7]);
}

#[tokio::test]
async fn a_stream_that_passes_drops_before_its_receiver_knows() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, _| {
        if request.body().method() != "subscriptions/listen" {
            return Ok(answered(request, result("private", "5000")));
        }
        let events = [TOOLS.to_owned(), updated("file:///a/b/c"), r#"progress""#.to_owned()];
        let events = events.map(|text| Event::Notification(notification(&text)));
        Ok(Response::new(Reply::Stream(ReplyStream::new(Events(events.into())))))
    });
    let service = layered(&cache, &upstream);
    let is_there = |request: Request<Message>| is_kept(&cache, &request);
    for who in ["ada", "bob"] {
        ask(&service, tools().by(who)).await;
        ask(&service, read("file:///a").by(who)).await;
    }
    let listen = request_with(
        "1",
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}"#,
    );
    let Reply::Stream(mut stream) = ask(&service, listen).await.into_body() else { panic!("is a stream") };
    let mut next = async || poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await.unwrap();
    assert!(is_there(tools().by("ada")) && is_there(tools().by("bob")));
    next().await;
    // In all partitions, whoever listens.
    assert!(!is_there(tools().by("ada")) && !is_there(tools().by("bob")));
    assert!(is_there(read("file:///a").by("bob")));
    next().await;
    assert!(!is_there(read("file:///a").by("ada")) && !is_there(read("file:///a").by("bob")));
    next().await;
}

/// Events that are all there.
pub(super) struct Events(pub(super) std::collections::VecDeque<Event>);

impl futures_core::Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
        Poll::Ready(self.0.pop_front())
    }
}

#[tokio::test]
async fn a_call_with_headers_of_an_older_list_drops_the_list() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| match call {
        0 => Ok(answered(request, result("public", "5000"))),
        1 => Ok(Rejection::invalid_params("no").into_response(request.body().id().cloned())),
        _ => Ok(Rejection::header_mismatch("no").into_response(request.body().id().cloned())),
    });
    let service = layered(&cache, &upstream);
    let is_there = || is_kept(&cache, &tools());
    ask(&service, tools()).await;
    ask(&service, request_with("1", "tools/call", r#""name":"a""#)).await;
    assert!(is_there());
    ask(&service, request_with("1", "tools/call", r#""name":"a""#)).await;
    assert!(!is_there());
}

#[tokio::test]
async fn a_cursor_that_was_good_once_drops_all_pages_and_any_other_none() {
    let (cache, clock) = cache();
    let upstream = Upstream::new(|request, call| match (call, request.body().param("cursor")) {
        (0..=1, _) | (_, None) => {
            let ttl = if request.body().param("cursor").is_some() { "1000" } else { "9000" };
            Ok(answered(request, result("public", ttl)))
        }
        _ => Ok(Rejection::invalid_params("no").into_response(request.body().id().cloned())),
    });
    let service = layered(&cache, &upstream);
    let is_there = || is_kept(&cache, &tools());
    ask(&service, tools()).await;
    ask(&service, request_with("1", "tools/list", r#""cursor":"2""#)).await;
    // One that nobody was given must not empty the cache.
    ask(&service, request_with("1", "tools/list", r#""cursor":"made up""#)).await;
    assert!(is_there());
    clock.advance(ms(1000));
    ask(&service, request_with("1", "tools/list", r#""cursor":"2""#)).await;
    assert!(!is_there());
}

#[tokio::test]
async fn invalidations_by_the_thousand_take_no_room() {
    let (cache, _) = cache();
    let service = layered(&cache, &Upstream::saying(result("public", "5000")));
    ask(&service, tools()).await;
    for at in 0..10_000 {
        cache.invalidate(&Invalidation::Resource(format!("file:///{at}").into()));
    }
    ask(&service, read("file:///5")).await;
    ask(&service, read("file:///5")).await;
    assert!(cache.statistics().hits >= 1);
}

/// What a cache has forgotten after a stream with this subscription has told that `file:///a/b` has changed: how many
/// invalidations that was, and whether the list of tools is still there.
async fn told_by_listening(uris: &[String]) -> (u64, bool) {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, _| {
        if request.body().method() != "subscriptions/listen" {
            return Ok(answered(request, result("public", "5000")));
        }
        let events = [Event::Notification(notification(&updated("file:///a/b")))];
        Ok(Response::new(Reply::Stream(ReplyStream::new(Events(events.into())))))
    });
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    let uris = serde_json::to_string(uris).unwrap();
    let listen = request_with(
        "1",
        "subscriptions/listen",
        &format!(r#""notifications":{{"resourceSubscriptions":{uris}}}"#),
    );
    let Reply::Stream(mut stream) = ask(&service, listen).await.into_body() else { panic!("is a stream") };
    poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await.unwrap();
    let is_there = is_kept(&cache, &tools());
    (cache.statistics().invalidations, is_there)
}

#[tokio::test]
async fn a_uri_that_is_subscribed_to_many_times_counts_once() {
    assert_eq!(told_by_listening(&vec!["file:///a".to_owned(); 5000]).await, (2, true));
}

#[tokio::test]
async fn with_too_many_subscriptions_each_updated_uri_is_a_change_of_everything() {
    let mut uris: Vec<_> = (0..1024).map(|at| format!("other:{at}")).collect();
    assert_eq!(told_by_listening(&uris).await, (1, true));
    uris.push("file:///a".to_owned());
    assert_eq!(told_by_listening(&uris).await, (2, false));
}
