//! Checks the `Mcp-*` headers against the message.
//!
//! Proxies route, limit and log by these headers without reading the body. A request whose headers say something else
//! than its body would be routed as one thing and carried out as another.
//!
//! # Rules
//! Sections are those of `basic/transports/streamable-http`.
//! 1. Every request has `Mcp-Method`, equal to its `method`, case included ("Standard Request Headers").
//! 2. A request whose method has a target as a string (`params.name`, `params.uri`; `params.taskId` of the tasks
//!    extension) has `Mcp-Name`, equal to it once decoded (ibid., "Value Encoding"). Without such a target the header is
//!    ignored: what is wrong with the parameters is answered where they are read.
//! 3. A call of a tool in the catalog has `Mcp-Param-*` for each argument that the tool mirrors and that is there, and
//!    for no other of them ("Server Behavior for Custom Headers"). Which values agree, [`protocol::mirror`] says. A path to
//!    an argument on which a member is named twice leads to no one value, and is refused. `Mcp-Param-*` that the tool
//!    does not declare are ignored, and so are all of them for a tool that the catalog does not know.
//! 4. A checked header has one line, without bytes outside ASCII ("Server Validation").
//! 5. Notifications need no headers ("Sending Messages"); an `Mcp-Method` that is there must agree.
//! 6. Tools whose `inputSchema` has an `x-mcp-header` that breaks a rule are taken out of `tools/list`: clients must not
//!    see them ("Schema Extension"). So is a tool whose annotations cannot be read for sure. The others keep their order
//!    and their bytes, and so does a list in which all are valid. Each dropped tool logs a warning with name and reason.
//!
//! [`protocol::mirror`]: crate::protocol::mirror
//!
//! # Rejections
//! HTTP 400, -32020. The message names the header. For `Mcp-Method` and `Mcp-Name` it repeats what was found and what was
//! expected; for `Mcp-Param-*` it repeats neither, because arguments are the user's and refusals are logged.
//!
//! # Order
//! Below [`VersionLayer`](crate::layers::VersionLayer): which headers there are depends on the revision. A stack with
//! checks between the standard headers and the parameters has this layer twice: [`HeadersLayer::new`] above, and
//! [`HeadersLayer::params_only`] below. Reads the headers, the message and the catalog; edits the answers to `tools/list`,
//! so that caches of what the server said belong below it.
//!
//! # Example
//! ```
//! use http::{Request, Response, StatusCode};
//! use mcp_layers::catalog::StaticCatalog;
//! use mcp_layers::layers::HeadersLayer;
//! use mcp_layers::message::{Answer, Message, RawObject, Reply};
//! use serde_json::json;
//! use tower::{Layer, Service, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let inner = service_fn(async |request: Request<Message>| {
//!     let id = request.body().id().cloned();
//!     Ok::<_, std::convert::Infallible>(Response::new(Reply::Answer(Answer::result(id, RawObject::new()))))
//! });
//! let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
//! let catalog = StaticCatalog::new([("sql", &schema)])?;
//! let mut service = HeadersLayer::new().with_catalog(catalog).layer(inner);
//!
//! let mut call = async |region: &str| {
//!     let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sql","arguments":{"region":"eu"}}}"#;
//!     let request = Request::post("/mcp")
//!         .header("mcp-method", "tools/call")
//!         .header("mcp-name", "sql")
//!         .header("mcp-param-region", region)
//!         .body(Message::parse(body).unwrap());
//!     service.call(request.unwrap()).await.unwrap().status()
//! };
//! assert_eq!(call("eu").await, StatusCode::OK);
//! assert_eq!(call("us").await, StatusCode::BAD_REQUEST);
//! # Ok(())
//! # }
//! ```

mod list;
mod params;

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Request, Response};

use self::list::Shown;
use super::mirrored::{NAME, check_method};
use super::recalled::Recalled;
use crate::catalog::{NoCatalog, ToolCatalog};
use crate::message::{Message, Reply};
use crate::policy::{Policy, PolicyLayer};
use crate::protocol::method::{TOOLS_CALL, TOOLS_LIST};
use crate::protocol::mirror::{decode, encode};
use crate::rejection::Rejection;

/// Checks the `Mcp-*` headers against the message; see the [module](self).
pub type HeadersLayer<C = NoCatalog> = PolicyLayer<HeaderCheck<C>>;

/// The decision of a [`HeadersLayer`].
#[derive(Clone)]
pub struct HeaderCheck<C> {
    /// Whether to check `Mcp-Method` and `Mcp-Name`, and to filter `tools/list`.
    standard: bool,
    catalog: C,
    lists: Arc<Recalled<Shown>>,
}

impl HeadersLayer {
    /// Checks `Mcp-Method` and `Mcp-Name`, and drops tools with invalid annotations from `tools/list`.
    #[must_use]
    pub fn new() -> Self {
        Self::from_policy(HeaderCheck { standard: true, catalog: NoCatalog, lists: Arc::default() })
    }

    /// Also checks the `Mcp-Param-*` of the tools in `catalog`. Defaults to a catalog that knows no tool.
    #[must_use]
    pub fn with_catalog<C: ToolCatalog>(self, catalog: C) -> HeadersLayer<C> {
        PolicyLayer::from_policy(HeaderCheck { standard: true, catalog, lists: Arc::default() })
    }
}

impl<C: ToolCatalog> HeadersLayer<C> {
    /// Checks the `Mcp-Param-*` of the tools in `catalog` and nothing else.
    ///
    /// For a stack in which other checks come between the standard headers and these.
    #[must_use]
    pub fn params_only(catalog: C) -> Self {
        Self::from_policy(HeaderCheck { standard: false, catalog, lists: Arc::default() })
    }
}

impl Default for HeadersLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: fmt::Debug> fmt::Debug for HeaderCheck<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderCheck")
            .field("standard", &self.standard)
            .field("catalog", &self.catalog)
            .finish_non_exhaustive()
    }
}

/// What the reply half of a [`HeadersLayer`] remembers: whether the request was a `tools/list`.
#[derive(Clone, Copy, Debug)]
pub struct ListsTools(bool);

impl<C: ToolCatalog> Policy for HeaderCheck<C> {
    type Memo = ListsTools;

    fn on_request(&self, request: &mut Request<Message>) -> Result<ListsTools, Rejection> {
        let (headers, message) = (request.headers(), request.body());
        if self.standard {
            check_method(headers, message)?;
        }
        if message.is_notification() {
            return Ok(ListsTools(false));
        }
        if self.standard {
            check_name(headers, message)?;
        }
        if message.method() == TOOLS_CALL
            && let Some(tool) = message.target()
            && let Some(facts) = self.catalog.tool(tool, request.extensions())
        {
            params::check(headers, tool, message.arguments(), &facts.param_headers)?;
        }
        Ok(ListsTools(self.standard && message.method() == TOOLS_LIST))
    }

    fn on_reply(&self, ListsTools(lists_tools): ListsTools, reply: &mut Response<Reply>) {
        if lists_tools {
            let lists = Arc::clone(&self.lists);
            reply.body_mut().edit_answer(move |answer| list::drop_invalid_tools(&lists, answer));
        }
    }
}

fn check_name(headers: &HeaderMap, message: &Message) -> Result<(), Rejection> {
    let Some(target) = message.target() else { return Ok(()) };
    let Some(found) = NAME.bytes(headers)? else { return Err(NAME.missing(&encode(target))) };
    match decode(found) {
        Ok(name) if name == target => Ok(()),
        Ok(name) => Err(NAME.differs(&name, target)),
        Err(invalid) => {
            Err(Rejection::header_mismatch(format!("the header `Mcp-Name` cannot be read: {invalid}")))
        }
    }
}

#[cfg(test)]
mod tests;
