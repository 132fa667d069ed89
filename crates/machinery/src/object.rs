//! [`Object`], an API object that is being processed: a JSON map with accessors for the parts that
//! every object has (upstream: `unstructured.Unstructured`).
//!
//! An object is parsed once when it arrives, changed in place on its way to the store, and written
//! once; the bytes are stored and served, not this type.

use crate::codec::json;
use crate::gvk::GroupVersion;
use crate::{GroupVersionKind, Map, Value};

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object(Map<String, Value>);

impl Object {
    /// Wraps a map.
    pub fn new(map: Map<String, Value>) -> Self {
        Self(map)
    }

    /// None if the value is not a JSON object.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    /// The map itself.
    pub fn map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The map itself, mutable.
    pub fn map_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    /// Unwraps the map.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }

    /// As a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// The text at `key`, or "".
    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// `apiVersion`, or "".
    pub fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    /// `kind`, or "".
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// `apiVersion` and `kind`; an `apiVersion` that does not parse counts as a version.
    pub fn gvk(&self) -> GroupVersionKind {
        let version = self.api_version();
        let group_version = version.parse().unwrap_or_else(|_| GroupVersion::new("", version));
        GroupVersionKind::new(&group_version.group, &group_version.version, self.kind())
    }

    /// Sets `apiVersion` and `kind`.
    pub fn set_type(&mut self, api_version: &str, kind: &str) {
        self.0.insert("apiVersion".to_owned(), api_version.into());
        self.0.insert("kind".to_owned(), kind.into());
    }

    /// `metadata`, if it is a map.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.get("metadata")?.as_object()
    }

    /// `metadata`, created if it is missing or not a map.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        let value = self.0.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        value.as_object_mut().expect("it was made a map above")
    }

    /// The text of a metadata field, or "".
    pub fn meta_text(&self, key: &str) -> &str {
        self.metadata().and_then(|it| it.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    /// Sets a metadata field.
    pub fn set_meta(&mut self, key: &str, value: impl Into<Value>) {
        self.metadata_mut().insert(key.to_owned(), value.into());
    }

    /// Removes a metadata field and returns it.
    pub fn remove_meta(&mut self, key: &str) -> Option<Value> {
        self.0.get_mut("metadata")?.as_object_mut()?.remove(key)
    }

    /// `metadata.name`, or "".
    pub fn name(&self) -> &str {
        self.meta_text("name")
    }

    /// `metadata.namespace`, or "".
    pub fn namespace(&self) -> &str {
        self.meta_text("namespace")
    }

    /// `metadata.uid`, or "".
    pub fn uid(&self) -> &str {
        self.meta_text("uid")
    }

    /// `metadata.resourceVersion`, or "".
    pub fn resource_version(&self) -> &str {
        self.meta_text("resourceVersion")
    }

    /// `metadata.generation`, or 0.
    pub fn generation(&self) -> i64 {
        self.metadata().and_then(|it| it.get("generation")).and_then(Value::as_i64).unwrap_or(0)
    }

    /// `metadata.deletionTimestamp`, if deletion has begun.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.metadata()?.get("deletionTimestamp")?.as_str()
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata()
            .and_then(|it| it.get("finalizers"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata()?.get("labels")?.get(key)?.as_str()
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata()?.get("annotations")?.get(key)?.as_str()
    }

    /// The value at a path of field names.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.0.get(*first)?, |value, key| value.get(key))
    }

    /// The value at a path of field names, mutable.
    pub fn get_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.0.get_mut(*first)?, |value, key| value.get_mut(key))
    }

    /// The text at a path of field names, or "".
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The map at a path of field names. Each map on the way that is missing is created; another
    /// value in its place is replaced.
    pub fn map_at(&mut self, path: &[&str]) -> &mut Map<String, Value> {
        path.iter().fold(&mut self.0, |map, key| {
            let value = map.entry(*key).or_insert_with(|| Value::Object(Map::new()));
            if !value.is_object() {
                *value = Value::Object(Map::new());
            }
            value.as_object_mut().expect("it was made a map above")
        })
    }

    /// The object's JSON with its keys sorted at every depth, as Go writes objects without a type.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2048);
        json::write(&mut out, &self.0);
        // These bytes are stored, possibly a million times: they have no spare capacity.
        out.shrink_to_fit();
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn keys_are_written_sorted() {
        let it = object(json!({"data": {"k": 1}, "metadata": {"uid": "u", "name": "a"},
            "kind": "X", "apiVersion": "v1", "aaa": null}));
        assert_eq!(
            String::from_utf8(it.to_bytes()).unwrap(),
            r#"{"aaa":null,"apiVersion":"v1","data":{"k":1},"kind":"X","metadata":{"name":"a","uid":"u"}}"#
        );
    }

    #[test]
    fn missing_parts_read_as_empty() {
        let it = object(json!({"metadata": "not a map"}));
        assert_eq!((it.name(), it.generation(), it.finalizers().count()), ("", 0, 0));
        assert!(it.deletion_timestamp().is_none());
    }

    #[test]
    fn map_at_creates_missing_maps() {
        let mut it = object(json!({"spec": 3}));
        it.map_at(&["spec", "a", "b"]).insert("c".into(), 1.into());
        assert_eq!(it.get(&["spec", "a", "b", "c"]), Some(&json!(1)));
    }
}
