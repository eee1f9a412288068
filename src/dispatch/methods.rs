//! Methods that extensions and applications add to the protocol.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use super::call::{Outcome, Work};
use super::context::Context;
use super::error::{BuildError, Failure, HandlerError};
use crate::message::{Message, Meta, RawObject};
use crate::protocol::{ClientCapabilities, ExtensionId, Revision};
use crate::rejection::Rejection;

type Handler = dyn Fn(Context) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync;

/// A method that an extension or an application adds to the protocol, and the revisions in which it exists.
///
/// In any other revision it is 404 -32601; after that, a client that has not declared the method's
/// [extension](Self::with_extension) is refused with 400 -32021.
///
/// Specification: `basic/versioning`, "Extension Negotiation".
///
/// ```
/// use mcp_layers::dispatch::{Context, Dispatch, Method};
/// use mcp_layers::protocol::{ExtensionId, Revision};
/// use serde_json::json;
///
/// let print = Method::new("com.example/receipts/print", [Revision::V2026_07_28], |context: Context| async move {
///     #[derive(serde::Deserialize)]
///     struct Print {
///         number: u64,
///     }
///     let Print { number } = context.params()?;
///     Ok(json!({"printed": number}))
/// })
/// .with_extension(ExtensionId::new("com.example/receipts")?);
///
/// let server = Dispatch::builder("shop", "1.0.0").method(print).build()?;
/// # let _ = server;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Method {
    name: String,
    revisions: Vec<Revision>,
    extension: Option<ExtensionId>,
    handler: Box<Handler>,
}

impl Method {
    /// The method `name`, which exists in `revisions` and is answered with an object.
    ///
    /// The name is none that a revision of the protocol defines, and there is at least one revision;
    /// [`build`](super::Builder::build) says if not.
    pub fn new<F, Fut, R>(
        name: impl Into<String>,
        revisions: impl IntoIterator<Item = Revision>,
        handler: F,
    ) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
        R: Serialize,
    {
        let handler = move |context: Context| -> Work {
            let pending = handler(context.clone());
            Box::pin(async move {
                let method = context.message().method();
                let result = pending.await.map_err(|error| error.into_failure(method))?;
                RawObject::from_value(&result).map_err(|error| {
                    tracing::error!(method, %error, "a method's result cannot be written as a JSON object");
                    Failure::internal()
                })
            })
        };
        Self {
            name: name.into(),
            revisions: revisions.into_iter().collect(),
            extension: None,
            handler: Box::new(handler),
        }
    }

    /// The extension that defines the method: clients must have declared it, and the server announces it. Defaults to
    /// none.
    pub fn with_extension(mut self, extension: ExtensionId) -> Self {
        self.extension = Some(extension);
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn extension(&self) -> Option<&ExtensionId> {
        self.extension.as_ref()
    }

    pub(super) fn build(self) -> Result<MethodEntry, BuildError> {
        let name = self.name;
        if Revision::defines(&name) {
            return Err(BuildError::SpecMethod { name });
        }
        if self.revisions.is_empty() {
            return Err(BuildError::NoRevision { name });
        }
        let needs = match self.extension {
            Some(extension) => ClientCapabilities::new().with_extension(extension),
            None => ClientCapabilities::new(),
        };
        Ok(MethodEntry { revisions: self.revisions, needs, handler: self.handler })
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Method")
            .field("name", &self.name)
            .field("revisions", &self.revisions)
            .field("extension", &self.extension)
            .finish_non_exhaustive()
    }
}

/// A registered method.
pub(super) struct MethodEntry {
    revisions: Vec<Revision>,
    needs: ClientCapabilities,
    handler: Box<Handler>,
}

impl MethodEntry {
    /// First whether the method exists in the request's revision, then whether the client knows the extension.
    pub(super) fn admit(&self, request: &http::Request<Message>) -> Result<(), Rejection> {
        let message = request.body();
        if !Revision::of(request).is_some_and(|revision| self.revisions.contains(&revision)) {
            return Err(Rejection::method_not_found(message.method()));
        }
        let missing = self.needs.missing_from(message.meta().and_then(Meta::client_capabilities));
        if missing.is_empty() { Ok(()) } else { Err(Rejection::missing_capability(&missing)) }
    }

    pub(super) fn call(self: &Arc<Self>, context: Context) -> Work {
        (self.handler)(context)
    }
}
