//! Lists that show only what the caller may use.

use std::borrow::Cow;

use http::Extensions;

use super::rules::{ScopeRules, Target};
use crate::catalog::listed::member;
use crate::message::{Answer, ErrorObject, Kind, Raw, RawObject};
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
    pub(super) fn filter(self, rules: &ScopeRules, extensions: &Extensions, answer: &mut Answer) {
        let Some(result) = answer.result_mut() else { return };
        let member = self.member;
        if self.filter_page(rules, extensions, result).is_none() {
            tracing::error!(member, "refused a list in which nothing could be hidden because it is no array");
            let error = ErrorObject::new(code::INTERNAL_ERROR, "the list cannot be shown");
            answer.set_outcome(Err(error));
        }
    }

    /// `None` if the page cannot be understood.
    fn filter_page(self, rules: &ScopeRules, extensions: &Extensions, result: &mut RawObject) -> Option<()> {
        let items = result.get(self.member).filter(|items| items.kind() == Kind::Array)?;
        let principal = extensions.get::<Principal>();
        let (mut kept, mut dropped, mut personal) = (String::from("["), false, false);
        for item in items.elements() {
            // What has no name, or two, is not known to be allowed.
            let (allowed, asked) = self.name_of(item).map_or((false, true), |name| {
                let target = (self.target)(name);
                let facts = rules.facts(&target, extensions);
                if rules.is_unknown(&target, facts.as_deref()) {
                    return (false, true);
                }
                rules.allows(&target, facts.as_deref(), principal)
            });
            personal |= asked;
            dropped |= !allowed;
            if allowed {
                if kept.len() > 1 {
                    kept.push(',');
                }
                kept.push_str(item.text());
            }
        }
        kept.push(']');
        if dropped {
            result.set_text(self.member, kept.into());
        }
        if personal {
            // Somebody else may see more or less, even where nothing was taken out.
            result.set_text("cacheScope", "\"private\"".into());
        }
        Some(())
    }

    fn name_of(self, item: Raw<'_>) -> Option<Cow<'_, str>> {
        member(item, self.name).ok()??.to_str()
    }
}
