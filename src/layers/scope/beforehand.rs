//! Refuses calls before it is known what their tools are.

use http::Request;

use super::{ScopeGate, ScopeLayer};
use crate::message::Message;
use crate::principal::Principal;
use crate::protocol::Scopes;
use crate::rejection::Rejection;

/// What a [`ScopeLayer`] refuses whatever its catalog says of the tool.
#[derive(Clone, Debug)]
pub(in crate::layers) struct Beforehand {
    rules: ScopeGate,
    /// The rules without their default, if scopes that the catalog tells of may take its place.
    certain: Option<ScopeGate>,
}

impl Beforehand {
    /// `tells_scopes` is whether the catalog may say which scopes a tool needs.
    pub(in crate::layers) fn new(scopes: &ScopeLayer, tells_scopes: bool) -> Self {
        let rules = scopes.policy().with_rules(|rules| rules.catalog = None);
        let certain = tells_scopes.then(|| rules.with_rules(|rules| rules.default = Scopes::none()));
        Self { rules, certain }
    }

    pub(in crate::layers) fn decide(&self, call: &Request<Message>) -> Result<(), Rejection> {
        let (message, extensions) = (call.body(), call.extensions());
        let has_scopes = extensions.get::<Principal>().is_some_and(|caller| !caller.scopes().is_empty());
        // Whoever has no scope lacks the default as well as anything that takes its place.
        let gate = self.certain.as_ref().filter(|_| has_scopes).unwrap_or(&self.rules);
        gate.decide(message, extensions)
    }
}
