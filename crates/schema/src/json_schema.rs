//! [`JsonSchema`]: typed access to the keywords of an uncompiled schema.
//!
//! Only code that runs once for each CRD (compiling, validating, publishing) uses it.

use crate::format::Format;
use crate::structural::Type;
use machinery::{Map, Value};

/// One schema, anywhere in the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonSchema<'a>(&'a Map<String, Value>);

/// The keywords that hold a list of schemas.
pub(crate) const COMBINATIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

impl<'a> JsonSchema<'a> {
    /// None for a value that is not a JSON object.
    pub(crate) fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// Keywords and their values.
    pub(crate) fn map(self) -> &'a Map<String, Value> {
        self.0
    }

    /// The keyword's value; null counts as absent.
    pub(crate) fn value(self, keyword: &str) -> Option<&'a Value> {
        self.0.get(keyword).filter(|value| !value.is_null())
    }

    /// The keyword's value unless it is empty: null, false, 0, "", [] or {}.
    pub(crate) fn non_empty(self, keyword: &str) -> Option<&'a Value> {
        self.value(keyword).filter(|value| !is_zero(value))
    }

    /// A text, or "".
    pub(crate) fn text(self, keyword: &str) -> &'a str {
        self.0.get(keyword).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the keyword is present and true.
    pub(crate) fn flag(self, keyword: &str) -> bool {
        self.0.get(keyword).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A number.
    pub(crate) fn number(self, keyword: &str) -> Option<f64> {
        self.0.get(keyword)?.as_f64()
    }

    /// A count such as `maxItems`; a negative number counts as 0.
    pub(crate) fn count(self, keyword: &str) -> Option<u64> {
        let value = self.0.get(keyword)?;
        value.as_u64().or_else(|| value.as_i64().map(|_| 0))
    }

    /// The texts in a list.
    pub(crate) fn texts(self, keyword: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// The schema below a keyword: `not`, `items`, `additionalProperties`.
    pub(crate) fn schema(self, keyword: &str) -> Option<JsonSchema<'a>> {
        JsonSchema::of(self.0.get(keyword)?)
    }

    /// The schemas in a list: `allOf`, `anyOf`, `oneOf`.
    pub(crate) fn schemas(self, keyword: &str) -> impl Iterator<Item = JsonSchema<'a>> {
        self.0
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(JsonSchema::of)
    }

    /// The schemas in a map: `properties`.
    pub(crate) fn named(self, keyword: &str) -> impl Iterator<Item = (&'a str, JsonSchema<'a>)> {
        let map = self.0.get(keyword).and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .filter_map(|(name, it)| Some((name.as_str(), JsonSchema::of(it)?)))
    }

    /// All of `properties`.
    pub(crate) fn properties(self) -> impl Iterator<Item = (&'a str, JsonSchema<'a>)> {
        self.named("properties")
    }

    /// One of `properties`.
    pub(crate) fn property(self, name: &str) -> Option<JsonSchema<'a>> {
        self.schema("properties")?.schema(name)
    }

    /// `x-kubernetes-list-type`, or "".
    pub(crate) fn list_type(self) -> &'a str {
        self.text("x-kubernetes-list-type")
    }

    /// Whether `anyOf` is exactly `[{type: integer}, {type: string}]`, the only case in which a
    /// structural schema may have types below `anyOf`.
    pub(crate) fn is_int_or_string_any_of(self) -> bool {
        let types: Vec<Option<&str>> = self
            .schemas("anyOf")
            .map(|it| Some(it.text("type")).filter(|_| it.map().len() == 1))
            .collect();
        types == [Some("integer"), Some("string")]
    }

    /// Whether this schema or one below it satisfies `holds`.
    pub(crate) fn any(self, holds: &impl Fn(JsonSchema<'_>) -> bool) -> bool {
        holds(self)
            || ["not", "items", "additionalProperties"]
                .iter()
                .filter_map(|keyword| self.schema(keyword))
                .any(|it| it.any(holds))
            || COMBINATIONS.iter().any(|keyword| self.schemas(keyword).any(|it| it.any(holds)))
            || self.properties().any(|(_, it)| it.any(holds))
    }
}

/// Whether a value is empty, like an omitted field of a Go struct.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn any(schema: &Value, holds: impl Fn(JsonSchema<'_>) -> bool) -> bool {
    JsonSchema::of(schema).is_some_and(|it| it.any(&holds))
}

/// Whether the schema has a `default` anywhere.
pub fn uses_defaults(schema: &Value) -> bool {
    any(schema, |it| it.value("default").is_some())
}

/// Whether the schema has one of Kubernetes' extensions that only structural schemas may use.
pub fn uses_extensions(schema: &Value) -> bool {
    const EXTENSIONS: [&str; 6] = [
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    ];
    any(schema, |it| EXTENSIONS.iter().any(|extension| it.non_empty(extension).is_some()))
}

/// The formats in the schema that the server does not know; sorted.
pub fn unknown_formats(schema: &Value) -> Vec<String> {
    collect(schema, |it| {
        let format = it.text("format");
        let known = format.is_empty() || Format::of(format, Type::of(it)).is_some();
        (!known).then(|| format.to_owned())
    })
}

/// The item types, `object` or `array`, of lists that are declared as sets; sorted.
pub fn nested_sets(schema: &Value) -> Vec<String> {
    collect(schema, |it| {
        let item = it.schema("items").filter(|_| it.list_type() == "set")?.text("type");
        matches!(item, "object" | "array").then(|| item.to_owned())
    })
}

fn collect(schema: &Value, find: impl Fn(JsonSchema<'_>) -> Option<String>) -> Vec<String> {
    let found = std::cell::RefCell::new(std::collections::BTreeSet::new());
    any(schema, |it| {
        found.borrow_mut().extend(find(it));
        false
    });
    found.into_inner().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn keywords_are_found_at_any_depth() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items":
            {"type": "object", "anyOf": [{"not": {"format": "odd"}}],
             "x-kubernetes-validations": [{"rule": "true"}]}}}});
        assert!(uses_extensions(&schema) && !uses_defaults(&schema));
        assert_eq!(unknown_formats(&schema), ["odd"]);
    }

    #[test]
    fn nested_sets_finds_sets_of_objects() {
        let schema = json!({"type": "array", "x-kubernetes-list-type": "set",
            "items": {"type": "object", "x-kubernetes-map-type": "atomic"}});
        assert_eq!(nested_sets(&schema), ["object"]);
    }
}
