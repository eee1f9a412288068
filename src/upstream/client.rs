//! A client of servers behind URLs.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pin_project::pin_project;
use rustls::ClientConfig;
use tower::{Layer as _, Service};

use super::{InvalidTarget, TimedOut, UpstreamLayer, UpstreamService};
use crate::body::{Body, BoxError};
use crate::idle::IdleTimer;
use crate::tls;

/// An HTTP client to put below an [`UpstreamLayer`], for any number of upstreams.
///
/// It keeps connections for 30 seconds, no more than 64 idle ones for a server, and uses them again. It speaks HTTP/2 where the server agrees to that during the TLS handshake and
/// HTTP/1.1 otherwise, and sends small messages at once (`TCP_NODELAY`). Clones share their connections. It needs a
/// Tokio runtime.
///
/// Certificates are checked against the authorities that the system trusts, or those [given](Self::with_authorities).
/// Redirects are not followed. A request is sent again only if its connection turned out to be closed before the
/// request was written: no tool is called twice.
///
/// # Timeouts
/// They bound how long nothing happens. A server that sends a JSON answer byte by byte is bounded in total by
/// [`tower::timeout`] around the [`UpstreamService`], which waits for all of such an answer, but only for the beginning of a
/// stream.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_layers::upstream::HttpUpstream;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = HttpUpstream::new().with_head_timeout(Duration::from_secs(30));
/// // A service of messages, to put below the other layers.
/// let service = client.at("https://tools.example/mcp")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct HttpUpstream {
    client: Client<Connector<HttpConnector>, Body>,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    tls: ClientConfig,
    connect: Duration,
    head: Duration,
    idle: Duration,
}

impl Settings {
    /// A client whose connections are made by `transport`.
    fn client<T: Transport>(&self, transport: T) -> Client<Connector<T>, Body> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls.clone())
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(transport);
        Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(64)
            // One connection carries everything: that it is dead must not go unnoticed.
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .build(Connector { inner: connector, timeout: self.connect })
    }
}

impl HttpUpstream {
    /// A client with the defaults.
    pub fn new() -> Self {
        Self::of(Settings {
            tls: tls::of_system(),
            connect: Duration::from_secs(5),
            head: Duration::from_secs(120),
            idle: Duration::from_secs(300),
        })
    }

    fn of(settings: Settings) -> Self {
        let mut tcp = HttpConnector::new();
        // The connector below tells them apart.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        Self { client: settings.client(tcp), settings }
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.settings;
        change(&mut settings);
        Self::of(settings)
    }

    /// How long it may take to connect, TLS included. [`Duration::ZERO`] is without bound. Defaults to 5 seconds.
    pub fn with_connect_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.connect = timeout)
    }

    /// How long it may take until the head of the response is there, connecting included. A server that answers with
    /// JSON sends it when its work is done. [`Duration::ZERO`] is without bound. Defaults to 120 seconds.
    pub fn with_head_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.head = timeout)
    }

    /// How long nothing may come of a body, while it is waited for. Comments that keep a stream alive do count.
    /// [`Duration::ZERO`] is without bound. Defaults to 300 seconds.
    pub fn with_idle_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.idle = timeout)
    }

    /// Trusts the authorities whose certificates are in `pem`, and no others. Defaults to those that the system trusts.
    ///
    /// # Errors
    /// If `pem` is not PEM, or holds no certificate of an authority.
    pub fn with_authorities(self, pem: &[u8]) -> Result<Self, InvalidAuthorities> {
        let tls = tls::of(pem).ok_or(InvalidAuthorities)?;
        Ok(self.with(|settings| settings.tls = tls))
    }

    /// A service of messages that asks the server at `url`. With settings of your own,
    /// `UpstreamLayer::to(url)?.layer(client)` is the same.
    ///
    /// # Errors
    /// As [`UpstreamLayer::to`].
    pub fn at(self, url: &str) -> Result<UpstreamService<Self>, InvalidTarget> {
        Ok(UpstreamLayer::to(url)?.layer(self))
    }
}

impl Default for HttpUpstream {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpUpstream")
            .field("connect_timeout", &self.settings.connect)
            .field("head_timeout", &self.settings.head)
            .field("idle_timeout", &self.settings.idle)
            .finish_non_exhaustive()
    }
}

/// A text that holds no certificates of authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAuthorities;

impl fmt::Display for InvalidAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected certificates of authorities in PEM")
    }
}

impl Error for InvalidAuthorities {}

impl Service<Request<Body>> for HttpUpstream {
    type Response = Response<HttpBody>;
    type Error = BoxError;
    type Future = HttpFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> HttpFuture {
        HttpFuture::new(self.client.request(request), &self.settings)
    }
}

/// The future of an [`HttpUpstream`].
pub struct HttpFuture {
    response: ResponseFuture,
    timer: IdleTimer,
    idle: Duration,
}

impl HttpFuture {
    fn new(response: ResponseFuture, settings: &Settings) -> Self {
        Self { response, timer: IdleTimer::new(settings.head), idle: settings.idle }
    }
}

impl Future for HttpFuture {
    type Output = Result<Response<HttpBody>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(response) = Pin::new(&mut self.response).poll(cx) {
            let timer = IdleTimer::new(self.idle);
            return Poll::Ready(Ok(response?.map(|body| HttpBody { body, timer })));
        }
        ready!(self.timer.poll(cx));
        Poll::Ready(Err(TimedOut::new("the head of a response").into()))
    }
}

impl fmt::Debug for HttpFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFuture").finish_non_exhaustive()
    }
}

/// The body of a response to an [`HttpUpstream`].
#[pin_project]
pub struct HttpBody {
    #[pin]
    body: Incoming,
    timer: IdleTimer,
}

impl http_body::Body for HttpBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            this.timer.restart();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(this.timer.poll(cx));
        Poll::Ready(Some(Err(TimedOut::new("more of a body").into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBody").finish_non_exhaustive()
    }
}

/// What makes connections, below TLS: TCP, or pipes in memory where tests decide what time it is.
trait Transport:
    Service<Uri, Response: Link, Error: Into<BoxError>, Future: Send + 'static> + Clone + Send + Sync + 'static
{
}

impl<T> Transport for T where
    T: Service<Uri, Response: Link, Error: Into<BoxError>, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

trait Link: Connection + Read + Write + Unpin + Send + 'static {}

impl<L: Connection + Read + Write + Unpin + Send + 'static> Link for L {}

/// Connects within a bound of time.
#[derive(Clone)]
struct Connector<T> {
    inner: HttpsConnector<T>,
    timeout: Duration,
}

impl<T: Transport> Service<Uri> for Connector<T> {
    type Response = MaybeHttpsStream<T::Response>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let timeout = self.timeout;
        Box::pin(async move {
            if timeout.is_zero() {
                return connecting.await;
            }
            tokio::time::timeout(timeout, connecting)
                .await
                .unwrap_or_else(|_| Err(TimedOut::new("a connection").into()))
        })
    }
}

#[cfg(test)]
mod tests;
