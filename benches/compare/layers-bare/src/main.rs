//! mcp-layers with what every server needs and nothing else, without any of the crate's features: parsing, revision,
//! headers, dispatch. Arguments are decoded into a type, as the other libraries do it, and not validated besides.

use compare_common::{Add, Rows, TOTAL, tools};
use hyper_util::service::TowerToHyperService;
use mcp_layers::dispatch::{Dispatch, Tool};
use mcp_layers::endpoint::EndpointLayer;
use mcp_layers::layers::{HeadersLayer, VersionLayer};
use serde_json::{Value, json};
use tower::ServiceBuilder;

fn main() {
    let mut server = Dispatch::builder("compare", "1.0.0");
    for (name, description) in tools(compare_common::tool_count()) {
        let tool = if name == TOTAL {
            Tool::raw(name, rows_schema(), async |arguments, _| Ok(arguments.decode::<Rows>()?.answer()))
        } else {
            Tool::raw(name, add_schema(), async |arguments, _| Ok(arguments.decode::<Add>()?.answer()))
        };
        server = server.tool(tool.with_description(description));
    }
    let server = server.build().expect("a server");
    let stack = ServiceBuilder::new()
        .layer(EndpointLayer::new())
        .layer(VersionLayer::new())
        .layer(HeadersLayer::new().with_catalog(server.clone()))
        .service(server);
    compare_common::serve(async || TowerToHyperService::new(stack));
}

fn add_schema() -> Value {
    let summand = |which: &str| json!({"description": format!("The {which} summand."), "type": "integer", "format": "int64"});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Add",
        "description": "The arguments of every tool but [`TOTAL`].",
        "type": "object",
        "properties": {"a": summand("first"), "b": summand("second")},
        "required": ["a", "b"],
    })
}

fn rows_schema() -> Value {
    json!({"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "object"}}}, "required": ["rows"]})
}
