use super::invalidation::Events;
use super::*;

fn progress() -> Event {
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

async fn drain(response: Response<Reply>) -> Vec<Event> {
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
