//! `Mcp-Param-*` against the arguments of a call.

use std::fmt;

use http::HeaderMap;

use super::super::mirrored::line;
use crate::message::Raw;
use crate::protocol::mirror::{ParamHeader, ParamHeaders, matches};
use crate::rejection::{Rejection, shorten};

/// Checks the headers of all arguments that the tool mirrors; the first that is wrong is told.
pub(super) fn check(
    headers: &HeaderMap,
    tool: &str,
    arguments: Option<Raw<'_>>,
    declared: &ParamHeaders,
) -> Result<(), Rejection> {
    for param in declared.as_slice() {
        let field = line(headers, param.header(), &Shown(param))?;
        let Ok(value) = param.value_in(arguments) else {
            return Err(refuse(
                param,
                tool,
                &"a member on the way to it is named twice, so that it has no one value",
            ));
        };
        matches(param.kind(), value.map(Raw::text), field)
            .map_err(|mismatch| refuse(param, tool, &mismatch))?;
    }
    Ok(())
}

fn refuse(param: &ParamHeader, tool: &str, reason: &dyn fmt::Display) -> Rejection {
    let path = param.path().collect::<Vec<_>>().join(".");
    Rejection::header_mismatch(format!(
        "the header `{}` does not say what the argument `{}` of the tool `{}` says: {reason}",
        Shown(param),
        shorten(&path),
        shorten(tool)
    ))
}

/// The header's name as the specification spells it.
struct Shown<'a>(&'a ParamHeader);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mcp-Param-{}", shorten(self.0.name()))
    }
}
