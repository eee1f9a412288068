//! Lets requests in that carry a bearer token, and says who sends them.
//!
//! An MCP server is a resource server of OAuth 2.1: tokens are made by an authorization server, which is somebody
//! else's. [`AuthLayer`] asks a [`TokenVerifier`] who a token stands for and leaves the
//! [`Principal`] in the request's extensions. What that principal may do is decided by
//! [`ScopeLayer`](crate::layers::ScopeLayer), or by your own code.
//!
//! # Rules
//! 1. The token comes in one `Authorization` header, in no other place (`basic/authorization`, "Access Token Usage").
//!    The scheme has any case, one or more spaces follow, and the token has the characters of RFC 6750.
//! 2. A token that is not valid for this server gets 401 (ibid., "Token Handling"). A verifier that cannot tell gets 503
//!    with `Retry-After`: a client would throw away a good token after a 401.
//! 3. A challenge tells where the metadata of the resource is and which scopes to ask for (ibid., "Scope Selection
//!    Strategy"). Without credentials it names no error (RFC 6750, section 3.1).
//! 4. A response has one Bearer challenge. One that an inner service built keeps its error and its scopes, and points to
//!    this resource's metadata; challenges of other schemes stay.
//! 5. Tokens are not passed on (`basic/authorization`, "Token Handling"): the header is removed, unless
//!    [asked for](AuthLayer::with_forwarded_token).
//! 6. A verified token is remembered by a SHA-256 digest of the whole of it, for as long as the verifier says and never
//!    longer than it lives. A refusal is remembered for 5 s.
//! 7. No token gets into logs, errors or `Debug`.
//!
//! # Rejections
//! | what | HTTP | code | challenge |
//! |---|---|---|---|
//! | no bearer token | 401 | 401 | without `error` |
//! | a token of a wrong form, or that the verifier refuses | 401 | 401 | `invalid_token` |
//! | several `Authorization` lines | 400 | 400 | `invalid_request` |
//! | the verifier cannot tell | 503 | 503 | none; `Retry-After` |
//!
//! # Order
//! Below CORS and [`OriginLayer`](crate::layers::OriginLayer), beside [`ProtectedResource`], above
//! [`EndpointLayer`](crate::endpoint::EndpointLayer): a body that nobody may send is not read. Reads `Authorization`;
//! writes the principal into the extensions; rewrites `WWW-Authenticate` of what comes back.
//!
//! # Example
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode, header};
//! use mcp_layers::layers::auth::{AuthLayer, ProtectedResource, Token, TokenVerifier, Verified, VerifyError};
//! use mcp_layers::principal::Principal;
//! use tower::{Layer, ServiceExt as _, service_fn};
//!
//! struct OneToken;
//!
//! impl TokenVerifier for OneToken {
//!     async fn verify(&self, token: &Token) -> Result<Verified, VerifyError> {
//!         match token.as_str() {
//!             "good" => Ok(Principal::new("https://issuer.example", "ada").into()),
//!             _ => Err(VerifyError::invalid("the token is not known")),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let resource = ProtectedResource::new("https://mcp.example.com/mcp", ["https://issuer.example"])?;
//! let service = AuthLayer::new(OneToken, &resource).layer(service_fn(async |request: Request<()>| {
//!     let principal = request.extensions().get::<Principal>().expect("is known here");
//!     Ok::<_, std::convert::Infallible>(Response::new(Bytes::from(principal.subject().to_owned())))
//! }));
//!
//! let request = Request::post("/mcp").header("authorization", "Bearer good").body(())?;
//! assert_eq!(service.clone().oneshot(request).await?.body(), "ada");
//!
//! let response = service.oneshot(Request::post("/mcp").body(())?).await?;
//! assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
//! assert_eq!(
//!     response.headers()[header::WWW_AUTHENTICATE],
//!     "Bearer resource_metadata=\"https://mcp.example.com/.well-known/oauth-protected-resource/mcp\"",
//! );
//! # Ok(())
//! # }
//! ```

mod cache;
#[cfg(any(feature = "jwt", feature = "introspection"))]
mod claims;
mod credentials;
#[cfg(any(feature = "jwks", feature = "introspection"))]
mod fetch;
#[cfg(feature = "introspection")]
mod introspection;
#[cfg(feature = "jwt")]
mod jwt;
mod resource;
mod service;
mod url;
mod verifier;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap};
use tower::Layer;

#[cfg(feature = "introspection")]
pub use self::introspection::{Introspection, IntrospectionVerifier, InvalidIntrospection};
#[cfg(feature = "jwks")]
pub use self::jwt::RemoteKeys;
#[cfg(feature = "jwt")]
pub use self::jwt::{InvalidKeys, JwtVerifier, KeySource, StaticKeys};
pub use self::resource::{InvalidResource, ProtectedResource};
pub use self::service::{AuthFuture, AuthService};
pub use self::verifier::{Token, TokenVerifier, Verified, VerifyError};

use self::cache::Remembered;
use self::credentials::Credentials;
use crate::clock::{Clock, WallClock};
use crate::principal::{Partition, Principal};
use crate::protocol::Challenge;
use crate::rejection::Rejection;

const MALFORMED: VerifyError = VerifyError::invalid("the token is malformed or too long");
/// For how long a refusal is remembered: enough against a client that repeats itself.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Lets requests in that carry a bearer token; see the [module](self).
///
/// Clones share what they remember.
#[must_use]
pub struct AuthLayer<V> {
    verifier: Arc<V>,
    settings: Arc<Settings>,
    remembered: Arc<Remembered>,
}

#[derive(Clone)]
struct Settings {
    /// Says where the metadata is, and which scopes to ask for.
    challenge: Challenge,
    forward_token: bool,
    anonymous: bool,
    max_len: usize,
    clock: Arc<dyn Clock>,
}

impl<V: TokenVerifier> AuthLayer<V> {
    /// Asks `verifier` who tokens stand for. Challenges point to the metadata of `resource`, and ask for the scopes that
    /// it supports.
    pub fn new(verifier: V, resource: &ProtectedResource) -> Self {
        let settings = Settings {
            challenge: Challenge::new()
                .with_resource_metadata(resource.metadata_url())
                .with_scope(resource.scopes()),
            forward_token: false,
            anonymous: false,
            max_len: 16 * 1024,
            clock: Arc::new(WallClock),
        };
        Self {
            verifier: Arc::new(verifier),
            settings: Arc::new(settings),
            remembered: Arc::new(Remembered::new(10_000)),
        }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// The scopes that a client without a good token is told to ask for. They are only told: whether a token grants them
    /// is for [`ScopeLayer`](crate::layers::ScopeLayer) to say.
    ///
    /// Defaults to those that the resource supports.
    pub fn with_challenged_scopes<S: AsRef<str>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.set(|settings| settings.challenge = settings.challenge.clone().with_scope(scopes))
    }

    /// Leaves the `Authorization` header in the request.
    ///
    /// The specification forbids to send the token on to another server: this is for services in the same process that
    /// look at it again. Defaults to false.
    pub fn with_forwarded_token(self, forward: bool) -> Self {
        self.set(|settings| settings.forward_token = forward)
    }

    /// Lets requests without a bearer token pass, without a principal: for servers that offer some things to everybody.
    /// A token that is there must be valid all the same.
    ///
    /// Defaults to false.
    pub fn with_anonymous(self, allow: bool) -> Self {
        self.set(|settings| settings.anonymous = allow)
    }

    /// The longest token that is looked at, in bytes. Defaults to 16 KiB.
    pub fn with_max_token_len(self, max_len: usize) -> Self {
        self.set(|settings| settings.max_len = max_len)
    }

    /// About how many verified tokens are remembered, and an eighth of that many refusals; 0 turns remembering off.
    /// A token takes some hundred bytes, besides its claims. Defaults to 10 000.
    pub fn with_capacity(mut self, tokens: usize) -> Self {
        self.remembered = Arc::new(Remembered::new(tokens));
        self
    }

    /// What tells the time. Defaults to the system's clock.
    pub fn with_clock(self, clock: impl Clock) -> Self {
        self.set(|settings| settings.clock = Arc::new(clock))
    }
}

impl<V> Clone for AuthLayer<V> {
    fn clone(&self) -> Self {
        Self {
            verifier: Arc::clone(&self.verifier),
            settings: Arc::clone(&self.settings),
            remembered: Arc::clone(&self.remembered),
        }
    }
}

impl<V> fmt::Debug for AuthLayer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthLayer").field("challenge", &self.settings.challenge).finish_non_exhaustive()
    }
}

impl<V: TokenVerifier, S> Layer<S> for AuthLayer<V> {
    type Service = AuthService<V, S>;

    fn layer(&self, inner: S) -> Self::Service {
        AuthService::new(self.clone(), inner)
    }
}

/// What can be said of a request at once.
enum Look {
    Known(Principal),
    Anonymous,
    Refused(Rejection),
    /// The verifier has to be asked.
    Ask(Token),
}

impl<V: TokenVerifier> AuthLayer<V> {
    fn look(&self, headers: &mut HeaderMap) -> Look {
        let settings = &*self.settings;
        let look = match credentials::read(headers, settings.max_len) {
            Credentials::Bearer(bytes) => {
                let now = settings.clock.now().to_system_time();
                let digest = Partition::of_credential(bytes);
                match self.recall(digest, now) {
                    Some(Ok(verified)) => Look::Known(verified.principal().clone()),
                    Some(Err(error)) => Look::Refused(settings.refuse(&error)),
                    None => match credentials::token(bytes) {
                        Some(token) => Look::Ask(Token::with_digest(token, now, digest)),
                        None => Look::Refused(settings.refuse(&MALFORMED)),
                    },
                }
            }
            Credentials::None if settings.anonymous => Look::Anonymous,
            Credentials::None => Look::Refused(Rejection::unauthorized(
                "this server needs a bearer token; `WWW-Authenticate` tells where to get one",
                &settings.challenge,
            )),
            Credentials::Malformed => Look::Refused(settings.refuse(&MALFORMED)),
            Credentials::Several => {
                let challenge = settings.challenge.clone().with_error("invalid_request");
                Look::Refused(Rejection::malformed_credentials(
                    "the header `Authorization` comes several times: send it once",
                    &challenge,
                ))
            }
        };
        if !settings.forward_token {
            headers.remove(AUTHORIZATION);
        }
        look
    }

    fn recall(&self, digest: Partition, now: std::time::SystemTime) -> Option<Result<Verified, VerifyError>> {
        let found = self.remembered.get(digest, now)?;
        if found.as_ref().is_ok_and(|verified| !self.verifier.still_trusts(verified, now)) {
            self.remembered.forget(digest);
            return None;
        }
        Some(found)
    }

    /// Has the verifier decide, and remembers what it says.
    async fn ask(self, token: Token) -> Result<Principal, Rejection> {
        match self.verifier.verify(&token).await {
            Ok(verified) => {
                let verified = verified.known_by(token.digest());
                self.remembered.keep(token.digest(), &verified);
                Ok(verified.principal().clone())
            }
            Err(error) => {
                self.remembered.keep_refusal(token.digest(), &error, token.received_at() + REFUSED_FOR);
                Err(self.settings.refuse(&error))
            }
        }
    }
}

impl Settings {
    fn refuse(&self, error: &VerifyError) -> Rejection {
        if let Some(reason) = error.reason() {
            tracing::debug!(reason, "refused a bearer token");
            let challenge = self.challenge.clone().with_error("invalid_token").with_description(reason);
            Rejection::unauthorized(reason, &challenge)
        } else {
            let retry_after = error.retry_after();
            tracing::warn!(?retry_after, "refused a request because its token cannot be verified now");
            Rejection::unavailable("tokens cannot be verified now: try again later", retry_after)
        }
    }
}
