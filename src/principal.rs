//! Who calls.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Who calls: the outcome of authentication, in the extensions of the request.
///
/// An authentication layer of your own puts one there as well, and everything that asks for a principal works.
///
/// ```
/// use mcp_layers::principal::Principal;
///
/// let ada = Principal::new("https://issuer.example", "ada").with_scopes(["tools:read"]);
/// let refreshed = ada.clone().with_credential(b"another token");
/// assert!(ada.has_scope("tools:read"));
/// assert_eq!(ada.partition(), refreshed.partition());
/// assert_ne!(ada.partition(), Principal::new("https://issuer.example", "bob").partition());
/// ```
#[derive(Clone)]
pub struct Principal(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    issuer: String,
    subject: String,
    client: Option<String>,
    scopes: Vec<String>,
    expires_at: Option<SystemTime>,
    claims: Map<String, Value>,
    credential: Option<Partition>,
    /// Digested when it is first asked for: whoever is remembered between requests is digested once.
    partition: OnceLock<Partition>,
}

/// An opaque digest that tells callers apart. Equal digests mean the same caller.
///
/// It can be compared and hashed, and gives nothing away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition([u8; 32]);

impl Partition {
    /// Digests parts that cannot run into each other: each is preceded by its length.
    pub(crate) fn of(domain: &str, parts: &[Option<&[u8]>]) -> Self {
        let mut digest = Sha256::new();
        for part in std::iter::once(&Some(domain.as_bytes())).chain(parts) {
            match part {
                // A length that no part has.
                None => digest.update(u64::MAX.to_be_bytes()),
                Some(part) => {
                    digest.update((part.len() as u64).to_be_bytes());
                    digest.update(part);
                }
            }
        }
        Self(digest.finalize().into())
    }

    /// The digest of a credential.
    pub(crate) fn of_credential(credential: &[u8]) -> Self {
        Self::of("credential", &[Some(credential)])
    }

    /// The digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Partition(..)")
    }
}

impl Principal {
    /// The subject `subject`, vouched for by `issuer`.
    #[must_use]
    pub fn new(issuer: impl Into<String>, subject: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            issuer: issuer.into(),
            subject: subject.into(),
            client: None,
            scopes: Vec::new(),
            expires_at: None,
            claims: Map::new(),
            credential: None,
            partition: OnceLock::new(),
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The same, acting through the client `client`.
    #[must_use]
    pub fn with_client(self, client: impl Into<String>) -> Self {
        self.with(|inner| {
            inner.client = Some(client.into());
            inner.partition = OnceLock::new();
        })
    }

    /// The same with these scopes and no others.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        let mut scopes: Vec<String> = scopes.into_iter().map(Into::into).collect();
        scopes.sort_unstable();
        scopes.dedup();
        self.with(|inner| inner.scopes = scopes)
    }

    /// The same, trusted until `at`.
    #[must_use]
    pub fn with_expiry(self, at: SystemTime) -> Self {
        self.with(|inner| inner.expires_at = Some(at))
    }

    /// The same with everything that the issuer said.
    #[must_use]
    pub fn with_claims(self, claims: Map<String, Value>) -> Self {
        self.with(|inner| inner.claims = claims)
    }

    /// The same, known by the secret `credential`, of which only a digest is kept.
    #[must_use]
    pub fn with_credential(self, credential: &[u8]) -> Self {
        self.known_by(Partition::of_credential(credential))
    }

    /// The same with a digest that was made before.
    pub(crate) fn known_by(self, credential: Partition) -> Self {
        self.with(|inner| inner.credential = Some(credential))
    }

    /// Who vouches for the subject.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// Who it is, as the issuer names it.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The client that acts for the subject, if it is known.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.0.client.as_deref()
    }

    /// What it has been granted, in alphabetical order.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// Whether it has been granted `scope` itself.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.binary_search_by(|granted| granted.as_str().cmp(scope)).is_ok()
    }

    /// Until when it is trusted, if there is a bound.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.expires_at
    }

    /// Everything that the issuer said.
    #[must_use]
    pub fn claims(&self) -> &Map<String, Value> {
        &self.0.claims
    }

    /// A digest of issuer, subject and client: the same while tokens come and go.
    #[must_use]
    pub fn partition(&self) -> Partition {
        let parts =
            || [Some(self.issuer()), Some(self.subject()), self.client()].map(|part| part.map(str::as_bytes));
        *self.0.partition.get_or_init(|| Partition::of("principal", &parts()))
    }

    /// A digest of the very credential that was presented, if it is known: another for each token.
    #[must_use]
    pub fn credential(&self) -> Option<Partition> {
        self.0.credential
    }
}

impl fmt::Debug for Principal {
    /// Claims are left out: they may hold what is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("issuer", &self.issuer())
            .field("subject", &self.subject())
            .field("client", &self.client())
            .field("scopes", &self.scopes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_partition_do_not_run_into_each_other() {
        let partitions = [
            Principal::new("a", "bc"),
            Principal::new("ab", "c"),
            Principal::new("abc", ""),
            Principal::new("a", "bc").with_client(""),
            Principal::new("a", "b").with_client("c"),
            Principal::new("a", "").with_client("bc"),
        ]
        .map(|principal| principal.partition());
        for (at, one) in partitions.iter().enumerate() {
            assert!(!partitions[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn another_client_is_another_caller_also_after_the_first_was_asked_for() {
        let ada = Principal::new("i", "ada");
        let (before, other) = (ada.partition(), ada.clone().with_client("c"));
        assert_ne!(before, other.partition());
        assert_eq!(other.partition(), Principal::new("i", "ada").with_client("c").partition());
        assert_eq!(before, ada.partition());
    }

    #[test]
    fn scopes_and_expiry_do_not_change_who_it_is() {
        let ada = Principal::new("i", "ada");
        let later = ada
            .clone()
            .with_scopes(["b", "a", "b"])
            .with_expiry(SystemTime::UNIX_EPOCH)
            .with_credential(b"t");
        assert_eq!(ada.partition(), later.partition());
        assert_eq!(later.scopes(), ["a", "b"]);
        assert!(later.has_scope("a") && !later.has_scope("c"));
        assert_ne!(later.credential(), ada.with_credential(b"u").credential());
    }

    #[test]
    fn neither_credentials_nor_claims_are_printed() {
        let mut claims = Map::new();
        claims.insert("email".to_owned(), "private".into());
        let shown = format!("{:?}", Principal::new("i", "s").with_claims(claims).with_credential(b"secret"));
        assert!(!shown.contains("private") && !shown.contains("secret"), "{shown}");
    }
}
