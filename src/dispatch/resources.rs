//! Resources: data that a client can read.

use std::fmt;
use std::pin::Pin;

use bytestring::ByteString;
use serde_json::{Map, Value};

use super::call::{Outcome, Work};
use super::completion::{Completer, CompletionRequest};
use super::context::Context;
use super::error::{BuildError, Failure, HandlerError};
use super::hint::CacheHint;
use super::input_required::InputRequired;
use super::listed::{ListedResource, Lister};
use super::registry::Registry;
use super::template::Template;
use super::tools::{add_meta, write_input_required};
use crate::message::RawObject;
use crate::protocol::ResourceContents;
use crate::rejection::Rejection;

/// What reading a resource returns: its contents, or an [`InputRequired`].
///
/// Specification: `server/resources`, "Reading Resources".
///
/// ```
/// use std::time::Duration;
///
/// use mcp_layers::dispatch::{CacheHint, ReadResult};
/// use mcp_layers::protocol::ResourceContents;
///
/// let contents = ResourceContents::text("note://1", "Buy milk").with_mime_type("text/plain");
/// let result = ReadResult::from(contents).with_cache(CacheHint::private(Duration::from_secs(60)));
/// # let _ = result;
/// ```
#[derive(Debug)]
#[must_use]
pub struct ReadResult(Repr);

#[derive(Debug)]
enum Repr {
    Complete { contents: Vec<ResourceContents>, hint: CacheHint },
    InputRequired(InputRequired),
}

impl ReadResult {
    /// The same with a say in how long it may be kept.
    pub fn with_cache(mut self, say: CacheHint) -> Self {
        if let Repr::Complete { hint, .. } = &mut self.0 {
            *hint = say;
        }
        self
    }

    /// `registered` is what was said when the resource, and for the method, was registered. What a client has answered
    /// went into the result of a `retry`, which must not be kept (`server/utilities/caching`).
    fn write(self, registered: CacheHint, retry: bool) -> Outcome {
        let (contents, hint) = match self.0 {
            Repr::InputRequired(asked) => return write_input_required(asked),
            Repr::Complete { contents, hint } => (contents, hint),
        };
        let contents = serde_json::to_string(&contents).map_err(|error| {
            tracing::error!(%error, "a resource cannot be written as JSON");
            Failure::internal()
        })?;
        let mut result = RawObject::new();
        result.push_text("contents", contents.into());
        let hint = if retry { CacheHint::default() } else { hint.or(registered) };
        hint.write_to(&mut result);
        Ok(result)
    }
}

impl From<Vec<ResourceContents>> for ReadResult {
    fn from(contents: Vec<ResourceContents>) -> Self {
        Self(Repr::Complete { contents, hint: CacheHint::default() })
    }
}

impl From<ResourceContents> for ReadResult {
    fn from(contents: ResourceContents) -> Self {
        vec![contents].into()
    }
}

impl From<InputRequired> for ReadResult {
    fn from(asked: InputRequired) -> Self {
        Self(Repr::InputRequired(asked))
    }
}

type Pending = Pin<Box<dyn Future<Output = Result<ReadResult, HandlerError>> + Send>>;

/// What resources and templates are described with.
#[derive(Debug)]
pub(super) struct Description {
    members: Map<String, Value>,
    hint: CacheHint,
}

impl Description {
    pub(super) fn new(key: &str, uri: &str, name: String) -> Self {
        let mut members = Map::new();
        members.insert(key.to_owned(), uri.into());
        members.insert("name".to_owned(), name.into());
        Self { members, hint: CacheHint::default() }
    }

    pub(super) fn into_members(self) -> Map<String, Value> {
        self.members
    }

    pub(super) fn set(&mut self, member: &str, value: impl Into<Value>) {
        self.members.insert(member.to_owned(), value.into());
    }

    pub(super) fn set_meta(&mut self, key: String, value: Value) {
        add_meta(&mut self.members, key, value);
    }
}

/// All kinds have the same descriptive members; their documentation is written once.
macro_rules! descriptive_methods {
    () => {
        /// What it is, for the model.
        pub fn with_description(mut self, description: impl Into<String>) -> Self {
            self.description.set("description", description.into());
            self
        }

        /// Its name for people.
        pub fn with_title(mut self, title: impl Into<String>) -> Self {
            self.description.set("title", title.into());
            self
        }

        /// Its media type.
        pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
            self.description.set("mimeType", mime_type.into());
            self
        }

        /// Pictures that stand for it.
        pub fn with_icons(mut self, icons: &[$crate::protocol::Icon]) -> Self {
            self.description.set("icons", serde_json::json!(icons));
            self
        }

        /// Whom it is for, how much it matters and when it last changed.
        pub fn with_annotations(mut self, annotations: &$crate::protocol::Annotations) -> Self {
            self.description.set("annotations", serde_json::json!(annotations));
            self
        }

        /// One more member of its `_meta`.
        pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
            self.description.set_meta(key.into(), value.into());
            self
        }
    };
}

pub(super) use descriptive_methods;

/// Both kinds that are read have this.
macro_rules! cache_method {
    () => {
        /// How long a read may be kept, and for whom, where the handler says nothing.
        pub fn with_cache(mut self, hint: CacheHint) -> Self {
            self.description.hint = hint;
            self
        }
    };
}

/// A resource with a fixed URI.
///
/// Specification: `server/resources`.
///
/// ```
/// use mcp_layers::dispatch::{Dispatch, Resource};
/// use mcp_layers::protocol::ResourceContents;
///
/// let motd = Resource::new("note://motd", "motd", |_context| async {
///     Ok(ResourceContents::text("note://motd", "Be kind"))
/// })
/// .with_mime_type("text/plain");
///
/// let server = Dispatch::builder("notes", "1.0.0").resource(motd).build()?;
/// # let _ = server;
/// # Ok::<(), mcp_layers::dispatch::BuildError>(())
/// ```
#[must_use]
pub struct Resource {
    uri: String,
    description: Description,
    handler: Box<dyn Fn(Context) -> Pending + Send + Sync>,
}

impl Resource {
    /// A resource that is read by `handler`.
    pub fn new<F, Fut, R>(uri: impl Into<String>, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Into<ReadResult>,
    {
        let uri = uri.into();
        let handler = move |context| -> Pending {
            let pending = handler(context);
            Box::pin(async move { pending.await.map(Into::into) })
        };
        Self { description: Description::new("uri", &uri, name.into()), uri, handler: Box::new(handler) }
    }

    descriptive_methods!();

    cache_method!();

    /// How many bytes its contents have.
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.description.set("size", bytes);
        self
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn build(self) -> Result<ResourceEntry, BuildError> {
        Ok(ResourceEntry {
            definition: serde_json::to_string(&self.description.members)?.into(),
            hint: self.description.hint,
            handler: self.handler,
        })
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// A registered resource.
pub(super) struct ResourceEntry {
    /// The resource as `resources/list` shows it.
    pub(super) definition: ByteString,
    hint: CacheHint,
    handler: Box<dyn Fn(Context) -> Pending + Send + Sync>,
}

/// What the expressions of a [`ResourceTemplate`] stand for in the URI that is read.
#[derive(Clone, Debug)]
pub struct TemplateVariables {
    uri: String,
    values: Vec<(String, String)>,
}

impl TemplateVariables {
    /// The URI that is read.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The value of the expression `name`, percent-decoded; empty if the template has no such expression.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.values.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value.as_str())
    }
}

type TemplateHandler = dyn Fn(TemplateVariables, Context) -> Pending + Send + Sync;

/// Resources whose URIs follow a template of RFC 6570.
///
/// Expressions are `{name}`, which matches one or more characters other than `/`, `?` and `#`, and `{+name}`, which
/// matches any. Where several templates match a URI, the one that was registered first is read.
///
/// Specification: `server/resources`, "Resource Templates".
///
/// ```
/// use mcp_layers::dispatch::{Dispatch, HandlerError, ResourceTemplate};
/// use mcp_layers::protocol::ResourceContents;
///
/// let notes = ResourceTemplate::new("note://{id}", "note", |variables, _context| async move {
///     let id = variables.get("id").parse::<u32>().map_err(|_| HandlerError::invalid_params("ids are numbers"))?;
///     Ok(ResourceContents::text(variables.uri().to_owned(), format!("Note number {id}")))
/// });
///
/// let server = Dispatch::builder("notes", "1.0.0").resource_template(notes).build()?;
/// # let _ = server;
/// # Ok::<(), mcp_layers::dispatch::BuildError>(())
/// ```
#[must_use]
pub struct ResourceTemplate {
    uri_template: String,
    description: Description,
    completers: Vec<(String, Completer)>,
    lister: Option<Lister>,
    handler: Box<TemplateHandler>,
}

impl ResourceTemplate {
    /// Resources that are read by `handler`.
    pub fn new<F, Fut, R>(uri_template: impl Into<String>, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(TemplateVariables, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Into<ReadResult>,
    {
        let uri_template = uri_template.into();
        let handler = move |variables, context| -> Pending {
            let pending = handler(variables, context);
            Box::pin(async move { pending.await.map(Into::into) })
        };
        Self {
            description: Description::new("uriTemplate", &uri_template, name.into()),
            uri_template,
            completers: Vec::new(),
            lister: None,
            handler: Box::new(handler),
        }
    }

    descriptive_methods!();

    cache_method!();

    /// Suggests values of the expression `name` while the user types. At most 100 of them are sent.
    pub fn with_completion<F, Fut>(mut self, name: impl Into<String>, suggest: F) -> Self
    where
        F: Fn(CompletionRequest, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>, HandlerError>> + Send + 'static,
    {
        self.completers.push((name.into(), Completer::new(suggest)));
        self
    }

    /// Has `list` say which resources of this template there are: `resources/list` shows them behind those that are
    /// registered, in the order of the templates. Without it, it shows none.
    ///
    /// With [pages](super::Builder::with_page_size), `list` is called for each page that may show some of them, and pages
    /// fit together as long as it keeps their order. If it fails, so does the request. As it may look at who asks, the
    /// result is always private to the caller, whatever is said [for lists](super::Builder::with_list_cache).
    ///
    /// ```
    /// use mcp_layers::dispatch::{Dispatch, ListedResource, ResourceTemplate};
    /// use mcp_layers::protocol::ResourceContents;
    ///
    /// let notes = ResourceTemplate::new("note://{id}", "note", |variables, _context| async move {
    ///     Ok(ResourceContents::text(variables.uri().to_owned(), "Buy milk"))
    /// })
    /// .with_mime_type("text/plain")
    /// .with_list(|_context| async { Ok(vec![ListedResource::new("note://1", "Shopping")]) });
    ///
    /// let server = Dispatch::builder("notes", "1.0.0").resource_template(notes).build()?;
    /// # let _ = server;
    /// # Ok::<(), mcp_layers::dispatch::BuildError>(())
    /// ```
    pub fn with_list<F, Fut>(mut self, list: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<ListedResource>, HandlerError>> + Send + 'static,
    {
        self.lister = Some(Lister::new(list));
        self
    }

    pub(super) fn uri_template(&self) -> &str {
        &self.uri_template
    }

    pub(super) fn has_completion(&self) -> bool {
        !self.completers.is_empty()
    }

    pub(super) fn build(self) -> Result<TemplateEntry, BuildError> {
        let template = Template::parse(&self.uri_template)?;
        if self.completers.iter().any(|(name, _)| !template.names().any(|known| known == name)) {
            let reason = "a completion is for an expression that it does not have";
            return Err(BuildError::Template { template: self.uri_template, reason });
        }
        let definition = serde_json::to_string(&self.description.members)?.into();
        let hint = self.description.hint;
        let mut says = self.description.into_members();
        says.retain(|member, _| !matches!(member.as_str(), "uriTemplate" | "name" | "_meta"));
        Ok(TemplateEntry {
            definition,
            template,
            hint,
            completers: self.completers,
            list: self.lister.map(|lister| (lister, says)),
            handler: self.handler,
        })
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceTemplate").field("uri_template", &self.uri_template).finish_non_exhaustive()
    }
}

/// A registered template.
pub(super) struct TemplateEntry {
    /// The template as `resources/templates/list` shows it.
    pub(super) definition: ByteString,
    template: Template,
    hint: CacheHint,
    completers: Vec<(String, Completer)>,
    /// What lists its resources, and what it says of each of them.
    pub(super) list: Option<(Lister, Map<String, Value>)>,
    handler: Box<TemplateHandler>,
}

impl TemplateEntry {
    pub(super) fn completer(&self, name: &str) -> Option<Completer> {
        self.completers.iter().find(|(known, _)| known == name).map(|(_, completer)| completer.clone())
    }
}

/// Starts reading the resource that the request names: the one with that very URI, else the first template that
/// matches it.
pub(super) fn read(
    uri: &str,
    resources: &Registry<ResourceEntry>,
    templates: &Registry<TemplateEntry>,
    method_hint: CacheHint,
    context: Context,
) -> Result<Work, Rejection> {
    let retry = context.message().input_responses().or(context.message().request_state()).is_some();
    let (pending, hint) = match resources.get(uri) {
        Some(entry) => ((entry.handler)(context), entry.hint),
        None => {
            let templates = templates.snapshot();
            let found = templates
                .values()
                .filter_map(super::registry::Item::enabled)
                .find_map(|entry| Some((entry, entry.template.match_uri(uri)?)));
            let Some((entry, values)) = found else { return Err(Rejection::unknown_resource(uri)) };
            let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let variables = TemplateVariables { uri: uri.to_owned(), values };
            ((entry.handler)(variables, context), entry.hint)
        }
    };
    let hint = hint.or(method_hint);
    Ok(Box::pin(async move {
        pending.await.map_err(|error| error.into_failure("resources/read"))?.write(hint, retry)
    }))
}

impl HandlerError {
    /// There is no such resource: HTTP 400, -32602 with the URI as data.
    #[must_use]
    pub fn unknown_resource(uri: &str) -> Self {
        Self::from(Rejection::unknown_resource(uri))
    }
}
