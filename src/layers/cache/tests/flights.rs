use super::*;
use std::thread;
use tokio::task::JoinHandle;

/// Asks in a task of its own.
fn spawn(service: &Cached, request: Request<Message>) -> JoinHandle<Result<Response<Reply>, BoxError>> {
    tokio::spawn(service.clone().oneshot(request))
}

fn numbered(id: usize) -> Request<Message> {
    request_with(&id.to_string(), "tools/list", "")
}

#[tokio::test(start_paused = true)]
async fn concurrent_misses_share_one_call_and_each_gets_its_own_id() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5000")).held();
    let service = layered(&cache, &upstream);
    let tasks: Vec<_> = (0..100).map(|id| spawn(&service, numbered(id))).collect();
    settle().await;
    upstream.release(1);
    for (id, task) in tasks.into_iter().enumerate() {
        let response = task.await.unwrap().unwrap();
        assert_eq!(response.body().answer().unwrap().id().unwrap().text(), id.to_string());
    }
    assert_eq!(upstream.calls(), 1);
    let statistics = cache.statistics();
    assert_eq!((statistics.misses, statistics.waits, statistics.stores), (1, 99, 1));
    assert_eq!(cache.flights().len(), 0);
}

#[test]
fn a_thousand_misses_on_real_threads_make_one_call() {
    for _ in 0..5 {
        let (cache, _) = cache();
        let upstream = Upstream::saying(result("public", "5000"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).build().unwrap();
        runtime.block_on(async {
            let service = layered(&cache, &upstream);
            let start = Arc::new(tokio::sync::Barrier::new(1000));
            let tasks: Vec<_> = (0..1000)
                .map(|id| {
                    let (service, start) = (service.clone(), Arc::clone(&start));
                    tokio::spawn(async move {
                        start.wait().await;
                        service.oneshot(numbered(id)).await.unwrap()
                    })
                })
                .collect();
            for (id, task) in tasks.into_iter().enumerate() {
                let response = task.await.unwrap();
                assert_eq!(response.body().answer().unwrap().id().unwrap().text(), id.to_string());
            }
        });
        assert_eq!(upstream.calls(), 1);
        let statistics = cache.statistics();
        assert_eq!(statistics.hits + statistics.waits + statistics.misses, 1000);
        assert_eq!(statistics.misses, 1);
    }
}

#[test]
fn flights_survive_cancellation_on_real_threads() {
    let (cache, _) = cache();
    // Waits once in each call, so that others take over.
    let upstream = Upstream::saying(result("public", "5000")).held();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for round in 0..200 {
            let service = layered(&cache.for_upstream(round.to_string()), &upstream);
            let tasks: Vec<_> = (0..8).map(|id| spawn(&service, numbered(id))).collect();
            let releasing = {
                let upstream = upstream.clone();
                tokio::spawn(async move { upstream.release(1) })
            };
            for task in &tasks[..7] {
                task.abort();
            }
            let last = tasks.into_iter().next_back().unwrap();
            last.await.unwrap().unwrap();
            releasing.await.unwrap();
            // What a call that was given up has left over would let the next one pass at once: that is fine, but
            // the count must not run down.
            upstream.release(8);
        }
    });
    assert_eq!(cache.flights().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flight_goes_on_without_its_leader_and_ends_with_its_last_follower() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5000")).held();
    let service = layered(&cache, &upstream);
    let mut tasks: Vec<_> = (0..4).map(|id| spawn(&service, numbered(id))).collect();
    settle().await;
    tasks.remove(0).abort();
    tasks.remove(1).abort();
    settle().await;
    assert_eq!(upstream.dropped.load(Ordering::SeqCst), 0);
    upstream.release(1);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(upstream.calls(), 1);

    let tasks: Vec<_> = (0..3).map(|_| spawn(&service, read("a"))).collect();
    settle().await;
    assert_eq!((upstream.calls(), cache.flights().len()), (2, 1));
    tasks.iter().for_each(JoinHandle::abort);
    settle().await;
    assert_eq!(upstream.dropped.load(Ordering::SeqCst), 1);
    assert_eq!(cache.flights().len(), 0);
    upstream.release(1);
    spawn(&service, read("a")).await.unwrap().unwrap();
    assert_eq!(upstream.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_above_the_leader_does_not_fail_the_followers() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5000")).held();
    let service = layered(&cache, &upstream);
    let leader = tokio::spawn(tokio::time::timeout(ms(100), service.clone().oneshot(numbered(0))));
    settle().await;
    let follower = spawn(&service, numbered(1));
    assert!(leader.await.unwrap().is_err());
    upstream.release(1);
    follower.await.unwrap().unwrap();
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_no_longer_polled_stops_nobody() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5000")).held();
    let service = layered(&cache, &upstream);
    let mut leader = Box::pin(service.clone().oneshot(numbered(0)));
    let waker = std::task::Waker::noop();
    assert!(leader.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    let follower = spawn(&service, numbered(1));
    settle().await;
    upstream.release(1);
    follower.await.unwrap().unwrap();
    assert!(leader.as_mut().poll(&mut Context::from_waker(waker)).is_ready());
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn errors_go_to_all_who_wait_and_are_not_kept() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| {
        if call > 0 {
            return Err("no".into());
        }
        let rejection = Rejection::http(StatusCode::SERVICE_UNAVAILABLE, "later");
        let mut response = rejection.into_response(request.body().id().cloned());
        response.headers_mut().insert("retry-after", "5".parse().unwrap());
        response.headers_mut().insert("x-request-id", "secret".parse().unwrap());
        Ok(response)
    })
    .held();
    let service = layered(&cache, &upstream);
    let tasks: Vec<_> = (0..5).map(|id| spawn(&service, numbered(id).by("ada"))).collect();
    settle().await;
    upstream.release(1);
    for (id, task) in tasks.into_iter().enumerate() {
        let response = task.await.unwrap().unwrap();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "5");
        assert_eq!(response.headers().contains_key("x-request-id"), id == 0);
        assert_eq!(response.extensions().get::<Rejection>().unwrap().code(), 503);
        assert!(text(&response).starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error""#)));
    }
    let tasks: Vec<_> = (0..5).map(|id| spawn(&service, numbered(id).by("ada"))).collect();
    settle().await;
    upstream.release(1);
    for task in tasks {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(error.source().unwrap().to_string(), "no");
    }
    assert_eq!((upstream.calls(), cache.statistics().stores), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn partitions_do_not_wait_for_each_other() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("private", "5000")).held();
    let service = layered(&cache, &upstream);
    let header = |value: &str| {
        let mut request = tools();
        request.headers_mut().insert("authorization", value.parse().unwrap());
        request
    };
    let mut nameless = tools();
    nameless.extensions_mut().insert(Principal::new("issuer", "eve"));
    let requests =
        [tools().by("ada"), tools().by("bob"), tools(), header("Bearer a"), header("Bearer b"), nameless];
    let tasks = requests.map(|request| spawn(&service, request));
    settle().await;
    assert_eq!(upstream.calls(), 6);
    upstream.release(6);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_shown_nothing_gets_no_private_result_of_another() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("private", "5000")).held();
    let service = layered(&cache, &upstream);
    let tasks: Vec<_> = (0..3).map(|id| spawn(&service, numbered(id))).collect();
    settle().await;
    assert_eq!(upstream.calls(), 1);
    upstream.release(3);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(*upstream.seen.lock().unwrap(), ["0", "1", "2"]);
    // It is known now that waiting is of no use.
    let tasks: Vec<_> = (3..6).map(|id| spawn(&service, numbered(id))).collect();
    settle().await;
    assert_eq!(upstream.calls(), 6);
    upstream.release(3);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn results_without_a_lifetime_are_not_shared() {
    let (cache, _) = cache();
    let upstream =
        Upstream::new(|request, call| Ok(answered(request, result("public", ["0", "0", "0", "9"][call]))));
    let upstream = upstream.held();
    let service = layered(&cache, &upstream);
    let tasks: Vec<_> = (0..3).map(|id| spawn(&service, numbered(id))).collect();
    settle().await;
    upstream.release(3);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(upstream.calls(), 3);
    // One that can be kept is kept, and then they share again.
    upstream.release(1);
    ask(&service, tools()).await;
    ask(&service, tools()).await;
    assert_eq!(upstream.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn who_asks_after_an_invalidation_does_not_get_what_was_asked_for_before() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| {
        Ok(answered(request, result("public", ["1000", "2000", "3000"][call])))
    });
    let upstream = upstream.held();
    let service = layered(&cache, &upstream);
    let before = [spawn(&service, numbered(0)), spawn(&service, numbered(1))];
    settle().await;
    cache.invalidate(&Invalidation::Tools);
    let after = [spawn(&service, numbered(2)), spawn(&service, numbered(3))];
    settle().await;
    assert_eq!(upstream.calls(), 2);
    upstream.release(2);
    for (tasks, expected) in [(before, "1000"), (after, "2000")] {
        for task in tasks {
            assert_eq!(ttl(&task.await.unwrap().unwrap()), expected);
        }
    }
    // The second was kept, the first was not.
    assert_eq!(ttl(&ask(&service, tools()).await), "2000");
    assert_eq!(cache.statistics().stores, 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_inner_service_leaves_nobody_waiting() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| {
        assert!(call > 0, "the first call panics");
        Ok(answered(request, result("public", "5000")))
    });
    let service = layered(&cache, &upstream);
    let tasks: Vec<_> = (0..5).map(|id| spawn(&service, numbered(id))).collect();
    let mut panicked = 0;
    for task in tasks {
        match task.await {
            Ok(response) => drop(response.unwrap()),
            Err(error) => panicked += usize::from(error.is_panic()),
        }
    }
    assert_eq!(panicked, 1);
    assert_eq!(cache.flights().len(), 0);
}

#[test]
fn waiters_and_flights_are_sent_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let (cache, _) = cache();
    let service = layered(&cache, &Upstream::saying(result("public", "5")));
    let mut service = service;
    let future = service.call(tools());
    is_send(&future);
    thread::spawn(move || drop(future)).join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_has_shown_nothing_is_not_given_the_error_of_another() {
    type Bad = fn(&Request<Message>) -> Result<Response<Reply>, BoxError>;
    let bads: [Bad; 2] = [
        |request| {
            let rejection = Rejection::http(StatusCode::UNAUTHORIZED, "wrong key bad");
            Ok(rejection.into_response(request.body().id().cloned()))
        },
        |_| Err("wrong key bad".into()),
    ];
    for bad in bads {
        let (cache, _) = cache();
        let upstream = Upstream::new(move |request, _| match request.headers()["x-api-key"].as_bytes() {
            b"bad" => bad(request),
            _ => Ok(answered(request, result("public", "5000"))),
        })
        .held();
        let service = layered(&cache, &upstream);
        let with_key = |key: &str| {
            let mut request = tools();
            request.headers_mut().insert("x-api-key", key.parse().unwrap());
            request
        };
        let first = spawn(&service, with_key("bad"));
        settle().await;
        let second = spawn(&service, with_key("good"));
        settle().await;
        assert_eq!(upstream.calls(), 1);
        upstream.release(2);
        let first = first.await.unwrap();
        assert!(first.is_err() || first.is_ok_and(|response| response.status() == 401));
        assert_eq!(ttl(&second.await.unwrap().unwrap()), "5000");
        assert_eq!(upstream.calls(), 2);
    }
}
