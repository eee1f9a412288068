//! Checks the shape of the parameters, for servers that do not.
//!
//! [`Dispatch`](crate::dispatch::Dispatch) reads its parameters itself. A server that somebody else wrote may answer
//! something misleading when a parameter has a wrong type: that the method does not exist, say, on which a client stops
//! calling it.
//!
//! # Rules
//! Sections are those of the pages under `server/`, and of `schema`.
//! 1. `tools/call` has a `name` that is a string, and `arguments` that are an object or absent ("Calling Tools").
//! 2. `prompts/get` has a `name` that is a string, and `arguments` that are an object of strings or absent ("Getting a
//!    Prompt").
//! 3. `resources/read` has a `uri` that is a string ("Reading Resources").
//! 4. The three of them may have `inputResponses` that are an object, and a `requestState` that is a string; `null` counts as
//!    absent (`basic/patterns/mrtr`).
//! 5. The methods that list something may have a `cursor` that is a string (`utilities/pagination`).
//! 6. `completion/complete` has a `ref` that is an object with a string `type`, and with a string `name` or `uri` as the type
//!    says; an `argument` that is an object with strings `name` and `value`; and may have a `context` that is an object, whose
//!    `arguments` may be an object of strings (`utilities/completion`).
//! 7. `subscriptions/listen` has `notifications` that are an object, with booleans and an array of strings in their places
//!    (`basic/patterns/subscriptions`).
//! 8. An object that is looked into names no member twice.
//! 9. What else there is, and what it means, is for the server to judge. Other methods and notifications pass.
//!
//! # Rejections
//! HTTP 400, -32602. The message names the parameter, and repeats nothing of it but an unknown `ref.type`.
//!
//! # Order
//! Above an upstream, below everything that refuses for another reason. Reads the message; writes nothing.
//!
//! # Example
//! ```
//! use http::{Request, Response, StatusCode};
//! use mcp_layers::layers::ParamsLayer;
//! use mcp_layers::message::{Message, Reply};
//! use tower::{Layer, Service, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let inner = service_fn(async |_: Request<Message>| -> Result<Response<Reply>, std::convert::Infallible> {
//!     unreachable!("the call is refused above")
//! });
//! let mut service = ParamsLayer::new().layer(inner);
//! let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":[1,2]}}"#;
//! let response = service.call(Request::new(Message::parse(call)?)).await?;
//! assert_eq!(response.status(), StatusCode::BAD_REQUEST);
//! let error = response.body().answer().and_then(|answer| answer.outcome().err()).expect("an error");
//! assert_eq!((error.code, &*error.message), (-32602, "`params.arguments` must be an object"));
//! # Ok(())
//! # }
//! ```

use http::Request;

use crate::message::{Kind, Message, Raw, RawObject};
use crate::policy::{Policy, PolicyLayer};
use crate::protocol::method;
use crate::rejection::{Rejection, shorten};

/// Checks the shape of the parameters; see the [module](self).
pub type ParamsLayer = PolicyLayer<ParamsCheck>;

/// The decision of a [`ParamsLayer`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ParamsCheck;

impl ParamsLayer {
    /// A layer; there is nothing to choose.
    #[must_use]
    pub fn new() -> Self {
        Self::from_policy(ParamsCheck)
    }
}

impl Default for ParamsLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for ParamsCheck {
    type Memo = ();

    fn on_request(&self, request: &mut Request<Message>) -> Result<(), Rejection> {
        let message = request.body();
        if message.is_notification() { Ok(()) } else { check(message) }
    }
}

fn check(message: &Message) -> Result<(), Rejection> {
    let none = RawObject::new();
    let params = Place { path: "params".to_owned(), object: message.params().unwrap_or(&none) };
    match message.method() {
        method::TOOLS_CALL => {
            params.string("name")?;
            params.optional("arguments", Kind::Object)?;
            inputs(message)
        }
        method::PROMPTS_GET => {
            params.string("name")?;
            params.strings("arguments")?;
            inputs(message)
        }
        method::RESOURCES_READ => {
            params.string("uri")?;
            inputs(message)
        }
        method::TOOLS_LIST
        | method::PROMPTS_LIST
        | method::RESOURCES_LIST
        | method::RESOURCES_TEMPLATES_LIST => params.optional("cursor", Kind::String),
        method::COMPLETION_COMPLETE => completion(&params),
        method::SUBSCRIPTIONS_LISTEN => listen(&params),
        _ => Ok(()),
    }
}

fn inputs(message: &Message) -> Result<(), Rejection> {
    if message.input_responses().is_some_and(|responses| responses.kind() != Kind::Object) {
        return Err(wrong("params.inputResponses", Kind::Object));
    }
    if message.request_state().is_some_and(|state| state.kind() != Kind::String) {
        return Err(wrong("params.requestState", Kind::String));
    }
    Ok(())
}

fn completion(params: &Place<'_>) -> Result<(), Rejection> {
    params.within("ref", |reference| match reference.string("type")?.as_ref() {
        "ref/prompt" => reference.string("name").map(drop),
        "ref/resource" => reference.string("uri").map(drop),
        other => Err(Rejection::invalid_params(format!(
            "`params.ref.type` is `{}`; it must be `ref/prompt` or `ref/resource`",
            shorten(other)
        ))),
    })?;
    params.within("argument", |argument| {
        argument.string("name")?;
        argument.string("value").map(drop)
    })?;
    match params.object.get("context") {
        None => Ok(()),
        Some(_) => params.within("context", |context| context.strings("arguments")),
    }
}

fn listen(params: &Place<'_>) -> Result<(), Rejection> {
    params.within("notifications", |notifications| {
        for name in ["toolsListChanged", "promptsListChanged", "resourcesListChanged"] {
            notifications.optional(name, Kind::Bool)?;
        }
        notifications.optional("resourceSubscriptions", Kind::Array)?;
        let uris = notifications.object.get("resourceSubscriptions");
        if uris.into_iter().flat_map(Raw::elements).any(|uri| uri.kind() != Kind::String) {
            let path = &notifications.path;
            let text = format!("`{path}.resourceSubscriptions` must be an array of strings");
            return Err(Rejection::invalid_params(text));
        }
        Ok(())
    })
}

/// An object of the message, and how one gets there.
struct Place<'a> {
    path: String,
    object: &'a RawObject,
}

impl Place<'_> {
    fn below(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    fn optional(&self, name: &str, kind: Kind) -> Result<(), Rejection> {
        match self.object.get(name) {
            Some(value) if value.kind() != kind => Err(wrong(&self.below(name), kind)),
            _ => Ok(()),
        }
    }

    fn string(&self, name: &str) -> Result<std::borrow::Cow<'_, str>, Rejection> {
        let text = self.object.get(name).and_then(Raw::to_str);
        text.ok_or_else(|| wrong(&self.below(name), Kind::String))
    }

    /// Looks into an object that must be there.
    fn within(
        &self,
        name: &str,
        check: impl FnOnce(&Place<'_>) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        let path = self.below(name);
        match self.object.object(name) {
            Some(Ok(object)) => check(&Place { path, object: &object }),
            Some(Err(error)) if self.object.get(name).is_some_and(|value| value.kind() == Kind::Object) => {
                Err(Rejection::invalid_params(format!("in `{path}`, {error}")))
            }
            _ => Err(wrong(&path, Kind::Object)),
        }
    }

    /// An object that may be there, of strings.
    fn strings(&self, name: &str) -> Result<(), Rejection> {
        if self.object.get(name).is_none() {
            return Ok(());
        }
        self.within(name, |place| {
            if place.object.iter().all(|(_, value)| value.kind() == Kind::String) {
                return Ok(());
            }
            Err(Rejection::invalid_params(format!("the values of `{}` must be strings", place.path)))
        })
    }
}

fn wrong(path: &str, kind: Kind) -> Rejection {
    let kind = match kind {
        Kind::Object => "an object",
        Kind::Array => "an array",
        Kind::String => "a string",
        Kind::Bool => "a boolean",
        Kind::Number => "a number",
        Kind::Null => "null",
    };
    Rejection::invalid_params(format!("`{path}` must be {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::testing::{request, send};

    async fn outcome(method: &str, params: &str) -> crate::layers::testing::Outcome {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"{params}}}"#);
        send(&ParamsLayer::new(), request(&text, [])).await
    }

    #[tokio::test]
    async fn parameters_of_the_right_shape_pass_whatever_they_mean() {
        for (method, params) in [
            ("tools/call", r#"{"name":"add"}"#),
            (
                "tools/call",
                r#"{"name":"","arguments":{"a":1,"a":2},"x":[],"inputResponses":{},"requestState":"s"}"#,
            ),
            ("tools/call", r#"{"name":"add","inputResponses":null,"requestState":null}"#),
            ("prompts/get", r#"{"name":"p","arguments":{"a":"b"}}"#),
            ("resources/read", r#"{"uri":"not a uri"}"#),
            ("tools/list", "{}"),
            ("prompts/list", r#"{"cursor":"x"}"#),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#,
            ),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/resource","uri":"u"},"argument":{"name":"a","value":"v"},
                    "context":{"arguments":{"b":"c"}}}"#,
            ),
            (
                "subscriptions/listen",
                r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["u"]}}"#,
            ),
            ("com.example/x", r#"{"name":7}"#),
        ] {
            outcome(method, &format!(r#","params":{params}"#)).await.passed();
        }
        outcome("tools/list", "").await.passed();
        let note = request(r#"{"jsonrpc":"2.0","method":"tools/call"}"#, []);
        send(&ParamsLayer::new(), note).await.passed();
    }

    #[tokio::test]
    async fn parameters_of_a_wrong_shape_are_named() {
        for (method, params, message) in [
            ("tools/call", "{}", "`params.name` must be a string"),
            ("tools/call", r#"{"name":7}"#, "`params.name` must be a string"),
            ("tools/call", r#"{"name":"a","arguments":[]}"#, "`params.arguments` must be an object"),
            ("tools/call", r#"{"name":"a","arguments":null}"#, "`params.arguments` must be an object"),
            ("tools/call", r#"{"name":"a","arguments":"{}"}"#, "`params.arguments` must be an object"),
            (
                "tools/call",
                r#"{"name":"a","inputResponses":[]}"#,
                "`params.inputResponses` must be an object",
            ),
            ("tools/call", r#"{"name":"a","requestState":{}}"#, "`params.requestState` must be a string"),
            ("prompts/get", "{}", "`params.name` must be a string"),
            ("prompts/get", r#"{"name":"a","arguments":7}"#, "`params.arguments` must be an object"),
            (
                "prompts/get",
                r#"{"name":"a","arguments":{"b":1}}"#,
                "the values of `params.arguments` must be strings",
            ),
            (
                "prompts/get",
                r#"{"name":"a","arguments":{"b":"","b":""}}"#,
                "in `params.arguments`, the object names the member `b` twice",
            ),
            ("resources/read", r#"{"uri":null}"#, "`params.uri` must be a string"),
            ("resources/read", r#"{"uri":"u","requestState":7}"#, "`params.requestState` must be a string"),
            ("resources/templates/list", r#"{"cursor":7}"#, "`params.cursor` must be a string"),
            ("tools/list", r#"{"cursor":null}"#, "`params.cursor` must be a string"),
            ("completion/complete", "{}", "`params.ref` must be an object"),
            ("completion/complete", r#"{"ref":{}}"#, "`params.ref.type` must be a string"),
            (
                "completion/complete",
                r#"{"ref":{"type":"x"}}"#,
                "`params.ref.type` is `x`; it must be `ref/prompt` or `ref/resource`",
            ),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","uri":"u"}}"#,
                "`params.ref.name` must be a string",
            ),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/resource"}}"#,
                "`params.ref.uri` must be a string",
            ),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","name":"p"}}"#,
                "`params.argument` must be an object",
            ),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a"}}"#,
                "`params.argument.value` must be a string",
            ),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":[]}"#,
                "`params.context` must be an object",
            ),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},
                    "context":{"arguments":{"b":1}}}"#,
                "the values of `params.context.arguments` must be strings",
            ),
            ("subscriptions/listen", "{}", "`params.notifications` must be an object"),
            (
                "subscriptions/listen",
                r#"{"notifications":{"toolsListChanged":1}}"#,
                "`params.notifications.toolsListChanged` must be a boolean",
            ),
            (
                "subscriptions/listen",
                r#"{"notifications":{"resourceSubscriptions":"u"}}"#,
                "`params.notifications.resourceSubscriptions` must be an array",
            ),
            (
                "subscriptions/listen",
                r#"{"notifications":{"resourceSubscriptions":[7]}}"#,
                "`params.notifications.resourceSubscriptions` must be an array of strings",
            ),
        ] {
            let outcome = outcome(method, &format!(r#","params":{params}"#)).await;
            assert_eq!(outcome.refused(400, -32602, None), message, "{method} {params}");
        }
        assert_eq!(
            outcome("tools/call", "").await.refused(400, -32602, None),
            "`params.name` must be a string"
        );
    }
}
