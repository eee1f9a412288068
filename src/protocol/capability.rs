//! The capabilities of clients and servers.
//!
//! Specification: `basic/index`, "`_meta`"; `basic/versioning`, "Extension Negotiation".

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Serialize, Serializer};

use super::method;
use crate::message::{Kind, Raw};

const ELICITATION: &str = "elicitation";
const SAMPLING: &str = "sampling";
const ROOTS: &str = "roots";
const EXTENSIONS: &str = "extensions";

/// A set of things that a client can do, in the shape in which clients declare them.
///
/// Everything is an object: a capability, what it has beyond its bare self, and the settings of an extension. What is
/// declared as anything else, or twice, counts as not declared.
///
/// ```
/// use mcp_layers::protocol::ClientCapabilities;
///
/// let needed = ClientCapabilities::new().with_sampling_tools().with_roots();
/// assert_eq!(serde_json::to_string(&needed)?, r#"{"roots":{},"sampling":{"tools":{}}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities(BTreeMap<Cow<'static, str>, BTreeSet<Cow<'static, str>>>);

impl ClientCapabilities {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn with(mut self, name: &'static str, sub: impl Into<Option<Cow<'static, str>>>) -> Self {
        self.0.entry(Cow::Borrowed(name)).or_default().extend(sub.into());
        self
    }

    /// Adds forms for the user to fill in.
    #[must_use]
    pub fn with_elicitation_form(self) -> Self {
        self.with(ELICITATION, Cow::Borrowed("form"))
    }

    /// Adds pages for the user to visit.
    #[must_use]
    pub fn with_elicitation_url(self) -> Self {
        self.with(ELICITATION, Cow::Borrowed("url"))
    }

    /// Adds questions to the client's model.
    #[must_use]
    pub fn with_sampling(self) -> Self {
        self.with(SAMPLING, None)
    }

    /// Adds questions to the client's model that let it use tools.
    #[must_use]
    pub fn with_sampling_tools(self) -> Self {
        self.with(SAMPLING, Cow::Borrowed("tools"))
    }

    /// Adds questions to the client's model that include context of this or other servers.
    #[must_use]
    pub fn with_sampling_context(self) -> Self {
        self.with(SAMPLING, Cow::Borrowed("context"))
    }

    /// Adds the directories that the client works in.
    #[must_use]
    pub fn with_roots(self) -> Self {
        self.with(ROOTS, None)
    }

    /// Adds an extension.
    #[must_use]
    pub fn with_extension(self, extension: ExtensionId) -> Self {
        self.with(EXTENSIONS, extension.0)
    }

    /// Adds everything in `other`.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (name, subs) in &other.0 {
            self.0.entry(name.clone()).or_default().extend(subs.iter().cloned());
        }
        self
    }

    /// True if this is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What of this a client lacks that declares `declared`; a client that declares nothing at all lacks everything.
    ///
    /// A bare `elicitation: {}` stands for forms, and for nothing else.
    ///
    /// ```
    /// use mcp_layers::message::RawObject;
    /// use mcp_layers::protocol::ClientCapabilities;
    ///
    /// let declared = RawObject::parse(r#"{"capabilities":{"elicitation":{}}}"#)?;
    /// let needed = ClientCapabilities::new().with_elicitation_form().with_elicitation_url().with_roots();
    /// assert_eq!(
    ///     needed.missing_from(declared.get("capabilities")),
    ///     ClientCapabilities::new().with_elicitation_url().with_roots(),
    /// );
    /// # Ok::<(), mcp_layers::message::NotAnObject>(())
    /// ```
    #[must_use]
    pub fn missing_from(&self, declared: Option<Raw<'_>>) -> Self {
        let missing = self.0.iter().filter_map(|(name, subs)| {
            let Some(declared) = declared.and_then(|declared| object_member(declared, name)) else {
                return Some((name.clone(), subs.clone()));
            };
            let missing: BTreeSet<_> =
                subs.iter().filter(|sub| !covers(name, declared, sub)).cloned().collect();
            (!missing.is_empty()).then(|| (name.clone(), missing))
        });
        Self(missing.collect())
    }
}

/// Whether a capability that is declared as `declared` has `sub` beyond its bare self.
fn covers(name: &str, declared: Raw<'_>, sub: &str) -> bool {
    if name == ELICITATION && sub == "form" {
        let (mut form, mut url) = (false, false);
        declared.each_member(|name, _| {
            form |= name == "form";
            url |= name == "url";
        });
        if !form && !url {
            return true;
        }
    }
    object_member(declared, sub).is_some()
}

/// The member `name` of an object, if it is an object itself and the name comes once.
fn object_member<'a>(object: Raw<'a>, name: &str) -> Option<Raw<'a>> {
    let (mut found, mut twice) = (None, false);
    object.each_member(|member, value| {
        if member == name {
            twice |= found.replace(value).is_some();
        }
    });
    found.filter(|value| !twice && value.kind() == Kind::Object)
}

impl Serialize for ClientCapabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Objects<'a>(&'a BTreeSet<Cow<'static, str>>);

        impl Serialize for Objects<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.iter().map(|name| (name, Empty {})))
            }
        }

        #[derive(Serialize)]
        struct Empty {}

        serializer.collect_map(self.0.iter().map(|(name, subs)| (name, Objects(subs))))
    }
}

/// The identifier of an extension: a prefix, a slash and a name, as in `com.example/receipts`.
///
/// The prefix is mandatory: labels separated by dots, each beginning with a letter and ending with a letter or digit,
/// with hyphens inside. The name begins and ends with a letter or digit, with `-`, `_` and `.` inside.
///
/// Specification: `basic/versioning`, "Extension Negotiation"; `basic/index`, "`_meta`".
///
/// ```
/// use mcp_layers::protocol::ExtensionId;
///
/// assert!(ExtensionId::new("com.example/receipts").is_ok());
/// assert!(ExtensionId::new("receipts").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExtensionId(Cow<'static, str>);

impl ExtensionId {
    /// Takes `id` as an identifier.
    ///
    /// # Errors
    /// If it breaks the rules above.
    pub fn new(id: impl Into<Cow<'static, str>>) -> Result<Self, InvalidExtensionId> {
        let id = id.into();
        if is_extension_id(&id) { Ok(Self(id)) } else { Err(InvalidExtensionId(id)) }
    }

    /// The identifier as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_extension_id(id: &str) -> bool {
    let Some((prefix, name)) = id.split_once('/') else { return false };
    let between = |text: &str, inside: &[u8], first_is_letter: bool| {
        let bytes = text.as_bytes();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
        (if first_is_letter { first.is_ascii_alphabetic() } else { first.is_ascii_alphanumeric() })
            && last.is_ascii_alphanumeric()
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || inside.contains(byte))
    };
    prefix.split('.').all(|label| between(label, b"-", true)) && between(name, b"-_.", false)
}

/// Text that identifies no extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidExtensionId(Cow<'static, str>);

impl fmt::Display for InvalidExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` does not identify an extension: write a prefix and a name, as in `com.example/receipts`",
            self.0
        )
    }
}

impl std::error::Error for InvalidExtensionId {}

/// The capability that a server must offer to have `method`.
///
/// `None` for methods that every server may have, and for those that the revision does not define.
///
/// ```
/// use mcp_layers::protocol::required_server_capability;
///
/// assert_eq!(required_server_capability("resources/templates/list"), Some("resources"));
/// assert_eq!(required_server_capability("server/discover"), None);
/// ```
#[must_use]
pub fn required_server_capability(method: &str) -> Option<&'static str> {
    match method {
        method::TOOLS_LIST | method::TOOLS_CALL => Some("tools"),
        method::PROMPTS_LIST | method::PROMPTS_GET => Some("prompts"),
        method::RESOURCES_LIST | method::RESOURCES_TEMPLATES_LIST | method::RESOURCES_READ => {
            Some("resources")
        }
        method::COMPLETION_COMPLETE => Some("completions"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::RawObject;

    fn missing(needed: &ClientCapabilities, declared: &str) -> String {
        let text = format!("{{\"c\":{declared}}}");
        let object = RawObject::parse(text).unwrap();
        serde_json::to_string(&needed.missing_from(object.get("c"))).unwrap()
    }

    #[test]
    fn a_bare_elicitation_stands_for_forms_and_for_nothing_else() {
        let (form, url) = (
            ClientCapabilities::new().with_elicitation_form(),
            ClientCapabilities::new().with_elicitation_url(),
        );
        for (declared, form_missing, url_missing) in [
            ("{}", true, true),
            (r#"{"elicitation":{}}"#, false, true),
            (r#"{"elicitation":{"later":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{}}}"#, false, true),
            (r#"{"elicitation":{"url":{}}}"#, true, false),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, false, false),
            (r#"{"elicitation":{"form":null}}"#, true, true),
            (r#"{"elicitation":null}"#, true, true),
            (r#"{"elicitation":{},"elicitation":{}}"#, true, true),
            (r#"{"elicitation":{"url":{},"url":{}}}"#, true, true),
            (r#"{"\u0065licitation":{"\u0075rl":{}}}"#, true, false),
        ] {
            let expected =
                |is_missing, text: &str| if is_missing { text.to_owned() } else { "{}".to_owned() };
            assert_eq!(
                missing(&form, declared),
                expected(form_missing, r#"{"elicitation":{"form":{}}}"#),
                "{declared}"
            );
            assert_eq!(
                missing(&url, declared),
                expected(url_missing, r#"{"elicitation":{"url":{}}}"#),
                "{declared}"
            );
        }
    }

    #[test]
    fn what_is_missing_is_listed_and_nothing_else() {
        let extension = ExtensionId::new("com.example/receipts").unwrap();
        let needed = ClientCapabilities::new()
            .with_sampling_tools()
            .with_sampling_context()
            .with_roots()
            .with_extension(extension.clone());
        assert_eq!(
            missing(&needed, r#"{"sampling":{"context":{}},"extensions":{"com.example/other":{}}}"#),
            r#"{"extensions":{"com.example/receipts":{}},"roots":{},"sampling":{"tools":{}}}"#
        );
        assert_eq!(missing(&ClientCapabilities::new().with_sampling(), r#"{"sampling":{}}"#), "{}");
        assert_eq!(needed.missing_from(None), needed);
        let only = ClientCapabilities::new().with_extension(extension);
        assert_eq!(missing(&only, r#"{"extensions":{"com.example/receipts":{"a":1}}}"#), "{}");
        assert!(ClientCapabilities::new().missing_from(None).is_empty());
    }

    #[test]
    fn an_extension_is_named_by_prefix_and_name() {
        for id in ["io.modelcontextprotocol/tasks", "com.example/a-b_c.d", "a/1", "a-b.c1/x"] {
            assert!(ExtensionId::new(id).is_ok(), "{id}");
        }
        for id in [
            "", "/", "a", "a/", "/a", ".a/b", "a./b", "1a/b", "a-/b", "a/b/c", "a/-b", "a/b.", "a b/c", "é/a",
        ] {
            assert!(ExtensionId::new(id).is_err(), "{id}");
        }
    }

    #[test]
    fn requirements_add_up() {
        let both = ClientCapabilities::new()
            .with_sampling()
            .and(&ClientCapabilities::new().with_sampling_tools().with_roots());
        assert_eq!(both, ClientCapabilities::new().with_roots().with_sampling_tools());
    }
}
