use super::*;

/// What a caller gets from an upstream that tells each who it is.
async fn whoami(service: &Cached, request: Request<Message>) -> String {
    let response = ask(service, request).await;
    let result = response.body().answer().unwrap().outcome().unwrap();
    result.get("you").unwrap().to_str().unwrap().into_owned()
}

fn mirror(scope: &'static str) -> Upstream {
    Upstream::new(move |request, call| {
        let you = request.extensions().get::<Principal>().map_or("nobody", Principal::subject);
        let result =
            format!(r#"{{"resultType":"complete","you":"{you}{call}","ttlMs":5000,"cacheScope":"{scope}"}}"#);
        Ok(answered(request, RawObject::parse(result).unwrap()))
    })
}

#[tokio::test]
async fn private_results_are_for_the_same_token_only() {
    let (cache, _) = cache();
    let upstream = mirror("private");
    let service = layered(&cache, &upstream);
    for _ in 0..3 {
        assert_eq!(whoami(&service, tools().by("ada")).await, "ada0");
        assert_eq!(whoami(&service, tools().by("bob")).await, "bob1");
    }
    assert_eq!(upstream.calls(), 2);
    // The same person with another token.
    let mut refreshed = tools();
    refreshed.extensions_mut().insert(Principal::new("issuer", "ada").with_credential(b"new"));
    assert_eq!(whoami(&service, refreshed).await, "ada2");
}

#[tokio::test]
async fn public_results_are_for_everybody() {
    let (cache, _) = cache();
    let upstream = mirror("public");
    let service = layered(&cache, &upstream);
    for request in [tools().by("ada"), tools().by("bob"), tools()] {
        assert_eq!(whoami(&service, request).await, "ada0");
    }
}

#[tokio::test]
async fn without_a_principal_or_its_token_nothing_private_is_kept() {
    let (cache, _) = cache();
    let upstream = mirror("private");
    let service = layered(&cache, &upstream);
    let tokenless = || {
        let mut request = tools();
        request.extensions_mut().insert(Principal::new("issuer", "ada"));
        request
    };
    for call in 0..2 {
        assert_eq!(whoami(&service, tools()).await, format!("nobody{}", 2 * call));
        assert_eq!(whoami(&service, tokenless()).await, format!("ada{}", 2 * call + 1));
    }
}

#[tokio::test]
async fn partitions_can_be_by_principal() {
    let (cache, _) = cache();
    let cache = cache.with_partition(PartitionBy::Principal);
    let upstream = mirror("private");
    let service = layered(&cache, &upstream);
    let ada = |token: &str, scopes: &[&str]| {
        let mut request = tools();
        let principal = Principal::new("issuer", "ada").with_credential(token.as_bytes());
        request.extensions_mut().insert(principal.with_scopes(scopes.iter().copied()));
        request
    };
    assert_eq!(whoami(&service, ada("1", &["r", "w"])).await, "ada0");
    assert_eq!(whoami(&service, ada("2", &["w", "r"])).await, "ada0");
    // Whoever may see less may be told less.
    assert_eq!(whoami(&service, ada("3", &["r"])).await, "ada1");
    assert_eq!(whoami(&service, tools().by("bob")).await, "bob2");
}

#[tokio::test]
async fn public_can_be_distrusted() {
    let (cache, _) = cache();
    let trusting = layered(&cache, &mirror("public"));
    whoami(&trusting, tools()).await;
    let upstream = mirror("public");
    let service = layered(&cache.with_trust_public(false), &upstream);
    for _ in 0..2 {
        // Not even what was kept in better times.
        assert_eq!(whoami(&service, tools().by("ada")).await, "ada0");
    }
    assert_eq!(whoami(&service, tools().by("bob")).await, "bob1");
    assert_eq!(whoami(&service, tools()).await, "nobody2");
    assert_eq!(whoami(&service, tools()).await, "nobody3");
}

#[tokio::test]
async fn a_result_that_has_become_private_is_no_longer_served_to_others() {
    let (cache, clock) = cache();
    let upstream = Upstream::new(|request, call| {
        let scope = ["public", "private", "private", "public"][call];
        Ok(answered(request, result(scope, "1000")))
    });
    let service = layered(&cache, &upstream);
    ask(&service, tools().by("ada")).await;
    let mut refresh = tools().by("bob");
    refresh.extensions_mut().insert(CacheMode::Refresh);
    ask(&service, refresh).await;
    ask(&service, tools().by("ada")).await;
    assert_eq!(upstream.calls(), 3);
    // And one that has become public takes the place of one's own.
    clock.advance(ms(1000));
    ask(&service, tools().by("ada")).await;
    ask(&service, tools().by("bob")).await;
    ask(&service, tools()).await;
    assert_eq!(upstream.calls(), 4);
}

#[tokio::test]
async fn upstreams_that_share_a_store_do_not_collide_whatever_their_names() {
    let (cache, _) = cache();
    let names = ["up", "up/tools", "", "up\0", "server@1.0", "server@1.0:tools/list", "Up"];
    let upstreams: Vec<_> = names.iter().map(|_| mirror("public")).collect();
    for _ in 0..2 {
        for (name, upstream) in names.iter().zip(&upstreams) {
            let cache = cache.for_upstream(*name);
            let service = layered(&cache, upstream);
            ask(&service, tools()).await;
            ask(&service, request_with("1", "tools/list", r#""cursor":"tools/list""#)).await;
        }
    }
    for upstream in upstreams {
        assert_eq!(upstream.calls(), 2);
    }
    // And one does not invalidate the other.
    cache.for_upstream("").invalidate(&Invalidation::Everything);
    let query = |name: &str| {
        let cache = cache.for_upstream(name);
        is_kept(&cache, &tools())
    };
    assert_eq!(names.map(query), [true, true, false, true, true, true, true]);
}
