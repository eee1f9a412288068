//! A tool that deletes something asks for confirmation in a first round, and acts in the second. What it wants to know
//! in the second round travels through the client, sealed.
//!
//! ```sh
//! cargo run --example confirm
//! ```
//!
//! It needs no network: the client is in the same process, and what the two say to each other is printed. At the end
//! somebody changes the sealed state, presents it for another file, as somebody else, and a second time: all in vain.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use mcp_layers::dispatch::{Arguments, Context, Dispatch, HandlerError, InputRequired, Tool, ToolResult};
use mcp_layers::layers::request_state::{StateKey, StateKeys};
use mcp_layers::layers::{CapabilityLayer, RequestStateLayer};
use mcp_layers::message::{Message, Reply};
use mcp_layers::principal::Principal;
use mcp_layers::store::MemoryReplayStore;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::{Service, ServiceBuilder, ServiceExt as _};

/// The files that there are, in one place for all calls.
type Files = Arc<Mutex<BTreeSet<String>>>;

#[derive(Deserialize)]
struct Delete {
    file: String,
}

/// What the tool wants to know in the second round. The user has confirmed this, and nothing else.
#[derive(Deserialize, Serialize)]
struct Asked {
    bytes: usize,
}

#[derive(Deserialize)]
struct Confirmation {
    sure: bool,
}

fn delete(files: &Files, arguments: &Arguments, context: &Context) -> Result<ToolResult, HandlerError> {
    let Delete { file } = arguments.decode()?;
    match (context.elicited("confirm"), context.request_state()) {
        (Some(Confirmation { sure: true }), Some(Asked { bytes })) => {
            let deleted = files.lock().map_err(|_| HandlerError::visible("try again"))?.remove(&file);
            Ok(if deleted { format!("deleted {bytes} bytes") } else { "was gone already".to_owned() }.into())
        }
        (Some(Confirmation { sure: false }), Some(Asked { .. })) => Ok("kept".into()),
        _ => {
            let bytes = file.len() * 100;
            let form =
                json!({"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]});
            let question = format!("Delete {file}, {bytes} bytes?");
            Ok(InputRequired::new().elicit("confirm", question, form).with_state(&Asked { bytes }).into())
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let files: Files = Arc::new(Mutex::new(["old.log", "new.log"].map(str::to_owned).into()));
    let schema = json!({"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]});
    let shared = Arc::clone(&files);
    let tool = Tool::raw("delete", schema, move |arguments, context| {
        std::future::ready(delete(&shared, &arguments, &context))
    });
    let server = Dispatch::builder("files", "1.0.0").tool(tool).build()?;

    // A server keeps its key where it keeps its other secrets.
    let mut key = [0; 32];
    getrandom::fill(&mut key)?;
    let mut service = ServiceBuilder::new()
        .layer(CapabilityLayer::new().with_catalog(server.clone()))
        .layer(
            RequestStateLayer::new(StateKeys::new([StateKey::new(&key)?])?, "files")
                .with_single_use(MemoryReplayStore::new()),
        )
        .service(server);

    println!("The user wants a file deleted, and is asked first:");
    let asked = call(&mut service, "ada", "old.log", None).await?;
    let state = asked["result"]["requestState"].as_str().ok_or("no state")?.to_owned();

    println!("Somebody changes one letter of the state and confirms:");
    let letter = if state.ends_with('A') { "B" } else { "A" };
    let forged = format!("{}{letter}", &state[..state.len() - 1]);
    refused(&call(&mut service, "ada", "old.log", Some(&forged)).await?);

    println!("Somebody confirms another file than the one that was asked for:");
    refused(&call(&mut service, "ada", "new.log", Some(&state)).await?);

    println!("Somebody else confirms:");
    refused(&call(&mut service, "eve", "old.log", Some(&state)).await?);
    assert_eq!(files.lock().map_or(0, |files| files.len()), 2, "nothing has been deleted yet");

    println!("The user confirms:");
    let done = call(&mut service, "ada", "old.log", Some(&state)).await?;
    assert_eq!(done["result"]["content"][0]["text"], "deleted 700 bytes");

    println!("The same state comes once more:");
    refused(&call(&mut service, "ada", "old.log", Some(&state)).await?);
    assert!(files.lock().is_ok_and(|files| files.iter().eq(["new.log"])));
    println!("What is left: new.log");
    Ok(())
}

/// Calls the tool, with a confirmation if there is a state to go with it, and prints what is said.
async fn call<S>(service: &mut S, who: &str, file: &str, state: Option<&str>) -> Result<Value, Box<dyn Error>>
where
    S: Service<Request<Message>, Response = Response<Reply>, Error = Infallible>,
{
    let mut params = json!({
        "name": "delete",
        "arguments": {"file": file},
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}},
    });
    if let Some(state) = state {
        params["requestState"] = state.into();
        params["inputResponses"] = json!({"confirm": {"action": "accept", "content": {"sure": true}}});
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    println!("  {who} > {body}");
    let mut request = Request::new(Message::parse(body)?);
    // Elsewhere an authentication layer does this.
    request.extensions_mut().insert(Principal::new("https://issuer.example", who));
    let response = service.ready().await?.call(request).await?;
    let answer = response.body().answer().ok_or("a stream")?.to_string();
    println!("  {} < {answer}\n", response.status().as_u16());
    Ok(serde_json::from_str(&answer)?)
}

fn refused(answer: &Value) {
    assert_eq!(answer["error"]["code"], -32602);
    assert_eq!(answer["error"]["data"], json!({"reason": "invalid_request_state"}));
}
