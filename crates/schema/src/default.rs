//! Defaulting: sets the defaults of a schema in an object.

use crate::structural::{Additional, Node, NodeFlags, Structural};
use machinery::{Map, Value};

/// The approximate memory in bytes of the defaults that are added to one object. An object with
/// more of them is too large to be stored, so further defaults are omitted.
const ADDED_MAX: usize = 128 << 20;

/// The approximate size in bytes of a node of a `BTreeMap`, and the number of entries in it.
const MAP_NODE: usize = 640;
const MAP_NODE_ENTRIES: usize = 11;

impl Structural {
    /// Sets fields that are absent, or null but not nullable, to their defaults. A default that is
    /// an object gets the defaults below it as well.
    pub fn default(&self, object: &mut Map<String, Value>) {
        if self.root.flags.has(NodeFlags::DEFAULTS_BELOW) {
            Defaulter { added: 0 }.fields(&self.root, object);
        }
    }
}

/// One walk through an object.
struct Defaulter {
    /// The weight of the added defaults, limited by [`ADDED_MAX`]: a default of a megabyte could be
    /// added to each of a hundred thousand items.
    added: usize,
}

impl Defaulter {
    fn fields(&mut self, node: &Node, map: &mut Map<String, Value>) {
        for (name, field) in
            node.properties().filter(|(_, it)| it.flags.has(NodeFlags::DEFAULTS_BELOW))
        {
            if let Some(default) = &field.default {
                if let Some(value) = map.get_mut(name) {
                    self.replace_null(field, value);
                } else if let Some(value) = self.copy(default) {
                    if map.len().is_multiple_of(MAP_NODE_ENTRIES) {
                        self.added += MAP_NODE;
                    }
                    map.insert(name.to_owned(), value);
                }
            }
            if let Some(value) = map.get_mut(name) {
                self.value(field, value);
            }
        }
        let Additional::Schema(other) = &node.additional else { return };
        if other.flags.has(NodeFlags::DEFAULTS_BELOW) {
            for (_, value) in map.iter_mut().filter(|(name, _)| node.property(name).is_none()) {
                self.replace_null(other, value);
                self.value(other, value);
            }
        }
    }

    fn value(&mut self, node: &Node, value: &mut Value) {
        match (value, &node.items) {
            (Value::Object(map), _) => self.fields(node, map),
            (Value::Array(items), Some(item)) if item.flags.has(NodeFlags::DEFAULTS_BELOW) => {
                for value in items {
                    self.replace_null(item, value);
                    self.value(item, value);
                }
            }
            _ => {}
        }
    }

    fn replace_null(&mut self, node: &Node, value: &mut Value) {
        if let Some(default) =
            node.default.as_ref().filter(|_| value.is_null() && !node.is_nullable())
            && let Some(copy) = self.copy(default)
        {
            *value = copy;
        }
    }

    /// A copy of a default; None if the limit is reached.
    fn copy(&mut self, default: &Value) -> Option<Value> {
        if self.added > ADDED_MAX {
            return None;
        }
        self.added += weight(default);
        Some(default.clone())
    }
}

/// The approximate memory of a value in bytes.
fn weight(value: &Value) -> usize {
    32 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => {
            let nodes = map.len().div_ceil(MAP_NODE_ENTRIES) * MAP_NODE;
            nodes + map.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
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
    fn the_total_size_of_added_defaults_is_limited() {
        let large = "x".repeat(1 << 20);
        let schema = json!({"type": "object", "properties": {"l": {"type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string", "default": large}}}}}});
        let defaulted = defaulted(&schema, json!({"l": vec![json!({}); 100_000]}));
        let filled = defaulted["l"].as_array().unwrap().iter().filter(|it| it.get("a").is_some());
        assert_eq!(filled.count(), ADDED_MAX >> 20);
    }

    #[test]
    fn defaults_are_set_at_any_depth() {
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
    fn null_is_replaced_unless_it_is_nullable() {
        let schema = json!({"type": "object", "properties": {
            "c": {"type": "string", "default": "x"},
            "d": {"type": "string", "nullable": true, "default": "y"}}});
        assert_eq!(defaulted(&schema, json!({"c": null, "d": null})), json!({"c": "x", "d": null}));
        assert_eq!(defaulted(&schema, json!({})), json!({"c": "x", "d": "y"}));
    }
}
