//! What one page of a `tools/list` tells.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytestring::ByteString;

use super::{ScopesOf, Settings};
use crate::catalog::ToolFacts;
use crate::catalog::listed::member;
use crate::clock::Timestamp;
use crate::layers::cache::ttl_of;
use crate::message::{Kind, Raw, RawObject};
use crate::rejection::shorten;

/// A page on which a name was not found is not asked for again before this time has passed, even if it says that it is
/// stale at once: whoever makes up names must not have the upstream list its tools for each of them.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// What a result of `tools/list` says, as it passes.
pub(super) struct Frame<'a> {
    tools: &'a str,
    next: Option<Cow<'a, str>>,
    ttl: Duration,
}

/// Why a result is no page.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotAPage(pub(super) &'static str);

impl<'a> Frame<'a> {
    pub(super) fn of(result: &'a RawObject) -> Result<Self, NotAPage> {
        let kind = result.get("resultType");
        if kind.is_some_and(|kind| kind.to_str().as_deref() != Some("complete")) {
            return Err(NotAPage("it is not complete"));
        }
        let tools = result.get("tools").filter(|tools| tools.kind() == Kind::Array);
        let next = match result.get("nextCursor").filter(|next| !next.is_null()).map(Raw::to_str) {
            None => None,
            Some(None) => return Err(NotAPage("`nextCursor` is not a string")),
            Some(next) => next,
        };
        Ok(Self {
            tools: tools.ok_or(NotAPage("`tools` is not an array"))?.text(),
            next,
            ttl: ttl_of(result.get("ttlMs")),
        })
    }
}

/// One page. Its tools are read when somebody asks for one: a list that only passes costs nothing.
pub(super) struct Page {
    /// A text of its own: the one that it came in may be longer, and would be kept as a whole.
    tools: ByteString,
    /// The cursor of the page after this one; `None` for the last.
    pub(super) next: Option<ByteString>,
    scopes_of: Option<ScopesOf>,
    facts: OnceLock<HashMap<Box<str>, Arc<ToolFacts>>>,
    generation: u64,
    /// Until when a tool that is not on it is not there, in milliseconds since 1970.
    fresh_until: AtomicU64,
    /// Until when a tool that is on it is as it says.
    kept_until: AtomicU64,
}

impl Page {
    /// `generation` is another after each change of the list.
    pub(super) fn new(frame: &Frame<'_>, settings: &Settings, generation: u64) -> Self {
        Self {
            tools: frame.tools.into(),
            next: frame.next.as_deref().map(Into::into),
            scopes_of: settings.scopes_of.clone(),
            facts: OnceLock::new(),
            generation,
            fresh_until: AtomicU64::new(0),
            kept_until: AtomicU64::new(0),
        }
    }

    /// Whether it says what `frame` says.
    pub(super) fn is_same(&self, frame: &Frame<'_>, generation: u64) -> bool {
        self.generation == generation
            && self.next.as_deref() == frame.next.as_deref()
            && self.tools == frame.tools
    }

    /// Goes by it from now on for as long as `frame` says, or `max`.
    pub(super) fn renew(&self, frame: &Frame<'_>, settings: &Settings, now: Timestamp, max: Duration) {
        let ttl = frame.ttl.min(max);
        let kept = if ttl.is_zero() { settings.default_lifetime } else { ttl };
        let fresh = if ttl.is_zero() { PAUSE.min(kept) } else { ttl };
        self.fresh_until.store((now + fresh).as_millis(), Ordering::Relaxed);
        self.kept_until.store((now + kept).as_millis(), Ordering::Relaxed);
    }

    /// What it says of the tool `name`. A tool that clients must not see is as good as none, and so is one that is
    /// listed twice: which of the two counts, two readers would answer differently.
    pub(super) fn tool(&self, name: &str) -> Option<&Arc<ToolFacts>> {
        self.facts.get_or_init(|| read(Raw::valid(&self.tools), self.scopes_of.as_ref())).get(name)
    }

    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now.as_millis() < self.fresh_until.load(Ordering::Relaxed)
    }

    /// Whether it may still be gone by.
    pub(super) fn is_good(&self, now: Timestamp, generation: u64) -> bool {
        self.generation == generation && now.as_millis() < self.kept_until.load(Ordering::Relaxed)
    }

    /// About how many bytes it takes.
    pub(super) fn size(&self) -> usize {
        // What is read out of the text is not more than the text.
        2 * self.tools.len() + self.next.as_ref().map_or(0, |next| next.len()) + 512
    }
}

fn read(tools: Raw<'_>, scopes_of: Option<&ScopesOf>) -> HashMap<Box<str>, Arc<ToolFacts>> {
    let mut found: HashMap<Box<str>, Option<Arc<ToolFacts>>> = HashMap::new();
    for tool in tools.elements() {
        // What has no name cannot be called.
        let Some(name) = member(tool, "name").ok().flatten().and_then(Raw::to_str) else { continue };
        let facts = facts(&name, tool, scopes_of);
        match found.entry(name.as_ref().into()) {
            Entry::Vacant(place) => drop(place.insert(facts)),
            Entry::Occupied(mut place) => {
                tracing::warn!(tool = shorten(&name), "forgot a tool that is listed twice");
                place.insert(None);
            }
        }
    }
    found.into_iter().filter_map(|(name, facts)| Some((name, facts?))).collect()
}

fn facts(name: &str, tool: Raw<'_>, scopes_of: Option<&ScopesOf>) -> Option<Arc<ToolFacts>> {
    let facts = ToolFacts::from_listed(tool).inspect_err(
        |reason| tracing::warn!(tool = shorten(name), %reason, "forgot a tool that is listed wrongly"),
    );
    // One that is given twice is none: which of the two counts, two readers would answer differently.
    let output_schema = member(tool, "outputSchema").ok().flatten().map(|schema| schema.text().into());
    let facts = ToolFacts { output_schema, ..facts.ok()? };
    let Some(scopes_of) = scopes_of else { return Some(Arc::new(facts)) };
    let scopes = scopes_of(tool);
    match scopes.check() {
        Ok(()) => Some(Arc::new(facts.with_scopes(scopes))),
        Err(error) => {
            tracing::warn!(tool = shorten(name), %error, "forgot a tool: `with_scopes` asks for what is no scope");
            None
        }
    }
}
