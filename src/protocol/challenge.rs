//! The `WWW-Authenticate` header of RFC 9110 and RFC 6750.

use std::borrow::Cow;

use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

/// A Bearer challenge: what a client must do to be let in.
///
/// ```
/// use mcp_layers::protocol::Challenge;
///
/// let challenge = Challenge::new()
///     .with_error("insufficient_scope")
///     .with_scope(["files:read", "files:write"])
///     .with_resource_metadata("https://mcp.example.com/.well-known/oauth-protected-resource");
/// assert_eq!(
///     challenge.to_value(),
///     "Bearer error=\"insufficient_scope\", scope=\"files:read files:write\", \
///      resource_metadata=\"https://mcp.example.com/.well-known/oauth-protected-resource\"",
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Challenge {
    error: Option<Cow<'static, str>>,
    description: Option<Cow<'static, str>>,
    scope: Option<String>,
    resource_metadata: Option<String>,
}

impl Challenge {
    /// A challenge that says nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is wrong: `invalid_token`, `insufficient_scope` or `invalid_request`. Left out where there were no
    /// credentials (RFC 6750, section 3.1).
    pub fn with_error(mut self, error: impl Into<Cow<'static, str>>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// The same for a person who looks into it.
    pub fn with_description(mut self, description: impl Into<Cow<'static, str>>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The scopes that are needed; none leaves the parameter out.
    pub fn with_scope<S: AsRef<str>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        let mut text = String::new();
        for scope in scopes {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(scope.as_ref());
        }
        self.scope = (!text.is_empty()).then_some(text);
        self
    }

    /// Where the metadata of the protected resource is.
    pub fn with_resource_metadata(mut self, url: impl Into<String>) -> Self {
        self.resource_metadata = Some(url.into());
        self
    }

    /// The value of the header. What a quoted string cannot hold is replaced.
    #[must_use]
    pub fn to_value(&self) -> HeaderValue {
        let parameters = [
            ("error", self.error.as_deref()),
            ("error_description", self.description.as_deref()),
            ("scope", self.scope.as_deref()),
            ("resource_metadata", self.resource_metadata.as_deref()),
        ];
        let mut text = String::from("Bearer");
        let mut separator = ' ';
        for (name, value) in parameters {
            let Some(value) = value else { continue };
            text.push(separator);
            if separator == ',' {
                text.push(' ');
            }
            separator = ',';
            text.push_str(name);
            text.push_str("=\"");
            // RFC 6750 allows neither quotation marks nor backslashes inside, escaped or not.
            text.extend(value.chars().map(|char| match char {
                '"' => '\'',
                ' ' | '!' | '#'..='[' | ']'..='~' => char,
                _ => ' ',
            }));
            text.push('"');
        }
        // Nothing but visible ASCII and spaces is left.
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("Bearer"))
    }

    /// Makes this the only Bearer challenge of a response that somebody else built, who may have said what is wrong;
    /// where to find the metadata is said here alone. Challenges of other schemes stay.
    pub(crate) fn settle(mut self, headers: &mut HeaderMap) {
        let mut others = Vec::new();
        let mut found = false;
        for line in headers.get_all(WWW_AUTHENTICATE) {
            // What is no text holds no challenge that a client could read.
            let Ok(line) = line.to_str() else { continue };
            for one in split(line) {
                if !one.scheme.eq_ignore_ascii_case("bearer") {
                    others.extend(HeaderValue::from_str(one.text));
                } else if !found {
                    found = true;
                    self.take(&one);
                }
            }
        }
        headers.insert(WWW_AUTHENTICATE, self.to_value());
        for other in others {
            headers.append(WWW_AUTHENTICATE, other);
        }
    }

    /// Says what `one` says.
    fn take(&mut self, one: &Parsed<'_>) {
        let get = |name: &str| {
            let found = one.parameters.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone().into_owned())
        };
        self.error = get("error").map(Cow::Owned);
        self.description = get("error_description").map(Cow::Owned);
        self.scope = get("scope").or(self.scope.take());
    }
}

/// One challenge of any scheme.
struct Parsed<'a> {
    scheme: &'a str,
    /// The whole of it.
    text: &'a str,
    parameters: Vec<(&'a str, Cow<'a, str>)>,
}

/// The challenges in one line. A comma separates challenges as well as their parameters: what has a `=` after its first
/// word is a parameter.
fn split(line: &str) -> Vec<Parsed<'_>> {
    let mut found: Vec<Parsed<'_>> = Vec::new();
    let mut start = 0;
    for (from, to) in items(line) {
        let item = line[from..to].trim_matches([' ', '\t']);
        if item.is_empty() {
            continue;
        }
        let word = item.split([' ', '\t', '=']).next().unwrap_or_default();
        let rest = item[word.len()..].trim_start_matches([' ', '\t']);
        let parameter = if let (Some(_), Some(_)) = (rest.strip_prefix('='), found.last()) {
            item
        } else {
            start = from + (line[from..to].len() - line[from..to].trim_start_matches([' ', '\t']).len());
            found.push(Parsed { scheme: word, text: "", parameters: Vec::new() });
            rest
        };
        if let Some(last) = found.last_mut() {
            last.text = line[start..to].trim_end_matches([' ', '\t']);
            if let Some((name, value)) = parameter.split_once('=') {
                last.parameters
                    .push((name.trim_matches([' ', '\t']), unquote(value.trim_matches([' ', '\t']))));
            }
        }
    }
    found
}

/// Where the parts between commas are, but for commas in quoted strings.
fn items(line: &str) -> Vec<(usize, usize)> {
    let (mut found, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                found.push((from, at));
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push((from, line.len()));
    found
}

fn unquote(value: &str) -> Cow<'_, str> {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return value.into();
    };
    if !inner.contains('\\') {
        return inner.into();
    }
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        out.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(lines: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(line).unwrap());
        }
        Challenge::new().with_resource_metadata("https://r/m").settle(&mut headers);
        let lines = headers.get_all(WWW_AUTHENTICATE).iter();
        lines.map(|line| line.to_str().unwrap().to_owned()).collect()
    }

    const OURS: &str = "Bearer resource_metadata=\"https://r/m\"";

    #[test]
    fn values_cannot_break_out_of_their_quotes() {
        let challenge = Challenge::new().with_description("a\" b\\c, d\r\né").with_error("e");
        assert_eq!(challenge.to_value(), "Bearer error=\"e\", error_description=\"a' b c, d   \"");
        assert_eq!(Challenge::new().to_value(), "Bearer");
    }

    #[test]
    fn what_an_inner_service_said_is_kept_in_the_one_challenge() {
        let inner = "Bearer realm=\"x, y\", error = \"insufficient_scope\", scope=\"a b\", resource_metadata=\"https://evil\"";
        assert_eq!(
            settled(&[inner]),
            ["Bearer error=\"insufficient_scope\", scope=\"a b\", resource_metadata=\"https://r/m\""]
        );
    }

    #[test]
    fn several_bearer_challenges_become_one() {
        let two = settled(&["bearer error=\"a\", Bearer error=\"b\"", "BEARER scope=c"]);
        assert_eq!(two, ["Bearer error=\"a\", resource_metadata=\"https://r/m\""]);
    }

    #[test]
    fn challenges_of_other_schemes_stay() {
        assert_eq!(
            settled(&[
                "Basic realm=\"a, Bearer b\", charset=\"UTF-8\", Bearer, Negotiate abc==",
                "DPoP algs=\"ES256\""
            ]),
            [
                OURS,
                "Basic realm=\"a, Bearer b\", charset=\"UTF-8\"",
                "Negotiate abc==",
                "DPoP algs=\"ES256\""
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_does_no_harm() {
        for line in ["", ",", "=", "\"", "Bearer error=\"a", "Bearer =", ", ,", "a b=c=d"] {
            let lines = settled(&[line]);
            let bearers = lines.iter().filter(|line| line.to_ascii_lowercase().starts_with("bearer")).count();
            assert_eq!(bearers, 1, "{line:?}: {lines:?}");
        }
    }
}
