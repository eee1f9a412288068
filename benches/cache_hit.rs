//! What a hit costs, beside a bare hyper handler that returns the same bytes.
//!
//! `benches/cache_hit.sh` counts instructions and allocations with valgrind, as the difference between runs of different
//! length, so that what happens once does not count. `cargo bench --bench cache_hit` only takes the time.
//!
//! Arguments: scenario, requests, bytes of the result, other entries in the cache.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::cache::{CacheLayer, CacheService, ResponseCache};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer as _, Service as _, ServiceBuilder};

const SCENARIOS: [&str; 4] = ["hyper", "endpoint", "cache", "layer"];

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A list of tools of about this many bytes.
fn result(bytes: usize) -> RawObject {
    let mut tools = String::new();
    while tools.len() < bytes {
        let comma = if tools.is_empty() { "" } else { "," };
        tools.push_str(comma);
        tools.push_str(r#"{"name":"weather","description":"Tells the weather of tomorrow for any place","inputSchema":{"type":"object","properties":{"place":{"type":"string"}}}}"#);
    }
    let text =
        format!(r#"{{"resultType":"complete","tools":[{tools}],"ttlMs":86400000,"cacheScope":"public"}}"#);
    RawObject::parse(text).expect("is a JSON object")
}

type Inner =
    tower::util::ServiceFn<fn(Request<Message>) -> std::future::Ready<Result<Response<Reply>, Infallible>>>;

/// Fails whoever asks: in these scenarios everything is a hit.
fn nobody(_: Request<Message>) -> std::future::Ready<Result<Response<Reply>, Infallible>> {
    panic!("a hit does not reach the inner service")
}

fn request(text: String) -> Request<Message> {
    Request::new(Message::parse(text).expect("is a request"))
}

async fn cached(bytes: usize, others: usize) -> CacheService<Inner> {
    let cache = ResponseCache::new("bench");
    let fill = async |text: String, result: RawObject| {
        let query = cache.query(&request(text)).expect("can be cached");
        assert!(cache.insert(&query, &Response::new(Reply::Answer(Answer::result(None, result)))).await);
    };
    for other in 0..others {
        let cursor = format!(r#""params":{{"cursor":"{other}","#);
        fill(LIST.replace(r#""params":{"#, &cursor), result(10)).await;
    }
    fill(LIST.to_owned(), result(bytes)).await;
    CacheLayer::new(cache).layer(tower::service_fn(nobody as fn(_) -> _))
}

/// A client that writes the same request again and again, and only looks for the end of each response.
async fn client(address: std::net::SocketAddr, requests: usize) -> Duration {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.set_nodelay(true).expect("can be set");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\n\
         content-length: {}\r\n\r\n{LIST}",
        LIST.len()
    );
    let mut buffer = vec![0; 1 << 22];
    let start = Instant::now();
    for _ in 0..requests {
        stream.write_all(head.as_bytes()).await.expect("writes");
        let (mut read, mut expected) = (0, usize::MAX);
        while read < expected {
            read += stream.read(&mut buffer[read..]).await.expect("reads");
            if expected == usize::MAX {
                let text = &buffer[..read.min(1024)];
                if let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") {
                    let head = std::str::from_utf8(&text[..end]).expect("is text").to_ascii_lowercase();
                    assert!(head.starts_with("http/1.1 200"), "{head}");
                    let (_, length) = head.split_once("content-length: ").expect("has a length");
                    let length = length.split("\r\n").next().expect("has an end");
                    expected = end + 4 + length.parse::<usize>().expect("is a number");
                }
            }
        }
    }
    start.elapsed()
}

async fn run(scenario: &str, requests: usize, bytes: usize, others: usize) -> Duration {
    let answer = Answer::result(Some(1.into()), result(bytes));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("has an address");
    let accept = async || {
        let (stream, _) = listener.accept().await.expect("accepts");
        stream.set_nodelay(true).expect("can be set");
        TokioIo::new(stream)
    };
    let server = hyper::server::conn::http1::Builder::new();
    match scenario {
        // The cache alone, from a request to the pieces of its answer.
        "layer" => {
            let mut service = cached(bytes, others).await;
            let parsed = request(LIST.to_owned());
            let start = Instant::now();
            for _ in 0..requests {
                let future = service.call(Request::new(parsed.body().clone()));
                let response = future.await.expect("does not fail");
                let Reply::Answer(answer) = response.into_body() else { panic!("is an answer") };
                std::hint::black_box(answer.into_chunks());
            }
            start.elapsed()
        }
        "hyper" => {
            let body = Bytes::from(answer.to_string());
            let handler = service_fn(move |request: Request<Incoming>| {
                let body = body.clone();
                async move {
                    // Whoever answers JSON-RPC must have read the request.
                    std::hint::black_box(request.into_body().collect().await?.to_bytes());
                    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
                    Ok::<_, hyper::Error>(response.body(Full::new(body)).expect("is a response"))
                }
            });
            let serve = async { server.serve_connection(accept().await, handler).await };
            tokio::join!(client(address, requests), serve).0
        }
        "endpoint" => {
            // What the endpoint costs without the cache: the same answer from a service that has it.
            let service = tower::service_fn(move |_: Request<Message>| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(Response::new(Reply::Answer(answer))) }
            });
            let service = ServiceBuilder::new().layer(EndpointLayer::new()).service(service);
            let serve =
                async { server.serve_connection(accept().await, TowerToHyperService::new(service)).await };
            tokio::join!(client(address, requests), serve).0
        }
        "cache" => {
            let cached = cached(bytes, others).await;
            let service = ServiceBuilder::new().layer(EndpointLayer::new()).service(cached);
            let serve =
                async { server.serve_connection(accept().await, TowerToHyperService::new(service)).await };
            tokio::join!(client(address, requests), serve).0
        }
        _ => panic!("the scenario must be one of {SCENARIOS:?}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number =
        |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    if let Some(scenario) = arguments.first() {
        run(scenario, number(1, 1000), number(2, 6000), number(3, 0)).await;
        return;
    }
    for scenario in SCENARIOS {
        let requests = 20_000_u32;
        let took = run(scenario, requests as usize, 6000, 0).await;
        println!("{scenario:<10}{:>10.2} µs", took.as_secs_f64() * 1e6 / f64::from(requests));
    }
}
