//! [`Entry`]: a stored object in memory: its bytes, and the fields that selection needs.
//!
//! The fields of stored bytes are in the order in which they are served. They have no resourceVersion,
//! which is unknown until they are stored. An object is served by copying its bytes around two
//! insertions:
//!
//! ```text
//! {"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"…","creationTimestamp":… },…}
//!                                └┘                                 ▲
//!                             version                               └ "resourceVersion":"42",
//! ```
//!
//! The version is replaced if another one is requested; kind and version are left out in lists of
//! built-in kinds. `layout.rs` finds the offsets.

mod field_cache;
mod layout;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Deserialize, DeserializeOwned};
use serde_json::value::RawValue;

use super::label_mask::LabelMask;
use field_cache::FieldCache;
use informer::item::StoredObject;
use informer::{BadItem, Item};
use layout::Layout;
use machinery::{Map, Object, Value};
use store::{Record, Revision};
use types::resource::Selectable;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Entry {
    /// The key in the store.
    pub key: Arc<str>,
    /// The revision of the last write.
    pub revision: Revision,
    bytes: Bytes,
    /// The offsets in `bytes`.
    layout: Layout,
    /// The length of the resource's prefix, without the slash after it.
    prefix_len: u16,
    /// The offset of the object's name in `key`.
    name_at: u16,
    /// Whether the object has pending initializers, and is hidden from other clients.
    pub uninitialized: bool,
    /// `key=value` lines, sorted by key: contiguous, since a selector reads those of many objects.
    labels: Box<str>,
    /// The values of selectable fields, after the first request for them.
    fields: FieldCache,
}

/// The length up to which labels are compared one by one. Longer ones are found by a binary search.
const MAX_SCANNED_BYTES: usize = 512;

/// How the beginning of an object, with `kind` and `apiVersion`, is served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Head<'a> {
    /// As it is stored.
    Stored,
    /// Without `kind` and `apiVersion`; only for built-in kinds, which begin with these.
    Absent,
    /// With another `apiVersion`.
    Version(&'a str),
}

impl Entry {
    /// The entry of a record; `prefix_len` is the length of the prefix of its resource.
    pub(crate) fn of(record: &Record, prefix_len: usize) -> Self {
        let (bytes, (layout, metadata)) = match layout::find(&record.value) {
            Some(found) => (record.value.clone(), found),
            // Another program has written the record.
            None => layout::reorder(&record.value),
        };
        let name_at = record.key.rfind('/').map_or(0, |slash| slash + 1);
        Self {
            key: Arc::clone(&record.key),
            revision: record.modified,
            bytes,
            layout,
            prefix_len: u16::try_from(prefix_len).expect("a prefix is short"),
            name_at: u16::try_from(name_at)
                .expect("names of groups, resources and namespaces are short"),
            uninitialized: metadata.uninitialized,
            labels: metadata.labels.into_boxed_str(),
            fields: FieldCache::default(),
        }
    }

    /// An entry with another content and the same key and revision; only for custom kinds, whose
    /// fields are sorted.
    pub(crate) fn with_object(&self, object: &Object) -> Self {
        let record = Record {
            key: Arc::clone(&self.key),
            value: object.to_bytes().into(),
            created: self.revision,
            modified: self.revision,
            expires: None,
        };
        Self::of(&record, usize::from(self.prefix_len))
    }

    /// An entry with the same content, without values of selectable fields.
    pub(crate) fn without_fields(&self) -> Self {
        Self {
            key: Arc::clone(&self.key),
            bytes: self.bytes.clone(),
            labels: self.labels.clone(),
            fields: FieldCache::default(),
            ..*self
        }
    }

    /// The object's name.
    pub(crate) fn name(&self) -> &str {
        &self.key[usize::from(self.name_at)..]
    }

    /// The object's namespace, or "".
    pub(crate) fn namespace(&self) -> &str {
        // Slashes surround the namespace.
        let range = usize::from(self.prefix_len) + 1..usize::from(self.name_at).saturating_sub(1);
        self.key.get(range).unwrap_or_default()
    }

    /// A label's value.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        if self.labels.len() > MAX_SCANNED_BYTES {
            return layout::find_label(&self.labels, key);
        }
        self.labels.split_terminator('\n').find_map(|it| it.strip_prefix(key)?.strip_prefix('='))
    }

    /// All labels, sorted by key.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.split_terminator('\n').filter_map(|line| line.split_once('='))
    }

    /// The length of all labels together.
    pub(crate) fn label_bytes(&self) -> usize {
        self.labels.len()
    }

    /// The mask of its labels.
    pub(super) fn label_mask(&self) -> LabelMask {
        LabelMask::of(&self.labels)
    }

    /// The value of `selectable[index]`.
    pub(crate) fn field(&self, selectable: &Arc<[Selectable]>, index: usize) -> Cow<'_, str> {
        self.fields.value(selectable, index, |field| self.lookup(field))
    }

    fn lookup(&self, field: &Selectable) -> String {
        let found = self.text_at(field.path.iter().map(String::as_str));
        let found = match field.fallback {
            Some(other) => found.filter(|it| !it.is_empty()).or_else(|| self.text_at([other])),
            None => found,
        };
        found.unwrap_or_else(|| field.absent.to_owned())
    }

    /// The value of a field as text, unless it is absent or null.
    fn text_at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let mut raw: &[u8] = &self.bytes;
        for key in path {
            let map: HashMap<String, &RawValue> = serde_json::from_slice(raw).ok()?;
            raw = map.get(key)?.get().as_bytes();
        }
        match serde_json::from_slice(raw).ok()? {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }

    /// The uid of the owner that controls the object, read from its metadata only.
    pub(crate) fn controller_uid(&self) -> Option<String> {
        layout::controller_uid(&self.bytes, self.layout)
    }

    /// The number of its bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The version in which it is stored.
    pub(crate) fn api_version(&self) -> &[u8] {
        &self.bytes[self.layout.api_version()]
    }

    /// Appends the object's JSON, with `revision` as its resourceVersion.
    pub(crate) fn write(&self, out: &mut Vec<u8>, head: Head<'_>, revision: Revision) {
        out.reserve(self.bytes.len() + 48);
        let rest = self.write_head(out, head, revision);
        out.extend_from_slice(&self.bytes[rest..]);
    }

    /// The same as two pieces. The second, larger one is shared and not copied.
    pub(crate) fn pieces(&self, head: Head<'_>, revision: Revision) -> [Bytes; 2] {
        let mut out = Vec::with_capacity(self.layout.resource_version_at() + 128);
        let rest = self.write_head(&mut out, head, revision);
        [out.into(), self.bytes.slice(rest..)]
    }

    /// Appends the bytes up to the resourceVersion, and returns the offset of the rest.
    fn write_head(&self, out: &mut Vec<u8>, head: Head<'_>, revision: Revision) -> usize {
        let split = self.layout.resource_version_at();
        match head {
            Head::Stored => out.extend_from_slice(&self.bytes[..split]),
            Head::Absent => {
                out.push(b'{');
                out.extend_from_slice(&self.bytes[self.layout.metadata_at()..split]);
            }
            Head::Version(version) => {
                let stored = self.layout.api_version();
                out.extend_from_slice(&self.bytes[..stored.start]);
                out.extend_from_slice(version.as_bytes());
                out.extend_from_slice(&self.bytes[stored.end..split]);
            }
        }
        // The metadata have a field before the resourceVersion, after it, or both.
        let is_last = self.bytes[split..].starts_with(b"}");
        let (before, after) = if is_last { (",", "") } else { ("", ",") };
        write!(out, "{before}\"resourceVersion\":\"{revision}\"{after}")
            .expect("a write to a Vec does not fail");
        split
    }

    /// The object as an item that shares its bytes, with `revision` as its resourceVersion.
    pub(crate) fn item(&self, revision: Revision, managed_fields: bool) -> Result<Item, BadItem> {
        Item::share(&StoredObject {
            namespace: self.namespace(),
            name: self.name(),
            resource_version: revision,
            json: &self.bytes,
            metadata_at: self.layout.metadata_object_at(),
            resource_version_at: self.layout.resource_version_at(),
            managed_fields,
        })
    }

    /// The parsed object with its resourceVersion.
    pub(crate) fn object(&self) -> Object {
        let mut object = self.object_as_stored();
        object.set_meta("resourceVersion", self.revision.to_string());
        object
    }

    /// Some fields of the object; None if they have other types. The other fields are skipped, which
    /// is much faster than parsing them.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.bytes).ok()
    }

    /// The parsed object as it is stored, without a resourceVersion.
    pub(crate) fn object_as_stored(&self) -> Object {
        let mut reader = serde_json::Deserializer::from_slice(&self.bytes);
        // The depth was checked when the object was received.
        reader.disable_recursion_limit();
        let map = Map::deserialize(&mut reader).expect("stored bytes were written as JSON");
        Object::new(map)
    }

    /// Whether another entry has the same content in the same memory.
    pub(crate) fn shares_bytes(&self, other: &Self) -> bool {
        self.bytes.as_ptr() == other.bytes.as_ptr() && self.bytes.len() == other.bytes.len()
    }

    /// Whether another entry has the same content.
    pub(crate) fn has_same_bytes(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    /// Whether the content, as it is stored, is `bytes`.
    pub(crate) fn has_bytes(&self, bytes: &[u8]) -> bool {
        *self.bytes == *bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn entry(value: &[u8]) -> Entry {
        let record = Record {
            key: "/registry/secrets/ns/a".into(),
            value: value.to_vec().into(),
            created: 7,
            modified: 42,
            expires: None,
        };
        Entry::of(&record, "/registry/secrets".len())
    }

    fn written(entry: &Entry, head: Head<'_>) -> String {
        let mut out = Vec::new();
        entry.write(&mut out, head, entry.revision);
        String::from_utf8(out).unwrap()
    }

    const SECRET: &[u8] = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"x":"y"}},"type":"Opaque"}"#;

    #[test]
    fn the_resource_version_of_a_built_in_kind_is_inserted_after_its_uid() {
        assert_eq!(
            written(&entry(SECRET), Head::Stored),
            r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"42","labels":{"x":"y"}},"type":"Opaque"}"#
        );
        let last = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}"#;
        assert!(
            written(&entry(last), Head::Stored)
                .ends_with(r#"{"name":"a","resourceVersion":"42"}}"#)
        );
    }

    #[test]
    fn the_resource_version_of_a_sorted_object_is_inserted_in_order() {
        let custom = entry(
            br#"{"apiVersion":"a.b/v1","kind":"W","metadata":{"labels":{"uid":"y"},"name":"a","uid":"u"}}"#,
        );
        assert_eq!(
            written(&custom, Head::Stored),
            r#"{"apiVersion":"a.b/v1","kind":"W","metadata":{"labels":{"uid":"y"},"name":"a","resourceVersion":"42","uid":"u"}}"#
        );
        assert_eq!(custom.label("uid"), Some("y"));
    }

    #[test]
    fn a_custom_kind_may_have_fields_before_and_between_the_common_ones() {
        let custom = entry(
            br#"{"aaa":{"metadata":{"a":1},"apiVersion":"x"},"apiVersion":"a.b/v1","data":"\u003c","kind":"W","metadata":{"name":"a","uid":"u"}}"#,
        );
        assert_eq!(custom.api_version(), b"a.b/v1");
        assert_eq!(
            written(&custom, Head::Version("a.b/v2beta1")),
            r#"{"aaa":{"metadata":{"a":1},"apiVersion":"x"},"apiVersion":"a.b/v2beta1","data":"\u003c","kind":"W","metadata":{"name":"a","resourceVersion":"42","uid":"u"}}"#
        );
    }

    #[test]
    fn kind_and_api_version_are_omitted_or_replaced() {
        assert!(written(&entry(SECRET), Head::Absent).starts_with(r#"{"metadata":{"name":"a","#));
        assert!(
            written(&entry(SECRET), Head::Version("v2"))
                .starts_with(r#"{"kind":"Secret","apiVersion":"v2","metadata":{"name":"a","#)
        );
    }

    #[test]
    fn an_object_of_an_earlier_release_is_served_in_its_order() {
        let earlier = entry(
            br#"{"apiVersion":"v1","kind":"Secret","metadata":{"labels":{"x":"y"},"name":"a"},"data":{},"type":"Opaque"}"#,
        );
        assert_eq!(
            written(&earlier, Head::Absent),
            r#"{"metadata":{"labels":{"x":"y"},"name":"a","resourceVersion":"42"},"data":{},"type":"Opaque"}"#
        );
        assert_eq!((earlier.api_version(), earlier.label("x")), (&b"v1"[..], Some("y")));
    }

    #[test]
    fn names_come_from_the_key_and_labels_from_the_bytes() {
        let entry = entry(SECRET);
        assert_eq!((entry.namespace(), entry.name()), ("ns", "a"));
        assert_eq!((entry.label("x"), entry.label("z")), (Some("y"), None));
        assert_eq!(entry.label(""), None);
    }

    #[test]
    fn an_object_with_initializers_is_recognized_by_its_metadata() {
        assert!(!entry(SECRET).uninitialized);
        let waiting = entry(
            br#"{"apiVersion":"v1","kind":"S","metadata":{"initializers":{"pending":[{"name":"a.b.c"}]},"labels":{"x":"y"}},"spec":{"initializers":1}}"#,
        );
        assert!(waiting.uninitialized);
        assert_eq!(waiting.label("x"), Some("y"));
    }

    #[test]
    fn objects_written_by_another_program_are_sorted() {
        let entry = entry(
            br#"{"type": "Opaque", "metadata":{"name":"a"},"kind":"Secret","apiVersion":"v1"}"#,
        );
        assert_eq!(
            written(&entry, Head::Stored),
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","resourceVersion":"42"},"type":"Opaque"}"#
        );
    }

    #[test]
    fn a_selectable_field_is_found_by_its_path() {
        let entry = entry(
            br#"{"apiVersion":"v1","kind":"P","metadata":{"name":"a"},"spec":{"n":3,"on":"n1"}}"#,
        );
        let field = |path: &[&str]| Selectable {
            label: path.join("."),
            path: path.iter().map(|it| (*it).to_owned()).collect(),
            fallback: None,
            absent: "none",
        };
        let fields: Arc<[Selectable]> =
            [field(&["spec", "n"]), field(&["spec", "on"]), field(&["spec", "x", "y"])].into();
        assert_eq!(entry.field(&fields, 0), "3");
        assert_eq!(entry.field(&fields, 1), "n1");
        assert_eq!(entry.field(&fields, 2), "none");
        assert_eq!(entry.object().get(&["spec", "n"]), Some(&json!(3)));
    }

    #[test]
    fn a_selectable_field_that_is_empty_has_the_value_of_its_fallback() {
        let value = |spec: &str| {
            let object = format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec},"other":"b"}}"#);
            let path = vec!["spec".to_owned(), "x".to_owned()];
            let field =
                Selectable { label: "x".to_owned(), path, fallback: Some("other"), absent: "" };
            entry(object.as_bytes()).field(&[field].into(), 0).into_owned()
        };
        assert_eq!([r#"{"x":"a"}"#, r#"{"x":""}"#, "{}"].map(value), ["a", "b", "b"]);
    }
}
