//! A place in a schema, and its JSON Pointer (RFC 6901).

use std::{borrow::Borrow, sync::Arc};

use super::declaration::PROPERTIES;

/// One step down from a schema to a schema inside it.
#[derive(Clone, Debug)]
pub(super) struct Step<'a> {
    pub(super) keyword: &'a str,
    below: Below<'a>,
    /// The member's name, once a declaration needed it. Declarations share it, as a hostile schema could otherwise
    /// make many of them repeat one long name.
    shared: Option<Arc<str>>,
}

/// What follows the keyword.
#[derive(Clone, Copy, Debug)]
enum Below<'a> {
    Nothing,
    Member(&'a str),
    Element(usize),
}

impl<'a> Step<'a> {
    pub(super) const fn keyword(keyword: &'a str) -> Self {
        Self { keyword, below: Below::Nothing, shared: None }
    }

    pub(super) const fn member(keyword: &'a str, name: &'a str) -> Self {
        Self { keyword, below: Below::Member(name), shared: None }
    }

    pub(super) const fn element(keyword: &'a str, index: usize) -> Self {
        Self { keyword, below: Below::Element(index), shared: None }
    }

    /// Whether the step goes to a parameter of an object.
    pub(super) fn is_property(&self) -> bool {
        self.keyword == PROPERTIES
    }

    pub(super) fn shared_name(&mut self) -> Option<Arc<str>> {
        let Below::Member(name) = self.below else { return None };
        Some(Arc::clone(self.shared.get_or_insert_with(|| name.into())))
    }
}

/// Writes the JSON Pointer of the schema that the steps lead to. The root's is empty.
pub(super) fn render<'a>(steps: impl IntoIterator<Item = impl Borrow<Step<'a>>>) -> String {
    let mut pointer = String::new();
    for step in steps {
        let step = step.borrow();
        push(&mut pointer, step.keyword);
        match step.below {
            Below::Nothing => {}
            Below::Member(name) => push(&mut pointer, name),
            Below::Element(index) => push(&mut pointer, &index.to_string()),
        }
    }
    pointer
}

fn push(pointer: &mut String, token: &str) {
    pointer.push('/');
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            _ => pointer.push(character),
        }
    }
}
