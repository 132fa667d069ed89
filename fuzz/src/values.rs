//! JSON values from a fuzzer's bytes, with words that are significant for the code under test. One
//! list or map of each value may be amplified: see [`amplify`].

use libfuzzer_sys::arbitrary::{Result, Unstructured};

use crate::amplify::amplify;
use machinery::{Map, Value};

/// The maximum depth of values.
const DEPTH_MAX: usize = 8;

/// An object whose keys, and many of whose strings, are `words`.
pub fn object(bytes: &mut Unstructured<'_>, words: &[&str]) -> Result<Map<String, Value>> {
    let mut value = Value::Object(members(bytes, words, 0)?);
    amplify(bytes, &mut value)?;
    let Value::Object(object) = value else { return Ok(Map::new()) };
    Ok(object)
}

/// Any value; its keys, and many of its strings, are `words`.
pub fn value(bytes: &mut Unstructured<'_>, words: &[&str]) -> Result<Value> {
    let mut value = value_at(bytes, words, 0)?;
    amplify(bytes, &mut value)?;
    Ok(value)
}

fn value_at(bytes: &mut Unstructured<'_>, words: &[&str], depth: usize) -> Result<Value> {
    let kinds = if depth < DEPTH_MAX { 8 } else { 5 };
    Ok(match bytes.int_in_range(0..=kinds)? {
        0 => Value::Null,
        1 => Value::Bool(bytes.arbitrary()?),
        2 => Value::from(bytes.arbitrary::<i64>()?),
        3 => Value::from(bytes.arbitrary::<f64>()?),
        4 => Value::from(bytes.arbitrary::<&str>()?),
        5 => Value::from(*bytes.choose(words)?),
        6 => {
            let length = bytes.int_in_range(0..=4)?;
            let items = (0..length).map(|_| value_at(bytes, words, depth + 1));
            Value::Array(items.collect::<Result<_>>()?)
        }
        _ => Value::Object(members(bytes, words, depth)?),
    })
}

fn members(
    bytes: &mut Unstructured<'_>,
    words: &[&str],
    depth: usize,
) -> Result<Map<String, Value>> {
    let mut members = Map::new();
    for _ in 0..bytes.int_in_range(0..=6)? {
        let key = if bytes.ratio(9, 10)? { *bytes.choose(words)? } else { bytes.arbitrary()? };
        members.insert(key.to_owned(), value_at(bytes, words, depth + 1)?);
    }
    Ok(members)
}

/// Keywords of schemas, names of fields, types and formats.
pub const SCHEMA_WORDS: [&str; 65] = [
    "type",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "default",
    "nullable",
    "enum",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "object",
    "array",
    "string",
    "integer",
    "number",
    "boolean",
    "set",
    "map",
    "atomic",
    "granular",
    "a",
    "b",
    "name",
    "spec",
    "status",
    "metadata",
    "apiVersion",
    "kind",
    "date-time",
    "int32",
    "byte",
    "^a+$",
    "[a-z](b|c){1,3}",
    "rule",
    "message",
    "messageExpression",
    "fieldPath",
    "optionalOldSelf",
    "self == oldSelf",
    "self.a > 1",
    "self.all(x, x != self)",
    ".a",
];
