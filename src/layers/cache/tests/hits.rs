use super::*;

#[tokio::test]
async fn a_hit_has_the_id_of_the_caller_as_it_is_written() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5000"));
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    for id in ["7", "18446744073709551616", "\"a\\u0062\"", "-0", "\"7\""] {
        let hit = ask(&service, request_with(id, "tools/list", "")).await;
        assert_eq!(hit.body().answer().unwrap().id().unwrap().text(), id);
    }
    assert_eq!(upstream.calls(), 1);
    assert_eq!(cache.statistics().hits, 5);
}

#[tokio::test]
async fn the_ttl_of_a_hit_is_less_the_age_and_ends_with_it() {
    let (cache, clock) = cache();
    let upstream = Upstream::saying(result("public", "5000"));
    let service = layered(&cache, &upstream);
    assert_eq!(ttl(&ask(&service, tools()).await), "5000");
    for (step, expected) in [(0, "5000"), (1, "4999"), (4000, "999"), (998, "1")] {
        clock.advance(ms(step));
        assert_eq!(ttl(&ask(&service, tools()).await), expected);
    }
    assert_eq!(upstream.calls(), 1);
    // Fresh while now < received + ttl.
    clock.advance(ms(1));
    assert_eq!(ttl(&ask(&service, tools()).await), "5000");
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn two_caches_in_a_row_do_not_double_a_lifetime() {
    let (outer, clock) = cache();
    let inner = ResponseCache::with_store_and_clock("up", MemoryStore::default(), Arc::clone(&clock));
    let upstream = Upstream::saying(result("public", "5000"));
    let service = CacheLayer::new(outer).layer(layered(&inner, &upstream));
    let ask = |request| service.clone().oneshot(request);
    // Only the inner one has it.
    layered(&inner, &upstream).oneshot(tools()).await.unwrap();
    clock.advance(ms(3000));
    assert_eq!(ttl(&ask(tools()).await.unwrap()), "2000");
    clock.advance(ms(1999));
    assert_eq!(ttl(&ask(tools()).await.unwrap()), "1");
    clock.advance(ms(1));
    ask(tools()).await.unwrap();
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn a_hit_has_none_of_the_headers_and_nothing_in_meta_that_was_about_the_call() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, _| {
        let mut response = answered(
            request,
            RawObject::parse(
                r#"{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public","_meta":{
                    "traceparent":"secret","io.modelcontextprotocol/serverInfo":{"name":"s"},"x/y":1}}"#,
            )
            .unwrap(),
        );
        response.headers_mut().insert("set-cookie", "a=b".parse().unwrap());
        response.extensions_mut().insert(5_u8);
        Ok(response)
    });
    let service = layered(&cache, &upstream);
    let miss = ask(&service, tools()).await;
    assert!(miss.headers().contains_key("set-cookie") && text(&miss).contains("secret"));
    let hit = ask(&service, tools()).await;
    assert!(hit.headers().is_empty() && hit.extensions().is_empty());
    assert_eq!(
        text(&hit),
        r#"{"jsonrpc":"2.0","id":1,"result":{"ttlMs":5,"resultType":"complete","tools":[],"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}"#
    );
}

#[tokio::test]
async fn the_meta_that_is_kept_can_be_chosen() {
    let (cache, _) = cache();
    let cache = cache.with_kept_meta(["x/y"]);
    let upstream = Upstream::saying(
        RawObject::parse(
            r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","_meta":{"a":1,"x/y":[1.0]}}"#,
        )
        .unwrap(),
    );
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    assert!(text(&ask(&service, tools()).await).contains(r#""_meta":{"x/y":[1.0]}"#));
}

#[tokio::test]
async fn a_hit_shares_the_stored_text() {
    let (cache, _) = cache();
    let large = format!(
        r#"{{"resultType":"complete","tools":["{}"],"ttlMs":5000,"cacheScope":"public"}}"#,
        "x".repeat(6000)
    );
    let service = layered(&cache, &Upstream::saying(RawObject::parse(large).unwrap()));
    ask(&service, tools()).await;
    let mut places = Vec::new();
    for _ in 0..2 {
        let Reply::Answer(answer) = ask(&service, tools()).await.into_body() else { unreachable!() };
        let whole = answer.to_string();
        let chunks = answer.into_chunks();
        assert_eq!(chunks.concat(), whole.as_bytes());
        assert!(chunks[0].len() < 60 && chunks[2].is_empty());
        places.push(chunks[1].as_ptr());
    }
    assert_eq!(places[0], places[1]);
}

#[tokio::test]
async fn a_slow_upstream_holds_up_no_hit() {
    /// Never ready again.
    #[derive(Clone)]
    struct Full(Upstream);
    impl Service<Request<Message>> for Full {
        type Response = Response<Reply>;
        type Error = BoxError;
        type Future = <Upstream as Service<Request<Message>>>::Future;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            if self.0.calls() == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        }
        fn call(&mut self, request: Request<Message>) -> Self::Future {
            self.0.call(request)
        }
    }
    let (cache, _) = cache();
    let service = CacheLayer::new(cache).layer(Full(Upstream::saying(result("public", "5"))));
    for _ in 0..3 {
        service.clone().oneshot(tools()).await.unwrap();
    }
    let mut other = Box::pin(service.oneshot(read("a")));
    assert!(other.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
}

#[tokio::test]
async fn a_caller_can_refresh_and_bypass() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| {
        Ok(answered(request, result("public", ["5", "6", "7", "0", "8"][call])))
    });
    let service = layered(&cache, &upstream);
    let with = |mode| {
        let mut request = tools();
        request.extensions_mut().insert(mode);
        ask(&service, request)
    };
    assert_eq!(ttl(&ask(&service, tools()).await), "5");
    assert_eq!(ttl(&with(CacheMode::Bypass).await), "6");
    assert_eq!(ttl(&with(CacheMode::Use).await), "5");
    assert_eq!(ttl(&with(CacheMode::Refresh).await), "7");
    assert_eq!(ttl(&ask(&service, tools()).await), "7");
    // What is not to be kept replaces what was.
    assert_eq!(ttl(&with(CacheMode::Refresh).await), "0");
    assert_eq!(ttl(&ask(&service, tools()).await), "8");
}
