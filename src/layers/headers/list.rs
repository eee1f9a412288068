//! Tools with invalid annotations, taken out of `tools/list`.

use crate::catalog::ToolFacts;
use crate::catalog::listed::{may_be_annotated, member};
use crate::message::{Answer, Kind, Raw};
use crate::rejection::shorten;

/// Takes invalid tools out of the result; leaves it untouched if there are none.
pub(super) fn drop_invalid_tools(answer: &mut Answer) {
    let Some(result) = answer.result_mut() else { return };
    let Some(tools) = result.get("tools").filter(|tools| may_be_annotated(tools.text())) else { return };
    let (mut kept, mut dropped) = (String::with_capacity(tools.text().len()), false);
    kept.push('[');
    if tools.kind() == Kind::Array {
        for tool in tools.elements() {
            if let Err(reason) = ToolFacts::from_listed(tool) {
                warn(tool, &reason);
                dropped = true;
                continue;
            }
            if kept.len() > 1 {
                kept.push(',');
            }
            kept.push_str(tool.text());
        }
    } else {
        tracing::warn!("emptied a tools/list whose `tools` is not an array");
        dropped = true;
    }
    kept.push(']');
    if dropped {
        result.set_text("tools", kept.into());
    }
}

fn warn(tool: Raw<'_>, reason: &str) {
    let tool = member(tool, "name").ok().flatten().and_then(Raw::to_str);
    let tool = shorten(tool.as_deref().unwrap_or_default());
    tracing::warn!(?tool, reason, "dropped a tool from tools/list");
}
