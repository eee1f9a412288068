use super::invalidation::Events;
use super::streams::{drain, progress};
use super::*;

fn refreshing(mut request: Request<Message>) -> Request<Message> {
    request.extensions_mut().insert(CacheMode::Refresh);
    request
}

/// A stream of a notification and then this answer, if there is one.
fn stream(answer: Option<Answer>) -> Response<Reply> {
    let events = std::iter::once(progress()).chain(answer.map(Event::Answer)).collect();
    Response::new(Reply::Stream(ReplyStream::new(Events(events))))
}

#[tokio::test]
async fn a_refresh_forgets_the_old_entry_whatever_comes() {
    type Then = Box<dyn Fn() -> Result<Response<Reply>, BoxError> + Send + Sync>;
    let answer = |scope: &str, ttl: &str| Answer::result(Some(1.into()), result(scope, ttl));
    let refused = |rejection: Rejection| -> Then {
        Box::new(move || Ok(rejection.clone().into_response(Some(1.into()))))
    };
    let thens: [Then; 9] = [
        refused(Rejection::invalid_params("gone")),
        refused(Rejection::http(StatusCode::FORBIDDEN, "no")),
        refused(Rejection::http(StatusCode::SERVICE_UNAVAILABLE, "later")),
        Box::new(|| Err("down".into())),
        Box::new(move || Ok(Response::new(Reply::Answer(answer("public", "0"))))),
        Box::new(move || Ok(stream(Some(answer("public", "0"))))),
        Box::new(move || Ok(stream(Some(answer("private", "5000"))))),
        Box::new(|| Ok(stream(Some(Answer::error(Some(1.into()), ErrorObject::new(-32602, "gone")))))),
        Box::new(|| Ok(stream(None))),
    ];
    for (at, then) in thens.into_iter().enumerate() {
        let (cache, _) = cache();
        let upstream = Upstream::new(move |request, call| match call {
            1 => then(),
            _ => Ok(answered(request, result("public", "60000"))),
        });
        let service = layered(&cache.with_stale_if_error(ms(500)), &upstream);
        ask(&service, tools()).await;
        if let Ok(response) = service.clone().oneshot(refreshing(tools())).await
            && matches!(response.body(), Reply::Stream(_))
        {
            drain(response).await;
        }
        ask(&service, tools()).await;
        assert_eq!(upstream.calls(), 3, "{at}");
    }
}

#[tokio::test]
async fn a_refresh_whose_stream_nobody_reads_forgets_the_old_entry() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| match call {
        1 => Ok(stream(Some(Answer::result(Some(1.into()), result("public", "0"))))),
        _ => Ok(answered(request, result("public", "60000"))),
    });
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    drop(ask(&service, refreshing(tools())).await);
    ask(&service, tools()).await;
    assert_eq!(upstream.calls(), 3);
}

#[tokio::test]
async fn a_refresh_keeps_what_a_stream_ends_with() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| match call {
        0 => Ok(answered(request, result("public", "60000"))),
        _ => Ok(stream(Some(Answer::result(Some(1.into()), result("public", "7000"))))),
    });
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    drain(ask(&service, refreshing(tools())).await).await;
    assert_eq!(ttl(&ask(&service, tools()).await), "7000");
    assert_eq!(upstream.calls(), 2);
}
