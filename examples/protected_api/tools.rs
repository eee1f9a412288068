//! The internal API as an MCP server: what there is to call, to read and to pick, and which scopes it takes.

use std::time::Duration;

use http::{Method, Request, StatusCode};
use mcp_layers::dispatch::{
    BuildError, CacheHint, Context, Dispatch, HandlerError, InputRequired, Prompt, PromptArgument,
    PromptArguments, PromptResult, Publisher, ReadResult, Resource, Tool, ToolResult,
};
use mcp_layers::principal::Principal;
use mcp_layers::protocol::{ClientCapabilities, PromptMessage, ResourceContents};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::HttpClient;

/// The scopes that the rules and the tokens are made of.
pub(crate) const READ: &str = "inventory:read";
pub(crate) const ORDER: &str = "orders:write";
pub(crate) const ADMIN: &str = "inventory:admin";

const CATALOGUE: &str = "inventory://catalogue";
const MY_ORDERS: &str = "inventory://orders/mine";

#[derive(Deserialize, JsonSchema)]
struct AtWarehouse {
    /// The town that the warehouse is in.
    // Proxies on the way may route by it, so clients repeat it in the header `Mcp-Param-Warehouse`.
    #[schemars(extend("x-mcp-header" = "Warehouse"))]
    warehouse: String,
}

#[derive(Deserialize, JsonSchema)]
struct OneItem {
    /// What the item is known by in the warehouse.
    #[schemars(regex(pattern = "^[A-Z0-9-]{1,20}$"))]
    sku: String,
}

#[derive(Deserialize, JsonSchema)]
struct NewOrder {
    /// What the item is known by in the warehouse.
    #[schemars(regex(pattern = "^[A-Z0-9-]{1,20}$"))]
    sku: String,
    /// How many are ordered.
    #[schemars(range(min = 1, max = 100))]
    quantity: u32,
}

/// What the user was asked about, which is what may be deleted then.
#[derive(Deserialize, Serialize)]
struct Asked {
    stock: u64,
}

#[derive(Deserialize)]
struct Confirmation {
    sure: bool,
}

/// The inventory behind its HTTP API.
#[derive(Clone)]
struct Api {
    client: HttpClient,
    url: String,
    /// Tells clients and the cache what has changed.
    publisher: Publisher,
}

impl Api {
    async fn send(&self, method: Method, path: &str, body: Value) -> Result<Value, HandlerError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body.to_string())
            .map_err(HandlerError::internal)?;
        let reply = self.client.send(request).await.map_err(HandlerError::internal)?;
        match (reply.status, reply.body["error"].as_str()) {
            (status, _) if status.is_success() => Ok(reply.body),
            // What is wrong with the order the model may know; what is wrong with the database, not.
            (StatusCode::NOT_FOUND | StatusCode::CONFLICT, Some(reason)) => {
                Err(HandlerError::visible(reason.to_owned()))
            }
            (status, _) => Err(HandlerError::internal(format!("the inventory answered {status}"))),
        }
    }

    async fn get(&self, path: &str) -> Result<Value, HandlerError> {
        self.send(Method::GET, path, Value::Null).await
    }

    async fn stock(&self, at: AtWarehouse) -> Result<ToolResult, HandlerError> {
        let warehouse: String = at.warehouse.chars().filter(char::is_ascii_alphanumeric).collect();
        Ok(ToolResult::json(&json!({ "items": self.get(&format!("/items?warehouse={warehouse}")).await? })))
    }

    async fn item(&self, item: OneItem) -> Result<ToolResult, HandlerError> {
        Ok(ToolResult::json(&self.get(&format!("/items/{}", item.sku)).await?))
    }

    async fn order(&self, order: NewOrder, context: Context) -> Result<ToolResult, HandlerError> {
        let order = json!({"customer": caller(&context)?, "sku": order.sku, "quantity": order.quantity});
        let done = self.send(Method::POST, "/orders", order).await?;
        self.publisher.resource_updated(CATALOGUE);
        self.publisher.resource_updated(MY_ORDERS);
        Ok(ToolResult::json(&done))
    }

    /// Asks first; the answer comes with the second round, and with it, sealed, what was asked.
    async fn delete(&self, item: OneItem, context: Context) -> Result<ToolResult, HandlerError> {
        let path = format!("/items/{}", item.sku);
        match (context.elicited("confirm"), context.request_state()) {
            (Some(Confirmation { sure: true }), Some(Asked { stock })) => {
                let deleted = self.send(Method::DELETE, &path, Value::Null).await?;
                self.publisher.resource_updated(CATALOGUE);
                Ok(format!("deleted {} and {stock} pieces of it", deleted["name"]).into())
            }
            (Some(Confirmation { sure: false }), Some(Asked { .. })) => Ok("kept".into()),
            _ => {
                let found = self.get(&path).await?;
                let stock = found["stock"].as_u64().unwrap_or_default();
                let question = format!("Delete {} with {stock} pieces in stock?", found["name"]);
                let form = json!({
                    "type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"],
                });
                Ok(InputRequired::new().elicit("confirm", question, form).with_state(&Asked { stock }).into())
            }
        }
    }

    async fn catalogue(&self) -> Result<ReadResult, HandlerError> {
        Ok(as_json(CATALOGUE, &self.get("/items").await?))
    }

    async fn my_orders(&self, context: Context) -> Result<ReadResult, HandlerError> {
        Ok(as_json(MY_ORDERS, &self.get(&format!("/orders/{}", caller(&context)?)).await?))
    }
}

fn as_json(uri: &'static str, value: &Value) -> ReadResult {
    ResourceContents::text(uri, value.to_string()).with_mime_type("application/json").into()
}

/// Who calls, as the token says. Subjects of this issuer are plain words.
fn caller(context: &Context) -> Result<&str, HandlerError> {
    let subject = context.extension().map(Principal::subject).unwrap_or_default();
    if !subject.is_empty() && subject.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Ok(subject)
    } else {
        Err(HandlerError::visible("orders are made in somebody's name"))
    }
}

async fn restock(arguments: PromptArguments, _: Context) -> Result<PromptResult, HandlerError> {
    let warehouse = arguments.get("warehouse").unwrap_or_default();
    let text = format!(
        "Look up what the warehouse in {warehouse} has in stock. List what there are fewer than ten of, and propose how \
         many to order of each."
    );
    Ok(PromptMessage::user(text).into())
}

/// The server in front of the API at `url`.
pub(crate) fn server(client: HttpClient, url: String) -> Result<Dispatch, BuildError> {
    let publisher = Publisher::new();
    let api = Api { client, url, publisher: publisher.clone() };
    let (stock, item, order, delete) = (api.clone(), api.clone(), api.clone(), api.clone());
    let (catalogue, mine) = (api.clone(), api);
    let elicitation = ClientCapabilities::new().with_elicitation_form();
    Dispatch::builder("inventory", env!("CARGO_PKG_VERSION"))
        .with_instructions("Stock levels and orders of two warehouses.")
        .with_list_cache(CacheHint::public(Duration::from_secs(60)))
        .with_publisher(publisher)
        .tool(
            Tool::new("stock", move |at, _| {
                let api = stock.clone();
                async move { api.stock(at).await }
            })
            .with_description("What a warehouse has in stock")
            .with_annotations(json!({"readOnlyHint": true}))
            .with_scopes(READ),
        )
        .tool(
            Tool::new("item", move |one, _| {
                let api = item.clone();
                async move { api.item(one).await }
            })
            .with_description("One item and its stock level")
            .with_annotations(json!({"readOnlyHint": true}))
            .with_scopes(READ),
        )
        .tool(
            Tool::new("order", move |new, context| {
                let api = order.clone();
                async move { api.order(new, context).await }
            })
            .with_description("Orders an item in the caller's name")
            .with_annotations(json!({"destructiveHint": false}))
            .with_scopes(ORDER),
        )
        .tool(
            Tool::new("delete_item", move |one, context| {
                let api = delete.clone();
                async move { api.delete(one, context).await }
            })
            .with_description("Takes an item out of the inventory, after the user has confirmed it")
            .with_annotations(json!({"destructiveHint": true}))
            .with_required_capabilities(elicitation)
            .with_scopes(ADMIN),
        )
        .resource(
            Resource::new(CATALOGUE, "catalogue", move |_| {
                let api = catalogue.clone();
                async move { api.catalogue().await }
            })
            .with_description("All items of all warehouses, the same for everybody")
            .with_cache(CacheHint::public(Duration::from_secs(60))),
        )
        .resource(
            Resource::new(MY_ORDERS, "my orders", move |context| {
                let api = mine.clone();
                async move { api.my_orders(context).await }
            })
            .with_description("What the caller has ordered")
            .with_cache(CacheHint::private(Duration::from_secs(60))),
        )
        .prompt(
            Prompt::new("restock", restock)
                .with_description("Finds out what to order")
                .with_argument(PromptArgument::required("warehouse").with_description("A town")),
        )
        .build()
}
