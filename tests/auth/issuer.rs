//! An issuer of tokens, and a server in front of which they are shown.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once};
use std::time::Duration;

use base64_simd::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use mcp_layers::clock::{ManualClock, Timestamp};
use mcp_layers::layers::auth::{AuthLayer, ProtectedResource, TokenVerifier};
use mcp_layers::principal::Principal;
use rsa::Generate as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::{Layer as _, ServiceExt as _, service_fn};

pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const ME: &str = "https://mcp.example.com/mcp";
pub(crate) const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
/// When the tests play.
pub(crate) const NOW: u64 = 1_900_000_000;

/// A key that signs.
#[derive(Clone)]
pub(crate) struct Signer {
    pub(crate) kid: &'static str,
    pub(crate) algorithm: Algorithm,
    key: EncodingKey,
}

/// To make one takes a while.
static RSA: LazyLock<[EncodingKey; 2]> = LazyLock::new(|| {
    [(); 2].map(|()| {
        let der = rsa::PrivateKey::generate().to_pkcs1_der().expect("a key");
        EncodingKey::from_rsa_der(der.as_bytes())
    })
});

pub(crate) fn rs256(kid: &'static str, which: usize) -> Signer {
    Signer { kid, algorithm: Algorithm::RS256, key: RSA[which].clone() }
}

pub(crate) fn es256(kid: &'static str) -> Signer {
    let mut der =
        vec![0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    der.extend([
        0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01, 0x01,
    ]);
    der.extend([0x04, 0x20]);
    der.extend([7; 32]);
    Signer { kid, algorithm: Algorithm::ES256, key: EncodingKey::from_ec_der(&der) }
}

pub(crate) fn eddsa(kid: &'static str, seed: u8) -> Signer {
    let mut der =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend([seed; 32]);
    Signer { kid, algorithm: Algorithm::EdDSA, key: EncodingKey::from_ed_der(&der) }
}

impl Signer {
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = json!(Jwk::from_encoding_key(&self.key, self.algorithm).expect("a public key"));
        jwk["kid"] = self.kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// A token with these claims and with this change of its header.
    pub(crate) fn sign_with(&self, header: impl FnOnce(&mut Value), claims: &Value) -> String {
        let mut value = json!(Header::new(self.algorithm));
        value["kid"] = self.kid.into();
        header(&mut value);
        self.sign_text(&value.to_string(), &claims.to_string())
    }

    /// A token of these very texts.
    pub(crate) fn sign_text(&self, header: &str, claims: &str) -> String {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode_to_string(text);
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, self.algorithm).expect("a signature");
        format!("{message}.{signature}")
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(|_| {}, claims)
    }
}

pub(crate) fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode_to_string(value.to_string())
}

/// The claims of a good token, with this change.
pub(crate) fn claims(change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": ME, "sub": "ada", "exp": NOW + 300, "scope": "files:read"});
    change(&mut claims);
    claims
}

pub(crate) fn good() -> Value {
    claims(|_| {})
}

pub(crate) fn jwks(signers: &[&Signer]) -> String {
    json!({"keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>()}).to_string()
}

/// How the issuer answers.
#[derive(Clone)]
pub(crate) enum Mode {
    Text(String),
    Status(StatusCode, &'static str),
    Hang,
}

/// An issuer behind a socket.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    mode: Arc<Mutex<Mode>>,
    requests: Arc<Mutex<Vec<String>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Issuer {
    pub(crate) async fn start(mode: Mode) -> Self {
        Self::listen(mode, None).await
    }

    /// The same over TLS, with a certificate for `name`, and the certificate of the authority that vouches for it.
    pub(crate) async fn start_over_tls(mode: Mode, name: &str) -> (Self, String) {
        let (acceptor, root) = tls(name);
        (Self::listen(mode, Some(acceptor)).await, root)
    }

    async fn listen(mode: Mode, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let this = Self {
            url: if tls.is_some() {
                format!("https://localhost:{port}")
            } else {
                format!("http://127.0.0.1:{port}")
            },
            mode: Arc::new(Mutex::new(mode)),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let issuer = this.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                issuer.connections.fetch_add(1, Ordering::Relaxed);
                let issuer = issuer.clone();
                let service = hyper::service::service_fn(move |request| issuer.clone().answer(request));
                let tls = tls.clone();
                tokio::spawn(async move {
                    let server = hyper::server::conn::http1::Builder::new();
                    match tls {
                        None => drop(server.serve_connection(TokioIo::new(stream), service).await),
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            drop(server.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                });
            }
        });
        this
    }

    pub(crate) async fn with_keys(signers: &[&Signer]) -> Self {
        Self::start(Mode::Text(jwks(signers))).await
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// Method, path, header and body of what was asked, one text each.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until this many requests have come, and what they started has come to rest.
    pub(crate) async fn asked(&self, times: usize) {
        while self.requests().len() < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(self.requests().len(), times, "{:?}", self.requests());
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let authorization = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let path = head.uri.path().to_owned();
        self.requests.lock().unwrap().push(format!(
            "{} {path} {} {}",
            head.method,
            authorization.unwrap_or("-"),
            String::from_utf8_lossy(&body)
        ));
        let mode = self.mode.lock().unwrap().clone();
        Ok(match mode {
            Mode::Text(text) => Response::new(text.into()),
            Mode::Status(status, location) => {
                let response = Response::builder().status(status).header("location", location);
                response.body(Full::default()).expect("a response")
            }
            Mode::Hang => std::future::pending().await,
        })
    }
}

/// An authority made for this, and a server with a certificate of its for `name`.
fn tls(name: &str) -> (TlsAcceptor, String) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use tokio_rustls::rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};

    let mut authority = CertificateParams::new([]).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let root = authority.self_signed(&key).expect("a certificate").pem();
    let authority = Issuer::new(authority, key);
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new([name.to_owned()]).expect("a name");
    let certificate = certificate.signed_by(&key, &authority).expect("a certificate");
    let config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .expect("a certificate and its key");
    (TlsAcceptor::from(Arc::new(config)), root)
}

/// What is logged on this thread, which is a test's own.
///
/// The subscriber is that of the whole process: one of a thread alone misses what another thread logs first, because
/// that it is of no interest there is remembered for all.
pub(crate) struct Log;

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Log {
    /// Begins to collect.
    pub(crate) fn begin() {
        static BEGIN: Once = Once::new();
        BEGIN.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_env_filter("mcp_layers=trace");
            subscriber.with_writer(|| Self).init();
        });
        LOG.take();
    }

    pub(crate) fn text() -> String {
        LOG.with_borrow(|log| String::from_utf8(log.clone()).expect("text"))
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Begins work and drops it after its first step, as when a caller hangs up.
pub(crate) async fn hang_up(work: impl Future<Output = Sent>) {
    tokio::select! {
        biased;
        sent = work => panic!("answered at once: {sent:?}"),
        () = std::future::ready(()) => {}
    }
}

/// A server behind an [`AuthLayer`], with a clock that stands still until it is set.
pub(crate) struct Guarded<V> {
    pub(crate) layer: AuthLayer<V>,
    pub(crate) clock: Arc<ManualClock>,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) status: u16,
    pub(crate) challenge: Option<String>,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: String,
    pub(crate) principal: Option<Principal>,
    pub(crate) calls: usize,
}

pub(crate) fn resource() -> ProtectedResource {
    ProtectedResource::new(ME, [ISSUER]).expect("a resource")
}

impl<V: TokenVerifier> Guarded<V> {
    pub(crate) fn new(verifier: V) -> Self {
        let clock = Arc::new(ManualClock::new());
        clock.set(Timestamp::default() + Duration::from_secs(NOW));
        Self { layer: AuthLayer::new(verifier, &resource()).with_clock(Arc::clone(&clock)), clock }
    }

    /// Lets time pass.
    pub(crate) fn later(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) async fn send(&self, request: Request<()>) -> Sent {
        let seen = Arc::new(Mutex::new((0, None)));
        let inner = {
            let seen = Arc::clone(&seen);
            service_fn(move |request: Request<()>| {
                assert!(!request.headers().contains_key("authorization"), "the token is not passed on");
                let mut seen = seen.lock().unwrap();
                seen.0 += 1;
                seen.1 = request.extensions().get::<Principal>().cloned();
                async { Ok::<_, Infallible>(Response::new(Bytes::from("inner"))) }
            })
        };
        let response = self.layer.layer(inner).oneshot(request).await.expect("infallible");
        let one = |name: &str| {
            let lines: Vec<_> = response.headers().get_all(name).iter().collect();
            assert!(lines.len() <= 1, "{lines:?}");
            lines.first().map(|value| value.to_str().expect("text").to_owned())
        };
        let (challenge, retry_after) = (one("www-authenticate"), one("retry-after"));
        let (calls, principal) = seen.lock().unwrap().clone();
        let body = String::from_utf8_lossy(response.body()).into_owned();
        Sent { status: response.status().as_u16(), challenge, retry_after, body, principal, calls }
    }

    pub(crate) async fn show(&self, token: &str) -> Sent {
        let request = Request::post("/mcp").header("authorization", format!("Bearer {token}"));
        self.send(request.body(()).expect("a request")).await
    }
}

impl Sent {
    #[track_caller]
    pub(crate) fn passed(self) -> Principal {
        assert_eq!((self.status, self.challenge.as_deref(), self.calls), (200, None, 1), "{}", self.body);
        self.principal.expect("a principal")
    }

    /// 401, for this reason.
    #[track_caller]
    pub(crate) fn refused(&self, reason: &str) {
        let challenge = format!(
            "Bearer error=\"invalid_token\", error_description=\"{reason}\", resource_metadata=\"{METADATA}\""
        );
        assert_eq!((self.status, self.calls), (401, 0), "{}", self.body);
        assert_eq!(self.challenge.as_deref(), Some(challenge.as_str()));
        let body = format!(r#"{{"jsonrpc":"2.0","error":{{"code":401,"message":"{reason}"}}}}"#);
        assert_eq!(self.body, body);
    }

    /// 503, to be tried again after so many seconds.
    #[track_caller]
    pub(crate) fn unavailable(&self, retry_after: &str) {
        assert_eq!((self.status, self.calls), (503, 0), "{}", self.body);
        assert_eq!((self.challenge.as_deref(), self.retry_after.as_deref()), (None, Some(retry_after)));
        let message = "tokens cannot be verified now: try again later";
        assert_eq!(self.body, format!(r#"{{"jsonrpc":"2.0","error":{{"code":503,"message":"{message}"}}}}"#));
    }
}

/// Serves `service` over plain hyper, HTTP/1 and HTTP/2; returns its address.
pub(crate) async fn serve<S, B>(service: S) -> std::net::SocketAddr
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let service = hyper_util::service::TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}
