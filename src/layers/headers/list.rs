//! Tools with invalid annotations, taken out of `tools/list`.

use bytestring::ByteString;

use super::super::recalled::Recalled;
use crate::catalog::ToolFacts;
use crate::catalog::listed::{may_be_annotated, member};
use crate::message::{Answer, Kind, Raw, array_of};
use crate::rejection::shorten;

/// What there is to show instead of a list, if there is.
pub(super) type Shown = Option<ByteString>;

/// Takes invalid tools out of the result; leaves it untouched if there are none.
pub(super) fn drop_invalid_tools(recalled: &Recalled<Shown>, answer: &mut Answer) {
    let Some(result) = answer.result_mut() else { return };
    let Some(tools) = result.get_shared("tools") else { return };
    if let Some(valid) = &*recalled.of(&tools, || without_invalid(Raw::valid(&tools))) {
        result.set_text("tools", valid.clone());
    }
}

fn without_invalid(tools: Raw<'_>) -> Shown {
    if !may_be_annotated(tools.text()) {
        return None;
    }
    if tools.kind() != Kind::Array {
        tracing::warn!("emptied a tools/list whose `tools` is not an array");
        return Some(ByteString::from_static("[]"));
    }
    let (mut kept, mut dropped) = (Vec::new(), false);
    for tool in tools.elements() {
        match ToolFacts::from_listed(tool) {
            Ok(_) => kept.push(tool.text()),
            Err(reason) => {
                warn(tool, &reason);
                dropped = true;
            }
        }
    }
    dropped.then(|| array_of(kept))
}

fn warn(tool: Raw<'_>, reason: &str) {
    let tool = member(tool, "name").ok().flatten().and_then(Raw::to_str);
    let tool = shorten(tool.as_deref().unwrap_or_default());
    tracing::warn!(?tool, reason, "dropped a tool from tools/list");
}
