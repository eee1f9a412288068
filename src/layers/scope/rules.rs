//! What needs which scopes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use http::Extensions;

use super::uri::{has_blanks, is_ambiguous, loosened, readings};
use crate::catalog::{ToolCatalog, ToolFacts};
use crate::message::Message;
use crate::principal::Principal;
use crate::protocol::{InvalidScope, Scopes};
use crate::rejection::Rejection;

type Implication = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;
type CallRule = Arc<dyn Fn(&Message) -> Scopes + Send + Sync>;

/// Which scopes are needed for what; see the [module](super).
#[derive(Clone, Default)]
#[must_use]
pub struct ScopeRules {
    pub(super) endpoint: Scopes,
    pub(super) methods: HashMap<Box<str>, Scopes>,
    tools: HashMap<Box<str>, Scopes>,
    prompts: HashMap<Box<str>, Scopes>,
    resources: Vec<ResourceRule>,
    pub(super) default: Scopes,
    pub(super) catalog: Option<Arc<dyn ToolCatalog>>,
    implied: Option<Implication>,
    pub(super) calls: Vec<CallRule>,
    pub(super) hide: bool,
    pub(super) resource_metadata: Option<String>,
}

#[derive(Clone)]
struct ResourceRule {
    text: Box<str>,
    loose: Box<str>,
    is_prefix: bool,
    scopes: Scopes,
}

/// What a request is about, or an item of a list is.
#[derive(Debug)]
pub(super) enum Target<'a> {
    Tool(Cow<'a, str>),
    Prompt(Cow<'a, str>),
    Resource(Cow<'a, str>),
    Template(Cow<'a, str>),
}

impl Target<'_> {
    /// The answer of a server that does not have it.
    pub(super) fn unknown(&self) -> Rejection {
        match self {
            Self::Tool(name) => Rejection::unknown_tool(name),
            Self::Prompt(name) => Rejection::unknown_prompt(name),
            Self::Resource(uri) => Rejection::unknown_resource(uri),
            Self::Template(template) => Rejection::unknown_template(template),
        }
    }
}

impl ScopeRules {
    /// No rules: everything may be done by everybody.
    pub fn new() -> Self {
        Self::default()
    }

    /// What every request needs. Defaults to nothing.
    pub fn with_endpoint(mut self, scopes: impl Into<Scopes>) -> Self {
        self.endpoint = scopes.into();
        self
    }

    /// What requests of the method `method` need, besides what the tool, prompt or resource needs that they are about.
    pub fn with_method(mut self, method: impl Into<Box<str>>, scopes: impl Into<Scopes>) -> Self {
        self.methods.insert(method.into(), scopes.into());
        self
    }

    /// What the tool `name` needs, besides what was declared when it was registered. [`Scopes::none`] exempts it from the
    /// default.
    pub fn with_tool(mut self, name: impl Into<Box<str>>, scopes: impl Into<Scopes>) -> Self {
        self.tools.insert(name.into(), scopes.into());
        self
    }

    /// What the prompt `name` needs. [`Scopes::none`] exempts it from the default.
    pub fn with_prompt(mut self, name: impl Into<Box<str>>, scopes: impl Into<Scopes>) -> Self {
        self.prompts.insert(name.into(), scopes.into());
        self
    }

    /// What the resource `uri`, or the template of that text, needs. All rules that match count.
    pub fn with_resource(self, uri: impl Into<Box<str>>, scopes: impl Into<Scopes>) -> Self {
        self.resource_rule(uri.into(), false, scopes.into())
    }

    /// What resources need whose URIs begin with `prefix`, and templates whose text does before the first expression.
    /// All rules that match count.
    ///
    /// It is the beginning of a text: `file:///a` matches `file:///ab`, and `file:///a/` does not.
    pub fn with_resource_prefix(self, prefix: impl Into<Box<str>>, scopes: impl Into<Scopes>) -> Self {
        self.resource_rule(prefix.into(), true, scopes.into())
    }

    fn resource_rule(mut self, text: Box<str>, is_prefix: bool, scopes: Scopes) -> Self {
        let loose = loosened(&text, is_prefix).into();
        self.resources.push(ResourceRule { text, loose, is_prefix, scopes });
        self
    }

    /// What tools, prompts and resources need that no rule is about. Defaults to nothing.
    ///
    /// Without a [catalog](Self::with_catalog) it is asked for tools that do not exist as well: what is not known is
    /// refused rather than let pass.
    pub fn with_default(mut self, scopes: impl Into<Scopes>) -> Self {
        self.default = scopes.into();
        self
    }

    /// Where it is known which tools there are, and what was declared when they were registered: mostly the
    /// [`Dispatch`](crate::dispatch::Dispatch) below. A tool that it does not know does not exist, and is answered so
    /// here, unless it is not [exhaustive](ToolCatalog::is_exhaustive). Defaults to none: then every name is taken for a
    /// tool, and needs the [default](Self::with_default) if it has no rule.
    pub fn with_catalog(mut self, catalog: impl ToolCatalog) -> Self {
        self.catalog = Some(Arc::new(catalog));
        self
    }

    /// Says when a scope includes others: `implies(granted, needed)`. It need not say that a scope includes itself.
    /// It must always say the same of the same two: what a list shows is remembered. Defaults to never.
    pub fn with_implication(mut self, implies: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.implied = Some(Arc::new(implies));
        self
    }

    /// What a call of a tool needs besides, as its message shows, for instance by its arguments. It is asked for calls
    /// alone: what a list shows does not depend on it.
    pub fn with_call_rule(mut self, rule: impl Fn(&Message) -> Scopes + Send + Sync + 'static) -> Self {
        self.calls.push(Arc::new(rule));
        self
    }

    /// Answers as if what a caller may not use did not exist, instead of telling which scopes it needs. The words are those
    /// of [`Dispatch`](crate::dispatch::Dispatch), and a [catalog](Self::with_catalog) is needed for tools, so that those
    /// that do not exist are answered here as well. Defaults to false.
    pub fn with_hidden_denials(mut self, hide: bool) -> Self {
        self.hide = hide;
        self
    }

    /// Where the metadata of the resource is, for challenges. Defaults to nothing:
    /// [`AuthLayer`](crate::layers::AuthLayer) puts its own into every challenge that passes it.
    pub fn with_resource_metadata(mut self, url: impl Into<String>) -> Self {
        self.resource_metadata = Some(url.into());
        self
    }

    pub(super) fn check(&self) -> Result<(), InvalidScope> {
        let named = [&self.methods, &self.tools, &self.prompts].into_iter().flat_map(HashMap::values);
        let resources = self.resources.iter().map(|rule| &rule.scopes);
        named.chain(resources).chain([&self.endpoint, &self.default]).try_for_each(Scopes::check)
    }

    /// Whether `principal` has been granted `scope`, or one that includes it.
    pub(super) fn grants(&self, principal: Option<&Principal>, scope: &str) -> bool {
        let Some(principal) = principal else { return false };
        principal.has_scope(scope)
            || self
                .implied
                .as_ref()
                .is_some_and(|implies| principal.scopes().iter().any(|granted| implies(granted, scope)))
    }

    /// Has `see` look at everything that `target` needs. Calls and lists both ask here.
    pub(super) fn each<'a>(
        &'a self,
        target: &Target<'_>,
        facts: Option<&'a ToolFacts>,
        see: &mut dyn FnMut(&'a Scopes),
    ) {
        let mut or_default = |rule: Option<&'a Scopes>, declared: Option<&'a Scopes>| {
            let declared = declared.filter(|scopes| !scopes.is_empty());
            if rule.is_none() && declared.is_none() {
                see(&self.default);
            }
            rule.into_iter().chain(declared).for_each(&mut *see);
        };
        match target {
            Target::Tool(name) => or_default(self.tools.get(&**name), facts.map(|facts| &facts.scopes)),
            Target::Prompt(name) => or_default(self.prompts.get(&**name), None),
            Target::Resource(uri) => {
                if self.rules_resources() {
                    self.each_reading(uri, uri, see);
                }
            }
            Target::Template(template) => {
                let literal = template.split('{').next().unwrap_or_default();
                self.each_reading(template, literal, see);
            }
        }
    }

    fn each_reading<'a>(&'a self, whole: &str, literal: &str, see: &mut dyn FnMut(&'a Scopes)) {
        for (at, reading) in readings(literal).iter().enumerate() {
            let is_written = at == 0;
            let mut found = false;
            for rule in &self.resources {
                let is_about = |text: &str| match rule.is_prefix {
                    true => reading.text.starts_with(text),
                    false if literal.len() < whole.len() => whole == &*rule.text,
                    false => reading.text == text,
                };
                let (by_text, by_sense) = (is_written && is_about(&rule.text), is_about(&rule.loose));
                if by_text || by_sense {
                    see(&rule.scopes);
                }
                // A rule that is spelled otherwise adds to the default and does not take its place: to a server that
                // tells the spellings apart it is about something else.
                found |= by_text || by_sense && !is_written;
            }
            if !found && reading.by_default {
                see(&self.default);
            }
        }
    }

    /// Whether it cannot be told what `target` needs, because servers read its URI in different ways.
    pub(super) fn cannot_tell(&self, target: &Target<'_>) -> bool {
        match target {
            Target::Resource(uri) => self.rules_resources() && is_ambiguous(uri),
            // It is compared, not taken apart.
            Target::Template(template) => self.rules_resources() && has_blanks(template),
            Target::Tool(_) | Target::Prompt(_) => false,
        }
    }

    /// Whether anything can be asked for a resource at all.
    pub(super) fn rules_resources(&self) -> bool {
        !self.resources.is_empty() || !self.default.is_empty()
    }

    /// Whether `principal` may use `target`, and whether that is a question at all.
    pub(super) fn allows(
        &self,
        target: &Target<'_>,
        facts: Option<&ToolFacts>,
        principal: Option<&Principal>,
    ) -> (bool, bool) {
        if self.cannot_tell(target) {
            return (false, true);
        }
        let (mut allowed, mut asked) = (true, false);
        self.each(target, facts, &mut |scopes| {
            asked |= !scopes.is_empty();
            allowed = allowed && scopes.met_by(|scope| self.grants(principal, scope));
        });
        (allowed, asked)
    }

    /// Whether there is no such thing for this caller, as far as the catalog can tell.
    pub(super) fn is_unknown(&self, target: &Target<'_>, facts: Option<&ToolFacts>) -> bool {
        matches!(target, Target::Tool(_)) && facts.is_none() && self.knows_all_tools()
    }

    pub(super) fn knows_all_tools(&self) -> bool {
        self.catalog.as_ref().is_some_and(ToolCatalog::is_exhaustive)
    }

    /// Which state everything is in that lists depend on, besides the scopes of the caller; `None` if that is not known.
    pub(super) fn generation(&self) -> Option<u64> {
        self.catalog.as_ref().map_or(Some(0), ToolCatalog::generation)
    }

    /// What is known of a tool.
    pub(super) fn facts(&self, target: &Target<'_>, extensions: &Extensions) -> Option<Arc<ToolFacts>> {
        match (target, &self.catalog) {
            (Target::Tool(name), Some(catalog)) => catalog.tool(name, extensions),
            _ => None,
        }
    }
}

impl fmt::Debug for ScopeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeRules")
            .field("endpoint", &self.endpoint)
            .field("tools", &self.tools)
            .field("prompts", &self.prompts)
            .field("default", &self.default)
            .field("hide", &self.hide)
            .finish_non_exhaustive()
    }
}
