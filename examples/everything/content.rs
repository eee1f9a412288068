//! Tools that show what a result can hold, and what can be sent before it.

use std::time::Duration;

use mcp_layers::dispatch::{Builder, Context, HandlerError, Tool, ToolResult};
use mcp_layers::protocol::{Content, LogLevel, ResourceContents};
use serde_json::{Value, json};

/// One transparent pixel.
pub(crate) const PIXEL: &[u8] = include_bytes!("pixel.png");
/// One sample of silence.
const SILENCE: &[u8] = include_bytes!("silence.wav");

/// The schema of a tool without arguments.
pub(crate) fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {} })
}

pub(crate) fn add_tools(server: Builder) -> Builder {
    server
        .tool(text())
        .tool(image())
        .tool(audio())
        .tool(embedded_resource())
        .tool(mixed())
        .tool(failing())
        .tool(progress())
        .tool(logging())
        .tool(schema_2020_12())
}

fn text() -> Tool {
    Tool::raw("test_simple_text", no_arguments(), |_, _| async {
        Ok("This is a simple text response for testing.")
    })
    .with_description("Answers with text")
}

fn image() -> Tool {
    Tool::raw("test_image_content", no_arguments(), |_, _| async { Ok(Content::image(PIXEL, "image/png")) })
        .with_description("Answers with an image")
}

fn audio() -> Tool {
    Tool::raw("test_audio_content", no_arguments(), |_, _| async { Ok(Content::audio(SILENCE, "audio/wav")) })
        .with_description("Answers with sound")
}

fn embedded_resource() -> Tool {
    Tool::raw("test_embedded_resource", no_arguments(), |_, _| async {
        let resource =
            ResourceContents::text("test://embedded-resource", "This is an embedded resource content.")
                .with_mime_type("text/plain");
        Ok(Content::resource(resource))
    })
    .with_description("Answers with the contents of a resource")
}

fn mixed() -> Tool {
    Tool::raw("test_multiple_content_types", no_arguments(), |_, _| async {
        let data = json!({ "test": "data", "value": 123 }).to_string();
        let resource =
            ResourceContents::text("test://mixed-content-resource", data).with_mime_type("application/json");
        Ok(vec![
            Content::text("Multiple content types test:"),
            Content::image(PIXEL, "image/png"),
            Content::resource(resource),
        ])
    })
    .with_description("Answers with text, an image and a resource")
}

/// A failure that the model is meant to see. Other errors, those that come with `?`, are logged and not shown.
fn failing() -> Tool {
    Tool::raw("test_error_handling", no_arguments(), |_, _| async {
        Err::<ToolResult, _>(HandlerError::visible("This tool intentionally returns an error for testing"))
    })
    .with_description("Fails")
}

/// The first notification turns the response into a stream. Clients that did not ask for progress get none.
fn progress() -> Tool {
    Tool::raw("test_tool_with_progress", no_arguments(), |_, context: Context| async move {
        for step in [0, 50, 100] {
            if step > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let message = format!("Completed step {step} of 100");
            context.progress(f64::from(step), Some(100.0), &message).await;
        }
        Ok("Progress completed")
    })
    .with_description("Tells how far it has come")
}

/// Reaches only clients that asked for messages of this level, in this very request.
fn logging() -> Tool {
    Tool::raw("test_logging_tool", no_arguments(), |_, context: Context| async move {
        context.log(LogLevel::Info, "everything", "Diagnostic trace logging activated").await;
        Ok("Logging evaluated")
    })
    .with_description("Sends a log message")
}

/// Schemas are published as they are written, and arguments are validated against them.
fn schema_2020_12() -> Tool {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    Tool::raw("json_schema_2020_12_tool", schema, |arguments, _| async move {
        Ok(arguments.raw().text().to_owned())
    })
    .with_description("Tool with JSON Schema 2020-12 features")
}
