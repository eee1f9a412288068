//! Prompts: messages that a user can pick.

use std::fmt;
use std::pin::Pin;

use bytestring::ByteString;
use serde_json::{Map, Value, json};

use super::call::{Outcome, Work};
use super::completion::{Completer, CompletionRequest};
use super::context::Context;
use super::error::{BuildError, Failure, HandlerError};
use super::input_required::InputRequired;
use super::tools::{add_meta, write_input_required};
use crate::message::RawObject;
use crate::protocol::{Icon, PromptMessage, Text};
use crate::rejection::{Rejection, shorten};

/// What a prompt returns: its messages, or an [`InputRequired`].
///
/// Specification: `server/prompts`.
///
/// ```
/// use mcp_layers::dispatch::PromptResult;
/// use mcp_layers::protocol::PromptMessage;
///
/// let result = PromptResult::from(vec![PromptMessage::user("Review this code")]).with_description("A review");
/// # let _ = result;
/// ```
#[derive(Debug)]
#[must_use]
pub struct PromptResult(Repr);

#[derive(Debug)]
enum Repr {
    Complete { description: Option<Text>, messages: Vec<PromptMessage> },
    InputRequired(InputRequired),
}

impl PromptResult {
    /// The same with a description.
    pub fn with_description(mut self, text: impl Into<Text>) -> Self {
        if let Repr::Complete { description, .. } = &mut self.0 {
            *description = Some(text.into());
        }
        self
    }

    fn write(self) -> Outcome {
        let (description, messages) = match self.0 {
            Repr::InputRequired(asked) => return write_input_required(asked),
            Repr::Complete { description, messages } => (description, messages),
        };
        let write = |value: serde_json::Result<String>| {
            value.map(ByteString::from).map_err(|error| {
                tracing::error!(%error, "a prompt cannot be written as JSON");
                Failure::internal()
            })
        };
        let mut result = RawObject::new();
        if let Some(description) = description {
            result.push_text("description", write(serde_json::to_string(&description))?);
        }
        result.push_text("messages", write(serde_json::to_string(&messages))?);
        Ok(result)
    }
}

impl From<Vec<PromptMessage>> for PromptResult {
    fn from(messages: Vec<PromptMessage>) -> Self {
        Self(Repr::Complete { description: None, messages })
    }
}

impl From<PromptMessage> for PromptResult {
    fn from(message: PromptMessage) -> Self {
        vec![message].into()
    }
}

impl From<InputRequired> for PromptResult {
    fn from(asked: InputRequired) -> Self {
        Self(Repr::InputRequired(asked))
    }
}

/// The arguments of a prompt: names and strings. Required ones are known to be there.
#[derive(Clone, Default)]
pub struct PromptArguments(Vec<(String, String)>);

impl PromptArguments {
    /// The argument `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All arguments in the order in which they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for PromptArguments {
    /// Arguments may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// An argument of a [`Prompt`].
#[derive(Debug)]
#[must_use]
pub struct PromptArgument {
    definition: Map<String, Value>,
    completer: Option<Completer>,
}

impl PromptArgument {
    /// An argument that may be left out.
    pub fn optional(name: impl Into<String>) -> Self {
        let mut definition = Map::new();
        definition.insert("name".to_owned(), name.into().into());
        Self { definition, completer: None }
    }

    /// An argument that must be given.
    pub fn required(name: impl Into<String>) -> Self {
        Self::optional(name).with("required", true)
    }

    fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.definition.insert(member.to_owned(), value.into());
        self
    }

    /// What the argument is for.
    pub fn with_description(self, description: impl Into<String>) -> Self {
        self.with("description", description.into())
    }

    /// Its name for people.
    pub fn with_title(self, title: impl Into<String>) -> Self {
        self.with("title", title.into())
    }

    /// Suggests values while the user types. At most 100 of them are sent.
    pub fn with_completion<F, Fut>(mut self, suggest: F) -> Self
    where
        F: Fn(CompletionRequest, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>, HandlerError>> + Send + 'static,
    {
        self.completer = Some(Completer::new(suggest));
        self
    }

    fn name(&self) -> &str {
        self.definition.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    fn is_required(&self) -> bool {
        self.definition.contains_key("required")
    }
}

type Handler = dyn Fn(PromptArguments, Context) -> Pending + Send + Sync;
type Pending = Pin<Box<dyn Future<Output = Result<PromptResult, HandlerError>> + Send>>;

/// A prompt: messages that a user can pick, made from arguments.
///
/// Specification: `server/prompts`.
///
/// ```
/// use mcp_layers::dispatch::{Dispatch, Prompt, PromptArgument};
/// use mcp_layers::protocol::PromptMessage;
///
/// let review = Prompt::new("review", |arguments, _context| async move {
///     let code = arguments.get("code").unwrap_or_default();
///     Ok(PromptMessage::user(format!("Please review:\n{code}")))
/// })
/// .with_argument(PromptArgument::required("code").with_description("The code to review"));
///
/// let server = Dispatch::builder("reviewer", "1.0.0").prompt(review).build()?;
/// # let _ = server;
/// # Ok::<(), mcp_layers::dispatch::BuildError>(())
/// ```
#[must_use]
pub struct Prompt {
    name: String,
    definition: Map<String, Value>,
    arguments: Vec<PromptArgument>,
    handler: Box<Handler>,
}

impl Prompt {
    /// A prompt without arguments as yet.
    pub fn new<F, Fut, R>(name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(PromptArguments, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Into<PromptResult>,
    {
        let name = name.into();
        let mut definition = Map::new();
        definition.insert("name".to_owned(), name.as_str().into());
        let handler = move |arguments, context| -> Pending {
            let pending = handler(arguments, context);
            Box::pin(async move { pending.await.map(Into::into) })
        };
        Self { name, definition, arguments: Vec::new(), handler: Box::new(handler) }
    }

    fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.definition.insert(member.to_owned(), value.into());
        self
    }

    /// Adds an argument.
    pub fn with_argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// What the prompt is for.
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

    /// One more member of the definition's `_meta`.
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        add_meta(&mut self.definition, key.into(), value.into());
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn has_completion(&self) -> bool {
        self.arguments.iter().any(|argument| argument.completer.is_some())
    }

    pub(super) fn build(mut self) -> Result<PromptEntry, BuildError> {
        for (at, argument) in self.arguments.iter().enumerate() {
            if argument.name().is_empty() {
                return Err(BuildError::Unnamed { kind: "prompt argument" });
            }
            if self.arguments[..at].iter().any(|earlier| earlier.name() == argument.name()) {
                return Err(BuildError::Duplicate {
                    kind: "prompt argument",
                    name: argument.name().to_owned(),
                });
            }
        }
        if !self.arguments.is_empty() {
            let arguments: Vec<_> = self.arguments.iter().map(|argument| &argument.definition).collect();
            self.definition.insert("arguments".to_owned(), json!(arguments));
        }
        Ok(PromptEntry {
            definition: serde_json::to_string(&self.definition)?.into(),
            arguments: self.arguments,
            handler: self.handler,
        })
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A registered prompt.
pub(super) struct PromptEntry {
    /// The prompt as `prompts/list` shows it.
    pub(super) definition: ByteString,
    arguments: Vec<PromptArgument>,
    handler: Box<Handler>,
}

impl PromptEntry {
    pub(super) fn completer(&self, argument: &str) -> Option<Completer> {
        self.arguments.iter().find(|known| known.name() == argument)?.completer.clone()
    }

    /// Reads the arguments: strings, the required ones among them.
    pub(super) fn read(&self, context: &Context) -> Result<PromptArguments, Rejection> {
        let object: RawObject = context.object_param("arguments").map_err(Rejection::invalid_params)?;
        let mut arguments = Vec::with_capacity(object.len());
        for (name, value) in object.iter() {
            let value = value.to_str().ok_or_else(|| {
                Rejection::invalid_params(format!(
                    "the prompt's argument `{}` must be a string",
                    shorten(name)
                ))
            })?;
            arguments.push((name.to_owned(), value.into_owned()));
        }
        let arguments = PromptArguments(arguments);
        match self.arguments.iter().find(|known| known.is_required() && arguments.get(known.name()).is_none())
        {
            Some(missing) => Err(Rejection::invalid_params(format!(
                "the prompt's argument `{}` is missing",
                missing.name()
            ))),
            None => Ok(arguments),
        }
    }

    pub(super) fn get(&self, arguments: PromptArguments, context: Context) -> Work {
        let pending = (self.handler)(arguments, context);
        Box::pin(async move { pending.await.map_err(|error| error.into_failure("prompts/get"))?.write() })
    }
}
