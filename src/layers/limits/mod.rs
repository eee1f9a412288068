//! Limits the arguments of `tools/call`.
//!
//! For what a handler or a validator would make of many small values, of deep nesting, or of long strings. It does not
//! protect the memory that the body takes: the limit on its bytes does, and the bound on nesting of every message, 128.
//!
//! # Rules
//! The specification leaves limits to the server (`basic/index`, "Composition-Keyword Resource Use").
//! 1. *Elements*: each element of an array and each member of an object counts 1, at every depth, whatever its value.
//!    `arguments` itself does not count. Of a member that is named twice the last counts, and what is in it.
//! 2. *Depth*: how many arrays and objects are inside each other, `arguments` itself being the first.
//! 3. *String bytes*: how many bytes of UTF-8 one string or one member's name has once its escapes are resolved.
//! 4. A limit that is met exactly passes. Counting stops at one more than the limit.
//!
//! # Rejections
//! By default the call is answered with a tool result that has `isError`, HTTP 200: the model that made the call reads
//! what to change. [`with_protocol_errors`](LimitsLayer::with_protocol_errors) makes it 400, -32602. Both name the tool
//! and the maximum.
//!
//! # Order
//! Right above what calls the tool, below everything that refuses a call for another reason: a tool result says that the
//! tool was there and the caller may call it. That a tool is unknown is a protocol error and comes first; give the layer
//! the catalog ([`with_catalog`](LimitsLayer::with_catalog)) and it answers so itself. Reads the message and the catalog;
//! writes nothing.
//!
//! # Example
//! ```
//! use std::num::NonZeroUsize;
//!
//! use http::{Request, Response, StatusCode};
//! use mcp_layers::layers::LimitsLayer;
//! use mcp_layers::message::{Message, Reply};
//! use tower::{Layer, Service, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let inner = service_fn(async |_: Request<Message>| -> Result<Response<Reply>, std::convert::Infallible> {
//!     unreachable!("the call is answered above")
//! });
//! let mut service = LimitsLayer::new().with_max_elements(NonZeroUsize::new(3)).layer(inner);
//!
//! let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sum","arguments":{"of":[1,2,3]}}}"#;
//! let response = service.call(Request::new(Message::parse(call)?)).await?;
//! assert_eq!(response.status(), StatusCode::OK);
//! let result = response.body().answer().and_then(|answer| answer.outcome().ok()).expect("a result");
//! assert_eq!(result.get("isError").and_then(|is_error| is_error.to_bool()), Some(true));
//! # Ok(())
//! # }
//! ```

mod count;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use http::Request;

use self::count::Bounds;
use crate::catalog::ToolCatalog;
use crate::message::Message;
use crate::policy::{Policy, PolicyLayer};
use crate::protocol::method::TOOLS_CALL;
use crate::rejection::{Rejection, shorten};

/// Limits the arguments of `tools/call`; see the [module](self).
pub type LimitsLayer = PolicyLayer<Limits>;

/// The decision of a [`LimitsLayer`].
#[derive(Clone, Default)]
pub struct Limits {
    bounds: Bounds,
    protocol_errors: bool,
    catalog: Option<Arc<dyn ToolCatalog>>,
}

impl LimitsLayer {
    /// Limits nothing until it is told to.
    #[must_use]
    pub fn new() -> Self {
        Self::from_policy(Limits::default())
    }

    /// How many elements the arguments of one call may have. Defaults to no limit.
    #[must_use]
    pub fn with_max_elements(self, max: impl Into<Option<NonZeroUsize>>) -> Self {
        let elements = max.into();
        self.map_policy(|limits| Limits { bounds: Bounds { elements, ..limits.bounds }, ..limits })
    }

    /// How many arrays and objects may be inside each other, `arguments` included. Defaults to no limit.
    #[must_use]
    pub fn with_max_depth(self, max: impl Into<Option<NonZeroUsize>>) -> Self {
        let depth = max.into();
        self.map_policy(|limits| Limits { bounds: Bounds { depth, ..limits.bounds }, ..limits })
    }

    /// How many bytes one string or one member's name may have. Defaults to no limit.
    #[must_use]
    pub fn with_max_string_bytes(self, max: impl Into<Option<NonZeroUsize>>) -> Self {
        let string_bytes = max.into();
        self.map_policy(|limits| Limits { bounds: Bounds { string_bytes, ..limits.bounds }, ..limits })
    }

    /// Refuses with -32602 instead of answering with a tool result. Defaults to false.
    #[must_use]
    pub fn with_protocol_errors(self, protocol_errors: bool) -> Self {
        self.map_policy(|limits| Limits { protocol_errors, ..limits })
    }

    /// Knows which tools there are: a call of any other that breaks a limit is refused with -32602. Defaults to taking
    /// every tool for one that is there.
    #[must_use]
    pub fn with_catalog(self, catalog: impl ToolCatalog) -> Self {
        let catalog: Option<Arc<dyn ToolCatalog>> = Some(Arc::new(catalog));
        self.map_policy(|limits| Limits { catalog, ..limits })
    }
}

impl Default for LimitsLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("bounds", &self.bounds)
            .field("protocol_errors", &self.protocol_errors)
            .finish_non_exhaustive()
    }
}

impl Policy for Limits {
    type Memo = ();

    fn on_request(&self, request: &mut Request<Message>) -> Result<(), Rejection> {
        let message = request.body();
        if message.method() != TOOLS_CALL || message.is_notification() {
            return Ok(());
        }
        // Without a name it is no call of any tool, and refused as that below.
        let (Some(tool), Some(arguments)) = (message.target(), message.arguments()) else { return Ok(()) };
        let Err(exceeded) = self.bounds.check(arguments) else { return Ok(()) };
        let text = format!("the arguments of the tool `{}` {exceeded}", shorten(tool));
        let unknown = self.catalog.as_ref().is_some_and(|catalog| {
            catalog.is_exhaustive() && catalog.tool(tool, request.extensions()).is_none()
        });
        Err(if unknown {
            Rejection::invalid_params(format!("unknown tool `{}`; also, {text}", shorten(tool)))
        } else if self.protocol_errors {
            Rejection::invalid_params(text)
        } else {
            Rejection::tool_error(text)
        })
    }
}

#[cfg(test)]
mod tests;
