//! Several upstreams.

use super::*;
use crate::catalog::StaticCatalog;

fn at(path: &'static str) -> Request<Message> {
    let mut request = message(LIST);
    *request.uri_mut() = path.parse().unwrap();
    request
}

#[tokio::test]
async fn a_path_leads_to_its_own_upstream_and_any_other_nowhere() {
    let upstream = |name: &'static str| {
        UpstreamLayer::new().layer(service_fn(move |_: Request<Body>| async move {
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"name":"{name}"}}}}"#);
            Ok::<_, Infallible>(reply(200, "application/json", Frames::of([text])))
        }))
    };
    let routes =
        Routes::new().route("/a/mcp", upstream("a")).unwrap().route("/b/mcp", upstream("b")).unwrap();
    for (path, name) in [("/a/mcp", "a"), ("/b/mcp", "b"), ("/b/mcp?x=/a/mcp", "b")] {
        let got = got(routes.clone().oneshot(at(path)).await.unwrap()).await;
        assert_eq!((got.status, &got.messages[0]["result"]["name"]), (200, &json!(name)), "{path}");
    }
    for path in ["/", "/a", "/a/mcp/", "/A/mcp", "/a//mcp", "/a/mcp/x", "/a/%6dcp", "*"] {
        let got = got(routes.clone().oneshot(at(path)).await.unwrap()).await;
        assert_refused(&got, 404, "there is no MCP server at this path");
    }
    assert_eq!(
        routes.clone().route("/a/mcp", upstream("c")).unwrap_err(),
        InvalidRoute::Taken("/a/mcp".to_owned())
    );
    for path in ["", "a", "/a?x", "/a#x"] {
        let error = routes.clone().route(path, upstream("c")).unwrap_err();
        assert_eq!(error, InvalidRoute::NotAPath(path.to_owned()));
    }
}

#[tokio::test]
async fn the_service_of_a_route_is_asked_whether_it_is_ready() {
    let service =
        UpstreamLayer::new().with_catalog(StaticCatalog::default()).layer(failures::Strict { ready: false });
    let routes = Routes::new().route("/mcp", service).unwrap();
    assert_eq!(routes.oneshot(at("/mcp")).await.unwrap().status(), StatusCode::OK);
}

#[cfg(feature = "cache")]
#[tokio::test]
async fn one_cache_keeps_several_upstreams_apart() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::layers::cache::{CacheLayer, ResponseCache};

    let calls: Arc<AtomicUsize> = Arc::default();
    let upstream = |name: &'static str| {
        let calls = Arc::clone(&calls);
        UpstreamLayer::new().layer(service_fn(move |_: Request<Body>| {
            calls.fetch_add(1, Ordering::Relaxed);
            async move {
                let text = format!(
                    r#"{{"jsonrpc":"2.0","id":7,"result":{{"resultType":"complete","name":"{name}","tools":[],"ttlMs":60000,"cacheScope":"public"}}}}"#
                );
                Ok::<_, Infallible>(reply(200, "text/event-stream", Frames::of([format!("data: {text}\n\n")])))
            }
        }))
    };
    let cache = ResponseCache::new("");
    let routes = Routes::new()
        .route("/a", upstream("a"))
        .unwrap()
        .route("/b", upstream("b"))
        .unwrap()
        .map(|path, service| CacheLayer::new(cache.for_upstream(path)).layer(service));
    let list = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    for round in 0..3 {
        for (path, name) in [("/a", "a"), ("/b", "b")] {
            let mut request = message(list);
            *request.uri_mut() = path.parse().unwrap();
            let got = got(routes.clone().oneshot(request).await.unwrap()).await;
            assert_eq!(got.messages[0]["result"]["name"], name, "{round}");
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}
