//! Checks what clients declare that they can do against what is asked of them.
//!
//! # Rules
//! On the way in:
//! 1. A method whose capability the server does not offer is not found (`basic/index`, "Error Codes"). Checked where
//!    [`with_offered`](CapabilityLayer::with_offered) says what is offered; the dispatcher knows it by itself.
//! 2. A request that needs capabilities which the client has not declared for this very request is refused with all of
//!    them, and with nothing that it has declared (`basic/index`, "Per-request protocol fields"). What is needed is
//!    declared with a tool and found in the catalog, or is in the tables of the layer; both add up.
//!
//! On the way out, for a result that requires input, alone or at the end of a stream (`basic/patterns/mrtr`, "Server
//! Requirements"):
//!
//! 3. It answers `tools/call`, `prompts/get` or `resources/read`.
//! 4. It has `inputRequests` that ask for something, or a `requestState`, or both.
//! 5. Each request in it is `elicitation/create`, `sampling/createMessage` or `roots/list`, and has what the schema
//!    requires: `params`, if there are any, are an object. Of an elicitation they have a `message`, and a
//!    `requestedSchema` if `mode` is `form` or absent, or a `url` if it is `url`; there is no other mode. Of sampling
//!    they have `messages` and `maxTokens`. What is in arrays and schemas is left to the client.
//! 6. The client has declared what each of them needs:
//!
//! | asks for | needs | satisfied by |
//! |---|---|---|
//! | `elicitation/create` with `mode: "url"` | `elicitation.url` | the same |
//! | `elicitation/create` with `mode: "form"` or none | `elicitation.form` | the same, or an `elicitation` with neither `form` nor `url` |
//! | `sampling/createMessage` with `tools` or `toolChoice`, even `null` | `sampling.tools` | the same |
//! | `sampling/createMessage` with another server's context, [if strict](CapabilityLayer::with_strict_context) | `sampling.context` | the same |
//! | `sampling/createMessage` otherwise | `sampling` | the same |
//! | `roots/list` | `roots` | the same |
//!
//! 7. [On request](CapabilityLayer::with_undeclared_left_out), what the client has not declared is left out, as long as
//!    something is left to ask for.
//!
//! # Rejections
//! | what | HTTP | code | data |
//! |---|---|---|---|
//! | rule 1 | 404 | -32601 | |
//! | rules 2 and 6 | 400 | -32021 | `requiredCapabilities` |
//! | rules 3, 4 and 5: the server's mistake, told before rule 6 | 200 | -32603 | |
//!
//! At the end of a stream the status remains what it was. What leaves the server wrongly is logged in full.
//!
//! # Order
//! Below [`VersionLayer`](crate::layers::VersionLayer), which checks the shape of the capabilities, and the check of the
//! routing headers; above what may answer. Reads the message's method, target and `_meta`; writes nothing.
//!
//! # Example
//! ```
//! use http::{Request, StatusCode};
//! use mcp_layers::dispatch::{Dispatch, Tool};
//! use mcp_layers::layers::CapabilityLayer;
//! use mcp_layers::message::Message;
//! use mcp_layers::protocol::ClientCapabilities;
//! use serde_json::json;
//! use tower::{Layer, Service};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let summarize = Tool::raw("summarize", json!({"type": "object"}), |_, _| async { Ok("In short: …") })
//!     .with_required_capabilities(ClientCapabilities::new().with_sampling());
//! let server = Dispatch::builder("writer", "1.0.0").tool(summarize).build()?;
//! let mut service = CapabilityLayer::new().with_catalog(server.clone()).layer(server);
//!
//! let mut call = async |capabilities: &str| {
//!     let body = format!(
//!         r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"summarize","_meta":{{
//!             "io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#
//!     );
//!     service.call(Request::new(Message::parse(body).unwrap())).await.unwrap()
//! };
//! assert_eq!(call(r#"{"sampling":{}}"#).await.status(), StatusCode::OK);
//!
//! let refused = call("{}").await;
//! assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
//! let error = refused.body().answer().and_then(|answer| answer.outcome().err()).expect("an error");
//! assert_eq!(error.data().map(|data| data.text()), Some(r#"{"requiredCapabilities":{"sampling":{}}}"#));
//! # Ok(())
//! # }
//! ```

mod emission;
mod extension;

use std::collections::{BTreeSet, HashMap};

use http::{Request, Response};

pub use self::extension::{RequireExtension, RequireExtensionLayer};

use self::emission::Emission;
use super::outbound::{judge_answer, requires_input};
use crate::catalog::{NoCatalog, ToolCatalog};
use crate::message::{Message, Meta, Reply};
use crate::policy::{Policy, PolicyLayer};
use crate::protocol::method::TOOLS_CALL;
use crate::protocol::{ClientCapabilities, required_server_capability};
use crate::rejection::Rejection;

/// Checks the capabilities of clients in both directions; see the [module](self).
pub type CapabilityLayer<C = NoCatalog> = PolicyLayer<CapabilityCheck<C>>;

/// The decision of a [`CapabilityLayer`].
#[derive(Clone, Debug)]
pub struct CapabilityCheck<C> {
    catalog: C,
    tables: Tables,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    methods: HashMap<String, ClientCapabilities>,
    tools: HashMap<String, ClientCapabilities>,
    offered: Option<BTreeSet<String>>,
    emission: Emission,
}

impl CapabilityLayer {
    /// Checks what leaves, and on the way in nothing until it is told what is needed.
    #[must_use]
    pub fn new() -> Self {
        Self::from_policy(CapabilityCheck { catalog: NoCatalog, tables: Tables::default() })
    }

    /// Where to find what tools need. Defaults to a catalog that knows no tool.
    #[must_use]
    pub fn with_catalog<C: ToolCatalog>(self, catalog: C) -> CapabilityLayer<C> {
        PolicyLayer::from_policy(CapabilityCheck { catalog, tables: self.policy().tables.clone() })
    }
}

impl<C: Clone> CapabilityLayer<C> {
    fn change(self, change: impl FnOnce(&mut Tables)) -> Self {
        self.map_policy(|mut check| {
            change(&mut check.tables);
            check
        })
    }

    /// What every request of `method` needs. Defaults to nothing; given again for the same method, it adds up.
    #[must_use]
    pub fn with_method(self, method: impl Into<String>, needs: &ClientCapabilities) -> Self {
        self.change(|tables| {
            let entry = tables.methods.entry(method.into()).or_default();
            *entry = std::mem::take(entry).and(needs);
        })
    }

    /// What every call of `tool` needs, for a server whose catalog does not say it. Defaults to nothing; given again
    /// for the same tool, it adds up.
    #[must_use]
    pub fn with_tool(self, tool: impl Into<String>, needs: &ClientCapabilities) -> Self {
        self.change(|tables| {
            let entry = tables.tools.entry(tool.into()).or_default();
            *entry = std::mem::take(entry).and(needs);
        })
    }

    /// The capabilities that the server offers, such as `tools`: methods of any other are not found. Methods that
    /// belong to no capability pass. Defaults to leaving that to the server.
    ///
    /// For a server that answers such methods with something else than 404 -32601.
    #[must_use]
    pub fn with_offered<S: Into<String>>(self, capabilities: impl IntoIterator<Item = S>) -> Self {
        let offered = Some(capabilities.into_iter().map(Into::into).collect());
        self.change(|tables| tables.offered = offered)
    }

    /// Whether asking the client's model with the context of this server or of all servers needs `sampling.context`.
    /// Defaults to false: the specification says that a server should not ask for it, and not that it must not.
    #[must_use]
    pub fn with_strict_context(self, strict: bool) -> Self {
        self.change(|tables| tables.emission.strict_context = strict)
    }

    /// Whether to leave out what the client has not declared, where the server asks for something else as well. If
    /// nothing would be left, the result is refused as without.
    ///
    /// For a server that somebody else wrote and that asks every client for everything: the client answers what it can,
    /// and the server is asked again with that. Defaults to false, which is right for a server of your own: it is told
    /// of its mistake.
    #[must_use]
    pub fn with_undeclared_left_out(self, leave_out: bool) -> Self {
        self.change(|tables| tables.emission.leave_out = leave_out)
    }
}

impl Default for CapabilityLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// What the reply half of a [`CapabilityLayer`] remembers: the request, whose capabilities count.
#[derive(Clone, Debug)]
pub struct Asked(Message);

impl<C: ToolCatalog> Policy for CapabilityCheck<C> {
    type Memo = Asked;

    fn on_request(&self, request: &mut Request<Message>) -> Result<Asked, Rejection> {
        let message = request.body();
        if !message.is_notification() {
            self.tables.check_offered(message.method())?;
            self.check_needs(request)?;
        }
        Ok(Asked(message.clone()))
    }

    fn on_reply(&self, Asked(message): Asked, reply: &mut Response<Reply>) {
        let emission = self.tables.emission;
        judge_answer(reply, move |answer| {
            if !requires_input(answer) {
                return Ok(());
            }
            answer.result_mut().map_or(Ok(()), |result| emission::check(&message, result, emission))
        });
    }
}

impl<C: ToolCatalog> CapabilityCheck<C> {
    fn check_needs(&self, request: &Request<Message>) -> Result<(), Rejection> {
        let message = request.body();
        let declared = message.meta().and_then(Meta::client_capabilities);
        let lacks = |needs: &ClientCapabilities| needs.missing_from(declared);
        let mut missing = self.tables.methods.get(message.method()).map(lacks).unwrap_or_default();
        if message.method() == TOOLS_CALL
            && let Some(tool) = message.target()
        {
            if let Some(needs) = self.tables.tools.get(tool) {
                missing = missing.and(&lacks(needs));
            }
            if let Some(facts) = self.catalog.tool(tool, request.extensions()) {
                missing = missing.and(&lacks(&facts.required_capabilities));
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(Rejection::missing_capability(&missing)) }
    }
}

impl Tables {
    fn check_offered(&self, method: &str) -> Result<(), Rejection> {
        let (Some(offered), Some(needed)) = (&self.offered, required_server_capability(method)) else {
            return Ok(());
        };
        if offered.contains(needed) { Ok(()) } else { Err(Rejection::method_not_found(method)) }
    }
}

#[cfg(test)]
mod tests;
