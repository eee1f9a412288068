//! Hits behind a real socket.
#![cfg(feature = "cache")]

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::cache::{CacheLayer, ResponseCache};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer as _, service_fn};

async fn upstream(request: Request<Message>) -> Result<Response<Reply>, Infallible> {
    let large = "x".repeat(200_000);
    let result =
        format!(r#"{{"resultType":"complete","tools":["{large}"],"ttlMs":60000,"cacheScope":"public"}}"#);
    let result = RawObject::parse(result).expect("is an object");
    let mut response = Response::new(Reply::Answer(Answer::result(request.body().id().cloned(), result)));
    response.headers_mut().insert("x-request-id", "one".parse().expect("is a value"));
    Ok(response)
}

#[tokio::test]
async fn a_hit_has_an_exact_length_and_nothing_of_the_response_it_came_in() {
    let cache = ResponseCache::new("up");
    let service = EndpointLayer::new().layer(CacheLayer::new(cache.clone()).layer(service_fn(upstream)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        connection.await.unwrap();
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);

    for id in ["1", "\"é\"", "18446744073709551616"] {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
        );
        let request = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Full::new(Bytes::from(text)))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers().contains_key("x-request-id"), id == "1");
        let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), length);
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["result"]["tools"][0].as_str().unwrap().len(), 200_000);
        assert!(answer["result"]["ttlMs"].as_u64().unwrap() <= 60_000);
        assert!(body.starts_with(format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#).as_bytes()));
    }
    assert_eq!((cache.statistics().misses, cache.statistics().hits), (1, 2));
}
