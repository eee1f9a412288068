//! Lists that show only what the caller may use.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytestring::ByteString;
use http::Extensions;

use super::super::recalled::Recalled;
use super::rules::{ScopeRules, Target};
use crate::catalog::listed::member;
use crate::message::{Answer, ErrorObject, Kind, Raw, RawObject, array_of};
use crate::principal::Principal;
use crate::protocol::{code, method};

/// One of the four lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// The member of the result.
    member: &'static str,
    /// The member of an item that names it.
    name: &'static str,
    target: fn(Cow<'_, str>) -> Target<'_>,
}

impl List {
    pub(super) fn of(method: &str) -> Option<Self> {
        let (member, name, target): (_, _, fn(Cow<'_, str>) -> Target<'_>) = match method {
            method::TOOLS_LIST => ("tools", "name", |name| Target::Tool(name)),
            method::PROMPTS_LIST => ("prompts", "name", |name| Target::Prompt(name)),
            method::RESOURCES_LIST => ("resources", "uri", |name| Target::Resource(name)),
            method::RESOURCES_TEMPLATES_LIST => {
                ("resourceTemplates", "uriTemplate", |name| Target::Template(name))
            }
            _ => return None,
        };
        Some(Self { member, name, target })
    }

    /// Takes out of a page what the caller may not use. The rest keeps its order, and the page its cursor.
    pub(super) fn filter(
        self,
        rules: &ScopeRules,
        pages: &Recalled<Option<Page>>,
        extensions: &Extensions,
        answer: &mut Answer,
    ) {
        let Some(result) = answer.result_mut() else { return };
        let member = self.member;
        if self.filter_page(rules, pages, extensions, result).is_none() {
            tracing::error!(member, "refused a list in which nothing could be hidden because it is no array");
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the list cannot be shown");
            answer.set_outcome(Err(error));
        }
    }

    /// `None` if the page cannot be understood.
    fn filter_page(
        self,
        rules: &ScopeRules,
        pages: &Recalled<Option<Page>>,
        extensions: &Extensions,
        result: &mut RawObject,
    ) -> Option<()> {
        let text = result.get_shared(self.member)?;
        // What the page holds is remembered; what the caller may see of it is decided each time.
        let page = pages.of(&text, || Page::read(&text, self.name));
        let page = (*page).as_ref()?;
        let principal = extensions.get::<Principal>();
        let mut personal = false;
        let shown = page.items.iter().map(|item| {
            // What has no name, or two, is not known to be allowed.
            let Some(name) = item.name.as_deref() else {
                personal = true;
                return false;
            };
            let target = (self.target)(Cow::Borrowed(name));
            let facts = rules.facts(&target, extensions);
            if rules.is_unknown(&target, facts.as_deref()) {
                personal = true;
                return false;
            }
            let (allowed, asked) = rules.allows(&target, facts.as_deref(), principal);
            personal |= asked;
            allowed
        });
        let shown: Vec<bool> = shown.collect();
        if shown.contains(&false) {
            result.set_text(self.member, page.part(shown));
        }
        if personal {
            // Somebody else may see more or less, even where nothing was taken out.
            result.set_text("cacheScope", ByteString::from_static("\"private\""));
        }
        Some(())
    }
}

/// How many parts of a page are kept: callers with the same scopes see the same one.
const PARTS: usize = 8;

/// One page of a list.
pub(super) struct Page {
    items: Vec<Item>,
    /// What was shown of it lately, by which items that were.
    parts: Mutex<VecDeque<(Vec<bool>, ByteString)>>,
}

struct Item {
    /// `None` if it has no one name.
    name: Option<Box<str>>,
    text: ByteString,
}

impl Page {
    /// `None` if the text is no array.
    fn read(text: &ByteString, name: &str) -> Option<Self> {
        let list = Raw::valid(text);
        if list.kind() != Kind::Array {
            return None;
        }
        let items = list.elements().map(|item| Item {
            name: member(item, name).ok().flatten().and_then(Raw::to_str).map(Into::into),
            text: text.slice_ref(item.text()),
        });
        Some(Self { items: items.collect(), parts: Mutex::default() })
    }

    /// The page with the items that are `shown`: the same piece of memory if it was asked for lately, for those who
    /// look at it above.
    fn part(&self, shown: Vec<bool>) -> ByteString {
        // Nothing panics while the lock is held.
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, part)) = parts.iter().find(|(others, _)| *others == shown) {
            return part.clone();
        }
        let kept = self.items.iter().zip(&shown).filter(|(_, shown)| **shown);
        let part = array_of(kept.map(|(item, _)| &*item.text));
        parts.truncate(PARTS - 1);
        parts.push_front((shown, part.clone()));
        part
    }
}
