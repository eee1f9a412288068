//! Layers that read the message stack around a service that takes one.

use http::{Request, Response};
use mcp_layers::layers::{HeadersLayer, LimitsLayer, OriginLayer, VersionLayer};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use tower::{Layer, Service, service_fn};

fn takes_messages<S: Service<Request<Message>>>(_: S) {}
fn takes_http<S: Service<Request<bytes::Bytes>>>(_: S) {}

fn main() {
    let inner = service_fn(async |_: Request<Message>| {
        Ok::<_, ()>(Response::new(Reply::Answer(Answer::result(None, RawObject::new()))))
    });
    let layers = (VersionLayer::new(), HeadersLayer::new(), LimitsLayer::new());
    takes_messages(layers.layer(inner));

    let http = service_fn(async |_: Request<bytes::Bytes>| Ok::<_, ()>(Response::new(bytes::Bytes::new())));
    takes_http(OriginLayer::new().layer(http));
}
