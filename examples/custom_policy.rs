//! A policy of your own: who may call which tool at which time is yours to say.
//!
//! Run it with `cargo run --example custom_policy`. No network is needed: below the endpoint a request is a value.

use std::convert::Infallible;

use http::{Request, Response};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use mcp_layers::policy::{Policy, PolicyLayer};
use mcp_layers::rejection::Rejection;
use tower::{Layer, Service, service_fn};

// From here ...

/// Lets nobody call the tools whose names begin with a prefix.
struct Frozen(&'static str);

impl Policy for Frozen {
    type Memo = ();

    fn on_request(&self, request: &mut Request<Message>) -> Result<(), Rejection> {
        match request.body().target() {
            Some(tool) if request.body().method() == "tools/call" && tool.starts_with(self.0) => {
                Err(Rejection::invalid_params(format!("`{tool}` is frozen: try again tomorrow")))
            }
            _ => Ok(()),
        }
    }
}

// ... to here is all that it takes. The rest tries it out.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools = service_fn(async |request: Request<Message>| {
        let mut result = RawObject::new();
        result.set("called", &request.body().target()).expect("a string is JSON");
        let id = request.body().id().cloned();
        Ok::<_, Infallible>(Response::new(Reply::Answer(Answer::result(id, result))))
    });
    let mut service = PolicyLayer::from_policy(Frozen("delete_")).layer(tools);

    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_files"}}"#,
        r#"{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"delete_files"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"delete_nothing"}}"#,
    ] {
        let response = service.call(Request::new(Message::parse(body)?)).await?;
        let answer = response.body().answer().expect("a plain answer");
        println!("-> {body}\n<- HTTP {}\n   {answer}\n", response.status());
    }
    Ok(())
}
