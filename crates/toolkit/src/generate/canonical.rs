//! [`canonical`]: a schema without what has no effect on objects, so that two schemas can be compared.
//!
//! Descriptions, absent booleans, empty lists and the order of `required` are dropped, and so are
//! keywords that a server does not know. Numbers such as `1.0` become integers.

use machinery::{Map, Value};

/// The keywords of a schema in a CRD, other than those with schemas as their values.
const KEYWORDS: [&str; 32] = [
    "default",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    // Never in a valid CRD:
    "$schema",
    "definitions",
    "id",
];

/// Whether a server knows a keyword.
pub(crate) fn is_known_keyword(keyword: &str) -> bool {
    const SCHEMAS: [&str; 12] = [
        "$ref",
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "dependencies",
        "description",
        "items",
        "not",
        "oneOf",
        "patternProperties",
        "properties",
    ];
    KEYWORDS.contains(&keyword) || SCHEMAS.contains(&keyword)
}

/// See the [module documentation](self).
pub(crate) fn canonical(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut kept = Map::new();
    for (keyword, value) in schema {
        if let Some(value) = canonical_keyword(keyword, value) {
            kept.insert(keyword.clone(), value);
        }
    }
    Value::Object(kept)
}

fn canonical_keyword(keyword: &str, value: &Value) -> Option<Value> {
    let is_empty = match value {
        Value::Bool(is_set) => {
            !is_set && keyword != "default" && !keyword.starts_with("additional")
        }
        Value::Array(list) => list.is_empty() && keyword != "default" && keyword != "example",
        Value::Null => true, // also a default: the types of a CRD cannot tell null from an absent one
        _ => false,
    };
    if keyword == "description" || !is_known_keyword(keyword) || is_empty {
        return None;
    }
    Some(match (keyword, value) {
        ("properties" | "patternProperties", Value::Object(schemas)) => {
            if schemas.is_empty() {
                return None;
            }
            schemas.iter().map(|(name, schema)| (name.clone(), canonical(schema))).collect()
        }
        ("items" | "additionalProperties" | "additionalItems" | "not", schema) => canonical(schema),
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
            schemas.iter().map(canonical).collect()
        }
        ("required", Value::Array(names)) => {
            let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.sort_unstable();
            names.dedup();
            names.into()
        }
        ("minimum" | "maximum" | "multipleOf", Value::Number(_)) => canonical_number(value),
        ("x-kubernetes-validations", Value::Array(rules)) => {
            rules.iter().map(canonical_rule).collect()
        }
        _ => value.clone(),
    })
}

/// An integer if the number is one that a float represents exactly.
fn canonical_number(number: &Value) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    match number.as_f64() {
        #[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT => (float as i64).into(),
        Some(float) => float.into(), // as servers store it
        None => number.clone(),
    }
}

/// A rule without fields that are empty.
fn canonical_rule(rule: &Value) -> Value {
    let Value::Object(fields) = rule else { return rule.clone() };
    let is_set = |value: &Value| !(value.is_null() || value == false || value == "");
    let set = fields.iter().filter(|(_, value)| is_set(value));
    set.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::*;

    #[test]
    fn what_has_no_effect_is_dropped() {
        let schema = json!({
            "description": "a", "nullable": false, "required": ["b", "a", "b"], "const": 1,
            "properties": {"description": {"description": "b", "type": "number", "minimum": 1.0}},
            "items": {"properties": {}, "enum": []}, "default": null, "additionalProperties": false,
            "x-kubernetes-validations": [{"rule": "true", "message": "", "optionalOldSelf": false}],
        });
        let expected = json!({
            "required": ["a", "b"], "properties": {"description": {"type": "number", "minimum": 1}},
            "items": {}, "additionalProperties": false,
            "x-kubernetes-validations": [{"rule": "true"}],
        });
        assert_eq!(canonical(&schema), expected);
    }
}
