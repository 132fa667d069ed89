//! Filling in the defaults of a schema.

use crate::structural::{Additional, Marks, Node, Structural};
use machinery::{Map, Value};

impl Structural {
    /// Sets absent fields to their defaults, and null ones where null is no value; a default that is
    /// an object is completed with the defaults below it.
    pub fn default(&self, object: &mut Map<String, Value>) {
        if self.root.marks.has(Marks::DEFAULTS_BELOW) {
            default_fields(&self.root, object);
        }
    }
}

fn default_fields(node: &Node, map: &mut Map<String, Value>) {
    for (name, field) in node.properties().filter(|(_, it)| it.marks.has(Marks::DEFAULTS_BELOW)) {
        if let Some(default) = &field.default {
            match map.get_mut(name) {
                Some(value) => replace_null(field, value),
                None => drop(map.insert(name.to_owned(), (**default).clone())),
            }
        }
        if let Some(value) = map.get_mut(name) {
            default_value(field, value);
        }
    }
    let Additional::Schema(other) = &node.additional else { return };
    if other.marks.has(Marks::DEFAULTS_BELOW) {
        for (_, value) in map.iter_mut().filter(|(name, _)| node.property(name).is_none()) {
            replace_null(other, value);
            default_value(other, value);
        }
    }
}

fn default_value(node: &Node, value: &mut Value) {
    match (value, &node.items) {
        (Value::Object(map), _) => default_fields(node, map),
        (Value::Array(items), Some(item)) if item.marks.has(Marks::DEFAULTS_BELOW) => {
            for value in items {
                replace_null(item, value);
                default_value(item, value);
            }
        }
        _ => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if let Some(default) = node.default.as_ref().filter(|_| value.is_null() && !node.is_nullable())
    {
        *value = (**default).clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn defaulted(schema: &Value, mut object: Value) -> Value {
        Structural::compile(schema).default(object.as_object_mut().unwrap());
        object
    }

    #[test]
    fn defaults_are_filled_in_at_any_depth() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "default": {}, "properties": {
                "n": {"type": "integer", "default": 3},
                "o": {"type": "object", "properties": {"x": {"type": "string", "default": "y"}}},
                "l": {"type": "array", "items": {"type": "object",
                    "properties": {"k": {"type": "string", "default": "z"}}}},
                "m": {"type": "object", "additionalProperties": {"type": "object",
                    "properties": {"q": {"type": "integer", "default": 9}}}}}}}});
        assert_eq!(defaulted(&schema, json!({})), json!({"spec": {"n": 3}}));
        assert_eq!(
            defaulted(&schema, json!({"spec": {"o": {}, "l": [{}, {"k": "w"}], "m": {"one": {}}}})),
            json!({"spec": {"n": 3, "o": {"x": "y"}, "l": [{"k": "z"}, {"k": "w"}],
                "m": {"one": {"q": 9}}}})
        );
    }

    #[test]
    fn the_default_of_an_embedded_resource_has_only_known_metadata() {
        let schema = json!({"type": "object", "properties": {"t": {"type": "object",
            "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "odd": 1}}}}});
        assert_eq!(
            defaulted(&schema, json!({})),
            json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}})
        );
    }

    #[test]
    fn null_is_replaced_unless_it_is_a_value() {
        let schema = json!({"type": "object", "properties": {
            "c": {"type": "string", "default": "x"},
            "d": {"type": "string", "nullable": true, "default": "y"}}});
        assert_eq!(defaulted(&schema, json!({"c": null, "d": null})), json!({"c": "x", "d": null}));
        assert_eq!(defaulted(&schema, json!({})), json!({"c": "x", "d": "y"}));
    }
}
