//! Suggestions for the values of arguments.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use super::call::Outcome;
use super::context::Context;
use super::error::HandlerError;
use super::prompts::PromptEntry;
use super::registry::Registry;
use super::resources::{ResourceEntry, TemplateEntry};
use crate::message::{Message, Raw, RawObject};
use crate::rejection::{Rejection, shorten};

/// The most values that one answer may hold.
///
/// Specification: `server/utilities/completion`.
const MAX_VALUES: usize = 100;

/// What is being completed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// What the user has typed so far.
    pub value: String,
    /// The other arguments, as far as they are known: name and value.
    pub arguments: Vec<(String, String)>,
}

impl CompletionRequest {
    /// The other argument `name`, if it is known.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

type Suggestions = Pin<Box<dyn Future<Output = Result<Vec<String>, HandlerError>> + Send>>;

/// What suggests values for one argument.
#[derive(Clone)]
pub(super) struct Completer(Arc<dyn Fn(CompletionRequest, Context) -> Suggestions + Send + Sync>);

impl Completer {
    pub(super) fn new<F, Fut>(handler: F) -> Self
    where
        F: Fn(CompletionRequest, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>, HandlerError>> + Send + 'static,
    {
        Self(Arc::new(move |request, context| Box::pin(handler(request, context))))
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Completion {
    values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    has_more: bool,
}

/// Finds what completes the argument that the request names; `None` if nothing does.
pub(super) fn find(
    message: &Message,
    prompts: &Registry<PromptEntry>,
    resources: &Registry<ResourceEntry>,
    templates: &Registry<TemplateEntry>,
) -> Result<(Option<Completer>, CompletionRequest), Rejection> {
    let (name, request) = read(message)?;
    let reference = object(message.params(), "ref")?;
    let completer = match string(&reference, "ref.type", "type")?.as_str() {
        "ref/prompt" => {
            let prompt = string(&reference, "ref.name", "name")?;
            let entry = prompts.get(&prompt).ok_or_else(|| Rejection::unknown_prompt(&prompt))?;
            entry.completer(&name)
        }
        "ref/resource" => {
            let uri = string(&reference, "ref.uri", "uri")?;
            match templates.get(&uri) {
                Some(entry) => entry.completer(&name),
                // A resource with a fixed URI has nothing to complete.
                None if resources.get(&uri).is_some() => None,
                None => {
                    return Err(Rejection::unknown_template(&uri));
                }
            }
        }
        other => {
            return Err(Rejection::invalid_params(format!(
                "`params.ref.type` is `{}`; it must be `ref/prompt` or `ref/resource`",
                shorten(other)
            )));
        }
    };
    Ok((completer, request))
}

fn read(message: &Message) -> Result<(String, CompletionRequest), Rejection> {
    let argument = object(message.params(), "argument")?;
    let name = string(&argument, "argument.name", "name")?;
    let value = string(&argument, "argument.value", "value")?;
    let mut arguments = Vec::new();
    if message.param("context").is_some() {
        let context = object(message.params(), "context")?;
        if context.get("arguments").is_some() {
            for (name, value) in object(Some(&context), "arguments")?.iter() {
                let value = value.to_str().ok_or_else(|| {
                    Rejection::invalid_params("the values of `params.context.arguments` must be strings")
                })?;
                arguments.push((name.to_owned(), value.into_owned()));
            }
        }
    }
    Ok((name, CompletionRequest { value, arguments }))
}

fn object(outer: Option<&RawObject>, name: &str) -> Result<RawObject, Rejection> {
    outer
        .and_then(|outer| outer.object(name))
        .and_then(Result::ok)
        .ok_or_else(|| Rejection::invalid_params(format!("`params.{name}` must be an object")))
}

fn string(object: &RawObject, place: &str, name: &str) -> Result<String, Rejection> {
    object
        .get(name)
        .and_then(Raw::to_str)
        .map(std::borrow::Cow::into_owned)
        .ok_or_else(|| Rejection::invalid_params(format!("`params.{place}` must be a string")))
}

/// Asks the completer, and cuts what is too much.
pub(super) async fn complete(
    completer: Option<Completer>,
    request: CompletionRequest,
    context: Context,
) -> Outcome {
    let completion = match completer {
        None => Completion { values: Vec::new(), total: None, has_more: false },
        Some(completer) => {
            let values = (completer.0)(request, context)
                .await
                .map_err(|error| error.into_failure("completion/complete"))?;
            cut(values)
        }
    };
    let mut result = RawObject::new();
    // Strings and numbers are always JSON.
    result.push_text("completion", serde_json::to_string(&completion).unwrap_or_default().into());
    Ok(result)
}

fn cut(mut values: Vec<String>) -> Completion {
    let total = values.len();
    values.truncate(MAX_VALUES);
    Completion { values, total: Some(total), has_more: total > MAX_VALUES }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_hundred_values_are_given_and_the_rest_is_counted() {
        let cut = |count: usize| {
            let completion = cut((0..count).map(|n| n.to_string()).collect());
            (completion.values.len(), completion.total, completion.has_more)
        };
        assert_eq!(cut(0), (0, Some(0), false));
        assert_eq!(cut(100), (100, Some(100), false));
        assert_eq!(cut(101), (100, Some(101), true));
    }
}
