//! Resources that a template lists.

use std::fmt;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::call::{Outcome, Work};
use super::context::Context;
use super::error::{Failure, HandlerError};
use super::hint::CacheHint;
use super::page::{Page, bad_cursor, read_cursor};
use super::registry::{Item, Registry};
use super::resources::{Description, ResourceEntry, TemplateEntry, descriptive_methods};
use crate::rejection::Rejection;

/// What a cursor begins with that leads to what a template lists.
const KIND: &str = "listed resource";

/// A resource that [a template lists](super::ResourceTemplate::with_list).
///
/// What it does not say of itself, its template says of it: title, description, media type, icons, annotations.
///
/// Specification: `server/resources`, "Listing Resources".
///
/// ```
/// use mcp_layers::dispatch::ListedResource;
///
/// let note = ListedResource::new("note://1", "Shopping").with_mime_type("text/plain").with_size(8);
/// # let _ = note;
/// ```
#[derive(Debug)]
#[must_use]
pub struct ListedResource {
    description: Description,
}

impl ListedResource {
    /// A resource with this URI and name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { description: Description::new("uri", &uri.into(), name.into()) }
    }

    descriptive_methods!();

    /// How many bytes its contents have.
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.description.set("size", bytes);
        self
    }

    /// As `resources/list` shows it, if `template` is what its template says of all its resources.
    fn write(self, template: &Map<String, Value>) -> Result<String, Failure> {
        let mut members = template.clone();
        members.extend(self.description.into_members());
        serde_json::to_string(&members).map_err(|error| {
            tracing::error!(%error, "a listed resource cannot be written as JSON");
            Failure::internal()
        })
    }
}

type Listed = Pin<Box<dyn Future<Output = Result<Vec<ListedResource>, HandlerError>> + Send>>;

/// What lists the resources of a template.
#[derive(Clone)]
pub(super) struct Lister(Arc<dyn Fn(Context) -> Listed + Send + Sync>);

impl Lister {
    pub(super) fn new<F, Fut>(list: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<ListedResource>, HandlerError>> + Send + 'static,
    {
        Self(Arc::new(move |context| Box::pin(list(context))))
    }
}

impl fmt::Debug for Lister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lister")
    }
}

/// Whether templates list resources.
pub(super) fn any(templates: &Registry<TemplateEntry>) -> bool {
    templates.snapshot().values().filter_map(Item::enabled).any(|entry| entry.list.is_some())
}

/// A template that lists resources: its place, what lists them, and what it says of them.
struct Source {
    serial: u64,
    lister: Lister,
    says: Map<String, Value>,
}

/// Starts `resources/list` of a server of which templates list resources: those that are registered come first, then
/// those of each template.
///
/// Such a cursor holds the serial of a template, and how many of its resources have been on the pages before.
pub(super) fn list(
    resources: &Registry<ResourceEntry>,
    templates: &Registry<TemplateEntry>,
    size: Option<NonZeroUsize>,
    hint: CacheHint,
    context: Context,
) -> Result<Work, Rejection> {
    let mut page = Page::new(size);
    let cursor = context.message().param("cursor").and_then(|cursor| read_cursor(&cursor.to_str()?, KIND));
    let (first, skip) = match cursor {
        Some([serial, _]) if serial > templates.last_serial() => return Err(bad_cursor()),
        Some([serial, skip]) => (serial, usize::try_from(skip).unwrap_or(usize::MAX)),
        None => {
            page.take(context.message(), resources, |entry| &entry.definition)?;
            (0, 0)
        }
    };
    let mut sources = Vec::new();
    if !page.is_ended() {
        for item in templates.snapshot().values().filter(|item| item.serial() >= first) {
            if let Some(entry) = item.enabled()
                && let Some((lister, says)) = &entry.list
            {
                sources.push(Source { serial: item.serial(), lister: lister.clone(), says: says.clone() });
            }
        }
    }
    Ok(Box::pin(fill(page, sources, (first, skip), hint, context)))
}

async fn fill(
    mut page: Page,
    sources: Vec<Source>,
    start: (u64, usize),
    hint: CacheHint,
    context: Context,
) -> Outcome {
    for Source { serial, lister, says } in sources {
        let listed =
            (lister.0)(context.clone()).await.map_err(|error| error.into_failure("resources/list"))?;
        let skip = if serial == start.0 { start.1 } else { 0 };
        for (at, resource) in listed.into_iter().enumerate().skip(skip) {
            if !page.push(&resource.write(&says)?) {
                page.end(KIND, [serial, at as u64]);
                break;
            }
        }
        if page.is_ended() {
            break;
        }
    }
    let mut result = page.into_result("resources");
    // What lists them has seen who asks.
    hint.for_caller().write_to(&mut result);
    Ok(result)
}
