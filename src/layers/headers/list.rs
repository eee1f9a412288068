//! Tools with invalid annotations, taken out of `tools/list`.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use crate::message::{Answer, Kind, Raw, Token, Walk};
use crate::protocol::mirror::ParamHeaders;
use crate::rejection::shorten;

const ANNOTATION: &str = "x-mcp-header";

/// Takes invalid tools out of the result; leaves it untouched if there are none.
pub(super) fn drop_invalid_tools(answer: &mut Answer) {
    let Some(result) = answer.result_mut() else { return };
    let Some(tools) = result.get("tools").filter(|tools| may_be_annotated(tools.text())) else { return };
    let (mut kept, mut dropped) = (String::with_capacity(tools.text().len()), false);
    kept.push('[');
    if tools.kind() == Kind::Array {
        for tool in tools.elements() {
            if let Err(reason) = check(tool) {
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

/// False only if nothing in the JSON text can be an annotation: neither its name as it is, nor the one kind of escape
/// that can spell letters and hyphens in another way.
fn may_be_annotated(text: &str) -> bool {
    text.contains(ANNOTATION) || text.contains("\\u")
}

fn check(tool: Raw<'_>) -> Result<(), Cow<'static, str>> {
    if tool.kind() != Kind::Object {
        return Err("the tool is not an object".into());
    }
    let (mut schema, mut twice) = (None, false);
    tool.each_member(|name, value| {
        if name == "inputSchema" {
            twice |= schema.replace(value).is_some();
        }
    });
    if twice {
        return Err("the tool has two schemas".into());
    }
    // Without a schema nothing is declared, which is valid as far as annotations go.
    let Some(schema) = schema.filter(|schema| may_be_annotated(schema.text())) else { return Ok(()) };
    if names_a_member_twice(schema) {
        return Err("the schema names a member twice, so that it can be read in two ways".into());
    }
    let schema: Value = schema.decode().map_err(|error| format!("the schema cannot be read: {error}"))?;
    ParamHeaders::from_schema(&schema).map(drop).map_err(|invalid| invalid.to_string().into())
}

fn names_a_member_twice(schema: Raw<'_>) -> bool {
    let mut open: Vec<HashSet<Cow<'_, str>>> = Vec::new();
    for token in Walk::new(schema) {
        match token {
            Token::Open(_) => open.push(HashSet::new()),
            Token::Close => drop(open.pop()),
            Token::Name(name) => {
                if open.last_mut().is_some_and(|names| !names.insert(name.decoded())) {
                    return true;
                }
            }
            Token::Scalar(_) => {}
        }
    }
    false
}

fn warn(tool: Raw<'_>, reason: &str) {
    let mut tool_name = None;
    tool.each_member(|name, value| {
        if name == "name" {
            tool_name = value.to_str();
        }
    });
    let tool = shorten(tool_name.as_deref().unwrap_or_default());
    tracing::warn!(?tool, reason, "dropped a tool from tools/list");
}
