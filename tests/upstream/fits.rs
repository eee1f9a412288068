//! What fits below the layer without glue.

use std::convert::Infallible;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use mcp_layers::body::Body;
use mcp_layers::dispatch::{Dispatch, Tool};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::{HeadersLayer, VersionLayer};
use mcp_layers::message::{Message, Reply};
use mcp_layers::principal::Principal;
use mcp_layers::upstream::{HttpUpstream, Routes, UpstreamLayer};
use serde_json::{Value, json};
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _};

use crate::support::*;

/// What can be used as the whole of a gateway.
fn is_a_gateway<S>(_: &S)
where
    S: Service<http::Request<Message>, Response = http::Response<Reply>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
}

#[tokio::test]
async fn an_axum_router_in_the_same_process() {
    let router = Router::new().route(
        "/mcp",
        post(|request: axum::extract::Request| async move {
            let subject = request.extensions().get::<Principal>().unwrap().subject().to_owned();
            ([(CONTENT_TYPE, "application/json")], RESULT.replace("[]", &format!("[\"{subject}\"]")))
        }),
    );
    let service = UpstreamLayer::new().layer(router);
    is_a_gateway(&service);
    let mut request = message(LIST);
    request.extensions_mut().insert(Principal::new("i", "ada"));
    let response = service.oneshot(request).await.unwrap();
    let result = response.body().answer().unwrap().outcome().unwrap();
    assert_eq!(result.to_string(), r#"{"tools":["ada"]}"#);
}

#[tokio::test]
async fn a_plain_client_of_hyper() {
    let (address, _) = server(|_| async { Ok(full("application/json", RESULT)) }).await;
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let service = UpstreamLayer::to(&format!("http://{address}/mcp")).unwrap().layer(client);
    is_a_gateway(&service);
    assert_eq!(ask(&service).await.status(), 200);
}

#[tokio::test]
async fn the_client_of_this_crate_and_routes() {
    let (address, _) = server(|_| async { Ok(full("application/json", RESULT)) }).await;
    let routes = Routes::new().route("/mcp", upstream(HttpUpstream::new(), address)).unwrap();
    is_a_gateway(&routes);
    assert_eq!(ask(&routes).await.status(), 200);
}

/// A server of this crate, reached through another stack of this crate, both ways of framing.
#[tokio::test]
async fn a_whole_stack_before_a_whole_stack() {
    let server = Dispatch::builder("s", "1.0.0")
        .tool(Tool::raw("add", json!({"type": "object"}), |_, _| async { Ok("done") }))
        .build()
        .unwrap();
    let behind = ServiceBuilder::new()
        .layer(EndpointLayer::new())
        .layer(VersionLayer::new())
        .layer(HeadersLayer::new())
        .service(server);
    let gateway = ServiceBuilder::new()
        .layer(EndpointLayer::new())
        .layer(VersionLayer::new())
        .layer(UpstreamLayer::new())
        .service(behind);
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add", "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}}});
    for (accept, kind) in
        [("application/json", "application/json"), ("text/event-stream", "text/event-stream")]
    {
        let request = http::Request::post("/mcp")
            .header("content-type", "application/json")
            .header("accept", accept)
            .header("mcp-protocol-version", "2026-07-28")
            .body(body.to_string())
            .unwrap();
        let response = gateway.clone().oneshot(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &kind.parse().unwrap())
        );
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let json = text.trim().strip_prefix("event: message\ndata: ").unwrap_or(&text);
        let answer: Value = serde_json::from_str(json).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{text}");
    }
}
