//! [`Layout`]: the offsets at which stored bytes are split when they are served.
//!
//! The bytes of a built-in kind begin with `{"kind":` and have their fields in the order of the Go
//! declaration. All others are sorted: those of custom kinds, and those that earlier releases stored,
//! which begin with `apiVersion`, `kind` and `metadata`.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use machinery::Object;

const METADATA: &str = "\"metadata\":{";

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The offset of the text of `apiVersion`, without its quotes.
    version_at: u32,
    version_len: u16,
    /// The offset of `"metadata":{`.
    metadata_at: u32,
    /// The offset of the resourceVersion: before a member of the metadata, or before their end.
    resource_version_at: u32,
}

impl Layout {
    /// The text of `apiVersion`.
    pub(super) fn api_version(self) -> Range<usize> {
        let start = self.version_at as usize;
        start..start + usize::from(self.version_len)
    }

    /// The offset of `"metadata":{`.
    pub(super) fn metadata_at(self) -> usize {
        self.metadata_at as usize
    }

    /// The offset of the object `metadata`.
    pub(super) fn metadata_object_at(self) -> usize {
        self.metadata_at() + METADATA.len() - 1
    }

    /// The offset of the resourceVersion.
    pub(super) fn resource_version_at(self) -> usize {
        self.resource_version_at as usize
    }
}

/// The metadata that selection needs.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// `key=value` lines, sorted by key.
    pub(super) labels: String,
    pub(super) uninitialized: bool,
}

/// The layout of bytes that this server has written; None for others.
pub(super) fn find(bytes: &[u8]) -> Option<(Layout, Metadata)> {
    let in_declared_order = bytes.starts_with(b"{\"kind\":");
    let (version, metadata_at) = head(bytes, in_declared_order).or_else(|| top_level(bytes))?;
    let object_at = metadata_at + METADATA.len() - 1;
    if bytes.get(object_at + 1) != Some(&b'"') {
        return None;
    }
    let mut metadata = Metadata::default();
    let mut resource_version_at = None;
    let mut end = object_at;
    members(&bytes[object_at..], |key, value| {
        let offset = |text: &str| text.as_ptr().addr() - bytes.as_ptr().addr();
        if resource_version_at.is_none() && !precedes_resource_version(key, in_declared_order) {
            resource_version_at = Some(offset(key) - 1);
        }
        end = offset(value.get()) + value.get().len();
        match key {
            "labels" => metadata.labels = labels(value),
            "initializers" => metadata.uninitialized = true,
            _ => {}
        }
    })?;
    let resource_version_at = resource_version_at.unwrap_or(end);
    let layout = Layout {
        version_at: u32::try_from(version.start).ok()?,
        version_len: u16::try_from(version.len()).ok()?,
        metadata_at: u32::try_from(metadata_at).ok()?,
        resource_version_at: u32::try_from(resource_version_at).ok()?,
    };
    matches!(bytes.get(resource_version_at), Some(b'"' | b'}')).then_some((layout, metadata))
}

/// The uid of the owner reference that is the controller.
pub(super) fn controller_uid(bytes: &[u8], layout: Layout) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct OwnerReference {
        controller: Option<bool>,
        uid: String,
    }
    let mut found = None;
    members(&bytes[layout.metadata_object_at()..], |key, value| {
        if key == "ownerReferences" {
            let owners: Vec<OwnerReference> = serde_json::from_str(value.get()).unwrap_or_default();
            found = owners.into_iter().find(|it| it.controller == Some(true)).map(|it| it.uid);
        }
    })?;
    found
}

/// Whether a field of the metadata is before the resourceVersion.
fn precedes_resource_version(key: &str, in_declared_order: bool) -> bool {
    if in_declared_order {
        return matches!(key, "name" | "generateName" | "namespace" | "selfLink" | "uid");
    }
    key < "resourceVersion"
}

/// The offsets of version and metadata, if the bytes begin with them and the kind.
fn head(bytes: &[u8], in_declared_order: bool) -> Option<(Range<usize>, usize)> {
    let (first, second) =
        if in_declared_order { ("kind", "apiVersion") } else { ("apiVersion", "kind") };
    let first = text_member(bytes, 1, first)?;
    let second = text_member(bytes, first.end + 2, second)?;
    let metadata_at = second.end + 2;
    let version = if in_declared_order { second } else { first };
    bytes[metadata_at..].starts_with(METADATA.as_bytes()).then_some((version, metadata_at))
}

/// The range of the text in `"name":"text",`, which begins at `at`.
fn text_member(bytes: &[u8], at: usize, name: &str) -> Option<Range<usize>> {
    let member = bytes.get(at..)?.strip_prefix(b"\"")?.strip_prefix(name.as_bytes())?;
    let text = member.strip_prefix(b"\":\"")?;
    let len = text.iter().position(|it| matches!(it, b'"' | b'\\'))?;
    let start = bytes.len() - text.len();
    text[len..].starts_with(b"\",").then_some(start..start + len)
}

/// The same offsets in a sorted object that has other fields before them.
fn top_level(bytes: &[u8]) -> Option<(Range<usize>, usize)> {
    let offset = |text: &str| text.as_ptr().addr() - bytes.as_ptr().addr();
    let (mut version, mut metadata_at, mut last) = (None, None, "");
    let mut is_sorted = true;
    members(bytes, |key, value| {
        is_sorted &= last < key;
        last = key;
        let text = value.get();
        match key {
            "apiVersion" if text.len() > 2 && text.starts_with('"') && !text.contains('\\') => {
                version = Some(offset(text) + 1..offset(text) + text.len() - 1);
            }
            // This server writes no spaces.
            "metadata" if text.as_ptr().addr() - key.as_ptr().addr() == METADATA.len() - 2 => {
                metadata_at = Some(offset(key) - 1);
            }
            _ => {}
        }
    })?;
    let metadata_at = metadata_at.filter(|at| bytes[*at..].starts_with(METADATA.as_bytes()))?;
    Some((version.filter(|_| is_sorted)?, metadata_at))
}

/// Rewrites foreign JSON into a sorted object with a type and a name.
pub(super) fn reorder(bytes: &[u8]) -> (bytes::Bytes, (Layout, Metadata)) {
    let mut object = serde_json::from_slice(bytes).map_or_else(|_| Object::default(), Object::new);
    object.remove_meta("resourceVersion");
    if object.api_version().is_empty() || object.kind().is_empty() {
        object.set_type("v1", "Unknown");
    }
    if object.metadata_mut().is_empty() {
        object.set_meta("name", "");
    }
    let bytes: bytes::Bytes = object.to_bytes().into();
    let found = find(&bytes).expect("an object with a type and metadata has just been written");
    (bytes, found)
}

/// The labels whose values are strings, as `key=value` lines that are sorted by key.
fn labels(value: &RawValue) -> String {
    let mut lines = String::new();
    let (mut last, mut is_sorted) = ("", true);
    members(value.get().as_bytes(), |key, value| {
        if let Ok(text) = serde_json::from_str::<String>(value.get()) {
            is_sorted &= last < key;
            last = key;
            lines.extend([key, "=", &*text, "\n"]);
        }
    });
    if is_sorted {
        return lines;
    }
    let mut sorted: Vec<&str> = lines.split_inclusive('\n').collect();
    sorted.sort_by_key(|line| key_of(line));
    sorted.dedup_by_key(|line| key_of(line));
    sorted.concat()
}

fn key_of(line: &str) -> &str {
    line.split_once('=').map_or(line, |(key, _)| key)
}

/// The value of a label in `key=value` lines that are sorted by key.
pub(super) fn find_label<'a>(lines: &'a str, key: &str) -> Option<&'a str> {
    let bytes = lines.as_bytes();
    // Both are the beginnings of lines.
    let (mut low, mut high) = (0, bytes.len());
    while low < high {
        let middle = low.midpoint(high);
        let before = bytes[low..middle].iter().rposition(|byte| *byte == b'\n');
        let start = before.map_or(low, |at| low + at + 1);
        let length = bytes[start..].iter().position(|byte| *byte == b'\n')?;
        let (found, value) = lines[start..start + length].split_once('=')?;
        match found.cmp(key) {
            Ordering::Equal => return Some(value),
            Ordering::Less => low = start + length + 1,
            Ordering::Greater => high = start,
        }
    }
    None
}

/// Calls `each` with every member of the object at the beginning of `json`; None if there is no
/// object. Escaped keys are left out: no known field has one.
fn members<'de>(json: &'de [u8], each: impl FnMut(&'de str, &'de RawValue)) -> Option<()> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    Members(each).deserialize(&mut reader).ok()
}

struct Members<F>(F);

impl<'de, F: FnMut(&'de str, &'de RawValue)> DeserializeSeed<'de> for Members<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&'de str, &'de RawValue)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            let value: &'de RawValue = map.next_value()?;
            if let Some(key) = key {
                (self.0)(key, value);
            }
        }
        Ok(())
    }
}

/// A key without escapes.
struct Key<'de>(Option<&'de str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Some(key)))
            }

            fn visit_str<E>(self, _: &str) -> Result<Key<'de>, E> {
                Ok(Key(None))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_in_any_order_of_labels() {
        for step in [1, 7] {
            let members = (0..100).map(|it| format!(r#""k-{0}":"v{0}""#, it * step % 100));
            let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
            let lines = labels(serde_json::from_str(&text).unwrap());
            assert!(lines.lines().map(key_of).is_sorted());
            for index in 0..100 {
                let key = format!("k-{index}");
                assert_eq!(find_label(&lines, &key), Some(format!("v{index}").as_str()));
                assert_eq!(find_label(&lines, &format!("{key}.")), None);
            }
            assert_eq!(["", "k-", "z"].map(|key| find_label(&lines, key)), [None; 3]);
        }
    }

    #[test]
    fn the_first_of_two_labels_with_the_same_key_is_found() {
        let lines = labels(serde_json::from_str(r#"{"b":"1","a":"2","b":"3"}"#).unwrap());
        assert_eq!(lines, "a=2\nb=1\n");
    }
}
