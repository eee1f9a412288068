//! Above the endpoint a request has an unread body: there is no message to check.

use bytes::Bytes;
use http::Request;
use mcp_layers::layers::HeadersLayer;
use mcp_layers::message::{Message, Reply};
use tower::{Layer, Service};

fn serve<S: Service<Request<Bytes>>>(_: S) {}

fn stack<S>(endpoint: S)
where
    S: Service<Request<Message>, Response = http::Response<Reply>>,
{
    serve(HeadersLayer::new().layer(endpoint));
}

fn main() {}
