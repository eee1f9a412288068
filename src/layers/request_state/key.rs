//! The keys that states are sealed with.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

pub(super) type HmacSha256 = Hmac<Sha256>;

/// The shortest secret that is taken, in bytes.
const SHORTEST: usize = 32;

/// A secret that states are sealed with.
///
/// Each use of the secret has a key of its own, derived from it: one for each server, to sign with, and another to
/// encrypt with. What is kept of the secret is wiped when the last clone is dropped, and never printed; wiping the secret
/// that was given is up to whoever holds it.
#[derive(Clone)]
pub struct StateKey(Arc<Root>);

/// What is kept of a secret: enough to derive keys, whatever its length was.
struct Root {
    id: [u8; 8],
    secret: Zeroizing<[u8; 32]>,
}

/// The keys of one secret for one server.
pub(super) struct Derived {
    /// Tells which key a state was sealed with.
    pub(super) id: [u8; 8],
    /// Keyed, so that each use is spared the work of keying. Wipes itself.
    pub(super) mac: HmacSha256,
    #[cfg(feature = "aead")]
    pub(super) cipher: Zeroizing<[u8; 32]>,
}

impl StateKey {
    /// Takes a secret of at least 32 bytes, which should come from a source of randomness and not from a person.
    ///
    /// ```
    /// use mcp_layers::layers::request_state::StateKey;
    ///
    /// assert!(StateKey::new(&[7; 32]).is_ok());
    /// assert!(StateKey::new(b"correct horse battery staple").is_err());
    /// ```
    ///
    /// # Errors
    /// If it is shorter.
    pub fn new(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < SHORTEST {
            return Err(KeyError::TooShort { bytes: secret.len() });
        }
        let id = derive(secret, "mcp-layers requestState v1 key id", "");
        Ok(Self(Arc::new(Root {
            id: std::array::from_fn(|at| id[at]),
            secret: derive(secret, "mcp-layers requestState v1 root", ""),
        })))
    }

    /// The keys for the server that is called `audience`. It is bound to what is sealed by this, once and for all.
    fn derive(&self, audience: &str) -> Derived {
        let secret = &*self.0.secret;
        Derived {
            id: self.0.id,
            mac: keyed(&*derive(secret, "HMAC-SHA-256 for ", audience)),
            #[cfg(feature = "aead")]
            cipher: derive(secret, "XChaCha20-Poly1305 for ", audience),
        }
    }

    /// Draws a secret that nobody else has, and that is gone when the process ends.
    fn random() -> Result<Self, KeyError> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        Self::new(&*secret)
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey(..)")
    }
}

fn keyed(secret: &[u8]) -> HmacSha256 {
    // Any length will do for HMAC.
    HmacSha256::new_from_slice(secret).expect("HMAC takes keys of any length")
}

/// No `purpose` is the beginning of another.
fn derive(secret: &[u8], purpose: &str, audience: &str) -> Zeroizing<[u8; 32]> {
    let mut mac = keyed(secret);
    mac.update(purpose.as_bytes());
    mac.update(audience.as_bytes());
    let mut output = mac.finalize().into_bytes();
    let derived = Zeroizing::new(output.into());
    output.zeroize();
    derived
}

/// The keys of a server, in order: the first seals, and all of them open.
///
/// To replace a key without refusing a state that is under way, go in three steps, each at least as long after the one
/// before as a state lives, and each on all replicas before the next: `[old, new]`, so that everyone opens what the new
/// key will seal; `[new, old]`; `[new]`.
///
/// ```
/// use mcp_layers::layers::request_state::{StateKey, StateKeys};
///
/// let (old, new) = (StateKey::new(&[1; 32])?, StateKey::new(&[2; 32])?);
/// let keys = StateKeys::new([old.clone(), new])?;
/// assert!(StateKeys::new([old.clone(), old]).is_err());
/// # let _ = keys;
/// # Ok::<(), mcp_layers::layers::request_state::KeyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StateKeys(Arc<[StateKey]>);

impl StateKeys {
    /// Takes the keys in order.
    ///
    /// # Errors
    /// If there is none, or the same one twice.
    pub fn new(keys: impl IntoIterator<Item = StateKey>) -> Result<Self, KeyError> {
        let keys: Arc<[StateKey]> = keys.into_iter().collect();
        if keys.is_empty() {
            return Err(KeyError::None);
        }
        let ids = keys.iter().map(|key| key.0.id).collect::<std::collections::HashSet<_>>();
        if ids.len() < keys.len() { Err(KeyError::Duplicate) } else { Ok(Self(keys)) }
    }

    /// One key that this process draws for itself.
    ///
    /// **No other process can open what it seals**: neither a replica of the server nor the server after a restart. A
    /// log line says so. For a server of one process whose states may be lost.
    ///
    /// # Errors
    /// If the operating system gives no randomness.
    pub fn random_per_process() -> Result<Self, KeyError> {
        let key = StateKey::random()?;
        tracing::warn!(
            "requestState is sealed with a random key of this process: replicas will not share it, and a restart loses \
             every state under way; give StateKeys::new keys of your own for more than one process"
        );
        Self::new([key])
    }

    /// The keys for the server that is called `audience`, in the same order.
    pub(super) fn derive(&self, audience: &str) -> Arc<[Derived]> {
        self.0.iter().map(|key| key.derive(audience)).collect()
    }
}

/// Keys that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The secret is too short.
    TooShort {
        /// How long it is.
        bytes: usize,
    },
    /// There is no key.
    None,
    /// The same key comes twice.
    Duplicate,
    /// The operating system gives no randomness; says why.
    NoRandomness(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { bytes } => {
                write!(f, "a key of {bytes} bytes is too short: give at least {SHORTEST} random bytes")
            }
            Self::None => f.write_str("there is no key: give at least one"),
            Self::Duplicate => f.write_str("the same key comes twice: give each once"),
            Self::NoRandomness(why) => write!(f, "the operating system gives no randomness: {why}"),
        }
    }
}

impl std::error::Error for KeyError {}
