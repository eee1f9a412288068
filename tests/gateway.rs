//! Layers in front of an HTTP service that knows nothing of them, as a gateway stacks them.
#![cfg(feature = "cache")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use mcp_layers::body::Body;
use mcp_layers::layers::HeadersLayer;
use mcp_layers::layers::cache::{CacheHintsLayer, CacheLayer, ResponseCache};
use mcp_layers::layers::learned::LearnedCatalog;
use mcp_layers::message::{Message, RawObject};
use mcp_layers::upstream::UpstreamLayer;
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};

type Seen = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

/// Has one tool, which mirrors `region`, and says nothing of caches.
async fn upstream(request: Request<Body>, seen: Seen) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    let result = match body["method"].as_str().unwrap() {
        "tools/list" => json!({"resultType": "complete", "tools": [
            {"name": "sql", "inputSchema": {"type": "object", "properties": {"region": region}}}]}),
        _ => json!({"resultType": "complete", "content": []}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
    seen.lock().unwrap().push((parts.headers, body));
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(answer.to_string().into()).unwrap())
}

fn message(method: &str, more: Value) -> Message {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let mut params = json!({ "_meta": meta });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    Message::parse(body.to_string()).unwrap()
}

/// Moves every call to another region, after its headers were checked.
fn elsewhere(mut request: Request<Message>) -> Request<Message> {
    if request.body().method() == "tools/call" {
        let arguments = RawObject::parse(r#"{"region":"us"}"#).unwrap();
        request.body_mut().edit_params(|params| params.set_object("arguments", &arguments)).unwrap();
    }
    request
}

#[tokio::test]
async fn what_is_learned_checks_calls_and_mirrors_them_anew_where_a_layer_edits_them() {
    let seen = Seen::default();
    let cache = ResponseCache::new("u");
    let catalog = LearnedCatalog::new(cache.clone());
    let bottom = ServiceBuilder::new()
        .layer(catalog.learn())
        .layer(CacheLayer::new(cache))
        .layer(CacheHintsLayer::new())
        .map_request(elsewhere)
        .layer(UpstreamLayer::new().with_catalog(catalog.clone()))
        .service(service_fn({
            let seen = Arc::clone(&seen);
            move |request| upstream(request, Arc::clone(&seen))
        }));
    let gateway = ServiceBuilder::new()
        .layer(HeadersLayer::new())
        .layer(catalog.look_up(bottom.clone()))
        .layer(HeadersLayer::params_only(catalog))
        .service(bottom);
    let call = |region: &str| {
        Request::post("/mcp")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "sql")
            .header("mcp-param-region", region)
            .body(message("tools/call", json!({"name": "sql", "arguments": {"region": "eu"}})))
            .unwrap()
    };

    let response = gateway.clone().oneshot(call("us")).await.unwrap();
    assert_eq!(response.status(), 400);
    // It was not called, but asked for its tools.
    let asked: Vec<_> = seen.lock().unwrap().drain(..).collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].0["mcp-method"], "tools/list");
    assert!(!asked[0].0.contains_key("mcp-name") && !asked[0].0.contains_key("mcp-param-region"));

    let response = gateway.clone().oneshot(call("eu")).await.unwrap();
    assert_eq!(response.status(), 200);
    let asked: Vec<_> = seen.lock().unwrap().drain(..).collect();
    // Nobody who calls can be told apart here, so what they are told in private is not kept.
    assert_eq!(
        asked.iter().map(|(_, body)| &body["method"]).collect::<Vec<_>>(),
        ["tools/list", "tools/call"]
    );
    assert_eq!(
        (&asked[1].0["mcp-param-region"], &asked[1].1["params"]["arguments"]["region"]),
        (&"us".parse().unwrap(), &json!("us"))
    );

    let list =
        Request::post("/mcp").header("mcp-method", "tools/list").body(message("tools/list", json!({})));
    let response = gateway.oneshot(list.unwrap()).await.unwrap();
    let answer = response.body().answer().expect("is no stream").outcome().expect("is no error");
    assert_eq!(
        (answer.get("ttlMs").unwrap().text(), answer.get("cacheScope").unwrap().text()),
        ("0", "\"private\"")
    );
}
