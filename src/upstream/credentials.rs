//! What the upstream is told about who asks.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use serde_json::Value;

use super::headers::is_framing;
use crate::message::Message;
use crate::principal::Principal;
use crate::rejection::Rejection;

/// Gives the headers with which this gateway shows the upstream who it is, or for whom it asks.
///
/// It sees the request as it came through the layers: the [`Principal`] in its extensions, the message, and the inbound
/// headers; the token too, if [`AuthLayer`](crate::layers::AuthLayer) was asked to leave it there. So it may exchange
/// one token for another (RFC 8693). Passing the inbound token on as it is would break a rule of MCP
/// (`basic/authorization`, "Token Handling").
///
/// It is asked for each request; remembering what it found is its own affair.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Request, header};
/// use mcp_layers::message::Message;
/// use mcp_layers::principal::Principal;
/// use mcp_layers::rejection::Rejection;
/// use mcp_layers::upstream::{Credentials, UpstreamLayer};
///
/// struct Exchange;
///
/// impl Credentials for Exchange {
///     async fn headers(&self, request: &Request<Message>) -> Result<HeaderMap, Rejection> {
///         let Some(principal) = request.extensions().get::<Principal>() else {
///             return Err(Rejection::http(http::StatusCode::FORBIDDEN, "only known callers may ask"));
///         };
///         // Ask the authorization server here.
///         let token = format!("Bearer for-{}", principal.subject());
///         let token = HeaderValue::try_from(token).map_err(|_| Rejection::internal("no token can be had"))?;
///         Ok(HeaderMap::from_iter([(header::AUTHORIZATION, token)]))
///     }
/// }
///
/// let layer = UpstreamLayer::new().with_credentials(Exchange);
/// ```
pub trait Credentials: Send + Sync + 'static {
    /// The headers to send. They replace inbound headers of the same names; those that describe the message, the body or
    /// the connection are not taken.
    ///
    /// Dropping the future must do no harm: a caller that hangs up does that.
    ///
    /// # Errors
    /// The refusal, if this caller may not ask, or if that cannot be told now. The upstream is not asked then.
    fn headers(
        &self,
        request: &Request<Message>,
    ) -> impl Future<Output = Result<HeaderMap, Rejection>> + Send;
}

impl<C: Credentials> Credentials for Arc<C> {
    fn headers(
        &self,
        request: &Request<Message>,
    ) -> impl Future<Output = Result<HeaderMap, Rejection>> + Send {
        (**self).headers(request)
    }
}

/// A request, and the headers to add to it.
pub(super) type Asking =
    Pin<Box<dyn Future<Output = (Request<Message>, Result<HeaderMap, Rejection>)> + Send>>;

/// [`Credentials`] whatever their type.
pub(super) trait Ask: Send + Sync {
    /// Starts to ask.
    fn ask(self: Arc<Self>, request: Request<Message>) -> Asking;
}

impl<C: Credentials> Ask for C {
    fn ask(self: Arc<Self>, request: Request<Message>) -> Asking {
        Box::pin(async move {
            let headers = self.headers(&request).await;
            (request, headers)
        })
    }
}

/// Everything that an upstream is told about who asks. What comes later in this list replaces what comes earlier.
#[derive(Clone, Default)]
pub(super) struct Identity {
    fixed: HeaderMap,
    claims: Vec<(Box<str>, HeaderName)>,
    asked: Option<Arc<dyn Ask>>,
}

impl Identity {
    pub(super) fn fix(&mut self, name: HeaderName, mut value: HeaderValue) {
        value.set_sensitive(true);
        if !is_framing(&name) {
            self.fixed.insert(name, value);
        }
    }

    pub(super) fn tell(&mut self, claim: &str, name: HeaderName) {
        if !is_framing(&name) {
            self.claims.push((claim.into(), name));
        }
    }

    pub(super) fn ask_of(&mut self, credentials: impl Credentials) {
        self.asked = Some(Arc::new(credentials));
    }

    /// Whom to ask, if there is anybody.
    pub(super) fn to_ask(&self) -> Option<Arc<dyn Ask>> {
        self.asked.clone()
    }

    /// Puts into `headers` what is known, in place of what came with the request under these names.
    pub(super) fn write(
        &self,
        headers: &mut HeaderMap,
        principal: Option<&Principal>,
    ) -> Result<(), Rejection> {
        for (name, value) in &self.fixed {
            headers.insert(name, value.clone());
        }
        for (claim, name) in &self.claims {
            // A caller who lacks the claim must not make it up.
            headers.remove(name);
            let Some(value) = principal.and_then(|principal| claim_of(principal, claim)) else { continue };
            let Some(value) = value.and_then(|text| HeaderValue::from_str(&text).ok()) else {
                tracing::warn!(%claim, header = %name, "refused a request: a claim cannot be written as a header");
                return Err(Rejection::http(
                    StatusCode::FORBIDDEN,
                    format!("the claim `{claim}` of the token cannot be told to the upstream server"),
                ));
            };
            headers.insert(name, value);
        }
        Ok(())
    }
}

/// The text of a claim: `None` if there is no such claim, `Some(None)` if it has no one text.
#[allow(clippy::option_option, reason = "absent and unreadable are two things")]
fn claim_of(principal: &Principal, claim: &str) -> Option<Option<String>> {
    match claim {
        "iss" => return Some(Some(principal.issuer().to_owned())),
        "sub" => return Some(Some(principal.subject().to_owned())),
        "client_id" => return principal.client().map(|client| Some(client.to_owned())),
        "scope" => return Some(Some(principal.scopes().join(" "))),
        _ => {}
    }
    match principal.claims().get(claim)? {
        Value::Null => None,
        Value::Array(elements) => Some(list(elements)),
        value => Some(scalar(value)),
    }
}

/// Elements with commas between, if that is clear.
fn list(elements: &[Value]) -> Option<String> {
    let texts = elements.iter().map(|element| scalar(element).filter(|text| !text.contains(',')));
    Some(texts.collect::<Option<Vec<_>>>()?.join(","))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => {
            // White space at the ends would be lost, and bytes outside ASCII are read by each in its own way.
            (text.trim() == text && text.bytes().all(|byte| matches!(byte, b' '..=b'~')))
                .then(|| text.clone())
        }
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl fmt::Debug for Identity {
    /// Shows names alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("fixed", &self.fixed.keys().collect::<Vec<_>>())
            .field("claims", &self.claims)
            .field("asked", &self.asked.is_some())
            .finish()
    }
}
