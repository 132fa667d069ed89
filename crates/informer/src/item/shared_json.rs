//! [`SharedJson`]: the JSON of an object in the memory of a server in this process, without its
//! resourceVersion, which is inserted when the object is read.
//!
//! ```text
//! {"kind":"Pod","metadata":{"name":"a","uid":"…","managedFields":[…]},…}
//!                                               ▲└─────────────────┘
//!         "resourceVersion":"42", is inserted ──┘ or replaces the managedFields
//! ```

use std::ops::Range;

use bytes::Bytes;

use super::body::Body;
use super::identity::Identity;
use crate::BadItem;
use crate::json_spans::each_member;

/// A stored object, whose bytes an [`Item`](super::Item) can [share](super::Item::share).
#[derive(Debug, Clone, Copy)]
pub struct StoredObject<'a> {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The name within the namespace.
    pub name: &'a str,
    /// The resourceVersion, which is not in the JSON.
    pub resource_version: u64,
    /// The object's JSON without white space between its tokens.
    pub json: &'a Bytes,
    /// The position of the object `metadata`, at its opening brace. It has at least one member.
    pub metadata_at: usize,
    /// The position in `metadata` at which the resourceVersion is inserted: before a member, or
    /// before the closing brace.
    pub resource_version_at: usize,
    /// Whether the item has `metadata.managedFields`.
    pub managed_fields: bool,
}

/// The members of the metadata that an item needs beside those of its [`StoredObject`].
struct SharedMetadata<'a> {
    uid: &'a str,
    generation: i64,
    is_owned_or_deleted: bool,
    /// The position of the member `managedFields`.
    managed_fields: Option<Range<usize>>,
}

/// See the [module documentation](self).
#[derive(Clone)]
pub(super) struct SharedJson {
    json: Bytes,
    resource_version_at: u32,
    /// The position of the member `managedFields`; empty if there is none.
    managed_fields: (u32, u32),
    is_stripped: bool,
}

impl<'a> SharedMetadata<'a> {
    /// Reads the metadata; `None` if they are not as a server stores them.
    fn read(stored: &StoredObject<'a>) -> Option<Self> {
        let json: &'a [u8] = stored.json;
        let mut found =
            Self { uid: "", generation: 0, is_owned_or_deleted: false, managed_fields: None };
        let mut is_plain = true;
        each_member(json, stored.metadata_at, |key, value| match &json[key.clone()] {
            b"\"uid\"" => match plain_text(&json[value]) {
                Some(uid) => found.uid = uid,
                None => is_plain = false,
            },
            b"\"generation\"" => match str::from_utf8(&json[value]).map(str::parse) {
                Ok(Ok(generation)) => found.generation = generation,
                _ => is_plain = false,
            },
            b"\"ownerReferences\"" | b"\"deletionTimestamp\"" => found.is_owned_or_deleted = true,
            b"\"managedFields\"" => found.managed_fields = Some(key.start..value.end),
            _ => {}
        })?;
        is_plain.then_some(found)
    }
}

/// The text of a JSON string without escapes.
fn plain_text(json: &[u8]) -> Option<&str> {
    let text = str::from_utf8(json).ok()?.strip_prefix('"')?.strip_suffix('"')?;
    (!text.contains('\\')).then_some(text)
}

impl SharedJson {
    /// The JSON of a stored object; `None` if it is too long.
    fn new(stored: &StoredObject<'_>, managed_fields: Option<Range<usize>>) -> Option<Self> {
        let Range { start, end } = managed_fields.unwrap_or_default();
        Some(Self {
            json: stored.json.clone(),
            resource_version_at: u32::try_from(stored.resource_version_at).ok()?,
            managed_fields: (u32::try_from(start).ok()?, u32::try_from(end).ok()?),
            is_stripped: !stored.managed_fields,
        })
    }

    /// The same JSON without managedFields; `None` if it has none.
    pub(super) fn stripped(&self) -> Option<Self> {
        let has_managed_fields = !self.is_stripped && self.managed_fields.1 > 0;
        has_managed_fields.then(|| Self { is_stripped: true, ..self.clone() })
    }

    /// Appends the whole JSON.
    pub(super) fn write(&self, resource_version: &str, out: &mut Vec<u8>) {
        let is_replaced = self.is_stripped && self.managed_fields.1 > 0;
        let at = self.resource_version_at;
        let (start, end) = if is_replaced { self.managed_fields } else { (at, at) };
        let (before, after) = (&self.json[..start as usize], &self.json[end as usize..]);
        let is_last = !is_replaced && after.starts_with(b"}");
        out.reserve(before.len() + after.len() + resource_version.len() + 24);
        out.extend_from_slice(before);
        if is_last {
            out.push(b',');
        }
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(resource_version.as_bytes());
        out.push(b'"');
        if !is_replaced && !is_last {
            out.push(b',');
        }
        out.extend_from_slice(after);
    }

    /// The bytes that are shared.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.json
    }
}

impl super::Item {
    /// An item that shares the bytes of a stored object: it has no copy of them.
    ///
    /// ```
    /// use informer::{BadItem, Item, item::StoredObject};
    /// let json = br#"{"kind":"Pod","metadata":{"name":"a","uid":"u"}}"#.as_slice().into();
    /// let stored = StoredObject {
    ///     namespace: "",
    ///     name: "a",
    ///     resource_version: 42,
    ///     json: &json,
    ///     metadata_at: 25,
    ///     resource_version_at: 46,
    ///     managed_fields: false,
    /// };
    /// let item = Item::share(&stored)?;
    /// let decoded = r#"{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"42"}}"#;
    /// assert_eq!(item.json(), decoded);
    /// assert_eq!(item.shared_bytes().unwrap().as_ptr(), json.as_ptr());
    /// # Ok::<(), BadItem>(())
    /// ```
    pub fn share(stored: &StoredObject<'_>) -> Result<Self, BadItem> {
        let metadata = SharedMetadata::read(stored);
        let managed_fields = metadata.as_ref().and_then(|it| it.managed_fields.clone());
        let Some(json) = SharedJson::new(stored, managed_fields) else {
            return Err(BadItem::Malformed(serde::de::Error::custom("the object is too long")));
        };
        let version = stored.resource_version.to_string();
        let Some(SharedMetadata { uid, generation, is_owned_or_deleted, .. }) = metadata else {
            // Another program has written it, and it is copied.
            let mut copy = Vec::new();
            json.write(&version, &mut copy);
            return Self::parse(copy);
        };
        let mut identity = Identity::new(stored.namespace, stored.name, uid, &version, generation)?;
        identity.may_be_owned_or_deleted = is_owned_or_deleted;
        Ok(Self::new(identity, Body::shared(json)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Item;

    fn item(json: &str, resource_version_at: &str, managed_fields: bool) -> Item {
        let bytes = Bytes::copy_from_slice(json.as_bytes());
        Item::share(&StoredObject {
            namespace: "n",
            name: "a",
            resource_version: 42,
            json: &bytes,
            metadata_at: json.find("\"metadata\":").unwrap() + 11,
            resource_version_at: json.find(resource_version_at).unwrap(),
            managed_fields,
        })
        .unwrap()
    }

    fn check(json: &str, resource_version_at: &str, managed_fields: bool, expected: &str) {
        let item = item(json, resource_version_at, managed_fields);
        assert_eq!(item.json(), expected);
        assert_eq!((item.resource_version(), item.uid(), item.generation()), ("42", "u", 3));
        assert_eq!(item.object().unwrap().resource_version(), "42");
    }

    const DECLARED: &str = r#"{"kind":"P","metadata":{"name":"a","uid":"u","generation":3,"managedFields":[{"f":{"a":"}]"}}]},"spec":{"uid":"x"}}"#;
    const SORTED: &str =
        r#"{"kind":"P","metadata":{"generation":3,"managedFields":[{}],"name":"a","uid":"u"}}"#;

    #[test]
    fn the_resource_version_is_inserted_or_replaces_the_managed_fields() {
        let at = r#""generation""#;
        check(
            DECLARED,
            at,
            true,
            r#"{"kind":"P","metadata":{"name":"a","uid":"u","resourceVersion":"42","generation":3,"managedFields":[{"f":{"a":"}]"}}]},"spec":{"uid":"x"}}"#,
        );
        check(
            DECLARED,
            at,
            false,
            r#"{"kind":"P","metadata":{"name":"a","uid":"u","generation":3,"resourceVersion":"42"},"spec":{"uid":"x"}}"#,
        );
        check(
            SORTED,
            r#""uid""#,
            false,
            r#"{"kind":"P","metadata":{"generation":3,"resourceVersion":"42","name":"a","uid":"u"}}"#,
        );
        let last = r#"{"kind":"P","metadata":{"generation":3,"name":"a","uid":"u"}}"#;
        let expected = r#"{"kind":"P","metadata":{"generation":3,"name":"a","uid":"u","resourceVersion":"42"}}"#;
        check(last, "}}", false, expected);
        check(last, "}}", true, expected);
    }

    #[test]
    fn managed_fields_are_removed_later_without_a_copy() {
        let whole = item(DECLARED, r#""generation""#, true);
        let bytes = whole.shared_bytes().unwrap();
        let clone = whole.clone();
        let stripped = whole.with_shared_body(crate::item::ManagedFields::Remove);
        assert_eq!(stripped.shared_bytes().unwrap().as_ptr(), bytes.as_ptr());
        assert!(stripped.object().unwrap().metadata().unwrap().get("managedFields").is_none());
        assert!(clone.object().unwrap().metadata().unwrap().get("managedFields").is_some());
    }

    #[test]
    fn an_item_that_shares_its_bytes_knows_whether_it_is_owned_or_deleted() {
        let may_be = |member: &str, rest: &str| {
            let json = format!(r#"{{"kind":"P","metadata":{{"name":"a"{member}}}{rest}}}"#);
            item(&json, "}", false).may_be_owned_or_deleted()
        };
        assert!(!may_be("", r#","spec":{"ownerReferences":[]}"#), "not in the metadata");
        assert!(may_be(r#","ownerReferences":[{"uid":"o"}]"#, ""));
        assert!(may_be(r#","deletionTimestamp":"2024-01-01T00:00:00Z""#, ""));
        let parsed = Item::parse(br#"{"metadata":{"name":"a"}}"#.as_slice()).unwrap();
        assert!(parsed.may_be_owned_or_deleted(), "it is not known");
    }

    #[test]
    fn metadata_of_another_program_are_copied() {
        let json = r#"{"kind":"P","metadata":{"name":"a","uid":"\u0075","generation":3}}"#;
        let item = item(json, r#""generation""#, true);
        assert!(item.shared_bytes().is_none());
        assert_eq!((item.uid(), item.resource_version()), ("u", "42"));
    }
}
