//! [`Rewrite`]: applies the changed schema of a CRD to the cached objects.

use crate::cache::watch_cache::Entry;
use types::Resource;
use types::resource::{Selectable, Shape};

/// See the [module documentation](self).
pub(super) struct Rewrite<'a> {
    resource: &'a Resource,
    /// Whether the selectable fields are the same as before.
    has_same_selectable: bool,
}

impl<'a> Rewrite<'a> {
    /// The rewrite of the objects of `resource`, which replaces `replaced`.
    pub(super) fn new(resource: &'a Resource, replaced: Option<&Resource>) -> Self {
        let has_same_selectable =
            replaced.is_some_and(|it| has_same_selectable_fields(it, resource));
        Self { resource, has_same_selectable }
    }

    /// The entry of an object after pruning and defaulting with the new schema; None if the entry is
    /// unchanged. The object stays in its stored version: it is converted when it is read.
    pub(super) fn apply(&self, entry: &Entry) -> Option<Entry> {
        let mut object = entry.object_as_stored();
        let resource = self.resource;
        let stored =
            resource.versions.iter().find(|it| resource.api_version(it) == object.api_version());
        if let Some(Shape::Structural(schema)) = stored.map(|it| &it.shape) {
            schema.prune(object.map_mut(), &mut Vec::new());
            schema.default(object.map_mut());
        }
        let rewritten = entry.with_object(&object);
        if !rewritten.has_same_bytes(entry) {
            return Some(rewritten);
        }
        // The bytes of the entry, which it shares with the store, are kept.
        (!self.has_same_selectable).then(|| entry.without_fields())
    }
}

/// Whether both have the same selectable fields in each version.
fn has_same_selectable_fields(one: &Resource, other: &Resource) -> bool {
    let fields = |resource: &'_ Resource| -> Vec<(String, Vec<Vec<String>>)> {
        let paths = |it: &[Selectable]| it.iter().map(|it| it.path.clone()).collect();
        resource.versions.iter().map(|it| (it.name.clone(), paths(&it.selectable))).collect()
    };
    fields(one) == fields(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinds::apiextensions;
    use machinery::{Object, Value, json};
    use store::Record;

    /// Rewrites the object `{"spec":{"size":1}}` when the schema of `spec` and the selectable field
    /// change from `before` to `after`. Returns whether the object still shares its bytes with the
    /// store, and its new spec; None if it is not rewritten.
    fn rewrite(before: (&Value, &str), after: (&Value, &str)) -> Option<(bool, Value)> {
        let value = json!({"apiVersion": "a.b/v1", "kind": "T", "metadata": {"name": "x"},
            "spec": {"size": 1}});
        let record = Record {
            key: "/registry/a.b/ts/x".into(),
            value: object(value).to_bytes().into(),
            created: 1,
            modified: 1,
            expires: None,
        };
        let entry = Entry::of(&record, "/registry/a.b/ts".len());
        let (before, after) = (resource(before), resource(after));
        let rewritten = Rewrite::new(&after, Some(&before)).apply(&entry)?;
        let spec = rewritten.object().get(&["spec"]).cloned().unwrap();
        Some((rewritten.shares_bytes(&entry), spec))
    }

    fn object(value: Value) -> Object {
        let Value::Object(map) = value else { panic!("an object") };
        Object::new(map)
    }

    fn resource((spec, selectable): (&Value, &str)) -> Resource {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let version = json!({"name": "v1", "served": true, "storage": true,
            "selectableFields": [{"jsonPath": selectable}], "schema": {"openAPIV3Schema": schema}});
        let names = json!({"plural": "ts", "kind": "T"});
        let crd = json!({"metadata": {"name": "ts.a.b"}, "spec": {"group": "a.b",
            "scope": "Cluster", "names": names, "versions": [version]}});
        apiextensions::resource(&object(crd)).unwrap()
    }

    #[test]
    fn a_rewrite_keeps_the_stored_bytes_unless_the_new_schema_changes_the_object() {
        let plain = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        let described = json!({"type": "object", "description": "d",
            "properties": {"size": {"type": "integer"}}});
        let defaulted = json!({"type": "object", "properties": {"size": {"type": "integer"},
            "color": {"type": "string", "default": "red"}}});
        let (size, color) = (".spec.size", ".spec.color");
        assert_eq!(rewrite((&plain, size), (&described, size)), None);
        let same = json!({"size": 1});
        assert_eq!(rewrite((&plain, size), (&plain, color)), Some((true, same)));
        let red = json!({"color": "red", "size": 1});
        assert_eq!(rewrite((&plain, size), (&defaulted, size)), Some((false, red)));
    }
}
