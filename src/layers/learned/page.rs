//! What one page of a `tools/list` tells.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
const PAUSE: Duration = Duration::from_secs(1);

/// One page. Its tools are read when somebody asks for one: a list that only passes costs nothing.
pub(super) struct Page {
    tools: ByteString,
    /// The cursor of the page after this one; `None` for the last.
    pub(super) next: Option<ByteString>,
    scopes_of: Option<ScopesOf>,
    facts: OnceLock<HashMap<Box<str>, Arc<ToolFacts>>>,
    received: Timestamp,
    /// Until when a tool that is not on it is not there.
    fresh_until: Timestamp,
    /// Until when a tool that is on it is as it says.
    kept_until: Timestamp,
    generation: u64,
}

/// Why a result is no page.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotAPage(pub(super) &'static str);

impl Page {
    /// Reads the frame of a result. `lifetime` bounds the `ttlMs` that it says.
    pub(super) fn new(
        result: &RawObject,
        settings: &Settings,
        now: Timestamp,
        lifetime: impl FnOnce(Duration) -> Duration,
        generation: u64,
    ) -> Result<Self, NotAPage> {
        let kind = result.get("resultType");
        if kind.is_some_and(|kind| kind.to_str().as_deref() != Some("complete")) {
            return Err(NotAPage("it is not complete"));
        }
        if result.get("tools").is_none_or(|tools| tools.kind() != Kind::Array) {
            return Err(NotAPage("`tools` is not an array"));
        }
        let next = match result.get("nextCursor").filter(|next| !next.is_null()).map(Raw::to_str) {
            None => None,
            Some(Some(next)) => Some(ByteString::from(next.as_ref())),
            Some(None) => return Err(NotAPage("`nextCursor` is not a string")),
        };
        let ttl = lifetime(ttl_of(result.get("ttlMs")));
        let (fresh, kept) =
            if ttl.is_zero() { (PAUSE.min(settings.default_lifetime), settings.default_lifetime) } else { (ttl, ttl) };
        Ok(Self {
            tools: result.get_shared("tools").unwrap_or_default(),
            next,
            scopes_of: settings.scopes_of.clone(),
            facts: OnceLock::new(),
            received: now,
            fresh_until: now + fresh,
            kept_until: now + kept,
            generation,
        })
    }

    /// What it says of the tool `name`. A tool that clients must not see is as good as none, and so is one that is
    /// listed twice: which of the two counts, two readers would answer differently.
    pub(super) fn tool(&self, name: &str) -> Option<&Arc<ToolFacts>> {
        self.facts.get_or_init(|| read(Raw::valid(&self.tools), self.scopes_of.as_ref())).get(name)
    }

    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.fresh_until
    }

    /// Whether it may still be gone by. `generation` is another after each change of the list.
    pub(super) fn is_good(&self, now: Timestamp, generation: u64) -> bool {
        self.generation == generation && self.received <= now && now < self.kept_until
    }

    /// Whether it is the very text of `other`: one that a cache has given again.
    pub(super) fn is_same_text(&self, other: &Self) -> bool {
        self.tools.as_ptr() == other.tools.as_ptr()
            && self.tools.len() == other.tools.len()
            && self.next == other.next
            && self.generation == other.generation
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
    let facts = ToolFacts::from_listed(tool)
        .inspect_err(|reason| tracing::warn!(tool = shorten(name), %reason, "forgot a tool that is listed wrongly"));
    let facts = facts.ok()?;
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
