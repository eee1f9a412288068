//! What layers know about tools.
//!
//! A layer that judges calls needs to know the tool. It asks a [`ToolCatalog`]: the registry of the dispatcher, a
//! [`StaticCatalog`] in front of a server that somebody else wrote, or one of your own.
//!
//! ```
//! use http::Extensions;
//! use mcp_layers::catalog::{StaticCatalog, ToolCatalog};
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
//! let catalog = StaticCatalog::new([("sql", &schema)])?;
//! let facts = catalog.tool("sql", &Extensions::new()).expect("is listed");
//! assert_eq!(facts.param_headers.as_slice()[0].header(), "mcp-param-region");
//! assert!(catalog.tool("rm", &Extensions::new()).is_none());
//! # Ok::<(), mcp_layers::catalog::CatalogError>(())
//! ```

pub(crate) mod listed;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use http::Extensions;
use serde_json::Value;

use crate::protocol::mirror::{InvalidAnnotation, ParamHeaders};
use crate::protocol::{ClientCapabilities, Scopes};

/// Tells layers about tools.
///
/// The answer may depend on who asks: `extensions` are those of the request. It is given at once; what must be awaited
/// is awaited above, and left in the extensions.
pub trait ToolCatalog: Send + Sync + 'static {
    /// What is known about the tool `name`; `None` if this caller has no such tool.
    fn tool(&self, name: &str, extensions: &Extensions) -> Option<Arc<ToolFacts>>;

    /// Which state the catalog is in, if what it says depends on nothing else, such as who asks: a number that it had not
    /// before, as soon as it says anything else. While it is the same, layers do not ask about each tool of a list
    /// again. Defaults to `None`: they ask each time.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Whether there is no tool but those that it knows. If not, what it does not know may be a tool all the same, of which
    /// nothing was declared. Defaults to true.
    fn is_exhaustive(&self) -> bool {
        true
    }
}

impl<C: ToolCatalog + ?Sized> ToolCatalog for Arc<C> {
    fn tool(&self, name: &str, extensions: &Extensions) -> Option<Arc<ToolFacts>> {
        (**self).tool(name, extensions)
    }

    fn generation(&self) -> Option<u64> {
        (**self).generation()
    }

    fn is_exhaustive(&self) -> bool {
        (**self).is_exhaustive()
    }
}

/// What layers may want to know about one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolFacts {
    /// The arguments that calls mirror into `Mcp-Param-*` headers.
    pub param_headers: ParamHeaders,
    /// What a client must have declared to call the tool.
    pub required_capabilities: ClientCapabilities,
    /// The scopes that a caller needs to call the tool, and to see it in lists.
    pub scopes: Scopes,
    /// The JSON Schema of the structured content of results (`outputSchema`) as JSON text; `None` if the tool has none, or
    /// if the catalog was not told.
    ///
    /// No layer checks results against it: a server MUST conform to it, and clients SHOULD check
    /// (`server/tools`, "Output Schema"). It is here for policies of your own, in front of servers whose word is not enough.
    pub output_schema: Option<Box<str>>,
}

impl ToolFacts {
    /// Reads the facts out of a tool's `inputSchema`.
    ///
    /// # Errors
    /// If an `x-mcp-header` in the schema breaks a rule.
    pub fn from_schema(schema: &Value) -> Result<Self, InvalidAnnotation> {
        Ok(Self { param_headers: ParamHeaders::from_schema(schema)?, ..Self::default() })
    }

    /// The same for a tool that needs these scopes. Defaults to none.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl Into<Scopes>) -> Self {
        self.scopes = scopes.into();
        self
    }

    /// The same for a tool that needs these capabilities of the client. Defaults to none.
    #[must_use]
    pub fn with_required_capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.required_capabilities = capabilities;
        self
    }

    /// The same with the `outputSchema` of the tool. Defaults to none.
    #[must_use]
    pub fn with_output_schema(mut self, schema: &Value) -> Self {
        self.output_schema = Some(schema.to_string().into());
        self
    }
}

/// The catalog of a layer that has been given none: it knows no tool, and does not say that there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCatalog;

impl ToolCatalog for NoCatalog {
    fn tool(&self, _: &str, _: &Extensions) -> Option<Arc<ToolFacts>> {
        None
    }

    fn generation(&self) -> Option<u64> {
        Some(0)
    }

    fn is_exhaustive(&self) -> bool {
        false
    }
}

/// A fixed list of tools, the same for every caller. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct StaticCatalog {
    tools: Arc<HashMap<Box<str>, Arc<ToolFacts>>>,
}

impl StaticCatalog {
    /// Lists tools, each with its `inputSchema`.
    ///
    /// # Errors
    /// If a name comes twice, or an `x-mcp-header` in a schema breaks a rule.
    pub fn new<'a, N: Into<Box<str>>>(
        tools: impl IntoIterator<Item = (N, &'a Value)>,
    ) -> Result<Self, CatalogError> {
        let mut facts = HashMap::new();
        for (name, schema) in tools {
            match facts.entry(name.into()) {
                Entry::Occupied(entry) => return Err(CatalogError::Duplicate { tool: entry.key().clone() }),
                Entry::Vacant(entry) => match ToolFacts::from_schema(schema) {
                    Ok(facts) => entry.insert(Arc::new(facts)),
                    Err(fault) => return Err(CatalogError::Annotation { tool: entry.into_key(), fault }),
                },
            };
        }
        Ok(Self { tools: Arc::new(facts) })
    }
}

impl ToolCatalog for StaticCatalog {
    fn tool(&self, name: &str, _: &Extensions) -> Option<Arc<ToolFacts>> {
        self.tools.get(name).cloned()
    }

    fn generation(&self) -> Option<u64> {
        Some(0)
    }
}

/// A list of tools that no [`StaticCatalog`] can be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogError {
    /// The name comes twice.
    Duplicate {
        /// The name.
        tool: Box<str>,
    },
    /// An `x-mcp-header` in the tool's schema breaks a rule.
    Annotation {
        /// The tool.
        tool: Box<str>,
        /// The rule, and where it is broken.
        fault: InvalidAnnotation,
    },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { tool } => write!(f, "the tool `{tool}` is listed twice"),
            Self::Annotation { tool, fault } => write!(f, "in the tool `{tool}`: {fault}"),
        }
    }
}

impl std::error::Error for CatalogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Duplicate { .. } => None,
            Self::Annotation { fault, .. } => Some(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_catalog_of_ones_own_says_of_a_tool_what_a_registered_one_says() {
        let schema = json!({"type": "object"});
        let needs = ClientCapabilities::new().with_roots();
        let facts = ToolFacts::from_schema(&schema)
            .unwrap()
            .with_scopes("a b")
            .with_required_capabilities(needs.clone())
            .with_output_schema(&schema);
        let expected = ToolFacts {
            param_headers: ParamHeaders::default(),
            required_capabilities: needs,
            scopes: Scopes::from("a b"),
            output_schema: Some(r#"{"type":"object"}"#.into()),
        };
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_name_that_comes_twice_is_an_error() {
        let schema = json!({});
        let error = StaticCatalog::new([("a", &schema), ("b", &schema), ("a", &schema)]).unwrap_err();
        assert_eq!(error, CatalogError::Duplicate { tool: "a".into() });
        assert_eq!(error.to_string(), "the tool `a` is listed twice");
    }

    #[test]
    fn an_annotation_that_breaks_a_rule_is_an_error_that_names_the_tool() {
        let schema = json!({"properties": {"n": {"type": "number", "x-mcp-header": "N"}}});
        let error = StaticCatalog::new([("sql", &schema)]).unwrap_err();
        assert!(matches!(&error, CatalogError::Annotation { tool, .. } if &**tool == "sql"));
        assert!(
            error.to_string().starts_with("in the tool `sql`: invalid x-mcp-header at /properties/n"),
            "{error}"
        );
        assert!(error.source().is_some());
    }

    #[test]
    fn a_shared_catalog_is_a_catalog() {
        let catalog: Arc<dyn ToolCatalog> = Arc::new(StaticCatalog::new([("a", &json!(true))]).unwrap());
        let catalog = Arc::new(catalog);
        assert_eq!(catalog.tool("a", &Extensions::new()), Some(Arc::default()));
        assert_eq!(catalog.generation(), Some(0));
        assert!(catalog.is_exhaustive() && !Arc::new(NoCatalog).is_exhaustive());
        assert_eq!(NoCatalog.tool("a", &Extensions::new()), None);
    }
}
