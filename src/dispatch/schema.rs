//! JSON Schemas of arguments and results.

use serde_json::Value;

use super::error::BuildError;

/// Deeper schemas are refused: what walks them recurses.
const MAX_DEPTH: usize = 64;
/// Larger schemas are refused.
const MAX_NODES: usize = 10_000;

/// A compiled schema.
#[derive(Debug)]
pub(super) struct Validator {
    #[cfg(feature = "schema")]
    compiled: jsonschema::Validator,
}

impl Validator {
    /// Compiles the schema of `name`. References to anything outside it are refused, never fetched.
    pub(super) fn new(name: &str, schema: &Value) -> Result<Self, BuildError> {
        check_size(name, schema)?;
        #[cfg(feature = "schema")]
        {
            let compiled = jsonschema::options()
                .build(schema)
                .map_err(|error| BuildError::Schema { name: name.to_owned(), reason: error.to_string() })?;
            Ok(Self { compiled })
        }
        #[cfg(not(feature = "schema"))]
        Ok(Self {})
    }

    /// What is wrong with `value`, for a person or a model to mend it.
    #[cfg(feature = "schema")]
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if self.compiled.is_valid(value) {
            return Ok(());
        }
        // A few are enough to go on with.
        let faults: Vec<String> =
            self.compiled.iter_errors(value).take(5).map(|error| describe(&error)).collect();
        Err(faults.join("; "))
    }
}

/// Names the place and the rule. The value itself is left out: it may be large, or secret.
#[cfg(feature = "schema")]
fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "the value" } else { &place };
    format!("{place}: {}", error.masked_with("it"))
}

fn check_size(name: &str, schema: &Value) -> Result<(), BuildError> {
    let mut nodes = 0;
    let mut open = vec![(schema, 1)];
    while let Some((value, depth)) = open.pop() {
        nodes += 1;
        if depth > MAX_DEPTH || nodes > MAX_NODES {
            let reason = format!("it is larger than {MAX_NODES} values or deeper than {MAX_DEPTH} levels");
            return Err(BuildError::Schema { name: name.to_owned(), reason });
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => open.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a schema that was derived from a Rust type asks for more than serde does when it reads that type.
///
/// What serde proves by reading need not be checked a second time, and the value need not be built for it.
#[cfg(feature = "schema")]
pub(super) fn asks_more_than_serde(schema: &Value) -> bool {
    const BY_SERDE: [&str; 21] = [
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "definitions",
        "$comment",
        "type",
        "title",
        "description",
        "properties",
        "required",
        "items",
        "prefixItems",
        "additionalProperties",
        "anyOf",
        "oneOf",
        "enum",
        "const",
        "format",
        "default",
        "examples",
    ];
    let Value::Object(members) = schema else { return false };
    let bounds = || integer_bounds(members.get("format").and_then(Value::as_str).unwrap_or_default());
    members.iter().any(|(keyword, value)| match keyword.as_str() {
        // Data, not schemas.
        "enum" | "const" | "default" | "examples" | "required" | "type" => false,
        "properties" | "$defs" | "definitions" => {
            value.as_object().is_some_and(|schemas| schemas.values().any(asks_more_than_serde))
        }
        "anyOf" | "oneOf" | "prefixItems" => {
            value.as_array().is_some_and(|schemas| schemas.iter().any(asks_more_than_serde))
        }
        "items" | "additionalProperties" => asks_more_than_serde(value),
        "minimum" => value.as_f64() != bounds().map(|(least, _)| least),
        "maximum" => value.as_f64() != bounds().map(|(_, most)| most),
        // Arrays of a fixed length are read as such.
        "minItems" | "maxItems" => members.get("minItems") != members.get("maxItems"),
        "minLength" | "maxLength" => {
            members.get("minLength") != Some(&1.into()) || members.get("maxLength") != Some(&1.into())
        }
        _ if keyword.starts_with("x-") => false,
        _ => !BY_SERDE.contains(&keyword.as_str()),
    })
}

/// The least and the most of the integer type that a format names.
#[cfg(feature = "schema")]
fn integer_bounds(format: &str) -> Option<(f64, f64)> {
    Some(match format {
        "uint8" => (0.0, f64::from(u8::MAX)),
        "uint16" => (0.0, f64::from(u16::MAX)),
        "uint32" => (0.0, f64::from(u32::MAX)),
        // Unbounded above as far as a schema says.
        "uint64" | "uint128" | "uint" => (0.0, f64::INFINITY),
        "int8" => (f64::from(i8::MIN), f64::from(i8::MAX)),
        "int16" => (f64::from(i16::MIN), f64::from(i16::MAX)),
        "int32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => return None,
    })
}
