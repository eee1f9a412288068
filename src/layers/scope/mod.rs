//! Lets a caller do what its scopes allow, and shows it nothing else.
//!
//! # Rules
//! 1. What a request needs is what the endpoint, the method, and the tool, prompt or resource need together. It is decided
//!    on the parsed message alone, never on a header.
//! 2. Who lacks a scope gets one 403 challenge that names all scopes of the operation, in the order of the rules
//!    (`basic/authorization`, "Scope Challenge Handling"); who has no principal, a 401 without `error`. For "any of" the
//!    challenge names the scope that is granted, else the first.
//! 3. A broader scope includes narrower ones if the [implication](ScopeRules::with_implication) says so (ibid.).
//! 4. A tool that does not exist is 400 -32602, never a challenge: the [catalog](ScopeRules::with_catalog) tells. Without
//!    a catalog nobody tells, and a name might be a tool's: it needs what a tool of that name would, so under a
//!    [default](ScopeRules::with_default) who lacks that scope gets a challenge, and who has it the server's -32602. Give a
//!    catalog wherever there is a default.
//! 5. Lists show what the caller may use, by the very predicate of the call. Order and cursors stay. A page with an item
//!    that needs anything, or that the catalog does not know, becomes `private`: others may see another one. A list that cannot be understood is not shown.
//! 6. `subscriptions/listen` is honoured for the resources that the caller may read; the others are taken out of the
//!    request. `completion/complete` needs what its prompt or template needs.
//! 7. Rules on [calls](ScopeRules::with_call_rule) hide nothing from lists.
//! 8. Rules for resources hold for every way to write a URI: what is needed is what the URI needs as it is written, and
//!    what it needs once escapes are decoded, dots resolved, slashes merged and case ignored, without default ports,
//!    `localhost` of a file, dots after hosts, and with and without user, query and fragment, together. Rules that match
//!    add up. A spelling can make a request need more, never less. Where there are rules for resources or a default, a
//!    URI that readers take for different ones is unknown: with control characters, with spaces at its ends, with `..`
//!    besides other escapes, `//`, `\`, `?` or `#`, or with a host that they fold, such as `0x7f.1`.
//!
//! # Rejections
//! | what | HTTP | code |
//! |---|---|---|
//! | a scope is missing | 403 | 403 |
//! | a scope is needed and nobody is known | 401 | 401 |
//! | an unknown tool; with [hidden denials](ScopeRules::with_hidden_denials) also what may not be used | 400 | -32602 |
//! | what the request is about is not a string | 400 | -32602 |
//! | a URI that readers take for different ones | 400 | -32602 |
//!
//! # Order
//! Below [`HeadersLayer`](crate::layers::HeadersLayer), above the cache, which keeps what everybody sees. Reads the
//! [`Principal`] in the extensions and the message; rewrites `subscriptions/listen` and the four lists. Where denials are
//! hidden, give layers above it [`ScopeLayer::visible_tools`] as their catalog.
//!
//! # Example
//! ```
//! use http::{Request, StatusCode};
//! use mcp_layers::dispatch::{Dispatch, Tool};
//! use mcp_layers::layers::scope::{ScopeLayer, ScopeRules};
//! use mcp_layers::message::Message;
//! use mcp_layers::principal::Principal;
//! use serde_json::json;
//! use tower::{Layer, ServiceExt as _};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tool = |name| Tool::raw(name, json!({"type": "object"}), |_, _| async { Ok("done") });
//! let server = Dispatch::builder("files", "1.0.0")
//!     .tool(tool("read"))
//!     .tool(tool("write").with_scopes("files:write"))
//!     .build()?;
//! let rules = ScopeRules::new().with_endpoint("mcp").with_catalog(server.clone());
//! let service = ScopeLayer::new(rules)?.layer(server);
//!
//! let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write"}}"#;
//! let mut request = Request::new(Message::parse(call)?);
//! request.extensions_mut().insert(Principal::new("https://issuer.example", "ada").with_scopes(["mcp"]));
//! let response = service.oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::FORBIDDEN);
//! assert_eq!(
//!     response.headers()["www-authenticate"],
//!     "Bearer error=\"insufficient_scope\", \
//!      error_description=\"this operation needs the scopes mcp files:write\", scope=\"mcp files:write\"",
//! );
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "cache")]
mod beforehand;
mod list;
mod rules;
mod uri;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::{Extensions, Request, Response};

#[cfg(feature = "cache")]
pub(in crate::layers) use self::beforehand::Beforehand;
pub use self::rules::ScopeRules;

use self::list::{List, Page};
use self::rules::Target;
use super::recalled::Recalled;
use crate::catalog::{ToolCatalog, ToolFacts};
use crate::message::{Kind, Message, Raw, Reply, array_of};
use crate::policy::{Policy, PolicyLayer};
use crate::principal::Principal;
use crate::protocol::{Challenge, InvalidScope, Scopes, method};
use crate::rejection::Rejection;

/// Lets a caller do what its scopes allow; see the [module](self).
pub type ScopeLayer = PolicyLayer<ScopeGate>;

/// The decision of a [`ScopeLayer`].
#[derive(Clone)]
pub struct ScopeGate {
    rules: Arc<ScopeRules>,
    pages: Arc<Recalled<Option<Page>>>,
}

impl fmt::Debug for ScopeGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopeGate").field(&self.rules).finish()
    }
}

impl ScopeLayer {
    /// Applies `rules`.
    ///
    /// # Errors
    /// If a rule needs something that cannot be a scope.
    pub fn new(rules: ScopeRules) -> Result<Self, InvalidScope> {
        rules.check()?;
        Ok(Self::from_policy(ScopeGate { rules: Arc::new(rules), pages: Arc::default() }))
    }

    /// The tools of the catalog that a caller may know of, for layers above this one: without it their refusals tell that
    /// a hidden tool exists.
    #[must_use]
    pub fn visible_tools(&self) -> VisibleTools {
        VisibleTools(Arc::clone(&self.policy().rules))
    }
}

/// The tools of a catalog that a caller may know of; see [`ScopeLayer::visible_tools`].
#[derive(Clone)]
pub struct VisibleTools(Arc<ScopeRules>);

impl ToolCatalog for VisibleTools {
    fn tool(&self, name: &str, extensions: &Extensions) -> Option<Arc<ToolFacts>> {
        let target = Target::Tool(name.into());
        let facts = self.0.facts(&target, extensions)?;
        let (allowed, _) = self.0.allows(&target, Some(&facts), extensions.get());
        (allowed || !self.0.hide).then_some(facts)
    }

    fn is_exhaustive(&self) -> bool {
        self.0.knows_all_tools()
    }
}

impl fmt::Debug for VisibleTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VisibleTools").field(&self.0).finish()
    }
}

/// What the reply half remembers: which list it is, and who asked.
#[derive(Debug)]
pub struct Asked {
    list: List,
    extensions: Extensions,
}

impl Policy for ScopeGate {
    type Memo = Option<Asked>;

    fn on_request(&self, request: &mut Request<Message>) -> Result<Option<Asked>, Rejection> {
        self.decide(request.body(), request.extensions())?;
        let method = request.body().method();
        if method == method::SUBSCRIPTIONS_LISTEN && self.rules.rules_resources() {
            self.restrict_subscriptions(request)?;
        }
        let list = List::of(request.body().method());
        Ok(list.map(|list| Asked { list, extensions: request.extensions().clone() }))
    }

    fn on_reply(&self, asked: Option<Asked>, reply: &mut Response<Reply>) {
        if let Some(Asked { list, extensions }) = asked {
            let (rules, pages) = (Arc::clone(&self.rules), Arc::clone(&self.pages));
            reply.body_mut().edit_answer(move |answer| list.filter(&rules, &pages, &extensions, answer));
        }
    }
}

impl ScopeGate {
    #[cfg(feature = "cache")]
    fn with_rules(&self, change: impl FnOnce(&mut ScopeRules)) -> Self {
        let mut rules = ScopeRules::clone(&self.rules);
        change(&mut rules);
        Self { rules: Arc::new(rules), pages: Arc::default() }
    }

    fn decide(&self, message: &Message, extensions: &Extensions) -> Result<(), Rejection> {
        let rules = &*self.rules;
        let principal = extensions.get::<Principal>();
        let granted = |scope: &str| rules.grants(principal, scope);
        let target = target(message)?;
        let mut facts = None;
        if let Some(target) = &target {
            facts = rules.facts(target, extensions);
            let hidden = || rules.hide && !rules.allows(target, facts.as_deref(), principal).0;
            if rules.is_unknown(target, facts.as_deref()) || rules.cannot_tell(target) || hidden() {
                return Err(target.unknown());
            }
        }
        let mut for_call = Vec::new();
        if matches!(target, Some(Target::Tool(_))) {
            for rule in &rules.calls {
                let scopes = rule(message);
                if let Err(error) = scopes.check() {
                    tracing::error!(%error, "a rule of `ScopeRules::with_call_rule` asks for what is no scope");
                    return Err(Rejection::internal("internal error"));
                }
                for_call.push(scopes);
            }
        }
        let mut met = true;
        // Walked through twice where something is missing: what passes collects nothing.
        self.each(message, target.as_ref(), facts.as_deref(), &for_call, &mut |scopes| {
            met = met && scopes.met_by(granted);
        });
        if met {
            return Ok(());
        }
        let mut needed = Vec::new();
        self.each(message, target.as_ref(), facts.as_deref(), &for_call, &mut |scopes| {
            scopes.list_into(granted, &mut needed);
        });
        Err(self.challenge(&needed, principal.is_some()))
    }

    /// Has `see` look at everything that the request needs.
    fn each<'a>(
        &'a self,
        message: &Message,
        target: Option<&Target<'_>>,
        facts: Option<&'a ToolFacts>,
        for_call: &'a [Scopes],
        see: &mut dyn FnMut(&'a Scopes),
    ) {
        see(&self.rules.endpoint);
        self.rules.methods.get(message.method()).into_iter().for_each(&mut *see);
        if let Some(target) = target {
            self.rules.each(target, facts, see);
        }
        for_call.iter().for_each(see);
    }

    fn challenge(&self, needed: &[&str], is_known: bool) -> Rejection {
        let mut challenge = Challenge::new().with_scope(needed);
        if let Some(url) = &self.rules.resource_metadata {
            challenge = challenge.with_resource_metadata(url.clone());
        }
        let text = format!("this operation needs the scopes {}", needed.join(" "));
        if is_known {
            let challenge = challenge.with_error("insufficient_scope").with_description(text.clone());
            Rejection::insufficient_scope(text, &challenge)
        } else {
            Rejection::unauthorized(text, &challenge)
        }
    }

    /// Takes the resources out of the request that the caller may not read.
    fn restrict_subscriptions(&self, request: &mut Request<Message>) -> Result<(), Rejection> {
        const SHAPE: &str = "`params.notifications.resourceSubscriptions` must be an array of strings";
        let principal = request.extensions().get::<Principal>();
        let invalid = |error: &dyn fmt::Display| {
            Rejection::invalid_params(format!("in `params.notifications`, {error}"))
        };
        let mut notifications =
            match request.body().params().and_then(|params| params.object("notifications")) {
                None => return Ok(()),
                Some(notifications) => notifications.map_err(|error| invalid(&error))?,
            };
        let Some(uris) = notifications.get("resourceSubscriptions") else { return Ok(()) };
        if uris.kind() != Kind::Array {
            return Err(Rejection::invalid_params(SHAPE));
        }
        let (mut kept, mut dropped) = (Vec::new(), false);
        for uri in uris.elements() {
            let text = uri.to_str().ok_or_else(|| Rejection::invalid_params(SHAPE))?;
            if !self.rules.allows(&Target::Resource(text), None, principal).0 {
                dropped = true;
                continue;
            }
            kept.push(uri.text());
        }
        if dropped {
            notifications.set_text("resourceSubscriptions", array_of(kept));
            let edited =
                request.body_mut().edit_params(|params| params.set_object("notifications", &notifications));
            edited.map_err(|error| invalid(&error))?;
        }
        Ok(())
    }
}

/// What a request is about. What should be there and cannot be read is refused: somebody below might read it.
fn target(message: &Message) -> Result<Option<Target<'_>>, Rejection> {
    let text = |place: &str, value: Option<Raw<'_>>| -> Result<Cow<'_, str>, Rejection> {
        match value.and_then(Raw::to_str) {
            Some(text) => Ok(Cow::Owned(text.into_owned())),
            None => Err(Rejection::invalid_params(format!("`params.{place}` must be a string"))),
        }
    };
    let param = |name: &str| match message.param(name).and_then(Raw::to_str) {
        Some(text) => Ok(text),
        None => Err(Rejection::invalid_params(format!("`params.{name}` must be a string"))),
    };
    Ok(Some(match message.method() {
        method::TOOLS_CALL => Target::Tool(param("name")?),
        method::PROMPTS_GET => Target::Prompt(param("name")?),
        // Two methods of earlier revisions are about a resource too.
        method::RESOURCES_READ | "resources/subscribe" | "resources/unsubscribe" => {
            Target::Resource(param("uri")?)
        }
        method::COMPLETION_COMPLETE => {
            let reference = match message.params().and_then(|params| params.object("ref")) {
                Some(Ok(reference)) => reference,
                Some(Err(error)) => {
                    return Err(Rejection::invalid_params(format!("in `params.ref`, {error}")));
                }
                None => return Err(Rejection::invalid_params("`params.ref` must be an object")),
            };
            match text("ref.type", reference.get("type"))?.as_ref() {
                "ref/prompt" => Target::Prompt(text("ref.name", reference.get("name"))?),
                "ref/resource" => Target::Template(text("ref.uri", reference.get("uri"))?),
                // There is nothing to be completed.
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    }))
}
