//! What each layer costs one request: instructions and allocations of the server, and how many of them a bare hyper
//! server takes for the same bytes.
//!
//! `cargo bench --all-features --bench layers` prints a table; `-- NAME…` only what has NAME in its name. Instructions repeat
//! to within a few; the times that are there without valgrind do not. Valgrind shows no SHA instructions: what `+ auth`
//! takes for the digest of a token is a fraction of it elsewhere.
//!
//! The stack grows from line to line, from the border inwards to the dispatcher and then outwards and between: what a line
//! has more than the one before is what its layer costs.

mod measure;

use std::convert::Infallible;
use std::error::Error;
use std::future::Ready;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
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
use serde_json::json;
use serde_json::value::RawValue;
use tower::{Layer as _, Service};

use self::measure::{Line, Sample, Tally, drive, params, post, print_table, rows};

const ISSUER: &str = "https://issuer.example";
const ME: &str = "https://mcp.example.com/mcp";

/// What a stack ends with, each one with what the one before has and one layer more.
const STACKS: [&str; 12] = [
    FLOOR,
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
const FLOOR: &str = "floor";
const WHOLE: &str = "+ request state";
/// What those have who take the cache and nothing else.
const CACHE_ALONE: &str = "endpoint + cache";

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
    fn all() -> Vec<Self> {
        let call = Self { group: "call", tools: 1, arguments: Some(0), ..Self::default() };
        let mut all: Vec<_> = STACKS.iter().map(|stack| Self { stack, ..call }).collect();
        let mut group = |of: Self, stacks: &[&'static str]| {
            all.extend(stacks.iter().map(|stack| Self { stack, ..of }));
        };
        group(Self { group: "call, 1,000 tools", tools: 1000, ..call }, &[FLOOR, "+ dispatch", WHOLE]);
        let large = Self { group: "call, 64 KiB of arguments", arguments: Some(64 << 10), ..call };
        group(large, &["scan", "parse", FLOOR, "+ dispatch", WHOLE]);
        let list = Self { group: "list of 6 KB", tools: 32, arguments: None, ..call };
        group(list, &[FLOOR, "+ dispatch", CACHE_ALONE, WHOLE]);
        let among = Self { group: "list of 6 KB, 10,000 others in the cache", others: 10_000, ..list };
        group(among, &[FLOOR, WHOLE]);
        group(Self { group: "list of 600 KB", tools: 3200, ..list }, &[FLOOR, CACHE_ALONE, WHOLE]);
        all
    }
}

impl Line for Case {
    fn group(&self) -> &'static str {
        self.group
    }

    fn stack(&self) -> &'static str {
        self.stack
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (keys, token) = match (std::env::var("JWKS"), std::env::var("TOKEN")) {
        (Ok(keys), Ok(token)) => (keys, token),
        _ => issue()?,
    };
    // The token is made in the first process, and is the same in those in which instructions are counted.
    print_table(&Case::all(), FLOOR, &[("JWKS", &keys), ("TOKEN", &token)], |case, tally| {
        let bench = Bench { keys: &keys, token: &token, tally, case, server: server(case)? };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(bench.run())
    })
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

struct Bench<'a> {
    keys: &'a str,
    token: &'a str,
    tally: Rc<Tally>,
    case: Case,
    server: Dispatch,
}

impl Bench<'_> {
    fn body(&self, cursor: Option<usize>) -> String {
        let mut params = params();
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

    fn request(&self) -> String {
        let name = self.case.arguments.map(|_| "take");
        post(self.method(), name, &format!("authorization: Bearer {}\r\n", self.token), &self.body(None))
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

    async fn run(&self) -> Result<Sample, Box<dyn Error>> {
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
                self.tally
                    .repeat(|| serde_json::from_str::<&RawValue>(&text).map_or(0, |raw| raw.get().len()))
            }
            "parse" => {
                let body = Bytes::from(self.body(None));
                self.tally.repeat(|| Message::parse(body.clone()).is_ok())
            }
            FLOOR => {
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
            CACHE_ALONE => self.serve(endpoint.layer(self.cache().await?.layer(server))).await,
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

    async fn serve<S, B>(&self, service: S) -> Sample
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error: Into<Box<dyn Error + Send + Sync>>>
            + Clone,
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
    {
        self.drive(TowerToHyperService::new(service)).await
    }

    async fn drive<S, B>(&self, service: S) -> Sample
    where
        S: hyper::service::Service<
                Request<Incoming>,
                Response = Response<B>,
                Error: Into<Box<dyn Error + Send + Sync>>,
            >,
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
    {
        drive(&self.tally, service, &self.request(), async {}).await
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
