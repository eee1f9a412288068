//! URI templates.

use super::error::BuildError;

/// A URI template of RFC 6570 with simple `{name}` and reserved `{+name}` expressions.
///
/// `{name}` matches one or more characters other than `/`, `?` and `#`; `{+name}` matches any. Each expression ends
/// where the text that follows it in the template first comes, the last one at the end. There is no backtracking,
/// so matching takes time in proportion to the URI.
#[derive(Debug)]
pub(super) struct Template {
    /// What comes before the first expression.
    prefix: String,
    expressions: Vec<Expression>,
}

#[derive(Debug)]
struct Expression {
    name: String,
    /// Whether it may hold `/`, `?` and `#`.
    reserved: bool,
    /// The text that follows it.
    then: String,
}

impl Template {
    pub(super) fn parse(template: &str) -> Result<Self, BuildError> {
        let fault = |reason| BuildError::Template { template: template.to_owned(), reason };
        let mut parts = template.split('{');
        let prefix = parts.next().unwrap_or_default();
        if prefix.contains('}') {
            return Err(fault("a `}` closes nothing"));
        }
        let mut expressions: Vec<Expression> = Vec::new();
        for part in parts {
            let (name, then) = part.split_once('}').ok_or_else(|| fault("a `{` is not closed"))?;
            let (reserved, name) = match name.strip_prefix('+') {
                Some(name) => (true, name),
                None => (false, name),
            };
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(fault("only `{name}` and `{+name}` are supported, with letters, digits and `_`"));
            }
            if then.contains('}') {
                return Err(fault("a `}` closes nothing"));
            }
            if expressions.last().is_some_and(|last| last.then.is_empty()) {
                return Err(fault("two expressions need some text between them"));
            }
            if expressions.iter().any(|earlier| earlier.name == name) {
                return Err(fault("an expression comes twice"));
            }
            expressions.push(Expression { name: name.to_owned(), reserved, then: then.to_owned() });
        }
        if expressions.is_empty() {
            return Err(fault("it has no expression: register it as a resource"));
        }
        Ok(Self { prefix: prefix.to_owned(), expressions })
    }

    /// The names of its expressions in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.expressions.iter().map(|expression| expression.name.as_str())
    }

    /// The values of its expressions in a URI, percent-decoded, or `None` if the URI does not match.
    pub(super) fn match_uri(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let mut rest = uri.strip_prefix(self.prefix.as_str())?;
        let last = self.expressions.len() - 1;
        let mut values = Vec::with_capacity(self.expressions.len());
        for (at, expression) in self.expressions.iter().enumerate() {
            let value = if at == last {
                rest.strip_suffix(expression.then.as_str())?
            } else {
                let (value, after) = rest.split_once(expression.then.as_str())?;
                rest = after;
                value
            };
            if value.is_empty() || (!expression.reserved && value.contains(['/', '?', '#'])) {
                return None;
            }
            values.push((expression.name.as_str(), percent_decode(value)?));
        }
        Some(values)
    }
}

/// Percent-decodes; `None` if that is not possible, or not UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || bytes.next().and_then(|byte| (byte as char).to_digit(16));
            let value = digit()? << 4 | digit()?;
            decoded.push(u8::try_from(value).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<Vec<String>> {
        let template = Template::parse(template).unwrap();
        let values = template.match_uri(uri)?;
        assert!(values.iter().map(|(name, _)| *name).eq(template.names()));
        Some(values.into_iter().map(|(_, value)| value).collect())
    }

    #[test]
    fn expressions_match_up_to_what_follows_them() {
        assert_eq!(matched("a://{x}/b", "a://1/b").unwrap(), ["1"]);
        assert_eq!(matched("a://{x}/{y}.txt", "a://1/2.txt.txt").unwrap(), ["1", "2.txt"]);
        assert_eq!(matched("a://{+path}", "a://1/2/3?q#f").unwrap(), ["1/2/3?q#f"]);
        assert_eq!(matched("{scheme}://{x}", "b://c").unwrap(), ["b", "c"]);
        assert_eq!(matched("a://{x}", "a://caf%C3%A9%2F").unwrap(), ["café/"]);
    }

    #[test]
    fn what_does_not_match_does_not_match() {
        for uri in
            ["", "a://", "a://1", "a://1/b/", "a:///b", "a://1/2/b", "b://1/b", "a://%zz/b", "a://%ff/b"]
        {
            assert_eq!(matched("a://{x}/b", uri), None, "{uri}");
        }
    }

    #[test]
    fn unsupported_templates_are_refused() {
        for template in
            ["a://b", "a://{x", "a://x}", "a://{}", "a://{?q}", "a://{x*}", "{x}{y}", "{x}/{x}", "{x}}"]
        {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }
}
