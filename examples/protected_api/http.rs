//! A small client for JSON over HTTP: the tools talk to the inventory with it, and the demo to the server.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// No answer of the inventory or of the server is longer than this.
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Clone)]
pub(crate) struct HttpClient(Client<HttpConnector, Full<Bytes>>);

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The body if it is JSON, else null.
    pub(crate) body: Value,
}

impl HttpClient {
    pub(crate) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }

    pub(crate) async fn send(&self, request: Request<String>) -> Result<Reply, BoxError> {
        let response = self.0.request(request.map(|body| Full::new(body.into()))).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_BYTES).collect().await?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Reply { status: parts.status, headers: parts.headers, body })
    }
}
