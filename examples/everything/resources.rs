//! Resources: two with fixed URIs, and as many as there are ids.

use mcp_layers::dispatch::{Builder, Resource, ResourceTemplate};
use mcp_layers::protocol::ResourceContents;
use serde_json::json;

use crate::content::PIXEL;

pub(crate) fn add_to(server: Builder) -> Builder {
    server.resource(text()).resource(binary()).resource_template(template())
}

fn text() -> Resource {
    const URI: &str = "test://static-text";
    Resource::new(URI, "static-text", |_| async {
        let text = "This is the content of the static text resource.";
        Ok(ResourceContents::text(URI, text).with_mime_type("text/plain"))
    })
    .with_title("Static Text Resource")
    .with_description("A text that never changes")
    .with_mime_type("text/plain")
}

fn binary() -> Resource {
    const URI: &str = "test://static-binary";
    Resource::new(URI, "static-binary", |_| async {
        Ok(ResourceContents::blob(URI, PIXEL).with_mime_type("image/png"))
    })
    .with_title("Static Binary Resource")
    .with_description("An image that never changes")
    .with_mime_type("image/png")
}

fn template() -> ResourceTemplate {
    ResourceTemplate::new("test://template/{id}/data", "template", |variables, _| async move {
        let id = variables.get("id");
        let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        Ok(ResourceContents::text(variables.uri().to_owned(), data.to_string())
            .with_mime_type("application/json"))
    })
    .with_title("Resource Template")
    .with_description("What there is to know about an id")
    .with_mime_type("application/json")
}
