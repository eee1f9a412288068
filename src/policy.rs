//! The trait that most layers are made of, and its Tower plumbing, written once.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use pin_project::pin_project;
use tower::{Layer, Service};

use crate::message::{Message, Reply};
use crate::rejection::Rejection;

/// A decision about requests, and if need be about their replies.
///
/// A policy is pure and synchronous. What must be awaited is awaited by a layer above, which leaves the outcome
/// in the request's extensions.
///
/// [`Rejection`] lists the refusals there are. One that is not about MCP is [`Rejection::http`]: any HTTP status, which is
/// its code as well, with data and headers if need be.
///
/// ```
/// use http::{Request, Response};
/// use mcp_layers::message::{Message, Reply};
/// use mcp_layers::policy::Policy;
/// use mcp_layers::rejection::Rejection;
///
/// /// Refuses calls of one tool.
/// struct Without(&'static str);
///
/// impl Policy for Without {
///     type Memo = ();
///
///     fn on_request(&self, request: &mut Request<Message>) -> Result<(), Rejection> {
///         match request.body().target() {
///             Some(tool) if request.body().method() == "tools/call" && tool == self.0 => {
///                 Err(Rejection::unknown_tool(tool))
///             }
///             _ => Ok(()),
///         }
///     }
/// }
///
/// let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}"#;
/// let mut request = Request::new(Message::parse(call)?);
/// assert_eq!(Without("rm").on_request(&mut request).unwrap_err().code(), -32602);
/// assert!(Without("ls").on_request(&mut request).is_ok());
/// # Ok::<(), mcp_layers::message::ParseError>(())
/// ```
pub trait Policy {
    /// What the reply half remembers of the request.
    type Memo: Send + 'static;

    /// Decides about a request: lets it pass, perhaps changed, or refuses it.
    ///
    /// # Errors
    /// The refusal. The inner service is not called then, and the answer carries the request's id.
    fn on_request(&self, request: &mut Request<Message>) -> Result<Self::Memo, Rejection>;

    /// Looks at the reply to a request that passed. Does nothing by default.
    fn on_reply(&self, memo: Self::Memo, reply: &mut Response<Reply>) {
        let _ = (memo, reply);
    }
}

/// A Tower layer that applies a [`Policy`].
///
/// It sits below [`EndpointLayer`](crate::endpoint::EndpointLayer), where requests are parsed messages.
pub struct PolicyLayer<P> {
    policy: Arc<P>,
}

impl<P> PolicyLayer<P> {
    /// Applies `policy`.
    #[must_use]
    pub fn from_policy(policy: P) -> Self {
        Self { policy: Arc::new(policy) }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Changes the policy while the layer is built.
    pub(crate) fn map_policy(self, change: impl FnOnce(P) -> P) -> Self
    where
        P: Clone,
    {
        Self::from_policy(change(Arc::unwrap_or_clone(self.policy)))
    }
}

impl<P> Clone for PolicyLayer<P> {
    fn clone(&self) -> Self {
        Self { policy: Arc::clone(&self.policy) }
    }
}

impl<P: fmt::Debug> fmt::Debug for PolicyLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyLayer").field(&self.policy).finish()
    }
}

impl<P, S> Layer<S> for PolicyLayer<P> {
    type Service = PolicyService<P, S>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyService { policy: Arc::clone(&self.policy), inner }
    }
}

/// The service of a [`PolicyLayer`].
#[derive(Debug)]
pub struct PolicyService<P, S> {
    policy: Arc<P>,
    inner: S,
}

impl<P, S: Clone> Clone for PolicyService<P, S> {
    fn clone(&self) -> Self {
        Self { policy: Arc::clone(&self.policy), inner: self.inner.clone() }
    }
}

impl<P, S> Service<Request<Message>> for PolicyService<P, S>
where
    P: Policy,
    S: Service<Request<Message>, Response = Response<Reply>>,
{
    type Response = Response<Reply>;
    type Error = S::Error;
    type Future = PolicyFuture<P, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Request<Message>) -> Self::Future {
        match self.policy.on_request(&mut request) {
            Ok(memo) => {
                let reply_half = Some((Arc::clone(&self.policy), memo));
                PolicyFuture { state: State::Passed { reply_half, future: self.inner.call(request) } }
            }
            Err(rejection) => {
                let id = request.body().id().cloned();
                PolicyFuture {
                    state: State::Refused { response: Some(Box::new(rejection.into_response(id))) },
                }
            }
        }
    }
}

/// The future of a [`PolicyService`].
#[pin_project]
pub struct PolicyFuture<P: Policy, F> {
    #[pin]
    state: State<P, F>,
}

#[pin_project(project = StateProject)]
enum State<P: Policy, F> {
    Passed {
        #[pin]
        future: F,
        reply_half: Option<(Arc<P>, P::Memo)>,
    },
    /// Boxed: refusals are rare, and a future is moved about.
    Refused { response: Option<Box<Response<Reply>>> },
}

impl<P: Policy, F> fmt::Debug for PolicyFuture<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFuture").finish_non_exhaustive()
    }
}

impl<P, F, E> Future for PolicyFuture<P, F>
where
    P: Policy,
    F: Future<Output = Result<Response<Reply>, E>>,
{
    type Output = Result<Response<Reply>, E>;

    /// # Panics
    /// If polled after it has completed.
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProject::Passed { future, reply_half } => {
                // The response stays where it is: it is larger than what most policies do with it.
                let mut polled = future.poll(cx);
                if let Poll::Ready(Ok(response)) = &mut polled {
                    let (policy, memo) = reply_half.take().expect("polled after completion");
                    policy.on_reply(memo, response);
                }
                polled
            }
            StateProject::Refused { response } => {
                Poll::Ready(Ok(*response.take().expect("polled after completion")))
            }
        }
    }
}
