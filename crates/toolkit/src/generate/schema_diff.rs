//! [`schema_diff`]: the patch that makes one schema of another, as `#[schema(patch(…))]` takes it.
//!
//! ```text
//! derived {"type": "integer", "format": "int64"}    wanted {"type": "integer", "minimum": 0}
//! patch   {"format": null, "minimum": 0}
//! ```

use machinery::{Map, Value};

/// The patch that makes `wanted` of `derived`. Both are canonical.
pub(crate) fn schema_diff(derived: &Value, wanted: &Value) -> Map<String, Value> {
    let mut patch = Map::new();
    let (Value::Object(derived), Value::Object(wanted)) = (derived, wanted) else { return patch };
    for (keyword, value) in wanted {
        let present = derived.get(keyword);
        if present == Some(value) {
            continue;
        }
        let merged = match (keyword.as_str(), present, value) {
            ("items" | "additionalProperties", Some(present), value)
                if present.is_object() && value.is_object() =>
            {
                Value::Object(schema_diff(present, value))
            }
            ("properties", Some(Value::Object(present)), Value::Object(value)) => {
                Value::Object(properties_diff(present, value))
            }
            (_, _, value) => value.clone(),
        };
        patch.insert(keyword.clone(), merged);
    }
    for keyword in derived.keys().filter(|it| !wanted.contains_key(*it)) {
        patch.insert(keyword.clone(), Value::Null);
    }
    patch
}

fn properties_diff(
    derived: &Map<String, Value>,
    wanted: &Map<String, Value>,
) -> Map<String, Value> {
    let empty = Value::Object(Map::new());
    let mut patches = Map::new();
    for (name, schema) in wanted {
        let present = derived.get(name);
        if present != Some(schema) {
            let patch = schema_diff(present.unwrap_or(&empty), schema);
            patches.insert(name.clone(), Value::Object(patch));
        }
    }
    for name in derived.keys().filter(|it| !wanted.contains_key(*it)) {
        patches.insert(name.clone(), Value::Null);
    }
    patches
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::*;

    #[test]
    fn only_what_differs_is_in_the_patch() {
        let derived = json!({
            "type": "array", "items": {"type": "integer", "format": "int64"}, "maxItems": 1,
            "properties": {"a": {}, "b": {"type": "string"}},
        });
        let wanted = json!({
            "type": "array", "items": {"type": "integer", "minimum": 0}, "additionalProperties": {},
            "properties": {"a": {}, "c": {"type": "string"}},
        });
        let patch = json!({
            "items": {"format": null, "minimum": 0}, "maxItems": null, "additionalProperties": {},
            "properties": {"b": null, "c": {"type": "string"}},
        });
        assert_eq!(Value::Object(schema_diff(&derived, &wanted)), patch);
        assert!(schema_diff(&wanted, &wanted).is_empty());
    }
}
