//! Requires that the client has declared an extension.
//!
//! For methods that an extension adds to the protocol: they exist in some revisions, and for clients that know the
//! extension.

use std::collections::HashMap;

use http::Request;

use crate::message::{Message, Meta};
use crate::policy::{Policy, PolicyLayer};
use crate::protocol::{ClientCapabilities, ExtensionId, Revision};
use crate::rejection::Rejection;

/// Lets the methods of an extension pass where they exist, and for clients that have declared it.
///
/// A method in a revision that it is not bound to is 404 -32601; after that, a client that has not declared the
/// extension for this very request is refused with 400 -32021. Other methods pass.
///
/// The revision is the one that [`VersionLayer`](crate::layers::VersionLayer) has left in the request's extensions, or
/// the one that `_meta` says; a request that says none is in none that a method is bound to.
///
/// Specification: `basic/versioning`, "Extension Negotiation".
///
/// ```
/// use http::Request;
/// use mcp_layers::layers::RequireExtensionLayer;
/// use mcp_layers::message::Message;
/// use mcp_layers::policy::Policy;
/// use mcp_layers::protocol::{ExtensionId, Revision};
///
/// let layer = RequireExtensionLayer::new(ExtensionId::new("com.example/receipts")?)
///     .with_method("com.example/receipts/print", [Revision::V2026_07_28]);
/// let request = |capabilities: &str| {
///     let body = format!(
///         r#"{{"jsonrpc":"2.0","id":1,"method":"com.example/receipts/print","params":{{"_meta":{{
///             "io.modelcontextprotocol/protocolVersion":"2026-07-28",
///             "io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#
///     );
///     Request::new(Message::parse(body).unwrap())
/// };
/// let decide = |capabilities| layer.policy().on_request(&mut request(capabilities));
/// assert!(decide(r#"{"extensions":{"com.example/receipts":{}}}"#).is_ok());
/// assert_eq!(decide(r#"{"extensions":{}}"#).unwrap_err().code(), -32021);
/// # Ok::<(), mcp_layers::protocol::InvalidExtensionId>(())
/// ```
pub type RequireExtensionLayer = PolicyLayer<RequireExtension>;

/// The decision of a [`RequireExtensionLayer`].
#[derive(Clone, Debug)]
pub struct RequireExtension {
    needs: ClientCapabilities,
    methods: HashMap<String, Vec<Revision>>,
}

impl RequireExtensionLayer {
    /// Requires `extension` of no method yet.
    #[must_use]
    pub fn new(extension: ExtensionId) -> Self {
        let needs = ClientCapabilities::new().with_extension(extension);
        Self::from_policy(RequireExtension { needs, methods: HashMap::new() })
    }

    /// Adds a method that the extension defines, and the revisions in which it exists. Defaults to none.
    #[must_use]
    pub fn with_method(
        self,
        method: impl Into<String>,
        revisions: impl IntoIterator<Item = Revision>,
    ) -> Self {
        self.map_policy(|mut gate| {
            gate.methods.entry(method.into()).or_default().extend(revisions);
            gate
        })
    }
}

impl Policy for RequireExtension {
    type Memo = ();

    fn on_request(&self, request: &mut Request<Message>) -> Result<(), Rejection> {
        let message = request.body();
        let Some(revisions) = self.methods.get(message.method()) else { return Ok(()) };
        if !Revision::of(request).is_some_and(|revision| revisions.contains(&revision)) {
            return Err(Rejection::method_not_found(message.method()));
        }
        let missing = self.needs.missing_from(message.meta().and_then(Meta::client_capabilities));
        if missing.is_empty() { Ok(()) } else { Err(Rejection::missing_capability(&missing)) }
    }
}
