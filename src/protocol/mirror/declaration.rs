//! The parameters that a tool's schema asks to mirror: rules 6 to 11.

use std::{collections::HashMap, sync::Arc};

use http::HeaderName;
use serde_json::{Map, Value};

use super::{AnnotationFault, InvalidAnnotation, pointer::Step};

/// The keyword of the annotation.
const ANNOTATION: &str = "x-mcp-header";

/// The keyword whose members are the parameters of an object.
pub(super) const PROPERTIES: &str = "properties";

/// Schemas nested deeper than this are refused. JSON text that `serde_json` parses cannot reach it.
const MAX_DEPTH: usize = 128;

/// More declarations than this are refused: no HTTP server takes as many header lines.
const MAX_DECLARATIONS: usize = 256;

/// The type of a mirrored parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamKind {
    /// `"type": "string"`, mirrored as its text.
    String,
    /// `"type": "integer"`, mirrored in decimal digits and compared as a number.
    Integer,
    /// `"type": "boolean"`, mirrored as `true` or `false`.
    Boolean,
}

/// One parameter that a tool mirrors into a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    header: HeaderName,
    name: Box<str>,
    path: Box<[Arc<str>]>,
    kind: ParamKind,
}

impl ParamHeader {
    /// The field name, `mcp-param-…` in lower case.
    #[must_use]
    pub fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The name as the schema spells it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The property names that lead from the call's arguments to the value; at least one.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + Clone {
        self.path.iter().map(AsRef::as_ref)
    }

    /// The parameter's type.
    #[must_use]
    pub fn kind(&self) -> ParamKind {
        self.kind
    }
}

/// The parameters that a tool mirrors into `Mcp-Param-*` headers.
///
/// They are in the order in which the schema is searched: a parameter before those inside it, members as `serde_json`
/// iterates them.
///
/// ```
/// use mcp_layers::protocol::mirror::{ParamHeaders, ParamKind};
///
/// let declared = ParamHeaders::from_schema(&serde_json::json!({
///     "type": "object",
///     "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
/// }))?;
/// let region = &declared.as_slice()[0];
/// assert_eq!(region.header(), "mcp-param-region");
/// assert_eq!(region.kind(), ParamKind::String);
/// assert!(region.path().eq(["region"]));
/// # Ok::<(), mcp_layers::protocol::mirror::InvalidAnnotation>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    declarations: Vec<ParamHeader>,
}

impl ParamHeaders {
    /// Reads the `x-mcp-header` annotations of a tool's `inputSchema`.
    ///
    /// A schema that is no object (`true`, say) declares nothing; for a tool without a schema take the default.
    ///
    /// # Errors
    ///
    /// [`InvalidAnnotation`] for the first annotation that breaks a rule. One makes the whole tool invalid: a server
    /// should refuse to register it, and a client must leave it out of its list.
    pub fn from_schema(schema: &Value) -> Result<Self, InvalidAnnotation> {
        let mut search = Search::default();
        search.schema(schema)?;
        Ok(Self { declarations: search.found })
    }

    /// The declarations.
    #[must_use]
    pub fn as_slice(&self) -> &[ParamHeader] {
        &self.declarations
    }

    /// Whether there is nothing to mirror.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.declarations.is_empty()
    }
}

/// A walk through a schema: where it is, and what it found.
#[derive(Default)]
struct Search<'a> {
    steps: Vec<Step<'a>>,
    found: Vec<ParamHeader>,
    /// Where in `found` a header was declared first.
    headers: HashMap<HeaderName, usize>,
}

impl<'a> Search<'a> {
    fn schema(&mut self, schema: &'a Value) -> Result<(), InvalidAnnotation> {
        let Value::Object(schema) = schema else { return Ok(()) };
        if self.steps.len() > MAX_DEPTH {
            return self.invalid(AnnotationFault::TooDeep);
        }
        if let Some(annotation) = schema.get(ANNOTATION) {
            self.annotated(annotation, schema.get("type"))?;
        }
        if let Some(properties) = schema.get(PROPERTIES) {
            self.members(PROPERTIES, properties)?;
        }
        self.other_keywords(schema)
    }

    /// Looks everywhere else where a schema may hold schemas. An annotation found there is never valid, but unless it
    /// is looked for, the tool would pass for one that mirrors less than its author meant.
    ///
    /// `default`, `examples`, `const` and `enum` hold data, and `$ref` points at schemas that are searched where they
    /// are.
    fn other_keywords(&mut self, schema: &'a Map<String, Value>) -> Result<(), InvalidAnnotation> {
        for (keyword, value) in schema {
            match keyword.as_str() {
                "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
                    self.members(keyword, value)?;
                }
                "additionalItems"
                | "additionalProperties"
                | "allOf"
                | "anyOf"
                | "contains"
                | "contentSchema"
                | "else"
                | "if"
                | "items"
                | "not"
                | "oneOf"
                | "prefixItems"
                | "propertyNames"
                | "then"
                | "unevaluatedItems"
                | "unevaluatedProperties" => self.one_or_several(keyword, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn members(&mut self, keyword: &'a str, schemas: &'a Value) -> Result<(), InvalidAnnotation> {
        let Value::Object(schemas) = schemas else { return Ok(()) };
        for (name, schema) in schemas {
            self.below(Step::member(keyword, name), schema)?;
        }
        Ok(())
    }

    fn one_or_several(&mut self, keyword: &'a str, schemas: &'a Value) -> Result<(), InvalidAnnotation> {
        let Value::Array(schemas) = schemas else { return self.below(Step::keyword(keyword), schemas) };
        for (index, schema) in schemas.iter().enumerate() {
            self.below(Step::element(keyword, index), schema)?;
        }
        Ok(())
    }

    fn below(&mut self, step: Step<'a>, schema: &'a Value) -> Result<(), InvalidAnnotation> {
        self.steps.push(step);
        self.schema(schema)?;
        self.steps.pop();
        Ok(())
    }

    fn annotated(&mut self, annotation: &Value, kind: Option<&Value>) -> Result<(), InvalidAnnotation> {
        match self.declaration(annotation, kind) {
            Ok(declaration) => {
                self.headers.insert(declaration.header.clone(), self.found.len());
                self.found.push(declaration);
                Ok(())
            }
            Err(fault) => self.invalid(fault),
        }
    }

    /// The rules for one annotation, in the order in which faults are reported.
    fn declaration(&mut self, name: &Value, kind: Option<&Value>) -> Result<ParamHeader, AnnotationFault> {
        if self.steps.is_empty() {
            return Err(AnnotationFault::Root);
        }
        if let Some(step) = self.steps.iter().find(|step| !step.is_property()) {
            return Err(AnnotationFault::Unreachable { keyword: step.keyword.into() });
        }
        let name = name.as_str().ok_or(AnnotationFault::NotAString)?;
        let header = field_name(name)?;
        let kind = param_kind(kind)?;
        if let Some(first) = self.headers.get(&header) {
            let first = self.found[*first].path().map(|name| Step::member(PROPERTIES, name));
            return Err(AnnotationFault::Duplicate {
                name: name.into(),
                first: super::pointer::render(first),
            });
        }
        if self.found.len() == MAX_DECLARATIONS {
            return Err(AnnotationFault::TooMany);
        }
        let path = self.steps.iter_mut().filter_map(Step::shared_name).collect();
        Ok(ParamHeader { header, name: name.into(), path, kind })
    }

    fn invalid(&self, fault: AnnotationFault) -> Result<(), InvalidAnnotation> {
        Err(InvalidAnnotation::new(super::pointer::render(self.steps.iter()), fault))
    }
}

fn field_name(name: &str) -> Result<HeaderName, AnnotationFault> {
    if name.is_empty() {
        return Err(AnnotationFault::Empty);
    }
    if let Some(character) = name.chars().find(|character| !is_token(*character)) {
        return Err(AnnotationFault::NotAToken { character });
    }
    HeaderName::try_from(format!("mcp-param-{name}")).map_err(|_| AnnotationFault::TooLong)
}

/// `tchar` of RFC 9110, 5.6.2.
fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

fn param_kind(kind: Option<&Value>) -> Result<ParamKind, AnnotationFault> {
    match kind.and_then(Value::as_str) {
        Some("string") => Ok(ParamKind::String),
        Some("integer") => Ok(ParamKind::Integer),
        Some("boolean") => Ok(ParamKind::Boolean),
        other => Err(AnnotationFault::NotPrimitive { found: other.map(Into::into) }),
    }
}

#[cfg(test)]
mod tests;
