//! The scopes that something needs.

use std::fmt;

/// The scopes that an operation needs: all of these, any of those, or both.
///
/// Text is read as in OAuth: `"files:read files:write"` are two scopes, and both are needed. Names are checked where
/// they are put to use, by [`check`](Self::check).
///
/// ```
/// use mcp_layers::protocol::Scopes;
///
/// let needed = Scopes::all(["files:read"]).and(Scopes::any(["quota:paid", "quota:free"]));
/// assert!(needed.met_by(|scope| ["files:read", "quota:free"].contains(&scope)));
/// assert!(!needed.met_by(|scope| scope == "files:read"));
/// assert_eq!(Scopes::from("a b"), Scopes::all(["a", "b"]));
/// assert!(Scopes::none().met_by(|_| false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    /// Each is met by any one of its scopes; all must be met.
    clauses: Vec<Vec<Box<str>>>,
}

impl Scopes {
    /// No scope at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { clauses: Vec::new() }
    }

    /// Every one of `scopes`.
    #[must_use]
    pub fn all<S: Into<Box<str>>>(scopes: impl IntoIterator<Item = S>) -> Self {
        Self { clauses: scopes.into_iter().map(|scope| vec![scope.into()]).collect() }
    }

    /// At least one of `scopes`. Challenges name the first of them, unless another is granted already.
    #[must_use]
    pub fn any<S: Into<Box<str>>>(scopes: impl IntoIterator<Item = S>) -> Self {
        Self { clauses: vec![scopes.into_iter().map(Into::into).collect()] }
    }

    /// These, and `others` as well.
    #[must_use]
    pub fn and(mut self, others: impl Into<Self>) -> Self {
        self.clauses.extend(others.into().clauses);
        self
    }

    /// True if nothing is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether what is needed is there, where `granted` tells it of one scope.
    #[must_use]
    pub fn met_by(&self, granted: impl Fn(&str) -> bool) -> bool {
        self.clauses.iter().all(|clause| clause.iter().any(|scope| granted(scope)))
    }

    /// Checks the names: characters that OAuth allows, at least one where any is needed, and not `offline_access`,
    /// which no resource needs (`basic/authorization`, "Refresh Tokens").
    ///
    /// # Errors
    /// The first name that is not right.
    pub fn check(&self) -> Result<(), InvalidScope> {
        for clause in &self.clauses {
            if clause.is_empty() {
                return Err(InvalidScope {
                    scope: Box::default(),
                    reason: "any of no scopes is never granted",
                });
            }
            clause.iter().try_for_each(|scope| check_scope(scope))?;
        }
        Ok(())
    }

    /// Adds to `scopes`, in order and once each, what a challenge names.
    pub(crate) fn list_into<'a>(&'a self, granted: impl Fn(&str) -> bool, scopes: &mut Vec<&'a str>) {
        for clause in &self.clauses {
            let named = clause.iter().find(|scope| granted(scope)).or(clause.first());
            if let Some(scope) = named.filter(|scope| !scopes.contains(&&***scope)) {
                scopes.push(scope);
            }
        }
    }
}

/// Checks the name of one scope.
pub(crate) fn check_scope(scope: &str) -> Result<(), InvalidScope> {
    let fault = |reason| Err(InvalidScope { scope: scope.into(), reason });
    match scope {
        "" => fault("a scope's name is not empty"),
        "offline_access" => fault("refresh tokens are between client and issuer: no resource needs them"),
        _ if scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E)) => Ok(()),
        _ => fault("a scope is visible ASCII without quotation marks and backslashes"),
    }
}

impl From<&str> for Scopes {
    fn from(text: &str) -> Self {
        Self::all(text.split(' ').filter(|scope| !scope.is_empty()))
    }
}

impl From<String> for Scopes {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl<S: Into<Box<str>>, const N: usize> From<[S; N]> for Scopes {
    fn from(scopes: [S; N]) -> Self {
        Self::all(scopes)
    }
}

impl<S: Into<Box<str>>> From<Vec<S>> for Scopes {
    fn from(scopes: Vec<S>) -> Self {
        Self::all(scopes)
    }
}

/// The name of a scope that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidScope {
    scope: Box<str>,
    reason: &'static str,
}

impl fmt::Display for InvalidScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be a scope that is needed: {}", self.scope, self.reason)
    }
}

impl std::error::Error for InvalidScope {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_everything_once_and_in_order() {
        let needed = Scopes::from("b a").and(Scopes::any(["c", "d"])).and("b");
        let list = |granted: &[&str]| {
            let mut scopes = Vec::new();
            needed.list_into(|scope| granted.contains(&scope), &mut scopes);
            scopes.join(" ")
        };
        assert_eq!(list(&[]), "b a c");
        assert_eq!(list(&["a", "d"]), "b a d", "what is granted already stays enough");
    }

    #[test]
    fn names_that_oauth_does_not_allow_are_found() {
        for bad in ["", "a b", "a\"", "a\\b", "a\n", "é", "offline_access"] {
            assert!(Scopes::all([bad]).check().is_err(), "{bad:?}");
        }
        assert!(Scopes::any([""; 0]).check().is_err());
        assert_eq!(Scopes::from("a:b https://x/y.z !").check(), Ok(()));
        assert_eq!(Scopes::none().check(), Ok(()));
    }
}
