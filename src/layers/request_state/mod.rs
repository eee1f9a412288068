//! Seals `requestState` on its way out, and opens it on its way back.
//!
//! A handler that asks for input may give the client a state to bring back. On its way it is in the hands of whoever
//! runs the client. This layer seals it so that what comes back is what was given, to the same caller, for the same
//! request, a short while ago; handlers see their own state and no seal. It needs nothing of the server below it: in
//! front of one that somebody else wrote, it wraps that server's state and gives it back byte for byte.
//!
//! # Rules
//! 1. A state that comes in is taken for an attacker's until it is verified (`basic/patterns/mrtr`, "Server
//!    Requirements"). It is a string, at most so long, in canonical form; `null` is none.
//! 2. It is bound to the principal (issuer, subject and client, so that a refreshed token changes nothing), to the
//!    method, the tool, prompt or resource, and the [arguments](Binding), and to the server (ibid.).
//! 3. It lives for ten minutes, and a chain of rounds for an hour; its times are checked against the server's own clock
//!    (ibid.).
//! 4. With [`with_single_use`](RequestStateLayer::with_single_use) it is taken once. It is verified first and burnt
//!    after, before anything below sees it; what happens below does not bring it back.
//! 5. The three methods that may ask for input are looked at: `tools/call`, `prompts/get`, `resources/read`.
//!
//! # Rejections
//! | what | HTTP | code | data |
//! |---|---|---|---|
//! | a state that is not taken, whatever the reason | 400 | -32602 | `{"reason":"invalid_request_state"}` |
//! | the replay store cannot tell | 503 | 503 | |
//! | arguments that name a member twice, when a state is to be bound to them | 400 | -32602 | |
//! | a state of the server's that is no string, or too long to be sealed | 200 | -32603 | |
//!
//! The last two replace the answer. The reason is in the log, and neither states nor keys are.
//!
//! # Order
//! Last above the server, below [`CapabilityLayer`](crate::layers::CapabilityLayer). Reads the
//! [`Principal`], the method, the target, the arguments and `requestState`; writes
//! `requestState` and [`TrustedState`].
//!
//! # Example
//! ```
//! use http::Request;
//! use mcp_layers::dispatch::{Context, Dispatch, InputRequired, Tool, ToolResult};
//! use mcp_layers::layers::RequestStateLayer;
//! use mcp_layers::layers::request_state::{StateKey, StateKeys};
//! use mcp_layers::message::Message;
//! use serde_json::json;
//! use tower::{Layer, Service};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let count = Tool::raw("count", json!({"type": "object"}), |_, context: Context| async move {
//!     let rounds: u32 = context.request_state().unwrap_or(0);
//!     Ok(match rounds {
//!         2 => ToolResult::from("that was two rounds"),
//!         rounds => InputRequired::new().with_state(&(rounds + 1)).into(),
//!     })
//! });
//! let server = Dispatch::builder("counter", "1.0.0").tool(count).build()?;
//! let keys = StateKeys::new([StateKey::new(b"thirty-two bytes from a real RNG")?])?;
//! let mut service = RequestStateLayer::new(keys, "https://counter.example.com").layer(server);
//!
//! let mut call = async |state: Option<&str>| {
//!     let params = json!({"name": "count", "requestState": state});
//!     let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
//!     let response = service.call(Request::new(Message::parse(body.to_string()).unwrap())).await.unwrap();
//!     let answer = response.body().answer().expect("sent no notification");
//!     let state = answer.outcome().ok().and_then(|result| result.get("requestState")?.to_str());
//!     (response.status().as_u16(), state.map(|state| state.into_owned()))
//! };
//! let (_, first) = call(None).await;
//! let first = first.expect("a state");
//! let (_, second) = call(Some(&first)).await;
//! assert_eq!(call(second.as_deref()).await, (200, None));
//! assert_eq!(call(Some(&first.replace("v1.", "v2."))).await, (400, None));
//! # Ok(())
//! # }
//! ```

mod arguments;
mod binding;
#[cfg(feature = "aead")]
mod encryption;
mod fault;
mod key;
mod sealer;
mod single_use;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tower::Layer;

pub use self::arguments::AmbiguousArguments;
pub use self::binding::Binding;
pub use self::fault::{OpenFault, SealError};
pub use self::key::{KeyError, StateKey, StateKeys};
pub use self::sealer::{ChainStart, OpenedState, StateSealer};
pub use self::single_use::{SingleUse, SingleUseFuture};

use self::single_use::Verified;
use super::outbound::{judge_answer, requires_input};
use crate::clock::Clock;
use crate::message::{Answer, Kind, Message, Raw, Reply};
use crate::policy::{Policy, PolicyLayer, PolicyService};
use crate::principal::Principal;
use crate::protocol::method::may_require_input;
use crate::rejection::Rejection;
use crate::store::{ReplayStore, StateUse};
use crate::trusted_state::TrustedState;

/// Seals `requestState` on its way out, and opens it on its way back; see the [module](self).
#[derive(Clone)]
#[must_use]
pub struct RequestStateLayer {
    policy: PolicyLayer<StateSeal>,
    store: Option<Arc<dyn ReplayStore>>,
}

/// The decision of a [`RequestStateLayer`].
#[derive(Clone, Debug)]
pub struct StateSeal {
    sealer: Arc<StateSealer>,
}

impl RequestStateLayer {
    /// Seals with the first of `keys`, for the server that is called `audience`; see [`StateSealer::new`].
    pub fn new(keys: StateKeys, audience: &str) -> Self {
        StateSealer::new(keys, audience).into()
    }

    fn change(mut self, change: impl FnOnce(StateSealer) -> StateSealer) -> Self {
        self.policy = self.policy.map_policy(|StateSeal { sealer }| StateSeal {
            sealer: Arc::new(change(Arc::unwrap_or_clone(sealer))),
        });
        self
    }

    /// How long a state is good for, in whole seconds. Defaults to 600 seconds.
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        self.change(|sealer| sealer.with_lifetime(lifetime))
    }

    /// How long after the first round the last one may come, in whole seconds, however many there are. Defaults to an
    /// hour.
    pub fn with_max_chain(self, max_chain: Duration) -> Self {
        self.change(|sealer| sealer.with_max_chain(max_chain))
    }

    /// How many bytes a sealed state may have: a longer one is neither given out nor looked at. Defaults to 16 KiB.
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        self.change(|sealer| sealer.with_max_bytes(max_bytes))
    }

    /// Encrypts what is sealed, so that clients cannot read it; see [`StateSealer::with_encryption`]. Defaults to
    /// signing only.
    #[cfg(feature = "aead")]
    pub fn with_encryption(self) -> Self {
        self.change(StateSealer::with_encryption)
    }

    /// What tells the time. Defaults to
    /// [`WallClock`](crate::clock::WallClock).
    pub fn with_clock(self, clock: impl Clock) -> Self {
        self.change(|sealer| sealer.with_clock(clock))
    }

    /// Takes each state once, and remembers in `store` which have been taken. Defaults to taking a state as often as it
    /// comes while it lives.
    ///
    /// A client whose connection broke cannot repeat a round then; it starts anew.
    ///
    /// Each round that a caller plays stays in the store until its state expires. A store has bounds, and one caller may
    /// be able to fill it for all: see [`MemoryReplayStore`](crate::store::MemoryReplayStore) for what it does about
    /// that, and [`StateUse::partition`] for a store of your own. A limit of rates in front helps both.
    pub fn with_single_use(mut self, store: impl ReplayStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }
}

impl From<StateSealer> for RequestStateLayer {
    fn from(sealer: StateSealer) -> Self {
        let policy = PolicyLayer::from_policy(StateSeal { sealer: Arc::new(sealer) });
        Self { policy, store: None }
    }
}

impl fmt::Debug for RequestStateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestStateLayer")
            .field("sealer", &self.policy.policy().sealer)
            .field("single_use", &self.store.is_some())
            .finish()
    }
}

impl<S> Layer<S> for RequestStateLayer {
    type Service = PolicyService<StateSeal, SingleUse<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        self.policy.layer(SingleUse { inner, store: self.store.clone() })
    }
}

/// What the reply half of a [`RequestStateLayer`] remembers: what a state would be bound to.
#[derive(Debug)]
pub struct Round {
    message: Message,
    principal: Option<Principal>,
    chain: Option<ChainStart>,
}

/// The one refusal of a state; the reason goes into the log.
fn refuse(message: &Message, fault: &OpenFault) -> Rejection {
    tracing::warn!(request = ?message, reason = %fault, "refused a requestState");
    Rejection::invalid_request_state()
}

impl Policy for StateSeal {
    type Memo = Option<Round>;

    fn on_request(&self, request: &mut Request<Message>) -> Result<Option<Round>, Rejection> {
        if !may_require_input(request.body().method()) {
            return Ok(None);
        }
        let opened = self.open(request).map_err(|fault| refuse(request.body(), &fault))?;
        if let Some(opened) = &opened {
            let text = format!("\"{}\"", opened.state).into();
            let edited = request.body_mut().edit_params(|params| params.set_text("requestState", text));
            // Cannot be: `_meta` is not touched.
            edited.map_err(|error| Rejection::invalid_params(error.to_string()))?;
            let used = StateUse {
                id: opened.id,
                now: self.sealer.now(),
                expires_at: opened.expires_at,
                partition: request.extensions().get().map(Principal::partition),
            };
            request.extensions_mut().insert(Verified(used));
        }
        request.extensions_mut().insert(TrustedState);
        Ok(Some(Round {
            message: request.body().clone(),
            principal: request.extensions().get().cloned(),
            chain: opened.map(|opened| opened.chain),
        }))
    }

    fn on_reply(&self, round: Option<Round>, reply: &mut Response<Reply>) {
        let Some(round) = round else { return };
        let sealer = Arc::clone(&self.sealer);
        judge_answer(reply, move |answer| seal(&sealer, &round, answer));
    }
}

impl StateSeal {
    /// Opens the state of a request; what is inside is the text between the quotes of a JSON string.
    fn open(&self, request: &Request<Message>) -> Result<Option<OpenedState>, OpenFault> {
        let message = request.body();
        let Some(sealed) = message.request_state() else { return Ok(None) };
        if sealed.kind() != Kind::String {
            return Err(OpenFault::NotAString);
        }
        if sealed.text().len() > self.sealer.max_bytes.saturating_add(2) {
            return Err(OpenFault::TooLong { max: self.sealer.max_bytes });
        }
        let sealed = sealed.to_str().ok_or(OpenFault::NotAString)?;
        let binding = Binding::new(message, request.extensions().get::<Principal>())
            .map_err(|AmbiguousArguments| OpenFault::AmbiguousArguments)?;
        let opened = self.sealer.open(&sealed, &binding)?;
        // The same keys may have sealed something else than what this layer seals.
        if Raw::is_inside_of_string(&opened.state) {
            Ok(Some(opened))
        } else {
            Err(OpenFault::Malformed("it holds no state of a request"))
        }
    }
}

/// Seals the state of an answer that asks for input, if it has one.
fn seal(sealer: &StateSealer, round: &Round, answer: &mut Answer) -> Result<(), Rejection> {
    if !requires_input(answer) {
        return Ok(());
    }
    let Some(result) = answer.result_mut() else { return Ok(()) };
    let Some(state) = result.get("requestState") else { return Ok(()) };
    let wrong = |what: &dyn fmt::Display| {
        tracing::error!(request = ?round.message, what = %what, "a requestState could not be sealed");
        Rejection::bad_result("internal error: the state of the request could not be kept")
    };
    let inside = match state.kind() {
        // Between the quotes, as it is spelled.
        Kind::String => &state.text()[1..state.text().len() - 1],
        Kind::Null => {
            result.remove("requestState");
            return Ok(());
        }
        _ => return Err(wrong(&"it is not a string")),
    };
    let binding = Binding::new(&round.message, round.principal.as_ref())
        .map_err(|ambiguous| Rejection::invalid_params(ambiguous.to_string()))?;
    let text = sealer.seal(inside, &binding, round.chain).map_err(|error| wrong(&error))?;
    result.set_text("requestState", format!("\"{text}\"").into());
    Ok(())
}

#[cfg(test)]
mod tests;
