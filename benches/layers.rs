//! What each layer costs one request: instructions and allocations of the server, and how many of them a bare hyper
//! server takes for the same bytes.
//!
//! `cargo bench --all-features --bench layers` prints a table; `-- NAME…` only what has NAME in its name. Client and server
//! are one thread with a pipe in memory between them, and only what happens while the server is polled counts.
//! Instructions are counted by valgrind, and repeat to within a few; without valgrind the table has times of client and
//! server together instead, which do not. Valgrind shows no SHA instructions: what `+ auth` takes for the digest of a token is
//! a fraction of it elsewhere.
//!
//! The stack grows from line to line, from the border inwards to the dispatcher and then outwards and between: what a line
//! has more than the one before is what its layer costs.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::future::Ready;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use mcp_layers::dispatch::{CacheHint, Dispatch, Tool};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::auth::{JwtVerifier, StaticKeys};
use mcp_layers::layers::cache::ResponseCache;
use mcp_layers::layers::request_state::{StateKey, StateKeys};
use mcp_layers::layers::{
    AuthLayer, CacheLayer, CapabilityLayer, HeadersLayer, LimitsLayer, OriginLayer, ProtectedResource,
    RequestStateLayer, ScopeLayer, ScopeRules, VersionLayer,
};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use rsa::Generate as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tower::{Layer as _, Service};

const ISSUER: &str = "https://issuer.example";
const ME: &str = "https://mcp.example.com/mcp";

/// What a stack ends with, each one with what the one before has and one layer more.
const STACKS: [&str; 12] = [
    "floor",
    "endpoint",
    "+ version",
    "+ headers",
    "+ dispatch",
    "+ origin",
    "+ auth",
    "+ scope",
    "+ capability",
    "+ limits",
    "+ cache",
    "+ request state",
];
const WHOLE: &str = "+ request state";

/// One line of the table.
#[derive(Clone, Copy, Default)]
struct Case {
    /// What it is about; lines with the same words share a floor.
    group: &'static str,
    stack: &'static str,
    tools: usize,
    /// About how many bytes the arguments of the call have; a list instead of a call if there are none.
    arguments: Option<usize>,
    /// How many other answers the cache has.
    others: usize,
}

impl Case {
    fn name(self) -> String {
        format!("{}: {}", self.group, self.stack)
    }

    fn all() -> Vec<Self> {
        let call = Self { group: "call", tools: 1, arguments: Some(0), ..Self::default() };
        let mut all: Vec<_> = STACKS.iter().map(|stack| Self { stack, ..call }).collect();
        let mut group = |of: Self, stacks: &[&'static str]| {
            all.extend(stacks.iter().map(|stack| Self { stack, ..of }));
        };
        group(Self { group: "call, 1,000 tools", tools: 1000, ..call }, &["floor", "+ dispatch", WHOLE]);
        let large = Self { group: "call, 64 KiB of arguments", arguments: Some(64 << 10), ..call };
        group(large, &["scan", "parse", "floor", "+ dispatch", WHOLE]);
        let list = Self { group: "list of 6 KB", tools: 32, arguments: None, ..call };
        group(list, &["floor", "+ dispatch", WHOLE]);
        let among = Self { group: "list of 6 KB, 10,000 others in the cache", others: 10_000, ..list };
        group(among, &["floor", WHOLE]);
        group(Self { group: "list of 600 KB", tools: 3200, ..list }, &["floor", WHOLE]);
        all
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [command, name, times] = arguments.as_slice()
        && command == "count"
    {
        let case = Case::all().into_iter().find(|case| case.name() == *name).ok_or("no such case")?;
        let (keys, token) = (std::env::var("JWKS")?, std::env::var("TOKEN")?);
        return perform(case, &keys, &token, times.parse()?, Mode::Instructions).map(drop);
    }
    let (keys, token) = issue()?;
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    println!(
        "| request | stack | {} | more | of the floor | allocations |",
        if has_valgrind { "instructions" } else { "ns" }
    );
    println!("|---|---|--:|--:|--:|--:|");
    let (mut group, mut before, mut floor) = ("", None, None);
    for case in Case::all() {
        if !arguments.is_empty() && !arguments.iter().any(|part| case.name().contains(part.as_str())) {
            continue;
        }
        if group != case.group {
            (group, before, floor) = (case.group, None, None);
        }
        let allocations = perform(case, &keys, &token, 100, Mode::Allocations)?.0;
        let cost = if has_valgrind {
            instructions(case, &keys, &token)?
        } else {
            // Bytes that are moved are not waited for: a few hundred times are enough.
            u64::try_from(perform(case, &keys, &token, 5000, Mode::Time)?.1.as_nanos())?
        };
        if case.stack == "floor" {
            floor = Some(cost);
        }
        let more = before.map_or(String::new(), |before| format!("{:+}", cost.cast_signed() - before));
        let of_floor = floor.map_or(String::new(), |floor| {
            let hundredths = (100 * cost + floor / 2) / floor;
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        });
        println!("| {group} | {} | {cost} | {more} | {of_floor} | {allocations} |", case.stack);
        before = Some(cost.cast_signed());
    }
    Ok(())
}

/// Counts the instructions of one request, in a process of its own.
fn instructions(case: Case, keys: &str, token: &str) -> Result<u64, Box<dyn Error>> {
    let times = 100;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted*"])
        .arg(std::env::current_exe()?)
        .args(["count", &case.name(), &times.to_string()])
        .envs([("JWKS", keys), ("TOKEN", token)])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.split("Collected : ").nth(1).and_then(|rest| rest.split_whitespace().next());
    match collected {
        Some(count) if output.status.success() => Ok(count.parse::<u64>()? / times),
        _ => Err(text.into()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Instructions,
    Allocations,
    Time,
}

/// What has been counted so far, and whether it counts.
struct Tally {
    mode: Mode,
    is_on: Cell<bool>,
    allocations: Cell<u64>,
}

impl Tally {
    fn count<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.mode {
            _ if !self.is_on.get() => work(),
            Mode::Time => work(),
            Mode::Instructions => counted(work),
            Mode::Allocations => {
                let mut kept = None;
                let info = allocation_counter::measure(|| kept = Some(work()));
                self.allocations.set(self.allocations.get() + info.count_total);
                kept.expect("has been done")
            }
        }
    }
}

/// What valgrind looks at: it knows this function by its name.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

/// The server, which is counted while it is polled.
struct Counted<F> {
    server: Pin<Box<F>>,
    tally: Rc<Tally>,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { server, tally } = &mut *self;
        tally.count(|| server.as_mut().poll(context))
    }
}

/// Allocations of one request, and the time it took.
type Sample = (u64, Duration);

fn perform(case: Case, keys: &str, token: &str, times: u32, mode: Mode) -> Result<Sample, Box<dyn Error>> {
    let tally = Rc::new(Tally { mode, is_on: Cell::new(false), allocations: Cell::new(0) });
    let bench = Bench { keys, token, times, tally, case, server: server(case)? };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let took = runtime.block_on(bench.run())?;
    Ok((bench.tally.allocations.get() / u64::from(times), took / times))
}

fn server(case: Case) -> Result<Dispatch, Box<dyn Error>> {
    let schema = json!({"type": "object", "properties": {"place": {"type": "string"}}});
    let mut server =
        Dispatch::builder("bench", "1.0.0").with_list_cache(CacheHint::public(Duration::from_secs(3600)));
    for at in 0..case.tools {
        // What the handler and its validator cost is for them to say: `take` gets its arguments as they are.
        let name = if at == 0 { "take".to_owned() } else { format!("weather-{at}") };
        let tool = Tool::raw(name, schema.clone(), |_, _| async { Ok("taken") })
            .with_unchecked_arguments()
            .with_description("Tells the weather of tomorrow for any place that has a name")
            .with_scopes("weather:read");
        server = server.tool(tool);
    }
    Ok(server.build()?)
}

/// A key set, and a token of the usual size that it verifies.
fn issue() -> Result<(String, String), Box<dyn Error>> {
    let key = EncodingKey::from_rsa_der(rsa::PrivateKey::generate().to_pkcs1_der()?.as_bytes());
    let mut jwk = json!(Jwk::from_encoding_key(&key, Algorithm::RS256)?);
    jwk["kid"] = "key-2026-01".into();
    let claims = json!({
        "iss": ISSUER, "aud": ME, "sub": "auth0|5f7c8ec7c33c6c004bbafe82", "client_id": "my-client-application",
        "iat": 1_700_000_000, "exp": 4_000_000_000_u64, "jti": "b7a3f5b2-8f7d-4a3e-9a55-0f1c9be1b9d2",
        "scope": "openid profile email weather:read files:read files:write",
    });
    let header = Header { kid: Some("key-2026-01".to_owned()), ..Header::new(Algorithm::RS256) };
    Ok((json!({"keys": [jwk]}).to_string(), jsonwebtoken::encode(&header, &claims, &key)?))
}

/// Objects in arrays, of all kinds of values.
fn rows(size: usize) -> Value {
    let mut total = 0;
    let row = |n: u32| {
        json!({"id": n, "name": format!("Item number {n}"), "price": f64::from(n) * 1.25, "tags": ["a", "b\n", "c"],
               "stock": {"here": n % 7, "there": null}, "sold": n.is_multiple_of(2)})
    };
    let rows = (0..).map(row).take_while(|row| {
        total += row.to_string().len() + 1;
        total <= size
    });
    json!({"rows": rows.collect::<Vec<_>>()})
}

struct Bench<'a> {
    keys: &'a str,
    token: &'a str,
    times: u32,
    tally: Rc<Tally>,
    case: Case,
    server: Dispatch,
}

impl Bench<'_> {
    fn body(&self, cursor: Option<usize>) -> String {
        let mut params = json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }});
        if let Some(size) = self.case.arguments {
            params["name"] = "take".into();
            params["arguments"] = rows(size);
        }
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.to_string().into();
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": self.method(), "params": params}).to_string()
    }

    fn method(&self) -> &'static str {
        if self.case.arguments.is_some() { "tools/call" } else { "tools/list" }
    }

    fn request(&self, body: &str) -> String {
        let name = if self.case.arguments.is_some() { "mcp-name: take\r\n" } else { "" };
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {}\r\n\
             {name}authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
            self.method(),
            self.token,
            body.len()
        )
    }

    fn auth(&self) -> Result<AuthLayer<JwtVerifier>, Box<dyn Error>> {
        let keys = StaticKeys::from_jwks(self.keys)?;
        Ok(AuthLayer::new(JwtVerifier::new(ISSUER, ME, keys), &ProtectedResource::new(ME, [ISSUER])?))
    }

    /// A cache with as many answers as the case wants, besides its own.
    async fn cache(&self) -> Result<CacheLayer, Box<dyn Error>> {
        let cache = ResponseCache::new("bench");
        let result = r#"{"resultType":"complete","tools":[],"ttlMs":86400000,"cacheScope":"public"}"#;
        for other in 0..self.case.others {
            let query =
                cache.query(&Request::new(Message::parse(self.body(Some(other)))?)).ok_or("is cacheable")?;
            let answer = Answer::result(None, RawObject::parse(result)?);
            cache.insert(&query, &Response::new(Reply::Answer(answer))).await;
        }
        Ok(CacheLayer::new(cache))
    }

    async fn run(&self) -> Result<Duration, Box<dyn Error>> {
        let origin = OriginLayer::new();
        let auth = self.auth()?;
        let endpoint = EndpointLayer::new();
        let version = VersionLayer::new();
        let headers = HeadersLayer::new().with_catalog(self.server.clone());
        let scope = ScopeLayer::new(ScopeRules::new().with_catalog(self.server.clone()))?;
        let capability = CapabilityLayer::new().with_catalog(self.server.clone());
        let limit = |max| NonZeroUsize::new(max).expect("is not 0");
        let limits = LimitsLayer::new()
            .with_max_elements(limit(100_000))
            .with_max_depth(limit(32))
            .with_max_string_bytes(limit(64 << 10));
        let state = RequestStateLayer::new(StateKeys::new([StateKey::new(&[7; 32])?])?, ME);
        let server = self.server.clone();
        let fixed = Fixed(RawObject::parse(
            r#"{"resultType":"complete","content":[{"type":"text","text":"taken"}]}"#,
        )?);

        Ok(match self.case.stack {
            "scan" => {
                let text = self.body(None);
                self.repeat(|| serde_json::from_str::<&RawValue>(&text).map_or(0, |raw| raw.get().len()))
            }
            "parse" => {
                let body = Bytes::from(self.body(None));
                self.repeat(|| Message::parse(body.clone()).is_ok())
            }
            "floor" => {
                let answer = self.answer().await?;
                self.drive(hyper::service::service_fn(move |request: Request<Incoming>| {
                    let answer = answer.clone();
                    async move {
                        // Whoever answers JSON-RPC must have read the request.
                        std::hint::black_box(request.into_body().collect().await?.to_bytes());
                        let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
                        Ok::<_, hyper::Error>(response.body(Full::new(answer)).expect("is a response"))
                    }
                }))
                .await
            }
            "endpoint" => self.serve(endpoint.layer(fixed)).await,
            "+ version" => self.serve((endpoint, version).layer(fixed)).await,
            "+ headers" => self.serve((endpoint, version, headers).layer(fixed)).await,
            "+ dispatch" => self.serve((endpoint, version, headers).layer(server)).await,
            "+ origin" => self.serve((origin, endpoint, version, headers).layer(server)).await,
            "+ auth" => self.serve((origin, auth, endpoint, version, headers).layer(server)).await,
            "+ scope" => self.serve((origin, auth, endpoint, version, headers, scope).layer(server)).await,
            "+ capability" => {
                self.serve((origin, auth, endpoint, version, headers, scope, capability).layer(server)).await
            }
            "+ limits" => {
                self.serve(
                    (origin, auth, endpoint, version, headers, scope, capability, limits).layer(server),
                )
                .await
            }
            "+ cache" => {
                let outer = (origin, auth, endpoint, version, headers, scope, capability, limits);
                self.serve(outer.layer(self.cache().await?.layer(server))).await
            }
            WHOLE => {
                let outer = (origin, auth, endpoint, version, headers, scope, capability, limits);
                self.serve(outer.layer(self.cache().await?.layer(state.layer(server)))).await
            }
            other => unreachable!("{other} is not in the list"),
        })
    }

    /// What the dispatcher answers.
    async fn answer(&self) -> Result<Bytes, Box<dyn Error>> {
        let response = self.server.clone().call(Request::new(Message::parse(self.body(None))?)).await?;
        Ok(response.body().answer().ok_or("is one answer")?.to_string().into())
    }

    /// The same again and again, without HTTP.
    fn repeat<T>(&self, mut work: impl FnMut() -> T) -> Duration {
        std::hint::black_box(work());
        self.tally.is_on.set(true);
        let start = Instant::now();
        for _ in 0..self.times {
            std::hint::black_box(self.tally.count(&mut work));
        }
        start.elapsed()
    }

    async fn serve<S, B>(&self, service: S) -> Duration
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error: Into<Box<dyn Error + Send + Sync>>>
            + Clone,
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
    {
        self.drive(TowerToHyperService::new(service)).await
    }

    async fn drive<S, B>(&self, service: S) -> Duration
    where
        S: hyper::service::Service<
                Request<Incoming>,
                Response = Response<B>,
                Error: Into<Box<dyn Error + Send + Sync>>,
            >,
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
    {
        let (near, far) = tokio::io::duplex(1 << 20);
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
        let server = Counted { server: Box::pin(connection), tally: Rc::clone(&self.tally) };
        let (took, ended) = tokio::join!(self.client(near), server);
        ended.expect("the client ends well");
        took
    }

    /// Writes the same request again and again, and only looks for the end of each response.
    async fn client(&self, mut stream: DuplexStream) -> Duration {
        let request = self.request(&self.body(None));
        let mut buffer = vec![0; 2 << 20];
        let mut start = Instant::now();
        // Whoever comes first finds nothing that is remembered, and does not count.
        for turn in 0..self.times + 3 {
            if turn == 3 {
                self.tally.is_on.set(true);
                start = Instant::now();
            }
            stream.write_all(request.as_bytes()).await.expect("writes");
            let (mut read, mut expected) = (0, usize::MAX);
            while read < expected {
                read += stream.read(&mut buffer[read..]).await.expect("reads");
                let text = &buffer[..read];
                if expected == usize::MAX
                    && let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n")
                {
                    let head = std::str::from_utf8(&text[..end]).expect("is text").to_ascii_lowercase();
                    assert!(head.starts_with("http/1.1 200"), "{}", String::from_utf8_lossy(text));
                    let (_, length) = head.split_once("content-length: ").expect("has a length");
                    let length = length.split("\r\n").next().expect("has an end");
                    expected = end + 4 + length.parse::<usize>().expect("is a number");
                }
            }
        }
        self.tally.is_on.set(false);
        start.elapsed()
    }
}

/// Answers everything with the same result.
#[derive(Clone)]
struct Fixed(RawObject);

impl Service<Request<Message>> for Fixed {
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let answer = Answer::result(request.body().id().cloned(), self.0.clone());
        std::future::ready(Ok(Response::new(Reply::Answer(answer))))
    }
}
