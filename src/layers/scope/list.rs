//! Lists that show only what the caller may use.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
        // What the page holds is remembered, and what callers with these scopes may see of it.
        let page = pages.of(&text, || Page::read(&text, self.name));
        let page = (*page).as_ref()?;
        let principal = extensions.get::<Principal>();
        // The catalog has a say in what tools there are, and in nothing else.
        let generation = if self.member == "tools" { rules.generation() } else { Some(0) };
        let basis = generation.map(|generation| (self.member, generation, principal.map(Principal::scopes)));
        let (shown, personal) = page.view(basis, || self.judge(rules, page, extensions, principal));
        if let Some(shown) = shown {
            result.set_text(self.member, shown);
        }
        if personal {
            // Somebody else may see more or less, even where nothing was taken out.
            result.set_text("cacheScope", ByteString::from_static("\"private\""));
        }
        Some(())
    }

    fn judge(
        self,
        rules: &ScopeRules,
        page: &Page,
        extensions: &Extensions,
        principal: Option<&Principal>,
    ) -> Judgement {
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
        Judgement { shown: shown.collect(), personal }
    }
}

/// How many views of a page are kept: callers with the same scopes have the same one.
const VIEWS: usize = 8;

/// One page of a list.
pub(super) struct Page {
    items: Vec<Item>,
    /// What was shown of it lately.
    views: Mutex<VecDeque<View>>,
}

/// What one caller may see.
#[derive(PartialEq, Eq)]
struct Judgement {
    /// Which items that are.
    shown: Vec<bool>,
    /// Whether another caller may see others.
    personal: bool,
}

/// What a judgement follows from: the list's member, the catalog's generation, and scopes if there is a principal.
type Basis<Scopes> = (&'static str, u64, Option<Scopes>);

struct View {
    judgement: Judgement,
    /// Instead of the page; `None` if all of it is shown.
    text: Option<ByteString>,
    /// What it follows from, if that can be told without a look at the items.
    basis: Option<Basis<Box<[String]>>>,
}

impl View {
    fn is_for(&self, basis: Basis<&[String]>) -> bool {
        let own = self.basis.as_ref();
        own.is_some_and(|(member, generation, scopes)| (*member, *generation, scopes.as_deref()) == basis)
    }

    fn shown(&self) -> (Option<ByteString>, bool) {
        (self.text.clone(), self.judgement.personal)
    }
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
        Some(Self { items: items.collect(), views: Mutex::default() })
    }

    /// What to show instead of the page, if not all of it, and whether that is personal.
    ///
    /// The text is the same piece of memory if it was asked for lately, for those who look at it above. Without a basis
    /// `judge` decides each time.
    fn view(
        &self,
        basis: Option<Basis<&[String]>>,
        judge: impl FnOnce() -> Judgement,
    ) -> (Option<ByteString>, bool) {
        if let Some(basis) = basis
            && let Some(view) = self.views().iter().find(|view| view.is_for(basis))
        {
            return view.shown();
        }
        let judgement = judge();
        let mut views = self.views();
        let alike = views.iter().position(|view| view.judgement == judgement);
        let text = match alike {
            Some(at) if basis.is_none() => return views[at].shown(),
            Some(at) => views[at].text.clone(),
            None => self.text_of(&judgement),
        };
        let basis = basis.map(|(member, generation, scopes)| (member, generation, scopes.map(Into::into)));
        let view = View { judgement, text, basis };
        let shown = view.shown();
        views.truncate(VIEWS - 1);
        views.push_front(view);
        shown
    }

    /// The items that are shown; `None` if all are.
    fn text_of(&self, judgement: &Judgement) -> Option<ByteString> {
        if !judgement.shown.contains(&false) {
            return None;
        }
        let shown = self.items.iter().zip(&judgement.shown).filter(|(_, shown)| **shown);
        Some(array_of(shown.map(|(item, _)| &*item.text)))
    }

    fn views(&self) -> MutexGuard<'_, VecDeque<View>> {
        // Nothing panics while the lock is held.
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
