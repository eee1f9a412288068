//! The token in the `Authorization` header.

use http::header::{AUTHORIZATION, HeaderMap};

/// What a request says about who sends it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials<'a> {
    /// Nothing that this server could read: no header, or another scheme.
    None,
    /// A bearer token, whose characters are still to be [checked](token).
    Bearer(&'a [u8]),
    /// No token where one should be, or one that is too long.
    Malformed,
    /// Several lines, of which another reader might take another.
    Several,
}

/// Reads the one `Authorization` line: a scheme in any case, one or more spaces, the token.
///
/// Tokens in the query or in the body are not looked for (`basic/authorization`, "Access Token Usage").
pub(super) fn read(headers: &HeaderMap, max_len: usize) -> Credentials<'_> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let line = match (lines.next(), lines.next()) {
        (None, _) => return Credentials::None,
        (Some(line), None) => line.as_bytes(),
        (Some(_), Some(_)) => return Credentials::Several,
    };
    let line = line.trim_ascii();
    let Some((scheme, rest)) = line.split_at_checked(6) else { return Credentials::None };
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Credentials::None;
    }
    let token = match rest.first() {
        Some(b' ') => rest.trim_ascii_start(),
        // `BearerX`, `Bearer,` and the like are other schemes, or none; a tab is not a space.
        None | Some(b'\t') => return Credentials::Malformed,
        Some(_) => return Credentials::None,
    };
    if token.is_empty() || token.len() > max_len {
        Credentials::Malformed
    } else {
        Credentials::Bearer(token)
    }
}

/// The token as text, if it has the characters of RFC 6750, section 2.1:
/// `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`.
///
/// A token that is remembered had them: it need not be looked at again.
pub(super) fn token(token: &[u8]) -> Option<&str> {
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &token[..token.len() - padding];
    let is_fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    if body.is_empty() || !body.iter().all(is_fine) {
        return None;
    }
    std::str::from_utf8(token).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(lines: &[&[u8]], expected: &Credentials<'_>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(line).unwrap());
        }
        let found = match read(&headers, 8) {
            Credentials::Bearer(bytes) if token(bytes).is_none() => Credentials::Malformed,
            found => found,
        };
        assert_eq!(found, *expected, "{lines:?}");
    }

    #[test]
    fn the_scheme_has_any_case_and_one_or_more_spaces_follow() {
        for line in ["Bearer a.b", "bearer a.b", "BEARER    a.b", "  Bearer a.b  "] {
            check(&[line.as_bytes()], &Credentials::Bearer(b"a.b"));
        }
        check(&[b"Bearer aZ9-._~+"], &Credentials::Bearer(b"aZ9-._~+"));
        check(&[b"Bearer a=="], &Credentials::Bearer(b"a=="));
    }

    #[test]
    fn other_schemes_are_no_credentials() {
        check(&[], &Credentials::None);
        for line in ["", "Basic YTpi", "BearerToken x", "Bearer,x", "DPoP x", "abc"] {
            check(&[line.as_bytes()], &Credentials::None);
        }
    }

    #[test]
    fn a_token_with_other_characters_or_too_long_is_malformed() {
        let bad: [&[u8]; 12] = [
            b"Bearer",
            b"Bearer ",
            b"Bearer\ta",
            b"Bearer a b",
            b"Bearer a,b",
            b"Bearer a, Bearer b",
            b"Bearer =",
            b"Bearer a=b",
            b"Bearer \"a\"",
            b"Bearer a\x80",
            b"Bearer {}",
            b"Bearer 123456789",
        ];
        for line in bad {
            check(&[line], &Credentials::Malformed);
        }
    }

    #[test]
    fn several_lines_are_told_apart_from_one() {
        check(&[b"Bearer a", b"Bearer a"], &Credentials::Several);
        check(&[b"Bearer a", b"Basic b"], &Credentials::Several);
    }
}
