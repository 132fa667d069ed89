//! [`Entry`]: one stored object as the server reads it: bytes, and the few fields that selection
//! needs.
//!
//! Stored bytes begin with `{"apiVersion":…,"kind":…,"metadata":{` and have no resourceVersion,
//! which is known only once they are stored. So an object is served by copying, with two seams:
//!
//! ```text
//! {"apiVersion":"v1","kind":"Secret","metadata":{ "name":"a",… },"type":"Opaque"}
//!  └──────────── head ──────────────┘            ▲
//!                                                └ "resourceVersion":"42",
//! ```
//!
//! The head is left out in lists of built-in kinds, and exchanged when another version is asked for.

use super::label_mask::LabelMask;
use bytes::Bytes;
use kinds::resource::Selectable;
use machinery::{Map, Object, Value};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, OnceLock};
use store::{Record, Revision};

const METADATA: &[u8] = b"\"metadata\":{";

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Entry {
    /// Where it is stored.
    pub key: Arc<str>,
    /// When it was last written.
    pub revision: Revision,
    bytes: Bytes,
    /// Where `"metadata":{` begins in `bytes`.
    metadata_at: u32,
    /// The length of the resource's prefix, without the slash after it.
    prefix_len: u16,
    /// Whether somebody still has to work on it before others may see it.
    pub uninitialized: bool,
    /// `key=value` lines: one place in memory to look at, for a selector that looks at many.
    labels: Box<str>,
    /// The values of the resource's selectable fields, once somebody has asked.
    fields: OnceLock<Box<[Box<str>]>>,
}

/// How the beginning of an object is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Head<'a> {
    /// As it is stored.
    Stored,
    /// Without `apiVersion` and `kind`.
    Absent,
    /// With these members instead: `"apiVersion":"g/v2","kind":"K",`.
    Instead(&'a str),
}

impl Entry {
    /// Reads what selection needs out of a record; `prefix_len` is that of its resource.
    pub(crate) fn of(record: &Record, prefix_len: usize) -> Self {
        let (bytes, metadata_at) = match seam(&record.value) {
            Some(at) => (record.value.clone(), at),
            // Not written by us: put it into our order first.
            None => reorder(&record.value),
        };
        let Parsed { labels: Labels(labels), initializers: Presence(uninitialized) } =
            parse(&bytes[metadata_at + METADATA.len() - 1..]);
        Self {
            key: Arc::clone(&record.key),
            revision: record.modified,
            bytes,
            metadata_at: u32::try_from(metadata_at).expect("a head is short"),
            prefix_len: u16::try_from(prefix_len).expect("a prefix is short"),
            uninitialized,
            labels: labels.into_boxed_str(),
            fields: OnceLock::new(),
        }
    }

    /// An entry with other content at the same place and revision.
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

    /// `namespace/name`, or `name`.
    fn path(&self) -> &str {
        &self.key[usize::from(self.prefix_len) + 1..]
    }

    /// The object's name.
    pub(crate) fn name(&self) -> &str {
        let path = self.path();
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }

    /// The object's namespace, or "".
    pub(crate) fn namespace(&self) -> &str {
        self.path().rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// A label's value.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.split_terminator('\n').find_map(|it| it.strip_prefix(key)?.strip_prefix('='))
    }

    /// Which labels it may have.
    pub(super) fn label_mask(&self) -> LabelMask {
        LabelMask::of(&self.labels)
    }

    /// The value of `selectable[index]`; `selectable` must be the same list for every call.
    pub(crate) fn field(&self, selectable: &[Selectable], index: usize) -> &str {
        let fields = self
            .fields
            .get_or_init(|| selectable.iter().map(|it| self.lookup(it).into_boxed_str()).collect());
        fields.get(index).map_or("", |it| it)
    }

    fn lookup(&self, field: &Selectable) -> String {
        let mut raw: &[u8] = &self.bytes;
        for key in &field.path {
            let Ok(map) = serde_json::from_slice::<HashMap<String, &RawValue>>(raw) else {
                return field.absent.to_owned();
            };
            match map.get(key) {
                Some(value) => raw = value.get().as_bytes(),
                None => return field.absent.to_owned(),
            }
        }
        match serde_json::from_slice(raw) {
            Ok(Value::String(text)) => text,
            Ok(Value::Null) | Err(_) => field.absent.to_owned(),
            Ok(other) => other.to_string(),
        }
    }

    /// How many bytes it holds.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The `apiVersion` and `kind` members as stored, with the comma behind them.
    pub(crate) fn stored_head(&self) -> &[u8] {
        &self.bytes[1..self.metadata_at as usize]
    }

    /// Appends the object's JSON, with `revision` as its resourceVersion.
    pub(crate) fn write(&self, out: &mut Vec<u8>, head: Head<'_>, revision: Revision) {
        out.reserve(self.bytes.len() + 48);
        let rest = self.write_head(out, head, revision);
        out.extend_from_slice(&self.bytes[rest..]);
    }

    /// The same as two pieces, of which the second, and larger, is shared and not copied.
    pub(crate) fn pieces(&self, head: Head<'_>, revision: Revision) -> [Bytes; 2] {
        let mut out = Vec::with_capacity(self.metadata_at as usize + 128);
        let rest = self.write_head(&mut out, head, revision);
        [out.into(), self.bytes.slice(rest..)]
    }

    /// Appends everything up to the resourceVersion, and returns where the rest begins.
    fn write_head(&self, out: &mut Vec<u8>, head: Head<'_>, revision: Revision) -> usize {
        let at = self.metadata_at as usize;
        let seam = at + METADATA.len();
        match head {
            Head::Stored => out.extend_from_slice(&self.bytes[..seam]),
            Head::Absent => {
                out.push(b'{');
                out.extend_from_slice(METADATA);
            }
            Head::Instead(members) => {
                out.push(b'{');
                out.extend_from_slice(members.as_bytes());
                out.extend_from_slice(METADATA);
            }
        }
        write!(out, "\"resourceVersion\":\"{revision}\",").expect("memory takes every write");
        seam
    }

    /// The object in its working form, with its resourceVersion.
    pub(crate) fn object(&self) -> Object {
        let mut object = self.object_as_stored();
        object.set_meta("resourceVersion", self.revision.to_string());
        object
    }

    /// The object in its working form, without a resourceVersion, as it is stored.
    pub(crate) fn object_as_stored(&self) -> Object {
        let mut reader = serde_json::Deserializer::from_slice(&self.bytes);
        // How deep it may be was judged when it came in.
        reader.disable_recursion_limit();
        let map = Map::deserialize(&mut reader).expect("stored bytes were written as JSON");
        Object::new(map)
    }

    /// Whether another entry has the same content.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    /// Whether `bytes`, in stored form, would change nothing.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        *self.bytes == *bytes
    }
}

/// Where `"metadata":{` begins, if the bytes are in our order.
fn seam(bytes: &[u8]) -> Option<usize> {
    // A head is two short strings; what looks like the seam further on is not.
    let window = &bytes[..bytes.len().min(1024)];
    let at = window.windows(METADATA.len()).position(|it| it == METADATA)?;
    let in_order = window.starts_with(b"{\"apiVersion\":\"") && at > 0 && bytes[at - 1] == b',';
    let has_members = bytes.get(at + METADATA.len()).is_some_and(|it| *it == b'"');
    (in_order && has_members).then_some(at)
}

/// Rewrites foreign JSON into our order.
fn reorder(bytes: &[u8]) -> (Bytes, usize) {
    let mut object = serde_json::from_slice(bytes).map_or_else(|_| Object::default(), Object::new);
    object.remove_meta("resourceVersion");
    if object.api_version().is_empty() || object.kind().is_empty() {
        object.set_type("v1", "Unknown");
    }
    if object.metadata_mut().is_empty() {
        object.set_meta("name", "");
    }
    let bytes: Bytes = object.to_bytes().into();
    let at = seam(&bytes).unwrap_or_default();
    (bytes, at)
}

/// What is kept at hand of an object's metadata.
#[derive(Default, serde::Deserialize)]
struct Parsed {
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    initializers: Presence,
}

/// Reads the metadata object that begins at the first byte.
fn parse(metadata: &[u8]) -> Parsed {
    let mut values = serde_json::Deserializer::from_slice(metadata).into_iter::<Parsed>();
    values.next().and_then(Result::ok).unwrap_or_default()
}

/// Whether a field is there, whatever is in it.
#[derive(Default)]
struct Presence(bool);

impl<'de> Deserialize<'de> for Presence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|IgnoredAny| Self(true))
    }
}

#[derive(Default)]
struct Labels(String);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelsVisitor)
    }
}

struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of labels")
    }

    fn visit_unit<E>(self) -> Result<Labels, E> {
        Ok(Labels::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut labels = String::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if let Label::Text(value) = map.next_value()? {
                labels.extend([&*key, "=", &*value, "\n"]);
            }
        }
        Ok(Labels(labels))
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Label {
    Text(String),
    Other(IgnoredAny),
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

    const SECRET: &[u8] = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"labels":{"x":"y"},"name":"a"},"type":"Opaque"}"#;

    #[test]
    fn the_revision_is_spliced_in() {
        assert_eq!(
            written(&entry(SECRET), Head::Stored),
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"42","labels":{"x":"y"},"name":"a"},"type":"Opaque"}"#
        );
    }

    #[test]
    fn the_head_is_left_out_or_exchanged() {
        assert!(written(&entry(SECRET), Head::Absent).starts_with(r#"{"metadata":{"resource"#));
        let head = r#""apiVersion":"v2","kind":"Secret","#;
        assert!(
            written(&entry(SECRET), Head::Instead(head))
                .starts_with(r#"{"apiVersion":"v2","kind":"Secret","metadata":{"resource"#)
        );
    }

    #[test]
    fn names_come_from_the_key_and_labels_from_the_bytes() {
        let entry = entry(SECRET);
        assert_eq!((entry.namespace(), entry.name()), ("ns", "a"));
        assert_eq!((entry.label("x"), entry.label("z")), (Some("y"), None));
        assert_eq!(entry.label(""), None);
    }

    #[test]
    fn an_object_with_initializers_is_known_by_its_metadata() {
        assert!(!entry(SECRET).uninitialized);
        let waiting = entry(
            br#"{"apiVersion":"v1","kind":"S","metadata":{"initializers":{"pending":[{"name":"a.b.c"}]},"labels":{"x":"y"}},"spec":{"initializers":1}}"#,
        );
        assert!(waiting.uninitialized);
        assert_eq!(waiting.label("x"), Some("y"));
    }

    #[test]
    fn foreign_bytes_are_put_into_our_order() {
        let entry = entry(
            br#"{"type":"Opaque","metadata":{"name":"a"},"kind":"Secret","apiVersion":"v1"}"#,
        );
        assert!(written(&entry, Head::Stored).starts_with(
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"42","name""#
        ));
    }

    #[test]
    fn a_selectable_field_is_found_by_its_path_and_absent_otherwise() {
        let entry = entry(
            br#"{"apiVersion":"v1","kind":"P","metadata":{"name":"a"},"spec":{"n":3,"on":"n1"}}"#,
        );
        let field = |path: &[&str]| Selectable {
            label: path.join("."),
            path: path.iter().map(|it| (*it).to_owned()).collect(),
            absent: "none",
        };
        let fields = [field(&["spec", "n"]), field(&["spec", "on"]), field(&["spec", "x", "y"])];
        assert_eq!(entry.field(&fields, 0), "3");
        assert_eq!(entry.field(&fields, 1), "n1");
        assert_eq!(entry.field(&fields, 2), "none");
        assert_eq!(entry.object().get(&["spec", "n"]), Some(&json!(3)));
    }
}
