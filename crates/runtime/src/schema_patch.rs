//! [`SchemaPatches`]: the last transformation of a derived schema, which applies the `patch(…)` and
//! `nullable = false` of `#[schema]` and `#[resource]`.
//!
//! The macros store them in extensions of the schema, which the transformations of schemars and kube do
//! not change:
//!
//! | extension | |
//! |---|---|
//! | `x-sampan-type-patch`, `x-sampan-patch` | the JSON text of the patch of a type, and that of a field |
//! | `x-sampan-not-nullable` | the optional fields of the type do not accept null |

use kube_core::schema::OptionalIntOrString;
use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Map, Value};

const PATCHES: [&str; 2] = ["x-sampan-type-patch", "x-sampan-patch"];
const NOT_NULLABLE: &str = "x-sampan-not-nullable";

/// See the [module documentation](self). It begins with kube's last transformation, whose place it
/// takes.
#[derive(Debug, Clone)]
#[doc(hidden)]
pub struct SchemaPatches;

impl Transform for SchemaPatches {
    fn transform(&mut self, schema: &mut Schema) {
        OptionalIntOrString.transform(schema);
        let root = schema.ensure_object();
        let spec = root.get("properties").and_then(|it| it.get("spec"));
        if spec.is_some_and(|it| it.get(NOT_NULLABLE).is_some()) {
            root.insert(NOT_NULLABLE.to_owned(), true.into()); // for the status
        }
        finish(root);
    }
}

fn finish(schema: &mut Map<String, Value>) {
    let is_not_nullable = schema.remove(NOT_NULLABLE).is_some();
    for property in properties(schema) {
        if is_not_nullable {
            refuse_null(property);
        }
        finish(property);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(Value::Object(elements)) = schema.get_mut(keyword) {
            finish(elements);
        }
    }
    for extension in PATCHES {
        let Some(patch) = schema.remove(extension) else { continue };
        let patch: Result<Map<String, Value>, _> =
            serde_json::from_str(patch.as_str().unwrap_or_default());
        apply(schema, patch.expect("the macros write JSON objects"));
    }
}

fn properties(schema: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut)
}

fn refuse_null(property: &mut Map<String, Value>) {
    property.remove("nullable");
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// Sets the keywords of a patch. Null removes a keyword, but is a value of `default`.
fn apply(schema: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (keyword, value) in patch {
        match (keyword.as_str(), value) {
            ("items" | "additionalProperties", Value::Object(patch)) => {
                apply_nested(schema.entry(keyword).or_insert(Value::Null), patch);
            }
            ("properties", Value::Object(patches)) => {
                let properties = schema.entry(keyword).or_insert(Value::Null);
                apply_properties(properties, patches);
            }
            (name, Value::Null) if name != "default" => {
                schema.remove(name);
            }
            (_, value) => {
                schema.insert(keyword, value);
            }
        }
    }
}

/// Patches a schema inside of another one. One that is absent or a boolean accepts everything, as an
/// empty one does.
fn apply_nested(schema: &mut Value, patch: Map<String, Value>) {
    if !schema.is_object() {
        *schema = Value::Object(Map::new());
    }
    if let Value::Object(schema) = schema {
        apply(schema, patch);
    }
}

fn apply_properties(properties: &mut Value, patches: Map<String, Value>) {
    if !properties.is_object() {
        *properties = Value::Object(Map::new());
    }
    let Value::Object(properties) = properties else { return };
    for (name, patch) in patches {
        match patch {
            Value::Object(patch) => {
                apply_nested(properties.entry(name).or_insert(Value::Null), patch);
            }
            _ => {
                properties.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_are_merged_into_nested_schemas_and_replace_other_values() {
        let patch = json!({
            "default": null, "type": null, "not": {"enum": [1]},
            "items": {"maxLength": 3},
            "properties": {"a": {"format": null, "type": "string"}, "b": {"type": "boolean"}, "c": null},
        });
        let mut schema = json!({
            "type": "x", "not": {"minimum": 0}, "items": {"type": "string"},
            "properties": {"a": {"format": "b"}, "c": {}},
            "x-sampan-type-patch": patch.to_string(), "x-sampan-patch": "{\"title\": \"t\"}",
        });
        finish(schema.as_object_mut().unwrap());
        let expected = json!({
            "default": null, "not": {"enum": [1]}, "title": "t",
            "items": {"type": "string", "maxLength": 3},
            "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}},
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn optional_fields_accept_null_only_by_a_patch() {
        let mut schema = json!({
            "x-sampan-not-nullable": true,
            "properties": {
                "a": {"nullable": true, "enum": ["x", null]},
                "b": {"nullable": true, "x-sampan-patch": "{\"nullable\": true}"},
                "c": {"properties": {"d": {"nullable": true}}},
            },
        });
        finish(schema.as_object_mut().unwrap());
        let expected = json!({"properties": {
            "a": {"enum": ["x"]}, "b": {"nullable": true}, "c": {"properties": {"d": {"nullable": true}}},
        }});
        assert_eq!(schema, expected);
    }
}
