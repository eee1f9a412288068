//! Decides which revision a request speaks, and refuses what that revision does not have.
//!
//! # Rules
//! 1. Every request carries `_meta` with the protocol version and the client's capabilities (`basic/index`, "Per-request
//!    protocol fields"). What else is known of `_meta` has the right shape where it is there: `clientInfo`, `logLevel`
//!    (ibid.) and `progressToken` (`basic/patterns/progress`). A key that is there is a claim, whatever its type: `null`
//!    is refused too.
//! 2. `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name` come once at most: two readers would take two different values
//!    (`basic/transports/streamable-http`, "Server Validation").
//! 3. `MCP-Protocol-Version` says what `_meta` says (ibid., "Protocol Version Header").
//! 4. The version is one that is supported, compared as text (ibid.).
//! 5. The revision has the method (ibid.). `Mcp-Method` is checked first, as
//!    [`HeadersLayer`](crate::layers::HeadersLayer) does for the methods that pass.
//! 6. What says nothing of a version in `_meta`, but is an `initialize` or names another version in its header, comes
//!    from a legacy client. It is told which versions are supported, and so is every other `initialize` that is refused
//!    (`basic/versioning`, "Backward Compatibility with Initialization-Based Versions").
//! 7. Notifications need no headers and no `_meta` (`basic/transports/streamable-http`, "Sending Messages"). Where they
//!    say a version, it is one text, the same in both places, and supported. A notification without `_meta` whose header
//!    names a legacy revision passes: legacy clients wait for the 202.
//!
//! # Rejections
//! In this order; the first that applies is told.
//!
//! | what | HTTP | code | data |
//! |---|---|---|---|
//! | a legacy client | 400 | -32022 | `supported`, `requested` |
//! | `_meta` is missing or has a wrong shape | 400 | -32602 | |
//! | a header comes twice, is missing, differs or is not text | 400 | -32020 | |
//! | the version is not supported | 400 | -32022 | `supported`, `requested` |
//! | `Mcp-Method` of a method that the revision lacks | 400 | -32020 | |
//! | a method that the revision lacks | 404 | -32601 | |
//!
//! A refused `initialize` always has `supported` in its data.
//!
//! # Order
//! First below [`EndpointLayer`](crate::endpoint::EndpointLayer), above [`HeadersLayer`](crate::layers::HeadersLayer).
//! Reads the message's method and `_meta` and the three headers. Behind it [`Revision::of`] tells the revision that a
//! request speaks; that of a notification which only its header names is written into the extensions.
//!
//! # Example
//! ```
//! use http::{Request, Response, StatusCode};
//! use mcp_layers::layers::VersionLayer;
//! use mcp_layers::message::{Answer, Message, RawObject, Reply};
//! use mcp_layers::protocol::Revision;
//! use tower::{Layer, Service, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let inner = service_fn(async |request: Request<Message>| {
//!     assert_eq!(Revision::of(&request), Some(Revision::V2026_07_28));
//!     let id = request.body().id().cloned();
//!     Ok::<_, std::convert::Infallible>(Response::new(Reply::Answer(Answer::result(id, RawObject::new()))))
//! });
//! let mut service = VersionLayer::new().layer(inner);
//!
//! let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
//!     "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!     "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
//! let request = Request::post("/mcp").header("mcp-protocol-version", "2026-07-28").body(Message::parse(list)?)?;
//! assert_eq!(service.call(request).await?.status(), StatusCode::OK);
//!
//! let without_header = Request::post("/mcp").body(Message::parse(list)?)?;
//! assert_eq!(service.call(without_header).await?.status(), StatusCode::BAD_REQUEST);
//! # Ok(())
//! # }
//! ```

mod meta;

use http::{HeaderMap, Request};
use serde_json::json;

use super::mirrored::{self, METHOD, NAME, VERSION};
use crate::message::{Message, Raw};
use crate::policy::{Policy, PolicyLayer};
use crate::protocol::meta::PROTOCOL_VERSION;
use crate::protocol::{Revision, code};
use crate::rejection::Rejection;

/// Decides which revision a request speaks; see the [module](self).
pub type VersionLayer = PolicyLayer<VersionGate>;

/// The decision of a [`VersionLayer`].
#[derive(Clone, Debug)]
pub struct VersionGate {
    supported: Vec<Revision>,
}

impl VersionLayer {
    /// Supports 2026-07-28.
    #[must_use]
    pub fn new() -> Self {
        Self::from_policy(VersionGate { supported: vec![Revision::V2026_07_28] })
    }

    /// Supports exactly these revisions, the preferred one first.
    ///
    /// They are revisions whose requests carry `_meta`: this layer does not open sessions for legacy clients.
    /// Defaults to 2026-07-28.
    #[must_use]
    pub fn with_supported(self, revisions: impl IntoIterator<Item = Revision>) -> Self {
        let supported = revisions.into_iter().collect();
        self.map_policy(|_| VersionGate { supported })
    }
}

impl Default for VersionLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for VersionGate {
    type Memo = ();

    fn on_request(&self, request: &mut Request<Message>) -> Result<(), Rejection> {
        let (headers, message) = (request.headers(), request.body());
        if !message.is_notification() {
            let checked = self.check_request(headers, message);
            return checked.map_err(|rejection| self.tell_versions(message, rejection));
        }
        // What `_meta` says need not be said again: it is read faster than an extension is written.
        if let Some(revision) = self.check_notification(headers, message)?
            && claimed_version(message).is_none()
        {
            request.extensions_mut().insert(revision);
        }
        Ok(())
    }
}

impl VersionGate {
    fn check_request(&self, headers: &HeaderMap, message: &Message) -> Result<(), Rejection> {
        let version = match meta::check(message.meta()) {
            Ok(version) => version,
            Err(rejection) => {
                if claimed_version(message).is_none() {
                    self.refuse_legacy(headers, message)?;
                }
                return Err(rejection);
            }
        };
        refuse_duplicates(headers)?;
        match VERSION.text(headers)? {
            None => return Err(VERSION.missing(&version)),
            Some(found) if found == version => {}
            Some(found) => return Err(VERSION.differs(found, &version)),
        }
        let revision = self.revision(&version)?;
        if !revision.has_request(message.method()) {
            mirrored::check_method(headers, message)?;
            return Err(Rejection::method_not_found(message.method()));
        }
        Ok(())
    }

    /// Refuses a request without a version in `_meta` if it shows that it comes from a legacy client.
    fn refuse_legacy(&self, headers: &HeaderMap, message: &Message) -> Result<(), Rejection> {
        // A header that cannot be read says nothing; that `_meta` is missing then comes first.
        let header = VERSION.text(headers).ok().flatten().unwrap_or_default();
        if message.method() == "initialize" {
            let asked = message.param("protocolVersion").and_then(Raw::to_str);
            return Err(Rejection::no_handshake(&self.names(), asked.as_deref().unwrap_or(header)));
        }
        if header.is_empty() {
            return Ok(());
        }
        self.revision(header).map(drop)
    }

    fn check_notification(
        &self,
        headers: &HeaderMap,
        message: &Message,
    ) -> Result<Option<Revision>, Rejection> {
        let version = match claimed_version(message) {
            None => None,
            Some(claim) => Some(claim.to_str().ok_or_else(meta::version_is_not_text)?),
        };
        refuse_duplicates(headers)?;
        match (version, VERSION.text(headers)?) {
            (None, None) => Ok(None),
            (None, Some(header)) => match self.revision(header) {
                Ok(revision) => Ok(Some(revision)),
                Err(_) if Revision::from_text(header).is_some() => Ok(None),
                Err(rejection) => Err(rejection),
            },
            (Some(version), Some(header)) if version != header => Err(VERSION.differs(header, &version)),
            (Some(version), _) => self.revision(&version).map(Some),
        }
    }

    fn revision(&self, text: &str) -> Result<Revision, Rejection> {
        let found = self.supported.iter().copied().find(|revision| revision.as_str() == text);
        found.ok_or_else(|| Rejection::unsupported_version(&self.names(), text))
    }

    fn names(&self) -> Vec<&'static str> {
        self.supported.iter().map(|revision| revision.as_str()).collect()
    }

    /// Adds the supported versions to the refusal of an `initialize`, where a client finds them in the same place
    /// whatever was wrong.
    fn tell_versions(&self, message: &Message, rejection: Rejection) -> Rejection {
        if message.method() == "initialize" && rejection.code() != code::UNSUPPORTED_PROTOCOL_VERSION {
            rejection.with_data(&json!({ "supported": self.names() }))
        } else {
            rejection
        }
    }
}

/// The version that `_meta` claims, whatever its type.
fn claimed_version(message: &Message) -> Option<Raw<'_>> {
    message.meta()?.get(PROTOCOL_VERSION)
}

/// The fields that are routed by may not come twice, whether the method needs them or not.
fn refuse_duplicates(headers: &HeaderMap) -> Result<(), Rejection> {
    // As many lines as names: nothing comes twice.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    for field in [VERSION, METHOD, NAME] {
        field.bytes(headers)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
