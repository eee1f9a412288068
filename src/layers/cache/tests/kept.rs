use super::*;
use crate::protocol::Revision;

/// How many of three equal requests reach an upstream that says `text`.
async fn calls(text: &str) -> usize {
    let (cache, _) = cache();
    let upstream = Upstream::saying(RawObject::parse(text.to_owned()).unwrap());
    let service = layered(&cache, &upstream);
    for _ in 0..3 {
        ask(&service, tools()).await;
    }
    upstream.calls()
}

#[tokio::test]
async fn only_complete_results_with_a_positive_integer_as_ttl_are_kept() {
    assert_eq!(calls(r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#).await, 1);
    assert_eq!(
        calls(r#"{"ttlMs":1180591620717411303424,"resultType":"complete","cacheScope":"public"}"#).await,
        1
    );
    for ttl in
        ["0", "-1", "-9223372036854775809", "1e400", "-1e400", "\"5\"", "null", "5.5", "5.0", "5e3", "[5]"]
    {
        let text = format!(r#"{{"resultType":"complete","ttlMs":{ttl},"cacheScope":"public"}}"#);
        assert_eq!(calls(&text).await, 3, "{ttl}");
    }
    for text in [
        r#"{"resultType":"complete","cacheScope":"public"}"#,
        r#"{"ttlMs":5,"cacheScope":"public"}"#,
        r#"{"resultType":"input_required","ttlMs":5,"cacheScope":"public"}"#,
        r#"{"resultType":"Complete","ttlMs":5,"cacheScope":"public"}"#,
        r#"{"resultType":null,"ttlMs":5,"cacheScope":"public"}"#,
    ] {
        assert_eq!(calls(text).await, 3, "{text}");
    }
}

#[tokio::test]
async fn public_is_public_on_the_exact_string_only() {
    for scope in ["\"PUBLIC\"", "\"public \"", "\"\"", "null", "true", "[\"public\"]", "\"private\""] {
        let text = format!(r#"{{"resultType":"complete","ttlMs":5,"cacheScope":{scope}}}"#);
        assert_eq!(calls(&text).await, 3, "{scope}");
    }
    assert_eq!(calls(r#"{"resultType":"complete","ttlMs":5,"cacheScope":"\u0070ublic"}"#).await, 1);
}

#[tokio::test]
async fn a_lifetime_ends_after_a_day_or_what_is_configured() {
    for (max, expected) in [(None, 86_400_000), (Some(ms(1000)), 1000), (Some(Duration::MAX), 86_400_000)] {
        let (cache, clock) = cache();
        let cache = max.map_or(cache.clone(), |max| cache.with_max_ttl(max));
        let upstream = Upstream::saying(result("public", "1180591620717411303424"));
        let service = layered(&cache, &upstream);
        ask(&service, tools()).await;
        assert_eq!(ttl(&ask(&service, tools()).await), expected.to_string());
        clock.advance(ms(expected - 1));
        ask(&service, tools()).await;
        assert_eq!(upstream.calls(), 1);
        clock.advance(ms(1));
        ask(&service, tools()).await;
        assert_eq!(upstream.calls(), 2);
    }
}

#[tokio::test]
async fn errors_and_other_statuses_are_not_kept() {
    let (cache, _) = cache();
    let upstream = Upstream::new(|request, call| {
        let mut response = answered(request, result("public", "5"));
        *response.status_mut() = StatusCode::from_u16([201, 203, 404, 500][call % 4]).unwrap();
        if call >= 4 {
            response = Rejection::invalid_params("no").into_response(request.body().id().cloned());
            *response.status_mut() = StatusCode::OK;
        }
        Ok(response)
    });
    let service = layered(&cache, &upstream);
    for _ in 0..8 {
        ask(&service, tools()).await;
    }
    assert_eq!((upstream.calls(), cache.statistics().stores), (8, 0));
}

#[tokio::test]
async fn requests_that_are_not_for_a_cache_pass_both_ways() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5"));
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    ask(&service, read("a")).await;
    let uri = r#""uri":"a""#;
    let pass = [
        request_with("1", "tools/call", r#""name":"a""#),
        request_with("1", "prompts/get", r#""name":"a""#),
        request_with("1", "tools/list", r#""filter":"x""#),
        request_with("1", "tools/list", r#""cursor":null"#),
        request_with("1", "tools/list", r#""cursor":5"#),
        request_with("1", "server/discover", r#""cursor":"a""#),
        request_with("1", "resources/read", ""),
        request_with("1", "resources/read", &format!(r#"{uri},"requestState":"s""#)),
        request_with("1", "resources/read", &format!(r#"{uri},"inputResponses":{{}}"#)),
        request_with("1", "resources/read", &format!(r#"{uri},"inputResponses":null"#)),
    ];
    let count = pass.len();
    for request in pass {
        for _ in 0..2 {
            let mut again = Request::new(request.body().clone());
            again.headers_mut().clone_from(request.headers());
            ask(&service, again).await;
        }
    }
    assert_eq!(upstream.calls(), 2 + 2 * count);
    assert_eq!(cache.statistics().stores, 2);
}

#[tokio::test]
async fn legacy_requests_are_not_cached() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5"));
    let service = layered(&cache, &upstream);
    let plain = || Request::new(Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).unwrap());
    let with = |mut request: Request<Message>, revision: Revision| {
        request.extensions_mut().insert(revision);
        request
    };
    let of = |version: &str| {
        let text = String::from_utf8(tools().body().bytes().to_vec()).unwrap();
        Request::new(Message::parse(text.replace("2026-07-28", version)).unwrap())
    };
    for _ in 0..2 {
        ask(&service, plain()).await;
        ask(&service, of("2025-11-25")).await;
        ask(&service, of("2099-01-01")).await;
        ask(&service, with(tools(), Revision::V2025_11_25)).await;
    }
    assert_eq!((upstream.calls(), cache.statistics().stores), (8, 0));
    // What a layer has found out is enough.
    for _ in 0..2 {
        ask(&service, with(plain(), Revision::V2026_07_28)).await;
    }
    assert_eq!(upstream.calls(), 9);
}

#[tokio::test]
async fn what_affects_the_result_is_told_apart_and_what_does_not_is_not() {
    let (cache, _) = cache();
    let upstream = Upstream::saying(result("public", "5"));
    let service = layered(&cache, &upstream);
    let different = [
        ("tools/list", ""),
        ("tools/list", r#""cursor":"""#),
        ("tools/list", r#""cursor":"a""#),
        ("tools/list", r#""cursor":"A""#),
        ("prompts/list", ""),
        ("resources/list", ""),
        ("resources/templates/list", ""),
        ("server/discover", ""),
        ("resources/read", r#""uri":"""#),
        ("resources/read", r#""uri":"a""#),
        ("resources/read", r#""uri":"a\u0000b""#),
        ("resources/read", r#""uri":"a/b""#),
    ];
    for _ in 0..2 {
        for (method, params) in different {
            ask(&service, request_with("1", method, params)).await;
        }
    }
    assert_eq!(upstream.calls(), different.len());
    for equal in [
        request_with("2", "tools/list", r#""cursor":"\u0061""#),
        request_with("3", "resources/read", r#""uri":"a\/b""#),
        Request::new(
            Message::parse(
                r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{"progressToken":1,
                "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{}}}}"#,
            )
            .unwrap(),
        ),
    ] {
        ask(&service, equal).await;
    }
    assert_eq!(upstream.calls(), different.len());
}

#[tokio::test]
async fn an_entry_does_not_hold_on_to_the_request_or_the_response() {
    let (cache, _) = cache();
    let service = layered(&cache, &Upstream::saying(result("public", "5000")));
    ask(&service, read(&"u".repeat(100))).await;
    let padded = format!(r#""uri":"b",{}{META}"#, " ".repeat(100_000));
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{{padded}}}}}"#);
    ask(&service, Request::new(Message::parse(text).unwrap())).await;
    assert!(cache.store().bytes() < 5_000, "{}", cache.store().bytes());
}

#[tokio::test]
async fn many_members_in_the_meta_of_a_result_stop_nobody_for_long() {
    let many: Vec<_> = (0..60_000).map(|at| format!("\"x{at}\":0")).collect();
    let meta = format!("{{{},\"io.modelcontextprotocol/serverInfo\":{{}}}}", many.join(","));
    let text = format!(r#"{{"resultType":"complete","ttlMs":60000,"cacheScope":"public","_meta":{meta}}}"#);
    let (cache, _) = cache();
    let service = layered(&cache, &Upstream::saying(RawObject::parse(text).unwrap()));
    let start = std::time::Instant::now();
    ask(&service, tools()).await;
    // With work that grows with the square of their number it would be minutes.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let hit = super::text(&ask(&service, tools()).await);
    assert!(hit.contains(r#""_meta":{"io.modelcontextprotocol/serverInfo":{}}"#), "{hit}");
}
