//! What a result that requires input may ask of this client.

use std::fmt;

use crate::message::{Kind, Message, Meta, Raw, RawObject};
use crate::protocol::ClientCapabilities;
use crate::protocol::method::may_require_input;
use crate::rejection::{Rejection, shorten};

/// What to do with a result that asks for what the client has not declared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Emission {
    /// Whether another server's context needs a capability of its own.
    pub(super) strict_context: bool,
    /// Whether to leave out what the client cannot be asked, as long as something is left.
    pub(super) leave_out: bool,
}

/// Checks a result that requires input against the request that it answers; all faults are found, not the first.
pub(super) fn check(request: &Message, result: &mut RawObject, emission: Emission) -> Result<(), Rejection> {
    let strict_context = emission.strict_context;
    let declared = request.meta().and_then(Meta::client_capabilities);
    let mut faults = Vec::new();
    let mut needed = ClientCapabilities::new();
    if !may_require_input(request.method()) {
        faults.push(Fault::Method(request.method().to_owned()));
    }
    let state = result.get("requestState");
    if state.is_some_and(|state| state.kind() != Kind::String) {
        faults.push(Fault::State);
    }
    match result.object("inputRequests") {
        Some(Ok(requests)) if requests.is_empty() && state.is_none() => faults.push(Fault::Nothing),
        Some(Ok(requests)) => {
            for (key, asked) in requests.iter() {
                match needs(asked, strict_context) {
                    Some(needs) => needed = needed.and(&needs),
                    None => faults.push(Fault::Request(key.to_owned())),
                }
            }
        }
        Some(Err(_)) => faults.push(Fault::Requests),
        None if state.is_none() => faults.push(Fault::Nothing),
        None => {}
    }
    if !faults.is_empty() {
        let faults = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        tracing::error!(request = ?request, faults, "the server asked for input in a way that the protocol forbids");
        return Err(Rejection::bad_result("internal error: the server asked for input wrongly"));
    }
    let missing = needed.missing_from(declared);
    if missing.is_empty() {
        return Ok(());
    }
    if emission.leave_out && leave_out(result, declared, strict_context) {
        tracing::debug!(request = ?request, ?missing, "left out what the client cannot be asked");
        return Ok(());
    }
    tracing::error!(
        request = ?request,
        ?missing,
        "the server asked the client for what it has not declared: look at the declared capabilities first, or declare \
         with the tool that it needs them"
    );
    Err(Rejection::missing_capability(&missing))
}

/// Takes out of the input requests those that need more than is declared; changes nothing if that is all of them.
fn leave_out(result: &mut RawObject, declared: Option<Raw<'_>>, strict_context: bool) -> bool {
    let Some(Ok(mut requests)) = result.object("inputRequests") else { return false };
    requests.retain(|_, asked| {
        needs(asked, strict_context).is_some_and(|needs| needs.missing_from(declared).is_empty())
    });
    if requests.is_empty() {
        return false;
    }
    result.set_object("inputRequests", &requests);
    true
}

/// What a server did wrong.
enum Fault {
    Method(String),
    State,
    Nothing,
    Requests,
    Request(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => {
                write!(f, "`{}` may not be answered by asking for input", shorten(method))
            }
            Self::State => f.write_str("`requestState` is not a string"),
            Self::Nothing => f.write_str("neither a request nor a state is there"),
            Self::Requests => f.write_str("`inputRequests` is not an object, or names a member twice"),
            Self::Request(key) => {
                write!(f, "the input request `{}` is malformed or of another kind", shorten(key))
            }
        }
    }
}

/// What a client needs to have declared to be asked this; `None` if it is nothing that clients are asked, or lacks what
/// the schema requires of it.
pub(super) fn needs(asked: Raw<'_>, strict_context: bool) -> Option<ClientCapabilities> {
    let asked = RawObject::parse(asked.text()).ok()?;
    let method = asked.get("method")?.to_str()?;
    let params = match asked.object("params") {
        Some(params) => Some(params.ok()?),
        None => None,
    };
    let is = |name: &str, kind: Kind| {
        params.as_ref().and_then(|params| params.get(name)).is_some_and(|value| value.kind() == kind)
    };
    let text = |name: &str| params.as_ref().and_then(|params| params.get(name)).and_then(Raw::to_str);
    let needs = ClientCapabilities::new();
    match &*method {
        "elicitation/create" if is("message", Kind::String) => match text("mode").as_deref() {
            Some("url") if is("url", Kind::String) => Some(needs.with_elicitation_url()),
            Some("form") if is("requestedSchema", Kind::Object) => Some(needs.with_elicitation_form()),
            None if params.as_ref()?.get("mode").is_none() && is("requestedSchema", Kind::Object) => {
                Some(needs.with_elicitation_form())
            }
            _ => None,
        },
        "sampling/createMessage" if is("messages", Kind::Array) && is("maxTokens", Kind::Number) => {
            let params = params.as_ref()?;
            let tools = params.get("tools").is_some() || params.get("toolChoice").is_some();
            let context = matches!(text("includeContext").as_deref(), Some("thisServer" | "allServers"));
            let needs = needs.with_sampling();
            let needs = if tools { needs.with_sampling_tools() } else { needs };
            Some(if strict_context && context { needs.with_sampling_context() } else { needs })
        }
        "roots/list" => Some(needs.with_roots()),
        _ => None,
    }
}
