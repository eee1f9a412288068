use super::*;

/// An upstream that answers once, and from then on with what `then` makes.
fn failing(
    then: impl Fn(&Request<Message>) -> Result<Response<Reply>, BoxError> + Send + Sync + 'static,
) -> Upstream {
    Upstream::new(move |request, call| match call {
        0 => Ok(answered(request, result("public", "1000"))),
        _ => then(request),
    })
}

fn refused(rejection: Rejection) -> Upstream {
    failing(move |request| Ok(rejection.clone().into_response(request.body().id().cloned())))
}

#[tokio::test]
async fn an_expired_entry_is_not_served_unless_that_is_wanted() {
    let (cache, clock) = cache();
    let service = layered(&cache, &failing(|_| Err("down".into())));
    ask(&service, tools()).await;
    clock.advance(ms(1000));
    assert!(service.oneshot(tools()).await.is_err());
}

#[tokio::test]
async fn an_expired_entry_is_served_on_failures_within_its_bound() {
    let unavailable = |status| Rejection::http(StatusCode::from_u16(status).unwrap(), "down");
    for upstream in [
        failing(|_| Err("down".into())),
        refused(Rejection::internal("down")),
        refused(unavailable(502)),
        refused(unavailable(503)),
        refused(unavailable(504)),
        failing(|request| {
            let error = ErrorObject::new(-32603, "down");
            Ok(Response::new(Reply::Answer(Answer::error(request.body().id().cloned(), error))))
        }),
    ] {
        let (cache, clock) = cache();
        let cache = cache.with_stale_if_error(ms(500));
        let service = layered(&cache, &upstream);
        ask(&service, tools()).await;
        clock.advance(ms(1499));
        for id in ["1", "\"b\""] {
            let response = ask(&service, request_with(id, "tools/list", "")).await;
            assert_eq!(ttl(&response), "0");
            assert_eq!((response.status(), response.headers().len()), (StatusCode::OK, 0));
            assert_eq!(response.body().answer().unwrap().id().unwrap().text(), id);
        }
        assert_eq!((upstream.calls(), cache.statistics().stale), (3, 2));
        clock.advance(ms(1));
        let late = service.oneshot(tools()).await;
        assert!(late.is_err_and(|_| true) || cache.statistics().stale == 2);
    }
}

#[tokio::test]
async fn an_answer_that_says_no_is_believed() {
    for upstream in [
        refused(Rejection::invalid_params("gone")),
        refused(Rejection::http(StatusCode::UNAUTHORIZED, "who are you")),
        refused(Rejection::http(StatusCode::FORBIDDEN, "not you")),
        refused(Rejection::http(StatusCode::TOO_MANY_REQUESTS, "slower")),
    ] {
        let (cache, clock) = cache();
        let service = layered(&cache.with_stale_if_error(ms(500)), &upstream);
        ask(&service, tools()).await;
        clock.advance(ms(1000));
        assert!(ask(&service, tools()).await.body().answer().unwrap().outcome().is_err());
    }
}

#[tokio::test]
async fn what_was_invalidated_is_not_served_even_then() {
    let (cache, clock) = cache();
    let cache = cache.with_stale_if_error(ms(500));
    let service = layered(&cache, &failing(|_| Err("down".into())));
    ask(&service, tools()).await;
    clock.advance(ms(1000));
    cache.invalidate(&Invalidation::Tools);
    assert!(service.oneshot(tools()).await.is_err());
}

#[tokio::test]
async fn what_has_been_said_since_replaces_an_expired_entry() {
    let (cache, clock) = cache();
    let upstream = Upstream::new(|request, call| match call {
        0 => Ok(answered(request, result("public", "1000"))),
        1 => Ok(answered(request, result("public", "0"))),
        _ => Err("down".into()),
    });
    let service = layered(&cache.with_stale_if_error(ms(500)), &upstream);
    ask(&service, tools()).await;
    clock.advance(ms(1000));
    ask(&service, tools()).await;
    assert!(service.oneshot(tools()).await.is_err());
}

#[tokio::test]
async fn the_plain_cache_has_it_as_well() {
    let (cache, clock) = cache();
    let cache = cache.with_stale_if_error(ms(500));
    let query = cache.query(&tools()).unwrap();
    assert!(cache.insert(&query, &answered(&tools(), result("public", "1000"))).await);
    clock.advance(ms(1200));
    assert!(cache.lookup(&query).await.is_none());
    let hit = cache.lookup_stale(&query).await.unwrap();
    assert_eq!(hit.remaining(), Duration::ZERO);
    clock.advance(ms(300));
    assert!(cache.lookup_stale(&query).await.is_none());
}

#[tokio::test]
async fn what_was_refused_is_not_served_when_asking_fails_later() {
    for (rejection, forgets) in [
        (Rejection::http(StatusCode::UNAUTHORIZED, "who are you"), true),
        (Rejection::http(StatusCode::FORBIDDEN, "access revoked"), true),
        (Rejection::http(StatusCode::NOT_FOUND, "gone"), true),
        (Rejection::invalid_params("gone"), true),
        // These say nothing of what was asked for.
        (Rejection::http(StatusCode::TOO_MANY_REQUESTS, "slower"), false),
        (Rejection::http(StatusCode::SERVICE_UNAVAILABLE, "later"), false),
    ] {
        for request in [tools, || tools().by("ada")] {
            let (cache, clock) = cache();
            let rejection = rejection.clone();
            let status = rejection.status();
            let upstream = Upstream::new(move |request, call| match call {
                0 => Ok(answered(request, result("public", "1000"))),
                1 => Ok(rejection.clone().into_response(request.body().id().cloned())),
                _ => Err("down".into()),
            });
            let service = layered(&cache.with_stale_if_error(ms(500)), &upstream);
            ask(&service, request()).await;
            clock.advance(ms(1000));
            ask(&service, request()).await;
            assert_eq!(service.oneshot(request()).await.is_err(), forgets, "{status}");
            assert_eq!(upstream.calls(), 3);
        }
    }
}
