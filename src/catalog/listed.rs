//! Reads what a `tools/list` says of a tool.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::ToolFacts;
use crate::message::{Kind, Raw, Token, Walk};
use crate::protocol::mirror::ParamHeaders;

const ANNOTATION: &str = "x-mcp-header";

/// False only if nothing in the JSON text can be an annotation: neither its name as it is, nor the one kind of escape
/// that can spell letters and hyphens in another way.
pub(crate) fn may_be_annotated(text: &str) -> bool {
    text.contains(ANNOTATION) || text.contains("\\u")
}

/// The value of the one member `name` of an object; an error if it is named twice.
pub(crate) fn member<'a>(object: Raw<'a>, name: &str) -> Result<Option<Raw<'a>>, Twice> {
    let (mut found, mut twice) = (None, false);
    object.each_member(|member, value| {
        if member == name {
            twice |= found.replace(value).is_some();
        }
    });
    if twice { Err(Twice) } else { Ok(found) }
}

/// A member is named twice, so that it has no one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twice;

impl ToolFacts {
    /// Reads the facts out of an element of `tools`.
    ///
    /// # Errors
    /// Why clients must not see the tool: an annotation that breaks a rule, or one that cannot be read for sure.
    pub(crate) fn from_listed(tool: Raw<'_>) -> Result<Self, Cow<'static, str>> {
        if tool.kind() != Kind::Object {
            return Err("the tool is not an object".into());
        }
        let schema = member(tool, "inputSchema").map_err(|Twice| "the tool has two schemas")?;
        // Without a schema nothing is declared, which is valid as far as annotations go.
        let Some(schema) = schema.filter(|schema| may_be_annotated(schema.text())) else {
            return Ok(Self::default());
        };
        if names_a_member_twice(schema) {
            return Err("the schema names a member twice, so that it can be read in two ways".into());
        }
        let schema: Value = schema.decode().map_err(|error| format!("the schema cannot be read: {error}"))?;
        let param_headers = ParamHeaders::from_schema(&schema).map_err(|invalid| invalid.to_string())?;
        Ok(Self { param_headers, ..Self::default() })
    }
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
