//! A small server, and a client that writes requests as the specification asks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::response::Parts;
use http::{Request, Response, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcp_layers::dispatch::{CacheHint, Context, Dispatch, Resource, Tool, ToolResult};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::{HeadersLayer, OriginLayer, VersionLayer};
use mcp_layers::protocol::ResourceContents;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceBuilder;

pub(crate) const MAX_BODY_BYTES: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(20);

/// Which HTTP the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http1,
    Http2,
}

pub(crate) const WIRES: [Wire; 2] = [Wire::Http1, Wire::Http2];

pub(crate) type RequestBody = BoxBody<Bytes, std::convert::Infallible>;

pub(crate) struct Server {
    pub(crate) dispatch: Dispatch,
    address: SocketAddr,
    client: Client<HttpConnector, RequestBody>,
    version: Version,
    runs: Arc<AtomicUsize>,
    /// Lets `wait` go on, once for each permit.
    pub(crate) go_on: Arc<Semaphore>,
    /// What becomes of calls of `wait`: `started`, then `finished` or `cancelled`.
    calls: mpsc::UnboundedReceiver<&'static str>,
}

impl Server {
    pub(crate) async fn start(wire: Wire) -> Self {
        let runs = Arc::new(AtomicUsize::new(0));
        let go_on = Arc::new(Semaphore::new(0));
        let (told, calls) = mpsc::unbounded_channel();
        let hint = CacheHint::public(Duration::from_secs(60));
        let dispatch = Dispatch::builder("small", "1.2.3")
            .tool(query(Arc::clone(&runs)))
            .tool(count(Arc::clone(&runs)))
            .tool(wait(Arc::clone(&runs), Arc::clone(&go_on), told))
            .resource(Resource::new("note://1", "note", |_| async {
                Ok(ResourceContents::text("note://1", "Hi"))
            }))
            .with_list_cache(hint)
            .with_discovery_cache(hint)
            .build()
            .unwrap();
        let mcp = ServiceBuilder::new()
            .layer(OriginLayer::new())
            .layer(EndpointLayer::new().with_max_body_bytes(MAX_BODY_BYTES))
            .layer(VersionLayer::new())
            .layer(HeadersLayer::new().with_catalog(dispatch.clone()))
            .service(dispatch.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap());
        let router = Router::new().route_service("/mcp", mcp);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = Client::builder(TokioExecutor::new()).http2_only(wire == Wire::Http2).build_http();
        let version = if wire == Wire::Http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        Self { dispatch, address, client, version, runs, go_on, calls }
    }

    /// How often a tool has run.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// What becomes of a call of `wait`.
    pub(crate) async fn next_of_call(&mut self) -> &'static str {
        in_time(self.calls.recv()).await.expect("the tool lives as long as the server")
    }

    pub(crate) fn nothing_more_of_calls(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }

    /// A request as a well-behaved client makes it. `id` is JSON text.
    pub(crate) fn request(&self, id: &str, method: &str, params: Value) -> Request<RequestBody> {
        let Value::Object(mut params) = params else { panic!("`params` is an object") };
        let name =
            params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        let meta = params.entry("_meta").or_insert_with(|| json!({})).as_object_mut().unwrap();
        meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), "2026-07-28".into());
        meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), json!({}));
        let mut request = self.post(message(id, method, &params));
        let headers = request.headers_mut();
        headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
        headers.insert("mcp-method", method.parse().unwrap());
        if let Some(name) = name {
            headers.insert("mcp-name", name.parse().unwrap());
        }
        request
    }

    /// A call of the tool `query`, whose argument `region` is mirrored.
    pub(crate) fn query(&self, id: &str) -> Request<RequestBody> {
        let arguments = json!({ "region": "eu", "limit": 10 });
        let mut request = self.request(id, "tools/call", json!({ "name": "query", "arguments": arguments }));
        request.headers_mut().insert("mcp-param-region", "eu".parse().unwrap());
        request
    }

    /// Any POST of JSON.
    pub(crate) fn post(&self, body: impl Into<Bytes>) -> Request<RequestBody> {
        Request::post(format!("http://{}/mcp", self.address))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Full::new(body.into()).boxed())
            .unwrap()
    }

    /// Dropping the future before there is a response closes the connection, or with HTTP/2 the stream.
    pub(crate) fn send(
        &self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<Incoming>> + use<> {
        let (response, version) = (self.client.request(request), self.version);
        async move {
            let response = in_time(response).await.unwrap();
            assert_eq!(response.version(), version);
            response
        }
    }

    /// Sends a request and reads its answer, which is JSON.
    pub(crate) fn answer(
        &self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = (Parts, Value)> + use<> {
        let response = self.send(request);
        async move { read_answer(response.await).await }
    }
}

/// Reads an answer, which is JSON.
pub(crate) async fn read_answer(response: Response<Incoming>) -> (Parts, Value) {
    let (head, body) = response.into_parts();
    let body = in_time(body.collect()).await.unwrap().to_bytes();
    assert_eq!(head.headers[CONTENT_TYPE], "application/json", "{body:?}");
    (head, serde_json::from_slice(&body).unwrap())
}

/// One JSON-RPC request.
pub(crate) fn message(id: &str, method: &str, params: &Map<String, Value>) -> String {
    let params = serde_json::to_string(params).unwrap();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Fails the test when something does not come to an end.
pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// Returns its arguments; one of them is mirrored in a header.
fn query(runs: Arc<AtomicUsize>) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "prio": { "type": "integer", "x-mcp-header": "Prio" },
            "limit": { "type": "integer" },
        },
    });
    Tool::raw("query", schema, move |arguments, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok(ToolResult::json(&arguments.raw())) }
    })
}

/// Tells how far it has come, if that is asked for.
fn count(runs: Arc<AtomicUsize>) -> Tool {
    Tool::raw("count", json!({ "type": "object" }), move |_, context: Context| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            for step in [1.0, 2.0] {
                context.progress(step, Some(2.0), "counting").await;
            }
            Ok("counted")
        }
    })
}

/// Waits until it may go on.
fn wait(runs: Arc<AtomicUsize>, go_on: Arc<Semaphore>, told: mpsc::UnboundedSender<&'static str>) -> Tool {
    Tool::raw("wait", json!({ "type": "object" }), move |_, context: Context| {
        runs.fetch_add(1, Ordering::SeqCst);
        let go_on = Arc::clone(&go_on);
        let told = told.clone();
        async move {
            let mut end = TellTheEnd { end: "cancelled", told };
            context.progress(1.0, None, "waiting").await;
            end.tell("started");
            go_on.acquire().await?.forget();
            end.end = "finished";
            Ok("waited")
        }
    })
}

/// Tells what became of a call when its future is dropped.
struct TellTheEnd {
    end: &'static str,
    told: mpsc::UnboundedSender<&'static str>,
}

impl TellTheEnd {
    fn tell(&self, what: &'static str) {
        // Nobody listens any more once the test has ended.
        let _ = self.told.send(what);
    }
}

impl Drop for TellTheEnd {
    fn drop(&mut self) {
        self.tell(self.end);
    }
}

/// Reads a response as Server-Sent Events.
pub(crate) struct Events {
    body: Incoming,
    read: String,
}

impl Events {
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        let headers = response.headers();
        assert_eq!(headers[CONTENT_TYPE], "text/event-stream");
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["x-accel-buffering"], "no");
        assert!(!headers.contains_key("content-length"));
        Self { body: response.into_body(), read: String::new() }
    }

    /// The message of the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let lines: Vec<_> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                let [message] = lines[..] else { panic!("not one line of data: {event:?}") };
                let message = serde_json::from_str(message).unwrap();
                self.read = String::from(rest);
                return Some(message);
            }
            let Some(frame) = in_time(self.body.frame()).await else {
                assert_eq!(self.read, "", "the stream ends within an event");
                return None;
            };
            if let Ok(data) = frame.unwrap().into_data() {
                self.read.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
    }
}
