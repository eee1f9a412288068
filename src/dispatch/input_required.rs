//! Asking the client for more before a request can be answered.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::message::RawObject;

/// A result that asks the client for more: the client answers by sending the request again, with
/// `inputResponses` and with `requestState` as it was given.
///
/// It can be returned by handlers of tools, prompts and resources; the next round reads the answers with
/// [`Context::input_response`](super::Context::input_response).
///
/// The client must have declared the capability that each request needs. A state passes through the client, so it is
/// given only if a layer above seals it: [`RequestStateLayer`](crate::layers::RequestStateLayer).
///
/// Specification: `basic/patterns/mrtr`.
///
/// ```
/// use mcp_layers::dispatch::{Context, HandlerError, InputRequired, ToolResult};
/// use serde_json::json;
///
/// async fn delete(context: Context) -> Result<ToolResult, HandlerError> {
///     #[derive(serde::Deserialize)]
///     struct Confirmation {
///         sure: bool,
///     }
///     match context.elicited::<Confirmation>("confirm") {
///         Some(Confirmation { sure: true }) => Ok("deleted".into()),
///         Some(_) => Ok("kept".into()),
///         None => {
///             let form = json!({
///                 "type": "object",
///                 "properties": {"sure": {"type": "boolean"}},
///                 "required": ["sure"],
///             });
///             Ok(InputRequired::new().elicit("confirm", "Delete it?", form).into())
///         }
///     }
/// }
/// # let _ = delete;
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct InputRequired {
    #[serde(skip_serializing_if = "Map::is_empty")]
    input_requests: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
    /// Why the state cannot be written.
    #[serde(skip)]
    unwritable: Option<String>,
}

impl InputRequired {
    /// Asks for nothing yet. A result needs at least one request or a state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the user to fill in a form: a flat JSON Schema of type `object`.
    ///
    /// Specification: `client/elicitation`, "Form Mode".
    pub fn elicit(self, key: impl Into<String>, message: impl Into<String>, schema: Value) -> Self {
        let params = json!({ "mode": "form", "message": message.into(), "requestedSchema": schema });
        self.request(key, "elicitation/create", params)
    }

    /// Asks the user to visit a page, for what must not pass through the client.
    ///
    /// Specification: `client/elicitation`, "URL Mode".
    pub fn elicit_url(
        self,
        key: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Self {
        let params = json!({ "mode": "url", "message": message.into(), "url": url.into() });
        self.request(key, "elicitation/create", params)
    }

    /// Asks the client's model. `params` are those of `sampling/createMessage`.
    ///
    /// Specification: `client/sampling`.
    pub fn sample(self, key: impl Into<String>, params: Value) -> Self {
        self.request(key, "sampling/createMessage", params)
    }

    /// Asks which directories the client works in.
    ///
    /// Specification: `client/roots`.
    pub fn list_roots(self, key: impl Into<String>) -> Self {
        self.request(key, "roots/list", json!({}))
    }

    fn request(mut self, key: impl Into<String>, method: &str, params: Value) -> Self {
        self.input_requests.insert(key.into(), json!({ "method": method, "params": params }));
        self
    }

    /// Has the client bring `state` back with the next round, which reads it with
    /// [`Context::request_state`](super::Context::request_state). What does not serialize as JSON fails the request.
    ///
    /// ```
    /// use mcp_layers::dispatch::InputRequired;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Asked {
    ///     times: u32,
    /// }
    /// let asked = InputRequired::new().with_state(&Asked { times: 1 });
    /// # let _ = asked;
    /// ```
    pub fn with_state<T: Serialize + ?Sized>(mut self, state: &T) -> Self {
        match serde_json::to_string(state) {
            Ok(text) => self.request_state = Some(text),
            Err(error) => self.unwritable = Some(error.to_string()),
        }
        self
    }

    /// The members of the result, or `None` if it asks for nothing.
    pub(super) fn into_result(self) -> Option<serde_json::Result<RawObject>> {
        if let Some(error) = self.unwritable {
            return Some(Err(serde::ser::Error::custom(error)));
        }
        if self.input_requests.is_empty() && self.request_state.is_none() {
            return None;
        }
        Some(RawObject::from_value(&self).map(|mut result| {
            result.push_static("resultType", "\"input_required\"");
            result
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_request_has_its_method() {
        let asked = InputRequired::new()
            .elicit("a", "Name?", json!({"type": "object"}))
            .elicit_url("b", "Visit", "https://example.com")
            .sample("c", json!({"maxTokens": 1}))
            .list_roots("d")
            .with_state(&json!({"n": 1}));
        let result: Value = serde_json::from_str(&asked.into_result().unwrap().unwrap().to_string()).unwrap();
        assert_eq!(
            result,
            json!({
                "resultType": "input_required",
                "inputRequests": {
                    "a": {"method": "elicitation/create",
                          "params": {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object"}}},
                    "b": {"method": "elicitation/create",
                          "params": {"mode": "url", "message": "Visit", "url": "https://example.com"}},
                    "c": {"method": "sampling/createMessage", "params": {"maxTokens": 1}},
                    "d": {"method": "roots/list", "params": {}},
                },
                "requestState": "{\"n\":1}",
            })
        );
    }

    #[test]
    fn asking_for_nothing_is_no_result() {
        assert!(InputRequired::new().into_result().is_none());
        assert!(InputRequired::new().with_state(&()).into_result().is_some());
    }
}
