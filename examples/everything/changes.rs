//! What changes while the server serves. Clients that listen for changes are told.

use std::sync::atomic::{AtomicBool, Ordering};

use mcp_layers::dispatch::{BuildError, Dispatch, Prompt, Tool};
use mcp_layers::protocol::PromptMessage;

use crate::content::no_arguments;

const TOOL: &str = "test_dynamic_tool";
const PROMPT: &str = "test_dynamic_prompt";

/// Adds a tool and a prompt that come and go, and the tools that make them.
pub(crate) fn add_to(server: &Dispatch) -> Result<(), BuildError> {
    server.add_tool(
        Tool::raw(TOOL, no_arguments(), |_, _| async { Ok("This is a dynamic tool.") })
            .with_description("Comes and goes"),
    )?;
    server.set_tool_enabled(TOOL, false);
    server.add_tool(trigger_tool_change(server.clone()))?;
    server.add_tool(trigger_prompt_change(server.clone()))
}

fn trigger_tool_change(server: Dispatch) -> Tool {
    let is_shown = AtomicBool::new(false);
    Tool::raw("test_trigger_tool_change", no_arguments(), move |_, _| {
        let was_shown = is_shown.fetch_xor(true, Ordering::Relaxed);
        server.set_tool_enabled(TOOL, !was_shown);
        async { Ok("Mutation triggered") }
    })
    .with_description("Shows or hides a tool")
}

fn trigger_prompt_change(server: Dispatch) -> Tool {
    Tool::raw("test_trigger_prompt_change", no_arguments(), move |_, _| {
        let changed = if server.remove_prompt(PROMPT) { Ok(()) } else { server.add_prompt(dynamic_prompt()) };
        async move {
            changed?;
            Ok("Mutation triggered")
        }
    })
    .with_description("Adds or removes a prompt")
}

fn dynamic_prompt() -> Prompt {
    Prompt::new(PROMPT, |_, _| async { Ok(PromptMessage::user("This is a dynamic prompt.")) })
        .with_description("Comes and goes")
}
