//! Seals states and opens them again.
//!
//! A sealed state is `v1.` and the base64url, without padding, of
//!
//! | bytes | what |
//! |---|---|
//! | 1 | how it is sealed: 1 for HMAC-SHA-256, 2 for XChaCha20-Poly1305 |
//! | 8 | which key it is sealed with |
//! | 4 | one byte to tell each part of the binding by, for the log |
//! | 24 | the nonce, if it is encrypted |
//! | 24 | when it was sealed, when it expires, and when the chain of rounds began, in seconds since 1970 |
//! | 16 | its id |
//! | any | the state |
//! | 32 or 16 | the authenticator: over the digest of what it is bound to, and over all the bytes before |
//!
//! Times, id and state are what is encrypted. What it is bound to is not inside: both sides know it. Each server has keys
//! of its own, so that the audience is bound without a byte.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64_simd::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use sha2::{Digest as _, Sha256};

use super::binding::Binding;
use super::fault::{OpenFault, SealError};
use super::key::{Derived, StateKeys};
use crate::clock::{Clock, Timestamp, WallClock};
use crate::store::StateId;

const PREFIX: &str = "v1.";
const HEADER: usize = 1 + 8 + 4;
const CLAIMS: usize = 3 * 8 + 16;
const MAC: usize = 32;
/// How far the clocks of replicas may be apart.
const SKEW: u64 = 60;

const SIGNED: u8 = 1;
#[cfg(feature = "aead")]
const ENCRYPTED: u8 = 2;

/// Seals states and opens them again: the value behind a [`RequestStateLayer`](super::RequestStateLayer), for use
/// without Tower.
///
/// ```
/// use mcp_layers::layers::request_state::{Binding, StateKey, StateKeys, StateSealer};
/// use mcp_layers::message::Message;
///
/// let keys = StateKeys::new([StateKey::new(&[7; 32])?])?;
/// let sealer = StateSealer::new(keys, "https://mcp.example.com");
///
/// let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{"path":"/tmp"}}}"#;
/// let binding = Binding::new(&Message::parse(call)?, None)?;
/// let sealed = sealer.seal("asked once", &binding, None)?;
/// assert_eq!(sealer.open(&sealed, &binding)?.state, "asked once");
///
/// let other = Binding::new(&Message::parse(call.replace("/tmp", "/"))?, None)?;
/// assert!(sealer.open(&sealed, &other).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StateSealer {
    /// The first seals, and all of them open.
    keys: Arc<[Derived]>,
    /// One byte, to tell in the log that another server sealed.
    audience: u8,
    lifetime: Duration,
    max_chain: Duration,
    pub(super) max_bytes: usize,
    #[cfg(feature = "aead")]
    encrypted: bool,
    clock: Arc<dyn Clock>,
    ids: Ids,
}

/// When the first state of a chain of rounds was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainStart(u64);

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0)))
}

/// A state that has been opened.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenedState {
    /// The state as it was given.
    pub state: String,
    /// What tells it apart from all others, for those that may be used once.
    pub id: StateId,
    /// To be given when the next state of the same chain is sealed.
    pub chain: ChainStart,
    /// When it expires.
    pub expires_at: Timestamp,
}

impl fmt::Debug for OpenedState {
    /// States may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedState").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

struct Claims {
    issued_at: u64,
    expires_at: u64,
    chain: u64,
    id: [u8; 16],
}

impl Claims {
    fn to_bytes(&self) -> [u8; CLAIMS] {
        let mut bytes = [0; CLAIMS];
        bytes[..8].copy_from_slice(&self.issued_at.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.expires_at.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.chain.to_be_bytes());
        bytes[24..].copy_from_slice(&self.id);
        bytes
    }

    fn read(bytes: &[u8; CLAIMS]) -> Self {
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self {
            issued_at: number(0),
            expires_at: number(8),
            chain: number(16),
            id: std::array::from_fn(|byte| bytes[24 + byte]),
        }
    }
}

/// Numbers that no two states share: drawn once per process, and counted from there.
#[derive(Clone)]
struct Ids {
    process: u64,
    next: Arc<AtomicU64>,
}

impl Ids {
    fn new() -> Self {
        // The hasher's seeds come from the operating system.
        Self { process: RandomState::new().hash_one(std::process::id()), next: Arc::default() }
    }

    fn next(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.process.to_be_bytes());
        id[8..].copy_from_slice(&self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        id
    }
}

impl StateSealer {
    /// Seals for the server that is called `audience`, with the first of `keys`.
    ///
    /// Replicas of one server share keys and audience. Servers that share keys and differ in what they do must not share
    /// the audience: the address of the server is a good one.
    #[must_use]
    pub fn new(keys: StateKeys, audience: &str) -> Self {
        Self {
            keys: keys.derive(audience),
            audience: Sha256::digest(audience)[0],
            lifetime: Duration::from_secs(600),
            max_chain: Duration::from_secs(3600),
            max_bytes: 16 * 1024,
            #[cfg(feature = "aead")]
            encrypted: false,
            clock: Arc::new(WallClock),
            ids: Ids::new(),
        }
    }

    /// How long a state is good for, in whole seconds: parts of one are rounded up, and zero is one. Defaults to 600
    /// seconds.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = whole_seconds(lifetime).max(Duration::from_secs(1));
        self
    }

    /// How long after the first round the last one may come, in whole seconds, however many there are: parts of one are
    /// rounded up. With zero no state is taken, which ends all that are under way. Defaults to an hour.
    #[must_use]
    pub fn with_max_chain(mut self, max_chain: Duration) -> Self {
        self.max_chain = whole_seconds(max_chain);
        self
    }

    /// How many bytes a sealed state may have: a longer one is neither given out nor looked at. A seal takes about 150
    /// by itself, so with less than that every state is too long. Defaults to 16 KiB.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Encrypts what is sealed, with XChaCha20-Poly1305, so that clients cannot read it. Signed states that are under
    /// way are still opened. Defaults to signing only.
    #[cfg(feature = "aead")]
    #[must_use]
    pub fn with_encryption(mut self) -> Self {
        self.encrypted = true;
        self
    }

    /// What tells the time. Defaults to [`WallClock`].
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    fn seconds(&self) -> u64 {
        self.clock.now().as_millis() / 1_000
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Seals `state` for the next round of the request that `binding` describes. `chain` is that of the state which
    /// came with this round, or `None` if there was none.
    ///
    /// # Errors
    /// If the sealed state would be too long, or if the operating system gives no randomness to encrypt with.
    pub fn seal(
        &self,
        state: &str,
        binding: &Binding,
        chain: Option<ChainStart>,
    ) -> Result<String, SealError> {
        let now = self.seconds();
        let chain = chain.map_or(now, |ChainStart(began)| began);
        let lapses = chain.saturating_add(self.max_chain.as_secs());
        let expires_at = now.saturating_add(self.lifetime.as_secs()).min(lapses);
        let claims = Claims { issued_at: now, expires_at, chain, id: self.ids.next() }.to_bytes();
        let key = &self.keys[0];
        let bytes = self.write(key, &claims, state, binding)?;
        let length = PREFIX.len() + (bytes.len() * 4).div_ceil(3);
        if length > self.max_bytes {
            return Err(SealError::TooLong { bytes: length, max: self.max_bytes });
        }
        let mut text = String::with_capacity(length);
        text.push_str(PREFIX);
        URL_SAFE_NO_PAD.encode_append(bytes, &mut text);
        Ok(text)
    }

    fn header(&self, how: u8, key: &Derived, binding: &Binding) -> [u8; HEADER] {
        let mut header = [how; HEADER];
        header[1..9].copy_from_slice(&key.id);
        header[9..].copy_from_slice(&self.hints(binding));
        header
    }

    fn hints(&self, binding: &Binding) -> [u8; 4] {
        let [request, arguments, principal] = binding.hints();
        [request, arguments, principal, self.audience]
    }

    #[cfg_attr(not(feature = "aead"), expect(clippy::unnecessary_wraps, reason = "encrypting may fail"))]
    fn write(
        &self,
        key: &Derived,
        claims: &[u8; CLAIMS],
        state: &str,
        binding: &Binding,
    ) -> Result<Vec<u8>, SealError> {
        #[cfg(feature = "aead")]
        if self.encrypted {
            let header = self.header(ENCRYPTED, key, binding);
            return super::encryption::seal(key, &header, binding.digest(), claims, state);
        }
        let mut bytes = Vec::with_capacity(HEADER + CLAIMS + state.len() + MAC);
        bytes.extend_from_slice(&self.header(SIGNED, key, binding));
        bytes.extend_from_slice(claims);
        bytes.extend_from_slice(state.as_bytes());
        let mut mac = key.mac.clone();
        mac.update(binding.digest());
        mac.update(&bytes);
        bytes.extend_from_slice(&mac.finalize().into_bytes());
        Ok(bytes)
    }

    /// Opens a state that came with the request that `binding` describes.
    ///
    /// # Errors
    /// If it was not sealed with one of the keys, not for such a request, or not lately. The fault is for the log, not
    /// for the caller, whom the difference would help.
    pub fn open(&self, sealed: &str, binding: &Binding) -> Result<OpenedState, OpenFault> {
        if sealed.len() > self.max_bytes {
            return Err(OpenFault::TooLong { max: self.max_bytes });
        }
        let encoded =
            sealed.strip_prefix(PREFIX).ok_or(OpenFault::Malformed("it does not begin with `v1.`"))?;
        let bytes = URL_SAFE_NO_PAD
            .decode_to_vec(encoded)
            .map_err(|_| OpenFault::Malformed("it is not canonical base64url"))?;
        let header = bytes.first_chunk::<HEADER>().ok_or(OpenFault::Malformed("it is too short"))?;
        let key = self.keys.iter().find(|key| header[1..9] == key.id).ok_or(OpenFault::UnknownKey)?;
        let (claims, state) = match header[0] {
            SIGNED => self.read_signed(key, bytes, binding)?,
            #[cfg(feature = "aead")]
            ENCRYPTED => super::encryption::open(key, &bytes, HEADER, binding.digest())
                .ok_or_else(|| self.not_authentic(*header, binding))?,
            _ => return Err(OpenFault::Malformed("it is sealed in a way that is not known")),
        };
        let claims = Claims::read(&claims);
        let now = self.seconds();
        if claims.issued_at > now.saturating_add(SKEW) {
            return Err(OpenFault::FromTheFuture);
        }
        if now >= claims.expires_at {
            return Err(OpenFault::Expired);
        }
        if now >= claims.chain.saturating_add(self.max_chain.as_secs()) {
            return Err(OpenFault::ChainExpired);
        }
        let state = String::from_utf8(state).map_err(|_| OpenFault::Malformed("the state is not UTF-8"))?;
        Ok(OpenedState {
            state,
            id: StateId(claims.id),
            chain: ChainStart(claims.chain),
            expires_at: Timestamp::from_millis(claims.expires_at.saturating_mul(1_000)),
        })
    }

    fn read_signed(
        &self,
        key: &Derived,
        mut bytes: Vec<u8>,
        binding: &Binding,
    ) -> Result<([u8; CLAIMS], Vec<u8>), OpenFault> {
        let (Some((rest, tag)), Some(header)) =
            (bytes.split_last_chunk::<MAC>(), bytes.first_chunk::<HEADER>())
        else {
            return Err(OpenFault::Malformed("it is too short"));
        };
        let claims = rest.get(HEADER..).and_then(<[u8]>::first_chunk::<CLAIMS>);
        let claims = *claims.ok_or(OpenFault::Malformed("it is too short"))?;
        let mut mac = key.mac.clone();
        mac.update(binding.digest());
        mac.update(rest);
        // Compares in constant time.
        mac.verify_slice(tag).map_err(|_| self.not_authentic(*header, binding))?;
        bytes.truncate(bytes.len() - MAC);
        bytes.drain(..HEADER + CLAIMS);
        Ok((claims, bytes))
    }

    /// Why the authenticator does not fit, as far as the hints tell. They prove nothing, and decide nothing.
    fn not_authentic(&self, header: [u8; HEADER], binding: &Binding) -> OpenFault {
        let hints = self.hints(binding);
        let parts = Binding::PARTS.into_iter().chain(["audience"]);
        let differing = parts.zip(&header[9..]).zip(&hints);
        let differing: Vec<_> =
            differing.filter(|((_, theirs), ours)| theirs != ours).map(|((part, _), _)| part).collect();
        if differing.is_empty() { OpenFault::Forged } else { OpenFault::Elsewhere(differing) }
    }
}

impl fmt::Debug for StateSealer {
    /// Keys are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateSealer")
            .field("lifetime", &self.lifetime)
            .field("max_chain", &self.max_chain)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}
