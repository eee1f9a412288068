use super::invalidation::Events;
use super::*;

pub(super) fn progress() -> Event {
    Event::Notification(Message::parse(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#).unwrap())
}

fn streaming(before: usize, complete: bool) -> Upstream {
    Upstream::new(move |request, _| {
        let mut events: std::collections::VecDeque<_> = (0..before).map(|_| progress()).collect();
        if complete {
            let answer = Answer::result(request.body().id().cloned(), result("public", "5000"));
            events.push_back(Event::Answer(answer));
        }
        Ok(Response::new(Reply::Stream(ReplyStream::new(Events(events)))))
    })
}

pub(super) async fn drain(response: Response<Reply>) -> Vec<Event> {
    let Reply::Stream(mut stream) = response.into_body() else { panic!("is a stream") };
    let mut events = Vec::new();
    while let Some(event) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn a_stream_of_nothing_but_an_answer_is_the_answer() {
    let (cache, _) = cache();
    let upstream = streaming(0, true);
    let service = layered(&cache, &upstream);
    assert_eq!(ttl(&ask(&service, tools()).await), "5000");
    assert_eq!(ttl(&ask(&service, tools()).await), "5000");
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn the_answer_of_a_stream_is_kept_when_it_passes() {
    let (cache, _) = cache();
    let upstream = streaming(2, true);
    let service = layered(&cache, &upstream);
    let response = ask(&service, tools()).await;
    assert_eq!(cache.statistics().stores, 0);
    let events = drain(response).await;
    assert!(matches!(events[..], [Event::Notification(_), Event::Notification(_), Event::Answer(_)]));
    // A hit has no notifications: they were about the call.
    assert_eq!(ttl(&ask(&service, tools()).await), "5000");
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_passed_on_as_it_is() {
    for before in [0, 1] {
        let (cache, _) = cache();
        let upstream = streaming(before, false);
        let service = layered(&cache, &upstream);
        assert_eq!(drain(ask(&service, tools()).await).await.len(), before);
        assert_eq!(cache.statistics().stores, 0);
    }
}

#[tokio::test]
async fn who_waited_for_what_turns_out_to_be_a_stream_asks_for_itself() {
    let (cache, _) = cache();
    let upstream = streaming(1, true).held();
    let service = layered(&cache, &upstream);
    let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(service.clone().oneshot(tools()))).collect();
    settle().await;
    upstream.release(3);
    for task in tasks {
        assert_eq!(drain(task.await.unwrap().unwrap()).await.len(), 2);
    }
}

#[tokio::test]
async fn what_is_invalidated_while_a_stream_runs_is_not_kept() {
    let (cache, _) = cache();
    let service = layered(&cache, &streaming(1, true));
    let response = ask(&service, tools()).await;
    cache.invalidate(&Invalidation::Tools);
    assert_eq!(drain(response).await.len(), 2);
    assert_eq!(cache.statistics().stores, 0);
}

/// What is said from the second call on is said at the end of a stream.
fn streaming_later(then: impl Fn() -> Answer + Send + Sync + 'static) -> Upstream {
    Upstream::new(move |request, call| match (call, request.body().param("cursor")) {
        (0 | 1, cursor) => {
            let ttl = if cursor.is_some() { "1000" } else { "9000" };
            Ok(answered(request, result("public", ttl)))
        }
        _ => {
            let events = [progress(), Event::Answer(then())];
            Ok(Response::new(Reply::Stream(ReplyStream::new(Events(events.into())))))
        }
    })
}

#[tokio::test]
async fn a_cursor_that_is_refused_at_the_end_of_a_stream_drops_all_pages() {
    let (cache, clock) = cache();
    let refused = || Answer::error(Some(1.into()), ErrorObject::new(-32602, "no"));
    let service = layered(&cache, &streaming_later(refused));
    let is_there = || is_kept(&cache, &tools());
    let page = || request_with("1", "tools/list", r#""cursor":"2""#);
    ask(&service, tools()).await;
    ask(&service, page()).await;
    clock.advance(ms(1000));
    let response = ask(&service, page()).await;
    assert!(is_there());
    let events = drain(response).await;
    assert!(
        matches!(&events[..], [Event::Notification(_), Event::Answer(answer)] if answer.outcome().is_err())
    );
    assert!(!is_there());
}

#[tokio::test]
async fn a_failure_at_the_end_of_a_stream_is_replaced_by_an_expired_entry() {
    let (cache, clock) = cache();
    let cache = cache.with_stale_if_error(ms(500));
    let upstream = streaming_later(|| Answer::error(Some(1.into()), ErrorObject::new(-32603, "down")));
    let service = layered(&cache, &upstream);
    let page = || request_with("1", "tools/list", r#""cursor":"2""#);
    ask(&service, tools()).await;
    ask(&service, page()).await;
    clock.advance(ms(1200));
    let events = drain(ask(&service, page()).await).await;
    let [Event::Notification(_), Event::Answer(answer)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(answer.outcome().unwrap().get("ttlMs").unwrap().text(), "0");
    assert_eq!((answer.id().unwrap().text(), cache.statistics().stale), ("1", 1));
    // Once it is too old, the failure is told.
    clock.advance(ms(300));
    let events = drain(ask(&service, page()).await).await;
    assert!(matches!(&events[1], Event::Answer(answer) if answer.outcome().is_err()));
}

#[tokio::test]
async fn a_failure_that_a_stream_can_tell_by_its_code_alone_is_one() {
    for (code, before, stale) in [
        (502, 0, true),
        (502, 1, true),
        (503, 1, true),
        (504, 0, true),
        (504, 1, true),
        (404, 0, false),
        (404, 1, false),
    ] {
        let (cache, clock) = cache();
        let upstream = Upstream::new(move |request, call| {
            if call == 0 {
                return Ok(answered(request, result("public", "1000")));
            }
            let error = ErrorObject::new(code, "it has broken off");
            let answer = Answer::error(request.body().id().cloned(), error);
            let events = (0..before).map(|_| progress()).chain([Event::Answer(answer)]).collect();
            Ok(Response::new(Reply::Stream(ReplyStream::new(Events(events)))))
        });
        let service = layered(&cache.clone().with_stale_if_error(ms(500)), &upstream);
        ask(&service, tools()).await;
        clock.advance(ms(1200));
        // Twice, since what was served must not have been forgotten.
        for _ in 0..2 {
            let response = ask(&service, tools()).await;
            let ttl = match response.body() {
                Reply::Answer(answer) => {
                    answer.outcome().ok().map(|result| result.get("ttlMs").unwrap().text().to_owned())
                }
                _ => match &drain(response).await[..] {
                    [Event::Notification(_), Event::Answer(answer)] => {
                        answer.outcome().ok().map(|result| result.get("ttlMs").unwrap().text().to_owned())
                    }
                    events => panic!("{events:?}"),
                },
            };
            assert_eq!(ttl.as_deref(), stale.then_some("0"), "{code} {before}");
        }
        assert_eq!((upstream.calls(), cache.statistics().stale), (3, if stale { 2 } else { 0 }));
    }
}
