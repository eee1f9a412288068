//! Tools and a prompt that ask the client for more before they answer.
//!
//! The server keeps nothing between the rounds: the client sends the request again, with its answers and with the state
//! that it was given. What is missing then, or makes no sense, is asked for again.
//!
//! The state passes through the client, which can read it; it cannot change it, because a layer of the stack in `main.rs`
//! seals it. Nothing here knows of that.

use mcp_layers::dispatch::{
    Builder, Context, HandlerError, InputRequired, Prompt, PromptResult, Tool, ToolResult,
};
use mcp_layers::protocol::{ClientCapabilities, PromptMessage};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::content::no_arguments;

pub(crate) fn add_to(server: Builder) -> Builder {
    let asks = "test_input_required_result";
    server
        .tool(tool(&format!("{asks}_elicitation"), "Asks for a name", name))
        .tool(tool(&format!("{asks}_sampling"), "Asks the client's model", capital))
        .tool(tool(&format!("{asks}_list_roots"), "Asks for the client's roots", roots))
        .tool(tool(&format!("{asks}_request_state"), "Has its state given back", state))
        .tool(tool(&format!("{asks}_multiple_inputs"), "Asks for three things at once", three_things))
        .tool(tool(&format!("{asks}_multi_round"), "Asks twice, one after the other", two_rounds))
        .tool(tool(&format!("{asks}_tampered_state"), "Relies on its state", relies_on_state))
        .tool(tool(&format!("{asks}_capabilities"), "Asks what the client can answer", what_it_can))
        .tool(tool("test_streaming_elicitation", "Asks for a value", value))
        // A tool that is of no use without a capability says so here, and a layer refuses clients that lack it.
        .tool(
            tool("test_missing_capability", "Needs a client with a model", needs_sampling)
                .with_required_capabilities(ClientCapabilities::new().with_sampling()),
        )
        .prompt(prompt())
}

fn tool<F, Fut>(name: &str, description: &str, handler: F) -> Tool
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResult, HandlerError>> + Send + 'static,
{
    Tool::raw(name, no_arguments(), move |_, context| handler(context)).with_description(description)
}

async fn name(context: Context) -> Result<ToolResult, HandlerError> {
    match filled_in::<String>(&context, "user_name", "name") {
        Some(name) => Ok(format!("Hello, {name}!").into()),
        None => {
            Ok(InputRequired::new().elicit("user_name", "What is your name?", form("name", "string")).into())
        }
    }
}

async fn capital(context: Context) -> Result<ToolResult, HandlerError> {
    match sampled(&context, "capital_question") {
        Some(answer) => Ok(answer.into()),
        None => {
            let question = question("What is the capital of France?", 100);
            Ok(InputRequired::new().sample("capital_question", question).into())
        }
    }
}

async fn roots(context: Context) -> Result<ToolResult, HandlerError> {
    match listed_roots(&context, "client_roots") {
        Some(roots) => Ok(format!("Found {} root(s): {}", roots.len(), roots.join(", ")).into()),
        None => Ok(InputRequired::new().list_roots("client_roots").into()),
    }
}

async fn state(context: Context) -> Result<ToolResult, HandlerError> {
    let given_back = context.request_state::<String>().is_some_and(|state| state == "asked once");
    match filled_in::<bool>(&context, "confirm", "ok") {
        Some(true) if given_back => Ok("state-ok: requestState validated".into()),
        Some(false) if given_back => Ok("not confirmed".into()),
        _ => {
            let asked = InputRequired::new().elicit("confirm", "Please confirm", form("ok", "boolean"));
            Ok(asked.with_state("asked once").into())
        }
    }
}

async fn three_things(context: Context) -> Result<ToolResult, HandlerError> {
    let answers = (
        filled_in::<String>(&context, "user_name", "name"),
        sampled(&context, "greeting"),
        listed_roots(&context, "client_roots"),
    );
    if let (Some(name), Some(greeting), Some(roots)) = answers {
        return Ok(format!("Name: {name}; Greeting: {greeting}; Roots: {}", roots.len()).into());
    }
    Ok(InputRequired::new()
        .elicit("user_name", "What is your name?", form("name", "string"))
        .sample("greeting", question("Generate a greeting", 50))
        .list_roots("client_roots")
        .with_state("asked for three things")
        .into())
}

async fn two_rounds(context: Context) -> Result<ToolResult, HandlerError> {
    // What is known from the round before travels in the state.
    let remembered = context.request_state::<Option<String>>().flatten();
    let Some(name) = remembered.or_else(|| filled_in(&context, "step1", "name")) else {
        let asked =
            InputRequired::new().elicit("step1", "Step 1: What is your name?", form("name", "string"));
        return Ok(asked.with_state(&None::<String>).into());
    };
    let Some(color) = filled_in::<String>(&context, "step2", "color") else {
        let asked = InputRequired::new().elicit(
            "step2",
            "Step 2: What is your favorite color?",
            form("color", "string"),
        );
        return Ok(asked.with_state(&Some(name)).into());
    };
    Ok(format!("Multi-round complete for {name} who likes {color}").into())
}

async fn relies_on_state(context: Context) -> Result<ToolResult, HandlerError> {
    // A state that is there is one that was given out: the layer that seals it refuses all others.
    match (filled_in::<bool>(&context, "confirm", "ok"), context.request_state::<String>()) {
        (Some(true), Some(_)) => Ok("integrity-ok: state verified".into()),
        (Some(false), Some(_)) => Ok("not confirmed".into()),
        _ => {
            let asked = InputRequired::new().elicit("confirm", "Please confirm", form("ok", "boolean"));
            Ok(asked.with_state("asked once").into())
        }
    }
}

async fn what_it_can(context: Context) -> Result<ToolResult, HandlerError> {
    let answered =
        ["elicit_input", "sample_input"].into_iter().filter(|key| context.input_response(key).is_some());
    let answered: Vec<_> = answered.collect();
    if !answered.is_empty() {
        return Ok(format!("capabilities-ok: received {}", answered.join(", ")).into());
    }
    let mut asked = InputRequired::new();
    let elicitation = context.can(&ClientCapabilities::new().with_elicitation_form());
    let sampling = context.can(&ClientCapabilities::new().with_sampling());
    if !elicitation && !sampling {
        return Ok("No supported capabilities declared".into());
    }
    if elicitation {
        asked = asked.elicit("elicit_input", "Elicitation input", form("value", "string"));
    }
    if sampling {
        asked = asked.sample("sample_input", question("Sample request", 50));
    }
    Ok(asked.with_state("asked what the client can answer").into())
}

async fn value(context: Context) -> Result<ToolResult, HandlerError> {
    match filled_in::<String>(&context, "user_input", "value") {
        Some(_) => Ok("Streaming complete".into()),
        None => {
            let form = form("value", "string");
            Ok(InputRequired::new().elicit("user_input", "Please provide a value", form).into())
        }
    }
}

async fn needs_sampling(_: Context) -> Result<ToolResult, HandlerError> {
    Ok("Success".into())
}

/// Prompts can ask, and so can resources.
fn prompt() -> Prompt {
    Prompt::new("test_input_required_result_prompt", |_, context: Context| async move {
        match filled_in::<String>(&context, "user_context", "context") {
            Some(text) => Ok(PromptResult::from(PromptMessage::user(format!("Prompt with context: {text}")))),
            None => {
                let message = "What context should the prompt use?";
                Ok(InputRequired::new().elicit("user_context", message, form("context", "string")).into())
            }
        }
    })
    .with_description("Asks which context to use")
}

/// A form with one field that must be filled in.
fn form(field: &str, kind: &str) -> Value {
    json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] })
}

/// The parameters of `sampling/createMessage` for one question.
fn question(text: &str, max_tokens: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "messages": [message], "maxTokens": max_tokens })
}

/// What the user has written in `field`, if the form was accepted.
fn filled_in<T: DeserializeOwned>(context: &Context, key: &str, field: &str) -> Option<T> {
    let mut form: Map<String, Value> = context.elicited(key)?;
    serde_json::from_value(form.remove(field)?).ok()
}

/// The text that the client's model has written.
fn sampled(context: &Context, key: &str) -> Option<String> {
    let block: Value = context.input_response(key)?.get("content")?.decode_owned().ok()?;
    block.get("text")?.as_str().map(str::to_owned)
}

/// The URIs of the client's roots.
fn listed_roots(context: &Context, key: &str) -> Option<Vec<String>> {
    let roots: Vec<Value> = context.input_response(key)?.get("roots")?.decode_owned().ok()?;
    roots.iter().map(|root| root.get("uri")?.as_str().map(str::to_owned)).collect()
}
