//! Puts a server together.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::error::BuildError;
use super::hint::CacheHint;
use super::methods::Method;
use super::prompts::Prompt;
use super::registry::Registry;
use super::resources::{Resource, ResourceTemplate};
use super::server::Server;
use super::subscriptions::{Publisher, Subscriptions, Supported};
use super::tools::Tool;
use super::{Dispatch, Inner};
use crate::message::RawObject;
use crate::protocol::{ExtensionId, Icon, Revision, method};

/// What a server offers; fixed when it is built.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
pub(super) struct Capabilities {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) completions: bool,
    pub(super) logging: bool,
}

impl Capabilities {
    /// The object of `server/discover`.
    fn to_json(self) -> Value {
        let members = [
            ("tools", self.tools, json!({"listChanged": true})),
            ("prompts", self.prompts, json!({"listChanged": true})),
            ("resources", self.resources, json!({"listChanged": true, "subscribe": true})),
            ("completions", self.completions, json!({})),
            ("logging", self.logging, json!({})),
        ];
        let offered = members.into_iter().filter(|(_, offered, _)| *offered);
        offered.map(|(name, _, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
    }

    /// Whether there is anything that can change.
    pub(super) fn listens(self) -> bool {
        self.tools || self.prompts || self.resources
    }

    pub(super) fn supported(self) -> Supported {
        Supported {
            tools: self.tools,
            prompts: self.prompts,
            resources: self.resources,
            subscribe: self.resources,
        }
    }
}

/// What the server says of the six cacheable methods.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MethodHints {
    lists: CacheHint,
    discovery: CacheHint,
    reads: CacheHint,
}

impl MethodHints {
    pub(super) fn of(self, method: &str) -> CacheHint {
        match method {
            method::SERVER_DISCOVER => self.discovery,
            method::RESOURCES_READ => self.reads,
            _ => self.lists,
        }
    }
}

/// Puts a server together; see [`Dispatch`].
///
/// Mistakes are told by [`build`](Self::build).
#[derive(Debug)]
#[must_use]
pub struct Builder {
    info: Map<String, Value>,
    instructions: Option<String>,
    announced: Capabilities,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    methods: Vec<Method>,
    extensions: Map<String, Value>,
    unprotected_state: bool,
    publisher: Publisher,
    page_size: Option<NonZeroUsize>,
    hints: MethodHints,
    max_subscriptions: Option<usize>,
    max_pending: Option<usize>,
    max_lifetime: Option<Duration>,
}

impl Builder {
    pub(super) fn new(name: String, version: String) -> Self {
        let mut info = Map::new();
        info.insert("name".to_owned(), name.into());
        info.insert("version".to_owned(), version.into());
        Self {
            info,
            instructions: None,
            announced: Capabilities::default(),
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            methods: Vec::new(),
            extensions: Map::new(),
            unprotected_state: false,
            publisher: Publisher::new(),
            page_size: None,
            hints: MethodHints::default(),
            max_subscriptions: None,
            max_pending: None,
            max_lifetime: None,
        }
    }

    /// The server's name for people.
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.info.insert("title".to_owned(), title.into().into());
        self
    }

    /// What the server is, in a sentence.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.info.insert("description".to_owned(), description.into().into());
        self
    }

    /// Where people read about the server.
    pub fn with_website_url(mut self, url: impl Into<String>) -> Self {
        self.info.insert("websiteUrl".to_owned(), url.into().into());
        self
    }

    /// Pictures that stand for the server.
    pub fn with_icons(mut self, icons: &[Icon]) -> Self {
        self.info.insert("icons".to_owned(), json!(icons));
        self
    }

    /// How a model makes good use of the server.
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Registers a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Registers a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Registers a resource.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Registers a template of resources.
    pub fn resource_template(mut self, template: ResourceTemplate) -> Self {
        self.templates.push(template);
        self
    }

    /// Registers a method that an extension or an application adds to the protocol.
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Announces an extension with its settings, an object. Defaults to `{}` for the extensions of the registered
    /// methods.
    pub fn with_extension(mut self, extension: &ExtensionId, settings: Value) -> Self {
        self.extensions.insert(extension.as_str().to_owned(), settings);
        self
    }

    /// **Trusts what clients make of a state.** Handlers are given whatever comes as `requestState`, forged or not, and
    /// their own states leave in plain text. Only for handlers that nothing worse can happen to than that a request
    /// fails. Defaults to off: without a layer above that protects states
    /// ([`RequestStateLayer`](crate::layers::RequestStateLayer)) a request that brings a state is refused with 400
    /// -32602, and an answer that holds one is replaced by an internal error.
    ///
    /// Specification: `basic/patterns/mrtr`, "Server Requirements".
    pub fn with_unprotected_request_state(mut self) -> Self {
        self.unprotected_state = true;
        self
    }

    /// Announces tools although none is registered yet. Defaults to what is registered.
    pub fn with_tools(mut self) -> Self {
        self.announced.tools = true;
        self
    }

    /// Announces prompts although none is registered yet. Defaults to what is registered.
    pub fn with_prompts(mut self) -> Self {
        self.announced.prompts = true;
        self
    }

    /// Announces resources although none is registered yet. Defaults to what is registered.
    pub fn with_resources(mut self) -> Self {
        self.announced.resources = true;
        self
    }

    /// Announces completions although nothing that is registered yet has any. Defaults to what is registered.
    pub fn with_completions(mut self) -> Self {
        self.announced.completions = true;
        self
    }

    /// Announces that handlers send [log messages](super::Context::log); without, they are dropped. Defaults to
    /// off: the specification deprecates them.
    pub fn with_logging(mut self) -> Self {
        self.announced.logging = true;
        self
    }

    /// How many items a page of a list holds. Defaults to all of them.
    pub fn with_page_size(mut self, size: NonZeroUsize) -> Self {
        self.page_size = Some(size);
        self
    }

    /// How long lists may be kept, and for whom; a list that [a template has made](ResourceTemplate::with_list) is never
    /// for others than the caller. Defaults to not at all.
    pub fn with_list_cache(mut self, hint: CacheHint) -> Self {
        self.hints.lists = hint;
        self
    }

    /// How long the answer to `server/discover` may be kept, and for whom. Defaults to not at all.
    pub fn with_discovery_cache(mut self, hint: CacheHint) -> Self {
        self.hints.discovery = hint;
        self
    }

    /// How long resources may be kept, and for whom, where neither their handler nor their registration says it.
    /// Defaults to not at all.
    pub fn with_read_cache(mut self, hint: CacheHint) -> Self {
        self.hints.reads = hint;
        self
    }

    /// Tells clients what is published through `publisher`, a clone of which handlers may hold. Defaults to a
    /// publisher of its own, which [`Dispatch::publisher`] gives.
    ///
    /// A publisher is for one server: when that shuts down, all streams that listen to the publisher end.
    pub fn with_publisher(mut self, publisher: Publisher) -> Self {
        self.publisher = publisher;
        self
    }

    /// How many streams of `subscriptions/listen` may be open. Defaults to 1024.
    pub fn with_max_subscriptions(mut self, max: usize) -> Self {
        self.max_subscriptions = Some(max);
        self
    }

    /// How many updates of different resources may wait for the reader of one stream; one more breaks the stream
    /// off, so that the client reads anew. Defaults to 256.
    pub fn with_max_pending_updates(mut self, max: usize) -> Self {
        self.max_pending = Some(max);
        self
    }

    /// How long a stream of `subscriptions/listen` may stay open; it then ends gracefully. Callers are checked when
    /// a stream opens, so this bounds how long a withdrawn permission lasts. Defaults to no bound.
    pub fn with_max_subscription_lifetime(mut self, lifetime: Duration) -> Self {
        self.max_lifetime = Some(lifetime);
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    /// If something that is registered has an empty name, or one that comes twice; if a schema cannot be compiled, is too
    /// large, refers to something outside itself, or is one of arguments that cannot be an object; if an `x-mcp-header`
    /// breaks the rules; if a URI template is not supported; if a method has the name of one that the protocol defines, or
    /// exists in no revision.
    pub fn build(self) -> Result<Dispatch, BuildError> {
        let capabilities = Capabilities {
            tools: self.announced.tools || !self.tools.is_empty(),
            prompts: self.announced.prompts || !self.prompts.is_empty(),
            resources: self.announced.resources || !self.resources.is_empty() || !self.templates.is_empty(),
            completions: self.announced.completions
                || self.prompts.iter().any(Prompt::has_completion)
                || self.templates.iter().any(ResourceTemplate::has_completion),
            logging: self.announced.logging,
        };

        let tools = Registry::new("tool");
        for tool in self.tools {
            let name = tool.name().to_owned();
            tools.insert(&name, Arc::new(tool.build()?))?;
        }
        let prompts = Registry::new("prompt");
        for prompt in self.prompts {
            let name = prompt.name().to_owned();
            prompts.insert(&name, Arc::new(prompt.build()?))?;
        }
        let resources = Registry::new("resource");
        for resource in self.resources {
            let uri = resource.uri().to_owned();
            resources.insert(&uri, Arc::new(resource.build()?))?;
        }
        let templates = Registry::new("resource template");
        for template in self.templates {
            let uri = template.uri_template().to_owned();
            templates.insert(&uri, Arc::new(template.build()?))?;
        }

        let mut extensions = self.extensions;
        let mut methods = HashMap::new();
        for method in self.methods {
            let (kind, name) = ("method", method.name().to_owned());
            if name.is_empty() {
                return Err(BuildError::Unnamed { kind });
            }
            if let Some(extension) = method.extension() {
                extensions.entry(extension.as_str()).or_insert_with(|| json!({}));
            }
            if methods.contains_key(&name) {
                return Err(BuildError::Duplicate { kind, name });
            }
            methods.insert(name, Arc::new(method.build()?));
        }

        let mut announced = capabilities.to_json();
        if let (false, Value::Object(members)) = (extensions.is_empty(), &mut announced) {
            members.insert("extensions".to_owned(), extensions.into());
        }
        let mut discovery = RawObject::new();
        discovery.set("supportedVersions", &[Revision::V2026_07_28.as_str()])?;
        discovery.set("capabilities", &announced)?;
        if let Some(instructions) = &self.instructions {
            discovery.set("instructions", instructions)?;
        }

        let mut subscriptions = Subscriptions::new(self.publisher).with_max_lifetime(self.max_lifetime);
        if let Some(max) = self.max_subscriptions {
            subscriptions = subscriptions.with_max_streams(max);
        }
        if let Some(max) = self.max_pending {
            subscriptions = subscriptions.with_max_pending(max);
        }

        let info = serde_json::to_string(&self.info)?.into();
        Ok(Dispatch(Arc::new(Inner {
            server: Arc::new(Server::new(info)),
            capabilities,
            tools,
            prompts,
            resources,
            templates,
            methods,
            unprotected_state: self.unprotected_state,
            subscriptions,
            discovery,
            page_size: self.page_size,
            hints: self.hints,
        })))
    }
}
