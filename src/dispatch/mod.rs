//! Answers requests: the tools, resources and prompts of a server, and the methods around them.
//!
//! [`Dispatch`] is a Tower service at the bottom of a stack. Handlers are `async` functions.
//!
//! # Rules
//! 1. A method is answered if what it is about was registered, or announced, when the server was built; any other
//!    is 404 -32601. The capabilities of `server/discover` follow from the same (`basic/versioning`).
//! 2. Lists keep the order of registration, and do not depend on the connection (`server/tools`, "Listing Tools").
//! 3. An unknown tool, prompt or resource, a bad cursor and parameters of a wrong shape are 400 -32602.
//! 4. What a model can mend is a result with `isError`: arguments that do not match the schema, and failures that a
//!    handler [says](HandlerError::visible) (`server/tools`, "Error Handling"). Other failures are logged, and
//!    the caller learns only that something failed.
//! 5. Every result says its `resultType` and who gave it; the six cacheable ones say how long they may be kept.
//! 6. A request is answered as JSON until its handler sends a notification, and as a stream from then on.
//! 7. A `requestState` is taken and given only below a layer that protects it, unless the server is
//!    [told otherwise](Builder::with_unprotected_request_state) (`basic/patterns/mrtr`, "Server Requirements").
//! 8. Dropping the response cancels the handler.
//!
//! # Rejections
//! 404 -32601, 400 -32602, 503 503 while the server shuts down. Failures of handlers are 200 -32603.
//!
//! # Order
//! Below everything else. Reads what layers have left in the extensions.
//!
//! # Example
//! ```
//! use http::Request;
//! use mcp_layers::dispatch::{Dispatch, Tool};
//! use mcp_layers::message::Message;
//! use serde_json::json;
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hello = Tool::raw("hello", json!({"type": "object"}), |_arguments, _context| async { Ok("Hello!") });
//! let server = Dispatch::builder("greeter", "1.0.0").tool(hello).build()?;
//!
//! let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello"}}"#;
//! let response = server.oneshot(Request::new(Message::parse(call)?)).await?;
//! let answer = response.body().answer().expect("sent no notification");
//! let content = answer.outcome().expect("a result").get("content").expect("has content");
//! assert_eq!(content.text(), r#"[{"type":"text","text":"Hello!"}]"#);
//! # Ok(())
//! # }
//! ```

mod builder;
mod call;
mod completion;
mod context;
mod error;
mod hint;
mod input_required;
mod listed;
mod methods;
mod page;
mod prompts;
mod registry;
mod resources;
mod schema;
mod server;
mod subscriptions;
mod template;
mod tools;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use http::{Extensions, Request, Response, StatusCode};
use tower::Service;

pub use self::builder::Builder;
pub use self::call::DispatchFuture;
pub use self::completion::CompletionRequest;
pub use self::context::Context;
pub use self::error::{BuildError, HandlerError};
pub use self::hint::CacheHint;
pub use self::input_required::InputRequired;
pub use self::listed::ListedResource;
pub use self::methods::Method;
pub use self::prompts::{Prompt, PromptArgument, PromptArguments, PromptResult};
pub use self::resources::{ReadResult, Resource, ResourceTemplate, TemplateVariables};
pub use self::subscriptions::{Change, Publisher};
pub use self::tools::{Arguments, Tool, ToolResult};

use self::builder::{Capabilities, MethodHints};
use self::call::{Call, Work};
use self::methods::MethodEntry;
use self::prompts::PromptEntry;
use self::registry::Registry;
use self::resources::{ResourceEntry, TemplateEntry};
use self::server::Server;
use self::subscriptions::Subscriptions;
use self::tools::ToolEntry;
use crate::catalog::{ToolCatalog, ToolFacts};
use crate::message::{Answer, Kind, Message, RawObject, Reply};
use crate::protocol::method;
use crate::rejection::Rejection;
use crate::trusted_state::TrustedState;

/// A server: answers requests with what was registered.
///
/// It is cheap to clone, and clones are the same server; a clone that is kept beside the stack changes what the
/// server offers while it serves. See the [module](self) for the rules and an example.
#[derive(Clone)]
pub struct Dispatch(Arc<Inner>);

struct Inner {
    server: Arc<Server>,
    capabilities: Capabilities,
    tools: Registry<ToolEntry>,
    prompts: Registry<PromptEntry>,
    resources: Registry<ResourceEntry>,
    templates: Registry<TemplateEntry>,
    methods: HashMap<String, Arc<MethodEntry>>,
    /// Whether handlers take what clients make of a state.
    unprotected_state: bool,
    subscriptions: Subscriptions,
    /// The answer to `server/discover` but for what every result has.
    discovery: RawObject,
    page_size: Option<NonZeroUsize>,
    hints: MethodHints,
}

#[allow(clippy::must_use_candidate, reason = "what is changed is changed, whoever looks at the answer")]
impl Dispatch {
    /// Starts to build a server, which tells clients its `name` and `version`.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name.into(), version.into())
    }

    /// A handle that tells listening clients of changes: of lists, and of resources.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        self.0.subscriptions.publisher().clone()
    }

    /// Adds a tool and tells listening clients.
    ///
    /// ```
    /// use mcp_layers::dispatch::{Dispatch, Tool};
    /// use serde_json::json;
    ///
    /// let server = Dispatch::builder("s", "1.0.0").with_tools().build()?;
    /// let tool = || Tool::raw("t", json!({"type": "object"}), |_, _| async { Ok("done") });
    /// server.add_tool(tool())?;
    /// assert!(server.add_tool(tool()).is_err(), "the name is taken");
    /// assert!(server.set_tool_enabled("t", false));
    /// assert!(server.remove_tool("t"));
    /// # Ok::<(), mcp_layers::dispatch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If there is a tool of that name, enabled or not; if its schemas cannot be used; or if the server was built
    /// without tools and without [`with_tools`](Builder::with_tools).
    pub fn add_tool(&self, tool: Tool) -> Result<(), BuildError> {
        let name = tool.name().to_owned();
        Self::add(self.0.capabilities.tools, &self.0.tools, &name, || tool.build())?;
        self.0.subscriptions.publisher().tools_list_changed();
        Ok(())
    }

    /// Removes a tool; says whether there was one, and tells listening clients if so.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed = self.0.tools.remove(name);
        if removed {
            self.0.subscriptions.publisher().tools_list_changed();
        }
        removed
    }

    /// Shows or hides a tool, which keeps its place; says whether there is one, and tells listening clients of a
    /// change. To clients a hidden tool does not exist.
    pub fn set_tool_enabled(&self, name: &str, enabled: bool) -> bool {
        let changed = self.0.tools.set_enabled(name, enabled);
        if changed == Some(true) {
            self.0.subscriptions.publisher().tools_list_changed();
        }
        changed.is_some()
    }

    /// Adds a prompt and tells listening clients.
    ///
    /// # Errors
    /// As for [`add_tool`](Self::add_tool); and if it has completions, but the server was built without any and without
    /// [`with_completions`](Builder::with_completions).
    pub fn add_prompt(&self, prompt: Prompt) -> Result<(), BuildError> {
        self.check_completion(prompt.has_completion())?;
        let name = prompt.name().to_owned();
        Self::add(self.0.capabilities.prompts, &self.0.prompts, &name, || prompt.build())?;
        self.0.subscriptions.publisher().prompts_list_changed();
        Ok(())
    }

    /// Removes a prompt; says whether there was one, and tells listening clients if so.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = self.0.prompts.remove(name);
        if removed {
            self.0.subscriptions.publisher().prompts_list_changed();
        }
        removed
    }

    /// Adds a resource and tells listening clients.
    ///
    /// # Errors
    /// As for [`add_tool`](Self::add_tool).
    pub fn add_resource(&self, resource: Resource) -> Result<(), BuildError> {
        let uri = resource.uri().to_owned();
        Self::add(self.0.capabilities.resources, &self.0.resources, &uri, || resource.build())?;
        self.0.subscriptions.publisher().resources_list_changed();
        Ok(())
    }

    /// Removes a resource; says whether there was one, and tells listening clients if so.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self.0.resources.remove(uri);
        if removed {
            self.0.subscriptions.publisher().resources_list_changed();
        }
        removed
    }

    /// Adds a resource template and tells listening clients.
    ///
    /// # Errors
    /// As for [`add_tool`](Self::add_tool); if its URI template cannot be read; and if it has completions, but the server
    /// was built without any and without [`with_completions`](Builder::with_completions).
    pub fn add_resource_template(&self, template: ResourceTemplate) -> Result<(), BuildError> {
        self.check_completion(template.has_completion())?;
        let uri = template.uri_template().to_owned();
        Self::add(self.0.capabilities.resources, &self.0.templates, &uri, || template.build())?;
        self.0.subscriptions.publisher().resources_list_changed();
        Ok(())
    }

    /// Removes the resource template `uri_template`; says whether there was one, and tells listening clients if so.
    pub fn remove_resource_template(&self, uri_template: &str) -> bool {
        let removed = self.0.templates.remove(uri_template);
        if removed {
            self.0.subscriptions.publisher().resources_list_changed();
        }
        removed
    }

    /// What was announced to clients does not change: what completes arguments cannot come to a server that has not said
    /// that it does.
    fn check_completion(&self, has_completion: bool) -> Result<(), BuildError> {
        if has_completion && !self.0.capabilities.completions {
            return Err(BuildError::NotOffered { kind: "completion" });
        }
        Ok(())
    }

    fn add<T>(
        offered: bool,
        registry: &Registry<T>,
        name: &str,
        build: impl FnOnce() -> Result<T, BuildError>,
    ) -> Result<(), BuildError> {
        if !offered {
            return Err(BuildError::NotOffered { kind: registry.kind() });
        }
        registry.insert(name, Arc::new(build()?))
    }

    /// Shuts down gracefully: streams of `subscriptions/listen` get their answer, calls in progress finish, and new
    /// requests are refused with 503. Returns when no call is in progress any more.
    ///
    /// Bound the wait with a timeout if handlers may hang; dropping this future does not reopen the server. A handler
    /// that waits for it waits for itself.
    pub async fn shutdown(&self) {
        self.0.server.close();
        self.0.subscriptions.close();
        self.0.server.idle().await;
    }

    fn answer(&self, request: Request<Message>) -> Result<DispatchFuture, Rejection> {
        let inner = &self.0;
        if inner.server.is_closing() {
            return Err(shutting_down());
        }
        let message = request.body();
        let offers = &inner.capabilities;
        let method = message.method();
        let list = match method {
            method::SERVER_DISCOVER => inner.discovery.clone(),
            method::TOOLS_LIST if offers.tools => {
                page::page(message, &inner.tools, "tools", inner.page_size, |tool| &tool.definition)?
            }
            method::PROMPTS_LIST if offers.prompts => {
                page::page(message, &inner.prompts, "prompts", inner.page_size, |prompt| &prompt.definition)?
            }
            method::RESOURCES_LIST if offers.resources && listed::any(&inner.templates) => {
                return self.list_resources(request);
            }
            method::RESOURCES_LIST if offers.resources => {
                page::page(message, &inner.resources, "resources", inner.page_size, |entry| {
                    &entry.definition
                })?
            }
            method::RESOURCES_TEMPLATES_LIST if offers.resources => {
                let size = inner.page_size;
                page::page(message, &inner.templates, "resourceTemplates", size, |entry| &entry.definition)?
            }
            method::TOOLS_CALL if offers.tools => return self.call_tool(request),
            method::PROMPTS_GET if offers.prompts => return self.get_prompt(request),
            method::RESOURCES_READ if offers.resources => return self.read_resource(request),
            method::COMPLETION_COMPLETE if offers.completions => return self.complete(request),
            method::SUBSCRIPTIONS_LISTEN if offers.listens() => return Ok(self.listen(message)),
            _ => return self.call_method(request),
        };
        let mut result = list;
        inner.hints.of(method).write_to(&mut result);
        inner.server.complete(&mut result);
        let answer = Answer::result(message.id().cloned(), result);
        Ok(DispatchFuture::ready(Response::new(Reply::Answer(answer))))
    }

    fn call_method(&self, request: Request<Message>) -> Result<DispatchFuture, Rejection> {
        let Some(method) = self.0.methods.get(request.body().method()) else {
            return Err(Rejection::method_not_found(request.body().method()));
        };
        method.admit(&request)?;
        self.work(request, |context| Ok(method.call(context)))
    }

    /// A state that nobody vouches for reaches no handler, and neither do answers that cannot be told apart.
    fn check_round(&self, request: &Request<Message>) -> Result<(), Rejection> {
        if request.body().input_responses().is_some() {
            let responses = request.body().params().and_then(|params| params.object("inputResponses"));
            if let Some(Err(error)) = responses {
                return Err(Rejection::invalid_params(format!("in `params.inputResponses`, {error}")));
            }
        }
        let Some(state) = request.body().request_state() else { return Ok(()) };
        if state.kind() != Kind::String {
            return Err(Rejection::invalid_request_state());
        }
        if self.0.unprotected_state || request.extensions().get::<TrustedState>().is_some() {
            return Ok(());
        }
        tracing::error!(
            request = ?request.body(),
            "refused a requestState that no layer has verified: put RequestStateLayer above the dispatcher, or choose \
             Builder::with_unprotected_request_state"
        );
        Err(Rejection::invalid_request_state())
    }

    fn call_tool(&self, request: Request<Message>) -> Result<DispatchFuture, Rejection> {
        self.check_round(&request)?;
        let message = request.body();
        let name = target(message)?;
        let arguments = tools::read_call(message)?;
        let tool = self.0.tools.get(name).ok_or_else(|| Rejection::unknown_tool(name))?;
        self.work(request, |context| Ok(tool.call(arguments, context)))
    }

    fn get_prompt(&self, request: Request<Message>) -> Result<DispatchFuture, Rejection> {
        self.check_round(&request)?;
        let name = target(request.body())?;
        let prompt = self.0.prompts.get(name).ok_or_else(|| Rejection::unknown_prompt(name))?;
        self.work(request, |context| {
            let arguments = prompt.read(&context)?;
            Ok(prompt.get(arguments, context))
        })
    }

    fn list_resources(&self, request: Request<Message>) -> Result<DispatchFuture, Rejection> {
        let inner = &self.0;
        let hint = inner.hints.of(method::RESOURCES_LIST);
        self.work(request, |context| {
            listed::list(&inner.resources, &inner.templates, inner.page_size, hint, context)
        })
    }

    fn read_resource(&self, request: Request<Message>) -> Result<DispatchFuture, Rejection> {
        self.check_round(&request)?;
        let uri = target(request.body())?.to_owned();
        let hint = self.0.hints.of(method::RESOURCES_READ);
        self.work(request, |context| {
            resources::read(&uri, &self.0.resources, &self.0.templates, hint, context)
        })
    }

    fn complete(&self, request: Request<Message>) -> Result<DispatchFuture, Rejection> {
        let inner = &self.0;
        let (completer, asked) =
            completion::find(request.body(), &inner.prompts, &inner.resources, &inner.templates)?;
        self.work(request, |context| Ok(Box::pin(completion::complete(completer, asked, context))))
    }

    fn listen(&self, message: &Message) -> DispatchFuture {
        let supported = self.0.capabilities.supported();
        let info = Some(self.0.server.info.clone());
        DispatchFuture::ready(self.0.subscriptions.listen(message, supported, info))
    }

    /// Starts a handler.
    fn work(
        &self,
        request: Request<Message>,
        start: impl FnOnce(Context) -> Result<Work, Rejection>,
    ) -> Result<DispatchFuture, Rejection> {
        let in_flight = self.0.server.begin().ok_or_else(shutting_down)?;
        let (parts, message) = request.into_parts();
        let context = Context::new(parts, message, self.0.capabilities.logging, self.0.unprotected_state);
        let call = Call::start(start, context, in_flight)?;
        Ok(DispatchFuture::working(call))
    }
}

fn shutting_down() -> Rejection {
    Rejection::http(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down: try another, or later")
}

/// The tool, prompt or resource that a request is about.
fn target(message: &Message) -> Result<&str, Rejection> {
    message.target().ok_or_else(|| {
        let member = method::target_member(message.method()).unwrap_or("name");
        Rejection::invalid_params(format!("`params.{member}` must be a string"))
    })
}

impl Service<Request<Message>> for Dispatch {
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = DispatchFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> DispatchFuture {
        // A request to be told nothing about is dropped: this revision has no notification that a server acts on,
        // and one that names the id of another request must not touch it.
        let Some(id) = request.body().id().cloned() else {
            return DispatchFuture::ready(accepted());
        };
        match self.answer(request) {
            Ok(future) => future,
            Err(rejection) => DispatchFuture::ready(rejection.into_response(Some(id))),
        }
    }
}

fn accepted() -> Response<Reply> {
    let mut response = Response::new(Reply::Accepted);
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The registry is the catalog of the layers above.
impl ToolCatalog for Dispatch {
    fn tool(&self, name: &str, _: &Extensions) -> Option<Arc<ToolFacts>> {
        self.0.tools.get(name).map(|tool| Arc::clone(&tool.facts))
    }

    fn generation(&self) -> Option<u64> {
        Some(self.0.tools.generation())
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").field("server", &self.0.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
