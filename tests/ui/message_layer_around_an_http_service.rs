//! A service that takes unread bodies cannot be put inside a layer that hands on messages.

use bytes::Bytes;
use http::{Request, Response};
use mcp_layers::layers::VersionLayer;
use mcp_layers::message::Message;
use tower::{Layer, Service};

fn serve<S: Service<Request<Message>>>(_: S) {}

fn stack<S>(http: S)
where
    S: Service<Request<Bytes>, Response = Response<Bytes>>,
{
    serve(VersionLayer::new().layer(http));
}

fn main() {}
