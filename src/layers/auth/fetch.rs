//! Asks the issuer: one request, one answer, with bounds on everything.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;

use super::url::Url;
use crate::tls;

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client for a few small requests. Redirects are not followed: they could lead anywhere.
#[derive(Clone)]
pub(super) struct Fetcher {
    client: HttpsClient,
    pub(super) timeout: Duration,
    pub(super) max_bytes: usize,
}

impl Fetcher {
    pub(super) fn new() -> Self {
        Self { client: client(tls::of_system()), timeout: Duration::from_secs(5), max_bytes: 256 * 1024 }
    }

    /// Trusts the authorities whose certificates are in `pem`, and no others.
    pub(super) fn trust(&mut self, pem: &[u8]) -> Result<(), &'static str> {
        self.client = client(tls::of(pem).ok_or("expected certificates of authorities in PEM")?);
        Ok(())
    }

    /// The body of the answer with status 200.
    #[cfg(feature = "jwks")]
    pub(super) async fn get(&self, url: &str) -> Result<Bytes, FetchError> {
        self.send(Request::get(url).header(http::header::ACCEPT, "application/json"), Bytes::new()).await
    }

    /// The same for any request.
    pub(super) async fn send(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Bytes, FetchError> {
        let request = request.body(Full::new(body)).map_err(|_| FetchError::Url)?;
        // Looked at here, and not only where it was configured: an issuer's answer may have named it.
        if !is_safe(&request.uri().to_string()) {
            return Err(FetchError::Url);
        }
        tokio::time::timeout(self.timeout, self.exchange(request)).await.unwrap_or(Err(FetchError::Timeout))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Bytes, FetchError> {
        let response =
            self.client.request(request).await.map_err(|error| FetchError::Connection(error.to_string()))?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let mut body = Limited::new(response.into_body(), self.max_bytes);
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| match error.downcast_ref::<http_body_util::LengthLimitError>() {
                    Some(_) => FetchError::TooLong,
                    None => FetchError::Connection(error.to_string()),
                })?;
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes.freeze())
    }
}

/// `https`, or this very machine.
pub(super) fn is_safe(url: &str) -> bool {
    Url::parse(url).is_some_and(|url| url.is_safe())
}

fn client(tls: ClientConfig) -> HttpsClient {
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Client::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_secs(30)).build(connector)
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("timeout", &self.timeout)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// Why there is no answer. It goes into logs, and holds nothing that was sent.
#[derive(Debug)]
pub(super) enum FetchError {
    Url,
    Timeout,
    TooLong,
    Status(StatusCode),
    Connection(String),
    /// There is an answer, but not one that makes sense.
    Content(&'static str),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("the URL is neither https nor this machine"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::TooLong => f.write_str("the answer is too long"),
            Self::Status(status) => write!(f, "answered with status {}", status.as_u16()),
            Self::Connection(what) => f.write_str(what),
            Self::Content(what) => f.write_str(what),
        }
    }
}
