//! Who a token stands for: the trait, and what its methods give and get.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "jwt")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::principal::{Partition, Principal};

/// Says who a bearer token stands for.
///
/// # Write your own
/// A verifier decides everything about the token: that the issuer made it, that it is meant for this server, that it
/// is valid now. What it says is believed.
/// - Answer [`Verified`] from a [`Principal`]. [`Verified::kept_until`] says how long the answer may be given again
///   without asking; without it every request asks. The principal's own expiry bounds that in any case.
/// - Answer [`VerifyError::invalid`] for a token that is not valid: 401. Nothing else than a token that is not valid may
///   be answered so, because clients throw the token away.
/// - Answer [`VerifyError::unavailable`] if that cannot be told now: 503 with `Retry-After`.
///
/// ```
/// use std::collections::HashMap;
///
/// use mcp_layers::layers::auth::{Token, TokenVerifier, Verified, VerifyError};
/// use mcp_layers::principal::Principal;
///
/// /// Tokens that an administrator has handed out. To look one up by its digest takes the same time for all.
/// struct HandedOut(HashMap<[u8; 32], Principal>);
///
/// impl TokenVerifier for HandedOut {
///     async fn verify(&self, token: &Token) -> Result<Verified, VerifyError> {
///         match self.0.get(token.digest().as_bytes()) {
///             Some(principal) => Ok(principal.clone().into()),
///             None => Err(VerifyError::invalid("the token is not known")),
///         }
///     }
/// }
/// ```
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies `token`, which is of the form that RFC 6750 allows.
    ///
    /// Dropping the future must do no harm: a caller that hangs up does that.
    ///
    /// # Errors
    /// If the token is not valid, or if that cannot be told now.
    fn verify(&self, token: &Token) -> impl Future<Output = Result<Verified, VerifyError>> + Send;

    /// Whether what was said before still holds at `now`; asked each time that it is about to be used again.
    ///
    /// True by default. It must be quick: it is on the path of every request.
    fn still_trusts(&self, verified: &Verified, now: SystemTime) -> bool {
        let _ = (verified, now);
        true
    }
}

impl<V: TokenVerifier> TokenVerifier for Arc<V> {
    fn verify(&self, token: &Token) -> impl Future<Output = Result<Verified, VerifyError>> + Send {
        (**self).verify(token)
    }

    fn still_trusts(&self, verified: &Verified, now: SystemTime) -> bool {
        (**self).still_trusts(verified, now)
    }
}

/// A bearer token, and when it came. It does not show itself.
#[derive(Clone)]
pub struct Token {
    text: Box<str>,
    received_at: SystemTime,
    digest: Partition,
}

impl Token {
    /// The token `text`, which came at `received_at`.
    #[must_use]
    pub fn new(text: &str, received_at: SystemTime) -> Self {
        Self { text: text.into(), received_at, digest: Partition::of_credential(text.as_bytes()) }
    }

    pub(super) fn with_digest(text: &str, received_at: SystemTime, digest: Partition) -> Self {
        Self { text: text.into(), received_at, digest }
    }

    /// The token itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// When it came: the time that everything about it is judged by.
    #[must_use]
    pub fn received_at(&self) -> SystemTime {
        self.received_at
    }

    /// A SHA-256 digest of the token, with a prefix of this crate's own.
    #[must_use]
    pub fn digest(&self) -> Partition {
        self.digest
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What a verifier found: who the token stands for, and how long that may be remembered.
#[derive(Clone, Debug)]
pub struct Verified {
    principal: Principal,
    kept_until: Option<SystemTime>,
    #[cfg(feature = "jwt")]
    key: Option<KeyState>,
}

impl Verified {
    /// The same, to be remembered until `at`. Without it nothing is remembered. The principal's own expiry counts as
    /// well.
    #[must_use]
    pub fn kept_until(mut self, at: SystemTime) -> Self {
        let bound = self.principal.expires_at().map_or(at, |expiry| expiry.min(at));
        self.kept_until = Some(bound);
        self
    }

    /// Who the token stands for.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(super) fn until(&self) -> Option<SystemTime> {
        self.kept_until
    }

    pub(super) fn known_by(mut self, credential: Partition) -> Self {
        self.principal = self.principal.known_by(credential);
        self
    }

    #[cfg(feature = "jwt")]
    pub(super) fn signed_by(mut self, key: KeyState) -> Self {
        self.key = Some(key);
        self
    }

    #[cfg(feature = "jwt")]
    pub(super) fn key_is_withdrawn(&self) -> bool {
        self.key.as_ref().is_some_and(KeyState::is_withdrawn)
    }
}

impl From<Principal> for Verified {
    fn from(principal: Principal) -> Self {
        Self {
            principal,
            kept_until: None,
            #[cfg(feature = "jwt")]
            key: None,
        }
    }
}

/// Whether the issuer still vouches for a key; shared by the key and everything that was signed with it.
#[cfg(feature = "jwt")]
#[derive(Clone, Debug, Default)]
pub(super) struct KeyState(Arc<AtomicBool>);

#[cfg(feature = "jwt")]
impl KeyState {
    #[cfg_attr(not(feature = "jwks"), allow(dead_code, reason = "keys that are given do not change"))]
    pub(super) fn withdraw(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Why a token is not accepted.
///
/// Reasons are text of the program, never of the token: nothing secret can get into them.
#[derive(Clone, Debug)]
pub struct VerifyError(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Invalid { reason: &'static str, lasting: bool },
    Unavailable { retry_after: Duration },
}

impl VerifyError {
    /// The token is not valid, and will not be in a moment: answered with 401.
    #[must_use]
    pub const fn invalid(reason: &'static str) -> Self {
        Self(Kind::Invalid { reason, lasting: true })
    }

    /// The token is not valid now but may be soon, so the next request asks again: answered with 401.
    #[must_use]
    pub const fn not_now(reason: &'static str) -> Self {
        Self(Kind::Invalid { reason, lasting: false })
    }

    /// Whether the token is valid cannot be told now; `retry_after` says when it may be: answered with 503.
    #[must_use]
    pub const fn unavailable(retry_after: Duration) -> Self {
        Self(Kind::Unavailable { retry_after })
    }

    /// The reason why the token is not valid; `None` if that cannot be told now.
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        match self.0 {
            Kind::Invalid { reason, .. } => Some(reason),
            Kind::Unavailable { .. } => None,
        }
    }

    pub(super) const fn lasts(&self) -> bool {
        matches!(self.0, Kind::Invalid { lasting: true, .. })
    }

    pub(super) const fn retry_after(&self) -> Duration {
        match self.0 {
            Kind::Invalid { .. } => Duration::ZERO,
            Kind::Unavailable { retry_after } => retry_after,
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason().unwrap_or("the token cannot be verified now"))
    }
}

impl std::error::Error for VerifyError {}
