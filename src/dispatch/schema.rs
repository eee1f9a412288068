//! JSON Schemas of arguments and results.

#[cfg(feature = "schema")]
use std::fmt;

#[cfg(feature = "schema")]
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
#[cfg(feature = "schema")]
use serde_json::map::{Entry, Map};

use super::error::BuildError;
#[cfg(feature = "schema")]
use crate::rejection::shorten;

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
                // Said outright, because another crate in the build may switch on what fetches.
                .with_retriever(Nothing)
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
        // The first fault only: finding all of them costs time and memory in proportion to what a caller sends.
        self.compiled.validate(value).map_err(|error| describe(&error))
    }
}

/// Retrieves nothing: a schema stands for itself (`basic/index`, "`$ref` Resolution").
#[cfg(feature = "schema")]
struct Nothing;

#[cfg(feature = "schema")]
impl jsonschema::Retrieve for Nothing {
    fn retrieve(&self, uri: &jsonschema::Uri<String>) -> Result<Value, crate::body::BoxError> {
        Err(format!("`{uri}` is outside the schema, and is not fetched").into())
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

/// Reads a value, but refuses objects that name a member twice: whoever checks them would see the last of the two, and
/// whoever reads the text perhaps the first.
#[cfg(feature = "schema")]
pub(super) fn read_unambiguous(text: &str) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Unambiguous.deserialize(&mut reader).map_err(|error| error.to_string())
}

#[cfg(feature = "schema")]
#[derive(Clone, Copy)]
struct Unambiguous;

#[cfg(feature = "schema")]
impl<'de> DeserializeSeed<'de> for Unambiguous {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

#[cfg(feature = "schema")]
impl<'de> Visitor<'de> for Unambiguous {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            array.push(element);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(self)?;
            match object.entry(name) {
                Entry::Vacant(place) => place.insert(value),
                Entry::Occupied(taken) => {
                    let name = shorten(taken.key());
                    return Err(serde::de::Error::custom(format!("the member `{name}` is named twice")));
                }
            };
        }
        Ok(object.into())
    }
}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_serde_json_reads_it() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"x\u0041"],"b":{}}"#;
        assert_eq!(read_unambiguous(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_member_named_twice_is_refused_at_any_depth_and_in_any_spelling() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"mode":1,"mo\u0064e":2}}]"#] {
            assert!(read_unambiguous(text).unwrap_err().contains("is named twice"), "{text}");
        }
    }

    #[test]
    fn a_large_wrong_value_costs_no_more_than_its_first_fault() {
        let schema = serde_json::json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}});
        let validator = Validator::new("t", &schema).unwrap();
        let value = Value::from(vec![0; 100_000]);
        let mut fault = String::new();
        let info = allocation_counter::measure(|| fault = validator.check(&value).unwrap_err());
        assert!(fault.starts_with("/0: "), "{fault}");
        assert!(info.bytes_max < 100_000, "{info:?}");
    }
}
