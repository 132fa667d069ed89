//! Dropping what a schema does not specify.

use crate::embedded;
use crate::paths::Paths;
use crate::structural::{Additional, Marks, Node, Structural};
use machinery::{Map, Path, Value};

/// The fields that every resource has, named in its schema or not.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Structural {
    /// Drops the fields that the schema does not specify, and nulls where null is no value, and
    /// appends the paths of the former to `unknown` as strict field validation words them.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object itself are left alone; the metadata of
    /// embedded resources is cut down to what metadata may hold.
    pub fn prune(&self, object: &mut Map<String, Value>, unknown: &mut Vec<String>) {
        let mut pruned = Pruned::default();
        if !self.keeps_unknown {
            prune_fields(object, Some(&self.root), true, &Path::EMPTY, &mut pruned);
        }
        if self.root.marks.has(Marks::EMBEDDED_BELOW) {
            embedded::coerce(&self.root, object, &mut pruned.of_metadata);
        }
        unknown.extend(pruned.fields.into_sorted());
        unknown.extend(pruned.of_metadata.into_sorted());
    }
}

/// What was dropped: upstream reports the two apart, each in alphabetical order.
#[derive(Debug, Default)]
struct Pruned {
    fields: Paths,
    of_metadata: Paths,
}

/// Prunes a value that is not a whole object and returns the paths of what was dropped.
pub(crate) fn prune_value(node: &Node, value: &mut Value) -> Vec<String> {
    let mut pruned = Pruned::default();
    prune(value, Some(node), &Path::EMPTY, &mut pruned);
    pruned.fields.into_list()
}

fn prune(value: &mut Value, node: Option<&Node>, path: &Path<'_>, pruned: &mut Pruned) {
    match value {
        Value::Object(map) => prune_fields(map, node, false, path, pruned),
        Value::Array(items) => prune_items(items, node, path, pruned),
        _ => {}
    }
}

fn prune_items(items: &mut [Value], node: Option<&Node>, path: &Path<'_>, pruned: &mut Pruned) {
    let items_node = node.and_then(|it| it.items.as_deref());
    let preserves = node.is_some_and(|it| it.marks.has(Marks::PRESERVES_UNKNOWN));
    // Where unknown fields are kept, an item without a schema of its own is unknown too.
    if preserves && items_node.is_none() {
        return;
    }
    for (index, item) in items.iter_mut().enumerate() {
        prune(item, items_node, &path.index(index), pruned);
    }
}

fn prune_fields(
    map: &mut Map<String, Value>,
    node: Option<&Node>,
    is_root: bool,
    path: &Path<'_>,
    pruned: &mut Pruned,
) {
    let Some(node) = node else {
        map.keys().for_each(|key| pruned.fields.note(|| path.child(key).to_string()));
        map.clear();
        return;
    };
    let is_resource = is_root || node.is_embedded();
    let preserves = node.marks.has(Marks::PRESERVES_UNKNOWN);
    map.retain(|key, value| {
        if is_resource && META_FIELDS.contains(&key.as_str()) {
            return true;
        }
        let here = path.child(key);
        if let Some(field) = node.field(key) {
            let dropped = value.is_null() && !field.is_nullable() && field.default.is_none();
            if !dropped {
                prune(value, Some(field), &here, pruned);
            }
            return !dropped;
        }
        if !matches!(node.additional, Additional::Unstated) {
            prune(value, None, &here, pruned);
            return true;
        }
        if !preserves {
            pruned.fields.note(|| here.to_string());
        }
        preserves
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    /// Prunes `object` by `schema`; returns what is left and what was reported.
    fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let mut unknown = Vec::new();
        Structural::compile(schema).prune(object.as_object_mut().unwrap(), &mut unknown);
        (object, unknown)
    }

    #[test]
    fn unspecified_fields_go_and_are_named() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"size": {"type": "integer"}, "parts": {"type": "array", "items":
                {"type": "object", "properties": {"id": {"type": "string"}}}}}}}});
        let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"odd": 1}, "extra": 1,
            "spec": {"sise": 1, "parts": [{"id": "x", "ix": "y"}]}});
        let (left, unknown) = pruned(&schema, object);
        assert_eq!(
            left,
            json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"odd": 1},
                "spec": {"parts": [{"id": "x"}]}})
        );
        assert_eq!(unknown, ["extra", "spec.parts[0].ix", "spec.sise"]);
    }

    #[test]
    fn below_preserved_unknown_fields_specified_ones_are_pruned_again() {
        let schema = json!({"type": "object", "properties": {"free": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"tight": {"type": "object", "properties": {"k": {"type": "string"}}}}}}});
        let object = json!({"free": {"kept": {"deep": [1]}, "tight": {"k": "v", "gone": 1}}});
        let (left, unknown) = pruned(&schema, object);
        assert_eq!(left, json!({"free": {"kept": {"deep": [1]}, "tight": {"k": "v"}}}));
        assert_eq!(unknown, ["free.tight.gone"]);
    }

    #[test]
    fn null_goes_without_a_word_unless_it_is_a_value_or_has_a_default() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "nullable": true}, "b": {"type": "string"},
            "c": {"type": "string", "default": "x"}}});
        let (left, unknown) = pruned(&schema, json!({"a": null, "b": null, "c": null}));
        assert_eq!((left, unknown), (json!({"a": null, "c": null}), vec![]));
    }

    #[test]
    fn the_metadata_of_an_embedded_resource_is_cut_to_what_metadata_may_hold() {
        let schema = json!({"type": "object", "properties": {"t": {"type": "object",
            "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
        let object = json!({"t": {"apiVersion": "v1", "kind": "Pod", "spec": {"any": 1},
            "metadata": {"name": "p", "odd": 1, "creationTimestamp": null, "labels": {"x": "y"}}}});
        let (left, unknown) = pruned(&schema, object);
        assert_eq!(
            left,
            json!({"t": {"apiVersion": "v1", "kind": "Pod", "spec": {"any": 1},
                "metadata": {"name": "p", "labels": {"x": "y"}}}})
        );
        assert_eq!(unknown, ["t.metadata.odd"]);
    }

    #[test]
    fn a_definition_that_keeps_unknown_fields_keeps_them_at_any_depth() {
        let schema = Structural::compile(&json!({"type": "object", "properties":
            {"spec": {"type": "object"}}}))
        .keeping_unknown_fields();
        let mut object = json!({"spec": {"a": 1}, "b": null});
        let mut unknown = Vec::new();
        schema.prune(object.as_object_mut().unwrap(), &mut unknown);
        assert_eq!((object, unknown), (json!({"spec": {"a": 1}, "b": null}), vec![]));
    }
}
