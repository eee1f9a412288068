//! What the claims about a token must say.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::verifier::VerifyError;
use crate::principal::Principal;

/// What is expected of claims, wherever they come from.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) issuer: String,
    /// Where the claims come from the issuer itself, it need not say its name.
    pub(super) issuer_is_known: bool,
    /// Empty only where the audience is nobody's business.
    pub(super) audiences: Vec<String>,
    pub(super) expiry_is_optional: bool,
    pub(super) leeway: Duration,
}

impl Expected {
    pub(super) fn new(issuer: String, audience: String) -> Self {
        Self {
            issuer,
            issuer_is_known: false,
            audiences: vec![audience],
            expiry_is_optional: false,
            leeway: Duration::from_secs(60),
        }
    }

    /// Checks claims that are known to be genuine, and says whom they are about.
    pub(super) fn check(
        &self,
        claims: Map<String, Value>,
        now: SystemTime,
    ) -> Result<Principal, VerifyError> {
        let expires_at = self.check_times(&claims, now)?;
        match claims.get("iss") {
            None if self.issuer_is_known => {}
            Some(Value::String(issuer)) if *issuer == self.issuer => {}
            None => return Err(VerifyError::invalid("the token does not say who issued it (iss)")),
            Some(_) => {
                tracing::debug!(expected = self.issuer, "refused a token of another issuer");
                return Err(VerifyError::invalid(
                    "the token is from an issuer that this server does not trust (iss)",
                ));
            }
        }
        if !self.audiences.is_empty() {
            self.check_audience(&claims)?;
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let client = text("client_id").or_else(|| text("azp"));
        let subject = match (text("sub"), client) {
            (Some(subject), _) => subject,
            // A client that acts for nobody but itself.
            (None, Some(_)) => "",
            (None, None) => {
                return Err(VerifyError::invalid(
                    "the token does not say whom it stands for (sub, client_id)",
                ));
            }
        };
        let mut principal = Principal::new(self.issuer.clone(), subject).with_scopes(scopes(&claims)?);
        if let Some(client) = client {
            principal = principal.with_client(client);
        }
        if let Some(at) = expires_at {
            principal = principal.with_expiry(at);
        }
        Ok(principal.with_claims(claims))
    }

    fn check_times(
        &self,
        claims: &Map<String, Value>,
        now: SystemTime,
    ) -> Result<Option<SystemTime>, VerifyError> {
        const NOT_A_TIME: VerifyError = VerifyError::invalid("the token's times are not numbers (exp, nbf)");
        let time = |name: &str| claims.get(name).map(|value| read_time(value).ok_or(NOT_A_TIME)).transpose();
        let expires_at = time("exp")?;
        match expires_at {
            None if !self.expiry_is_optional => {
                return Err(VerifyError::invalid("the token does not say when it expires (exp)"));
            }
            // A leeway that leads beyond all time ends nothing.
            Some(at) if at.checked_add(self.leeway).is_some_and(|end| end <= now) => {
                return Err(VerifyError::invalid("the token has expired"));
            }
            _ => {}
        }
        if time("nbf")?.is_some_and(|from| now.checked_add(self.leeway).is_some_and(|now| now < from)) {
            return Err(VerifyError::not_now("the token is not valid yet (nbf)"));
        }
        Ok(expires_at)
    }

    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), VerifyError> {
        let ours = |audience: &Value| {
            audience.as_str().is_some_and(|audience| self.audiences.iter().any(|ours| ours == audience))
        };
        let meant = match claims.get("aud") {
            None => return Err(VerifyError::invalid("the token does not say whom it is meant for (aud)")),
            Some(Value::Array(audiences)) => audiences.iter().any(ours),
            Some(audience) => ours(audience),
        };
        if meant {
            return Ok(());
        }
        tracing::debug!(expected = ?self.audiences, "refused a token that is meant for another audience");
        Err(VerifyError::invalid("the token is meant for another server (aud)"))
    }
}

/// A `NumericDate` of RFC 7519: seconds, perhaps with a fraction. What is beyond all time is put at its end.
fn read_time(value: &Value) -> Option<SystemTime> {
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite())?;
    // Earlier than 1970 is as good as then: long ago.
    let since = match value.as_u64() {
        Some(seconds) => Duration::from_secs(seconds),
        None => Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX),
    };
    let far = Duration::from_secs(1 << 40);
    SystemTime::UNIX_EPOCH.checked_add(since.min(far))
}

/// The scopes in `scope` and `scp`, each a text or a list of texts.
fn scopes(claims: &Map<String, Value>) -> Result<Vec<String>, VerifyError> {
    const NOT_SCOPES: VerifyError =
        VerifyError::invalid("the token's scopes are neither text nor a list of texts");
    let mut scopes = Vec::new();
    let mut add = |text: &str| scopes.extend(text.split_ascii_whitespace().map(ToOwned::to_owned));
    for name in ["scope", "scp"] {
        match claims.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => add(text),
            Some(Value::Array(list)) => {
                for scope in list {
                    add(scope.as_str().ok_or(NOT_SCOPES)?);
                }
            }
            Some(_) => return Err(NOT_SCOPES),
        }
    }
    Ok(scopes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn check(change: impl FnOnce(&mut Map<String, Value>)) -> Result<Principal, VerifyError> {
        let Value::Object(mut claims) =
            json!({"iss": "https://i.example", "aud": "https://me", "sub": "ada", "exp": NOW + 10})
        else {
            unreachable!()
        };
        change(&mut claims);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        Expected::new("https://i.example".into(), "https://me".into()).check(claims, now)
    }

    fn set(name: &str, value: Value) -> Result<Principal, VerifyError> {
        check(|claims| drop(claims.insert(name.to_owned(), value)))
    }

    fn without(name: &str) -> Option<&'static str> {
        check(|claims| drop(claims.remove(name))).unwrap_err().reason()
    }

    #[test]
    fn what_is_required_is_required() {
        assert!(check(|_| {}).is_ok());
        assert_eq!(without("iss"), Some("the token does not say who issued it (iss)"));
        assert_eq!(without("aud"), Some("the token does not say whom it is meant for (aud)"));
        assert_eq!(without("exp"), Some("the token does not say when it expires (exp)"));
        assert_eq!(without("sub"), Some("the token does not say whom it stands for (sub, client_id)"));
    }

    #[test]
    fn issuers_are_compared_as_they_are_written() {
        for bad in [
            json!("https://i.example/"),
            json!("HTTPS://i.example"),
            json!(["https://i.example"]),
            json!(null),
        ] {
            let reason = set("iss", bad.clone()).unwrap_err().reason();
            assert_eq!(
                reason,
                Some("the token is from an issuer that this server does not trust (iss)"),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_audience_is_one_text_or_a_list_that_has_it() {
        for good in [json!("https://me"), json!(["x", "https://me"])] {
            assert!(set("aud", good).is_ok());
        }
        for bad in [
            json!("https://me/"),
            json!("https://m"),
            json!([]),
            json!(["x"]),
            json!([["https://me"]]),
            json!({}),
            json!(null),
        ] {
            let reason = set("aud", bad.clone()).unwrap_err().reason();
            assert_eq!(reason, Some("the token is meant for another server (aud)"), "{bad}");
        }
    }

    #[test]
    fn times_have_a_leeway_and_must_be_numbers() {
        assert!(set("exp", json!(NOW - 59)).is_ok());
        assert_eq!(set("exp", json!(NOW - 60)).unwrap_err().reason(), Some("the token has expired"));
        assert_eq!(set("exp", json!(-1)).unwrap_err().reason(), Some("the token has expired"));
        for fine in [json!(1e300), json!(u64::MAX), json!(1_800_000_000.5)] {
            assert!(set("exp", fine).is_ok());
        }
        for bad in [json!("1800000010"), json!(null), json!([NOW])] {
            assert!(set("exp", bad.clone()).unwrap_err().lasts());
            assert!(set("nbf", bad).is_err());
        }
        assert!(set("nbf", json!(NOW + 60)).is_ok());
        let early = set("nbf", json!(NOW + 61)).unwrap_err();
        assert_eq!((early.reason(), early.lasts()), (Some("the token is not valid yet (nbf)"), false));
    }

    #[test]
    fn scopes_come_as_text_or_list_under_two_names() {
        for (name, value) in [
            ("scope", json!("b a")),
            ("scope", json!(["b", "a"])),
            ("scp", json!("a b")),
            ("scp", json!(["a b"])),
        ] {
            assert_eq!(set(name, value).unwrap().scopes(), ["a", "b"]);
        }
        let both = check(|claims| {
            claims.insert("scope".into(), json!("a"));
            claims.insert("scp".into(), json!(["b"]));
        });
        assert_eq!(both.unwrap().scopes(), ["a", "b"]);
        for bad in [json!(1), json!([1]), json!({"a": true})] {
            assert!(set("scope", bad).is_err());
        }
    }

    #[test]
    fn a_client_alone_is_somebody_too() {
        let principal = check(|claims| {
            claims.remove("sub");
            claims.insert("client_id".into(), json!("robot"));
        })
        .unwrap();
        assert_eq!((principal.subject(), principal.client()), ("", Some("robot")));
        assert_eq!(set("azp", json!("app")).unwrap().client(), Some("app"));
    }
}
