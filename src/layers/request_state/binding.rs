//! What a sealed state is bound to.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::arguments::{AmbiguousArguments, write_arguments};
use crate::message::Message;
use crate::principal::Principal;

/// What a state is bound to: the method, its target and arguments, and who calls.
///
/// Arguments are the same however their members are ordered and however numbers and strings are spelled: `1`, `1.0` and
/// `1e0` are one number, exactly and at any size, and `"é"` and `"\u00e9"` one string. What changes from round to round
/// (the answers, `_meta`, the id) is not part of it.
///
/// ```
/// use mcp_layers::layers::request_state::Binding;
/// use mcp_layers::message::Message;
///
/// let call = |arguments: &str| {
///     let body = format!(
///         r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"rm","arguments":{arguments}}}}}"#
///     );
///     Binding::new(&Message::parse(body).unwrap(), None)
/// };
/// assert_eq!(call(r#"{"a":1,"b":"é"}"#)?, call(r#"{"b":"\u00e9","a":1.0}"#)?);
/// assert_ne!(call(r#"{"a":1}"#)?, call(r#"{"a":2}"#)?);
/// assert!(call(r#"{"a":1,"a":2}"#).is_err());
/// # Ok::<(), mcp_layers::layers::request_state::AmbiguousArguments>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Binding {
    digest: [u8; 32],
    hints: [u8; 3],
}

impl Binding {
    /// What each of the [hints](Self::hints) is about.
    pub(super) const PARTS: [&str; 3] = ["method or target", "arguments", "principal"];

    /// Binds to `request`, sent by `principal` or by nobody who is known.
    ///
    /// # Errors
    /// If an object in the arguments names a member twice: two readers would take two different values from it.
    pub fn new(request: &Message, principal: Option<&Principal>) -> Result<Self, AmbiguousArguments> {
        // Room for what has a fixed length, a name, and the arguments, which mostly are one object.
        let mut text = Vec::with_capacity(192);
        let target = request.target();
        for part in [Some(request.method()), target] {
            // Each part is preceded by its length, and an absent one is a length that no part has.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            text.extend_from_slice(&length.to_be_bytes());
            text.extend_from_slice(part.unwrap_or_default().as_bytes());
        }
        let principal_at = text.len();
        text.push(u8::from(principal.is_some()));
        if let Some(principal) = principal {
            text.extend_from_slice(principal.partition().as_bytes());
        }
        let arguments_at = text.len();
        write_arguments(request.arguments(), &mut text)?;
        let hint = |part: &[u8]| part.iter().fold(0_u8, |sum, byte| sum.rotate_left(3) ^ byte);
        let (request, rest) = text.split_at(principal_at);
        let (principal, arguments) = rest.split_at(arguments_at - principal_at);
        Ok(Self {
            digest: Sha256::digest(&text).into(),
            hints: [hint(request), hint(arguments), hint(principal)],
        })
    }

    /// The digest of everything that it binds to.
    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// One byte of each part: enough to say in a log which of them differs, and too little to learn anything from.
    pub(super) fn hints(&self) -> [u8; 3] {
        self.hints
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Binding(..)")
    }
}
