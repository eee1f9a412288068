//! Tools of general use, to try clients, proxies and layers with.

use std::time::Duration;

use mcp_layers::dispatch::{Builder, Tool, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) fn add_tools(server: Builder) -> Builder {
    server.tool(echo()).tool(slow()).tool(sql()).tool(typed())
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What is to be repeated.
    text: String,
}

fn echo() -> Tool {
    Tool::new("echo", |Echo { text }: Echo, _| async move { Ok(text) }).with_description("Repeats a text")
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    /// How many milliseconds the answer takes.
    ms: u64,
}

/// A client that goes away cancels the call: its future is dropped wherever it waits.
fn slow() -> Tool {
    Tool::new("slow", |Slow { ms }: Slow, _| async move {
        let mut report = ReportCancellation { finished: false };
        tokio::time::sleep(Duration::from_millis(ms)).await;
        report.finished = true;
        Ok(format!("Waited {ms} ms"))
    })
    .with_description("Waits before it answers")
}

struct ReportCancellation {
    finished: bool,
}

impl Drop for ReportCancellation {
    fn drop(&mut self) {
        if !self.finished {
            tracing::info!(tool = "slow", "the call was cancelled");
        }
    }
}

/// Clients repeat the annotated arguments in headers, `Mcp-Param-Region` and so on, so that proxies can route by them
/// without reading bodies. `HeadersLayer` refuses calls whose headers say something else.
///
/// The schema is written out: an annotated parameter must have exactly one primitive type, and no `Option` has.
fn sql() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "prio": { "type": "integer", "x-mcp-header": "Prio" },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" },
            "opt": {
                "type": "object",
                "properties": { "tenant": { "type": "string", "x-mcp-header": "Tenant" } },
            },
            "query": { "type": "string" },
        },
        "required": ["region", "query"],
    });
    Tool::raw("sql", schema, |arguments, _| async move {
        // As they were sent: numbers keep their digits.
        Ok(ToolResult::json(&arguments.raw()))
    })
    .with_description("Pretends to run a query, and returns its arguments")
}

#[derive(Deserialize, JsonSchema)]
struct Typed {
    /// What is to be returned; it should be an object with an integer `n`.
    value: Value,
}

/// A result that does not match the output schema does not leave the server: the client is told that the tool failed.
fn typed() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { "n": { "type": "integer" } },
        "required": ["n"],
    });
    Tool::new("typed", |Typed { value }: Typed, _| async move { Ok(ToolResult::json(&value)) })
        .with_output_schema(schema)
        .with_description("Returns a value that must match the output schema")
}
