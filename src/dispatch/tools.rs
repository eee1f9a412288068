//! Tools: functions that a model can call.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call::{Outcome, Work};
use super::context::Context;
use super::error::{BuildError, Failure, HandlerError};
use super::input_required::InputRequired;
use super::schema::Validator;
use crate::catalog::ToolFacts;
use crate::message::{Kind, Message, Raw, RawObject};
use crate::protocol::{ClientCapabilities, Content, Icon, Scopes, Text};
use crate::rejection::Rejection;

/// What a tool returns.
///
/// Made from text, from content blocks, from any value with [`json`](Self::json), or from an [`InputRequired`].
///
/// Specification: `server/tools`, "Tool Result".
///
/// ```
/// use mcp_layers::dispatch::ToolResult;
/// use mcp_layers::protocol::Content;
///
/// let text: ToolResult = "done".into();
/// let mixed = ToolResult::from(vec![Content::text("a picture"), Content::image([0xFF], "image/png")]);
/// let structured = ToolResult::json(&serde_json::json!({"temperature": 22.5}));
/// # let _ = (text, mixed, structured);
/// ```
#[derive(Debug)]
#[must_use]
pub struct ToolResult(Repr);

#[derive(Debug)]
enum Repr {
    Complete(Complete),
    InputRequired(InputRequired),
    Unwritable(serde_json::Error),
}

#[derive(Debug, Default)]
struct Complete {
    content: Vec<Content>,
    /// JSON text; `null` is a value like any other.
    structured: Option<ByteString>,
    is_error: bool,
    meta: Map<String, Value>,
}

impl ToolResult {
    /// A structured result. Its JSON is also given as text, for clients that do not read structured content.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(match serde_json::to_string(value) {
            Ok(text) => Repr::Complete(Complete { structured: Some(text.into()), ..Complete::default() }),
            Err(error) => Repr::Unwritable(error),
        })
    }

    /// The same with one more block of content.
    pub fn with_content(mut self, content: impl Into<Content>) -> Self {
        if let Repr::Complete(complete) = &mut self.0 {
            complete.content.push(content.into());
        }
        self
    }

    /// The same, marked as the failure of the tool, which the model is meant to see.
    pub fn with_error(mut self) -> Self {
        if let Repr::Complete(complete) = &mut self.0 {
            complete.is_error = true;
        }
        self
    }

    /// The same with one more member of `_meta`.
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        if let Repr::Complete(complete) = &mut self.0 {
            complete.meta.insert(key.into(), value.into());
        }
        self
    }

    /// A failure that the model is meant to see.
    fn failure(text: impl Into<Text>) -> Self {
        Self::from(vec![Content::text(text)]).with_error()
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> Self {
        Self(Repr::Complete(Complete { content, ..Complete::default() }))
    }
}

impl From<Content> for ToolResult {
    fn from(content: Content) -> Self {
        vec![content].into()
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Content::text(text).into()
    }
}

impl From<&'static str> for ToolResult {
    fn from(text: &'static str) -> Self {
        Content::text(text).into()
    }
}

/// A result without content.
impl From<()> for ToolResult {
    fn from((): ()) -> Self {
        Vec::new().into()
    }
}

impl From<InputRequired> for ToolResult {
    fn from(input_required: InputRequired) -> Self {
        Self(Repr::InputRequired(input_required))
    }
}

/// The arguments of a call as they were sent: one JSON object.
#[derive(Clone)]
pub struct Arguments(ByteString);

impl Arguments {
    /// The arguments as JSON text, with their own digits and escapes.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw::valid(&self.0)
    }

    /// Decodes the arguments.
    ///
    /// # Errors
    /// Whatever `T` does not accept, for the model to read.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        self.raw()
            .decode_owned()
            .map_err(|error| HandlerError::visible(format!("invalid arguments: {error}")))
    }

    /// The arguments as a JSON value. Integers beyond 64 bits become floating-point numbers in it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // Numbers beyond the range of `f64` are the one thing that `Value` refuses.
        self.raw().decode_owned().unwrap_or_default()
    }
}

impl fmt::Debug for Arguments {
    /// Arguments may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arguments(..)")
    }
}

/// Starts the handler, whose result the entry turns into an outcome; or says why the arguments are not valid.
type Handler = dyn Fn(Arguments, Context, &Arc<ToolEntry>) -> Result<Work, String> + Send + Sync;

/// A tool: a function that a model can call, with the schema of its arguments.
///
/// Specification: `server/tools`.
///
/// ```
/// use mcp_layers::dispatch::{Dispatch, Tool};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
/// let greet = Tool::raw("greet", schema, |arguments, _context| async move {
///     #[derive(serde::Deserialize)]
///     struct Greet {
///         name: String,
///     }
///     let Greet { name } = arguments.decode()?;
///     Ok(format!("Hello, {name}!"))
/// })
/// .with_description("Greets somebody");
///
/// let server = Dispatch::builder("greeter", "1.0.0").tool(greet).build()?;
/// # let _ = server;
/// # Ok::<(), mcp_layers::dispatch::BuildError>(())
/// ```
#[must_use]
pub struct Tool {
    name: String,
    definition: Map<String, Value>,
    required_capabilities: ClientCapabilities,
    scopes: Scopes,
    handler: Box<Handler>,
    /// Whether the arguments are validated before the handler sees them.
    validates: bool,
}

impl Tool {
    /// A tool whose arguments are a Rust type: its schema is derived, and what the type does not accept is told to
    /// the model.
    ///
    /// The type is a struct, or another that is an object in JSON; `()` is for a tool without arguments. What cannot be an
    /// object is refused by [`build`](super::Builder::build).
    ///
    /// ```
    /// use mcp_layers::dispatch::{Context, Tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add {
    ///     /// The first summand.
    ///     a: i64,
    ///     /// The second summand.
    ///     b: i64,
    /// }
    ///
    /// let tool = Tool::new("add", |Add { a, b }: Add, _context: Context| async move {
    ///     Ok((a + b).to_string())
    /// });
    /// # let _ = tool;
    /// ```
    #[cfg(feature = "schema")]
    pub fn new<A, F, Fut, R>(name: impl Into<String>, handler: F) -> Self
    where
        A: DeserializeOwned + schemars::JsonSchema,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Into<ToolResult>,
    {
        let mut schema = schema_of::<A>();
        // `()` and structs without members are `null` in JSON, and nothing else can be made into them.
        let is_unit = schema.get("type") == Some(&json!("null"));
        make_object(&mut schema);
        Self::made(name, schema, move |arguments, context, entry| {
            let arguments = if is_unit { Raw::valid("null") } else { arguments.raw() };
            let arguments = arguments.decode_owned::<A>().map_err(|error| error.to_string())?;
            Ok(entry.work(handler(arguments, context)))
        })
    }

    /// A tool with a schema of its own, whose handler is given the arguments as they were sent.
    ///
    /// The schema is an object with `"type": "object"`. With the feature `schema` the arguments are validated
    /// against it before the handler runs; without, that is left to the handler.
    pub fn raw<F, Fut, R>(name: impl Into<String>, input_schema: Value, handler: F) -> Self
    where
        F: Fn(Arguments, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Into<ToolResult>,
    {
        Self::made(name, input_schema, move |arguments, context, entry| {
            Ok(entry.work(handler(arguments, context)))
        })
    }

    fn made(
        name: impl Into<String>,
        input_schema: Value,
        handler: impl Fn(Arguments, Context, &Arc<ToolEntry>) -> Result<Work, String> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        let mut definition = Map::new();
        definition.insert("name".to_owned(), Value::from(name.as_str()));
        definition.insert("inputSchema".to_owned(), input_schema);
        Self {
            name,
            definition,
            required_capabilities: ClientCapabilities::new(),
            scopes: Scopes::none(),
            handler: Box::new(handler),
            validates: true,
        }
    }

    fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.definition.insert(member.to_owned(), value.into());
        self
    }

    /// What the tool does, for the model.
    pub fn with_description(self, description: impl Into<String>) -> Self {
        self.with("description", description.into())
    }

    /// Its name for people.
    pub fn with_title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into())
    }

    /// Pictures that stand for it.
    pub fn with_icons(self, icons: &[Icon]) -> Self {
        self.with("icons", json!(icons))
    }

    /// What the tool does to the world, as hints: `readOnlyHint`, `destructiveHint`, `idempotentHint` and
    /// `openWorldHint`.
    ///
    /// Specification: `server/tools`, "Tool Annotations".
    pub fn with_annotations(self, annotations: Value) -> Self {
        self.with("annotations", annotations)
    }

    /// Leaves it to the handler to check its arguments: they are not validated against the schema, and members may be
    /// named twice in them. Saves reading the arguments once more; a Rust type alone accepts more than its schema says
    /// (an array for a struct, for one). Defaults to validation.
    pub fn with_unchecked_arguments(mut self) -> Self {
        self.validates = false;
        self
    }

    /// One more member of the definition's `_meta`.
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        add_meta(&mut self.definition, key.into(), value.into());
        self
    }

    /// The scopes that a caller needs to call the tool, and to see it in lists. Defaults to none.
    ///
    /// A [`ScopeLayer`](crate::layers::ScopeLayer) that is given the server as its catalog asks for them; nobody else
    /// does.
    pub fn with_scopes(mut self, scopes: impl Into<Scopes>) -> Self {
        self.scopes = scopes.into();
        self
    }

    /// The schema of the structured content. With the feature `schema` a result that does not match it is replaced
    /// by a failure; without, the schema is only published.
    pub fn with_output_schema(self, schema: Value) -> Self {
        self.with("outputSchema", schema)
    }

    /// Derives the schema of the structured content from a Rust type.
    #[cfg(feature = "schema")]
    pub fn with_output<T: schemars::JsonSchema>(self) -> Self {
        self.with_output_schema(schema_of::<T>())
    }

    /// What a client must have declared to call the tool: a [`CapabilityLayer`](crate::layers::CapabilityLayer) that is
    /// given this server as its catalog refuses the others. Defaults to nothing.
    ///
    /// What the tool merely makes use of when it is there is not for this: ask
    /// [`Context::can`](super::Context::can).
    pub fn with_required_capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.required_capabilities = capabilities;
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn build(mut self) -> Result<ToolEntry, BuildError> {
        let name = self.name;
        if name.len() > 128
            || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        {
            tracing::warn!(
                tool = name,
                "a tool's name should be 1 to 128 of the characters A-Z a-z 0-9 . _ -"
            );
        }
        let schema = self.definition.get_mut("inputSchema").map(Value::take).unwrap_or_default();
        if schema.get("type") != Some(&json!("object")) {
            let reason = "the schema of arguments must be an object with `\"type\": \"object\"`: derive it from a struct, or \
                          from `()` where there are no arguments";
            return Err(BuildError::Schema { name, reason: reason.to_owned() });
        }
        if let Err(error) = self.scopes.check() {
            return Err(BuildError::Scope { name, reason: error.to_string() });
        }
        let facts = ToolFacts::from_schema(&schema)
            .map_err(|error| BuildError::Annotation { name: name.clone(), reason: error.to_string() })?;
        let input = Validator::new(&name, &schema)?;
        let output = match self.definition.get("outputSchema") {
            Some(schema) => Some(Validator::new(&name, schema)?),
            None => None,
        };
        let output_schema = self.definition.get("outputSchema").map(|schema| schema.to_string().into());
        self.definition.insert("inputSchema".to_owned(), schema);
        Ok(ToolEntry {
            definition: serde_json::to_string(&self.definition)?.into(),
            facts: Arc::new(ToolFacts {
                required_capabilities: self.required_capabilities,
                scopes: self.scopes,
                output_schema,
                ..facts
            }),
            input: self.validates.then_some(input),
            output,
            handler: self.handler,
            name,
        })
    }
}

/// One more member of the `_meta` of a definition.
pub(super) fn add_meta(definition: &mut Map<String, Value>, key: String, value: Value) {
    if let Value::Object(meta) = definition.entry("_meta").or_insert_with(|| json!({})) {
        meta.insert(key, value);
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The schema of a Rust type.
#[cfg(feature = "schema")]
fn schema_of<T: schemars::JsonSchema>() -> Value {
    schemars::generate::SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

/// Arguments are an object, which the schema of a type that can be one need not say: that of an enum does not. What can
/// be no object (a list, a number) stays as it is, and is refused when the server is built.
#[cfg(feature = "schema")]
fn make_object(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    let can_be = match members.get("type") {
        None => true,
        Some(Value::Array(types)) => types.contains(&json!("object")),
        Some(one) => *one == json!("object") || *one == json!("null"),
    };
    if can_be {
        members.insert("type".to_owned(), json!("object"));
        members.entry("properties").or_insert_with(|| json!({}));
    }
}

/// A registered tool.
pub(super) struct ToolEntry {
    pub(super) name: String,
    /// The tool as `tools/list` shows it.
    pub(super) definition: ByteString,
    pub(super) facts: Arc<ToolFacts>,
    input: Option<Validator>,
    output: Option<Validator>,
    handler: Box<Handler>,
}

/// The shape of a call's parameters: the tool's name and its arguments.
pub(super) fn read_call(message: &Message) -> Result<Arguments, Rejection> {
    match message.params().and_then(|params| params.get_shared("arguments")) {
        // An absent object is an empty one.
        None => Ok(Arguments(ByteString::from_static("{}"))),
        Some(text) if Raw::valid(&text).kind() == Kind::Object => Ok(Arguments(text)),
        Some(_) => Err(Rejection::invalid_params("`params.arguments` must be an object")),
    }
}

impl ToolEntry {
    /// Starts the handler.
    ///
    /// What the model can mend is a result with `isError` (`server/tools`, "Error Handling").
    pub(super) fn call(self: Arc<Self>, arguments: Arguments, context: Context) -> Work {
        let valid = self.check_input(&arguments);
        valid.and_then(|()| (self.handler)(arguments, context, &self)).unwrap_or_else(|reason| {
            let text = format!("the arguments of tool `{}` are not valid: {reason}", self.name);
            Box::pin(std::future::ready(self.outcome(Ok(ToolResult::failure(text)))))
        })
    }

    /// The handler's future, and after it what becomes of its result: in one box.
    fn work<Fut, R>(self: &Arc<Self>, pending: Fut) -> Work
    where
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Into<ToolResult>,
    {
        let entry = Arc::clone(self);
        Box::pin(async move {
            let returned = pending.await.map(Into::into);
            entry.outcome(returned)
        })
    }

    #[cfg(feature = "schema")]
    fn check_input(&self, arguments: &Arguments) -> Result<(), String> {
        match &self.input {
            Some(validator) => validator.check(&super::schema::read_unambiguous(arguments.raw().text())?),
            None => Ok(()),
        }
    }

    #[cfg(not(feature = "schema"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "the same shape as with the feature")]
    fn check_input(&self, _: &Arguments) -> Result<(), String> {
        let _ = &self.input;
        Ok(())
    }

    #[cfg(feature = "schema")]
    fn check_output(&self, complete: &Complete) -> Result<(), String> {
        let (Some(validator), false) = (&self.output, complete.is_error) else { return Ok(()) };
        let Some(structured) = &complete.structured else {
            return Err("there is no structured content".to_owned());
        };
        let value = serde_json::from_str(structured).map_err(|error| error.to_string())?;
        validator.check(&value)
    }

    #[cfg(not(feature = "schema"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "the same shape as with the feature")]
    fn check_output(&self, _: &Complete) -> Result<(), String> {
        let _ = &self.output;
        Ok(())
    }

    fn outcome(&self, returned: Result<ToolResult, HandlerError>) -> Outcome {
        let result = match returned {
            Ok(result) => result,
            Err(error) => ToolResult::failure(error.into_tool_failure(&self.name)?),
        };
        match result.0 {
            Repr::Complete(complete) => match self.check_output(&complete) {
                Ok(()) => self.write(complete),
                Err(reason) => {
                    tracing::error!(
                        tool = self.name,
                        reason,
                        "a tool's result does not match its output schema"
                    );
                    let text = format!("the result of tool `{}` does not match its output schema", self.name);
                    self.outcome(Ok(ToolResult::failure(text)))
                }
            },
            Repr::InputRequired(asked) => write_input_required(asked),
            Repr::Unwritable(error) => {
                tracing::error!(tool = self.name, %error, "a tool's result cannot be written as JSON");
                self.outcome(Ok(ToolResult::failure(format!("tool `{}` failed", self.name))))
            }
        }
    }

    fn write(&self, complete: Complete) -> Outcome {
        let mut content = Cow::Borrowed(&complete.content);
        if let Some(structured) = &complete.structured
            && !content.iter().any(|block| block.as_text().is_some())
        {
            content.to_mut().push(Content::text(structured.to_string()));
        }
        let mut result = RawObject::with_capacity(5);
        let write = |value: serde_json::Result<String>| {
            value.map(ByteString::from).map_err(|error| {
                tracing::error!(tool = self.name, %error, "a tool's result cannot be written as JSON");
                Failure::internal()
            })
        };
        result.push_static("resultType", "\"complete\"");
        result.push_text("content", write(serde_json::to_string(content.as_ref()))?);
        if let Some(structured) = complete.structured {
            result.push_text("structuredContent", structured);
        }
        if complete.is_error {
            result.push_static("isError", "true");
        }
        if !complete.meta.is_empty() {
            result.push_text("_meta", write(serde_json::to_string(&complete.meta))?);
        }
        Ok(result)
    }
}

/// A result that asks for input; one that asks for nothing is the handler's mistake.
pub(super) fn write_input_required(asked: InputRequired) -> Outcome {
    match asked.into_result() {
        Some(Ok(result)) => return Ok(result),
        Some(Err(error)) => tracing::error!(%error, "what a handler asks for cannot be written as JSON"),
        None => tracing::error!("a handler asked for input, but neither for any request nor with a state"),
    }
    Err(Failure::internal())
}
