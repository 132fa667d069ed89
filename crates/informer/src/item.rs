//! [`Item`]: an object in the cache: its JSON, and the parts of its metadata that an informer reads.
//! It is decoded by each reader, into the type of the reader.
//!
//! ```
//! use informer::Item;
//! let json = br#"{"metadata":{"namespace":"n","name":"a","resourceVersion":"7"},"spec":{"size":3}}"#;
//! let item = Item::parse(json.as_slice())?;
//! assert_eq!((item.key().to_string().as_str(), item.resource_version()), ("n/a", "7"));
//!
//! #[derive(serde::Deserialize)]
//! struct Sized { spec: Spec }
//! #[derive(serde::Deserialize)]
//! struct Spec { size: u32 }
//! assert_eq!(item.decode::<Sized>()?.spec.size, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A clone is a pointer to the same bytes. The items of a server in the same process
//! [share](Item::share) the bytes of the server.

mod body;
mod element_type;
mod head;
mod identity;
mod shared_json;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::json_dictionary::JsonDictionary;
use crate::json_spans::find_value;
use body::Body;
use head::Head;
use identity::Identity;
use machinery::codec::DecodeError;
use machinery::selector::LabelSelector;
use machinery::{Object, codec};
use shared_json::SharedJson;

pub(crate) use element_type::ElementType;
pub use shared_json::StoredObject;

/// Namespace and name of an object.
///
/// ```
/// # use informer::ObjectKey;
/// assert_eq!(ObjectKey::new("n", "a").to_string(), "n/a");
/// assert_eq!(ObjectKey::new("", "node-1").to_string(), "node-1");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object; the namespace is empty for cluster-scoped objects.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        // Without separators, which would cost as much as the texts: few keys have the same
        // concatenation.
        hasher.write(self.namespace.as_bytes());
        hasher.write(self.name.as_bytes());
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// See the [module documentation](self).
#[derive(Clone)]
pub struct Item(Arc<ItemInner>);

/// Identifies an item without keeping it in memory.
pub(crate) struct WeakItem(Weak<ItemInner>);

/// There is one for each cached object, so the size matters.
struct ItemInner {
    identity: Identity,
    /// Always the same JSON: plain, packed, or shared.
    body: Mutex<Body>,
}

/// Whether `metadata.managedFields` are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    Keep,
    Remove,
}

/// JSON that cannot be cached.
///
/// ```
/// use informer::{BadItem, Item};
/// let parsed = Item::parse(br#"{"metadata":{}}"#.as_slice());
/// assert!(matches!(parsed, Err(BadItem::Nameless)));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum BadItem {
    /// It is not a JSON object with metadata.
    #[error("cannot read the metadata of an object")]
    Malformed(#[source] serde_json::Error),
    /// It has no name.
    #[error("an object has no name")]
    Nameless,
}

impl Item {
    /// Parses the JSON of one object. The whole JSON is read once, and the metadata are stored beside
    /// the bytes.
    pub fn parse(json: impl Into<Bytes>) -> Result<Self, BadItem> {
        let json = json.into();
        let head = Head::read(&json)?;
        let identity = Identity::of(&head.metadata)?;
        let managed_fields = head.managed_fields(&json);
        Ok(Self::new(identity, Body::plain(json, managed_fields)))
    }

    /// Parses an element of a list, and adds the `apiVersion` and `kind` that it lacks.
    pub(crate) fn parse_element(
        json: Bytes,
        element_type: Option<&ElementType>,
    ) -> Result<Self, BadItem> {
        let head = Head::read(&json)?;
        let identity = Identity::of(&head.metadata)?;
        let managed_fields = head.managed_fields(&json);
        let Some(typed) = element_type.and_then(|missing| missing.write_into(&json, &head)) else {
            return Ok(Self::new(identity, Body::plain(json, managed_fields)));
        };
        // The added members shift the position by their length. If a null member was removed as well,
        // the new position is not known.
        let shift = typed.len().checked_sub(json.len()).filter(|_| !head.has_null_type());
        let shifted = shift.zip(managed_fields);
        let managed_fields = shifted.map(|(by, range)| range.start + by..range.end + by);
        Ok(Self::new(identity, Body::plain(typed.into(), managed_fields)))
    }

    fn new(identity: Identity, body: Body) -> Self {
        Self(Arc::new(ItemInner { identity, body: Mutex::new(body) }))
    }

    /// The same object with packed JSON and a shared namespace. Shared bytes are not packed.
    pub(crate) fn packed(
        self,
        namespace: Arc<str>,
        dictionary: &Arc<JsonDictionary>,
        managed_fields: ManagedFields,
    ) -> Self {
        if self.is_shared() {
            return self.with_shared_body(managed_fields).with_namespace(namespace);
        }
        let (json, cut) = self.json_and_cut(managed_fields);
        let packed = dictionary.pack(&json, cut, self.identity_hash());
        self.with_body(namespace, Body::Packed(packed, Arc::clone(dictionary)))
    }

    /// The same object with JSON in a buffer of its own, of the exact size. Shared bytes are not
    /// copied.
    pub(crate) fn compact(self, namespace: Arc<str>, managed_fields: ManagedFields) -> Self {
        if self.is_shared() {
            return self.with_shared_body(managed_fields).with_namespace(namespace);
        }
        let (json, cut) = self.json_and_cut(managed_fields);
        let remaining = [&json[..cut.start], &json[cut.end..]].concat();
        self.with_body(namespace, Body::plain(remaining.into(), None))
    }

    /// Whether the bytes are those of a server in this process.
    pub(crate) fn is_shared(&self) -> bool {
        self.lock().as_shared().is_some()
    }

    /// The same object with the same shared bytes, without managedFields if these are removed.
    pub(crate) fn with_shared_body(self, managed_fields: ManagedFields) -> Self {
        if managed_fields == ManagedFields::Keep {
            return self;
        }
        let shared = self.lock().as_shared().and_then(SharedJson::stripped);
        let Some(shared) = shared else { return self };
        let namespace = Arc::clone(&self.0.identity.key.namespace);
        self.with_body(namespace, Body::shared(shared))
    }

    /// Replaces the bytes of this item and its clones by the shared bytes of `other`, if it has
    /// such. Both are the same state of the same object.
    pub(crate) fn adopt_shared_bytes(&self, other: &Self) {
        if Arc::ptr_eq(&self.0, &other.0) || self.is_shared() {
            return;
        }
        let shared = other.lock().as_shared().cloned();
        let Some(shared) = shared else { return };
        *self.lock() = Body::shared(shared);
    }

    /// The bytes that this item shares with a server in this process; they have no resourceVersion.
    /// `None` if the item has bytes of its own.
    pub fn shared_bytes(&self) -> Option<Bytes> {
        self.lock().as_shared().map(|shared| shared.bytes().clone())
    }

    /// The JSON, and the range to remove from it; empty if nothing is removed.
    fn json_and_cut(&self, managed_fields: ManagedFields) -> (Bytes, Range<usize>) {
        let body = self.lock();
        let json = body.json(self.resource_version());
        let is_cut = managed_fields == ManagedFields::Remove;
        let cut = is_cut.then(|| body.managed_fields(&json)).flatten();
        (json, cut.unwrap_or_default())
    }

    /// Packs the JSON of this item and its clones.
    pub(crate) fn pack_in_place(&self, dictionary: &Arc<JsonDictionary>) {
        let body = self.lock();
        if let Some(json) = body.as_plain().cloned() {
            drop(body);
            let packed = dictionary.pack(&json, 0..0, self.identity_hash());
            *self.lock() = Body::Packed(packed, Arc::clone(dictionary));
        }
    }

    /// The same state with another body; in place if there is no clone.
    fn with_body(mut self, namespace: Arc<str>, body: Body) -> Self {
        if let Some(parts) = Arc::get_mut(&mut self.0) {
            (parts.identity.key.namespace, parts.body) = (namespace, Mutex::new(body));
            return self;
        }
        Self::new(self.0.identity.with_namespace(namespace), body)
    }

    /// The same item with another pointer to its namespace, unless it has a clone.
    fn with_namespace(mut self, namespace: Arc<str>) -> Self {
        if let Some(parts) = Arc::get_mut(&mut self.0) {
            parts.identity.key.namespace = namespace;
        }
        self
    }

    /// A hash that is the same for all states of one object.
    fn identity_hash(&self) -> u32 {
        let mut hasher = DefaultHasher::new();
        (self.name(), self.uid()).hash(&mut hasher);
        u32::try_from(hasher.finish() >> 32).expect("the high half fits 32 bits")
    }

    fn lock(&self) -> MutexGuard<'_, Body> {
        self.0.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.0.identity.key
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.0.identity.key.namespace()
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        self.0.identity.key.name()
    }

    /// Distinguishes objects with the same name.
    pub fn uid(&self) -> &str {
        self.0.identity.uid()
    }

    /// The version of this state.
    pub fn resource_version(&self) -> &str {
        self.0.identity.resource_version()
    }

    /// The number of changes of the spec; 0 if the server does not count them.
    pub fn generation(&self) -> i64 {
        self.0.identity.generation()
    }

    /// False if the object has neither `ownerReferences` nor a `deletionTimestamp`. It is true as well
    /// if that is not known without parsing the object.
    pub fn may_be_owned_or_deleted(&self) -> bool {
        self.0.identity.may_be_owned_or_deleted
    }

    /// The object's JSON.
    pub fn json(&self) -> Bytes {
        self.lock().json(self.resource_version())
    }

    /// Decodes the object into a `T`, which may have only the fields of interest.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        body::read(&self.0.body, self.resource_version(), |json| body::parse(json))
    }

    /// The length of the JSON, and the decoded object.
    pub(crate) fn decode_with_length<T>(&self) -> (usize, Result<T, serde_json::Error>)
    where
        T: DeserializeOwned,
    {
        body::read(&self.0.body, self.resource_version(), |json| (json.len(), body::parse(json)))
    }

    /// Decodes a member of the metadata; `None` if it is absent. No more of the JSON is read than
    /// necessary.
    ///
    /// ```
    /// # use informer::Item;
    /// let item = Item::parse(br#"{"metadata":{"name":"a","finalizers":["f"]}}"#.as_slice())?;
    /// assert_eq!(item.decode_metadata::<Vec<String>>("finalizers")?, Some(vec!["f".to_owned()]));
    /// assert_eq!(item.decode_metadata::<String>("selfLink")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode_metadata<T: DeserializeOwned>(
        &self,
        member: &str,
    ) -> Result<Option<T>, serde_json::Error> {
        body::read(&self.0.body, self.resource_version(), |json| {
            find_value(json, &["metadata", member]).map(body::parse).transpose()
        })
    }

    /// The object as a JSON map, decoded as Go decodes JSON. It fails only for numbers out of range,
    /// and for maps and lists that are nested more than a thousand deep.
    pub fn object(&self) -> Result<Object, DecodeError> {
        // serde_json is faster, and accepts nearly all objects.
        if let Ok(map) = self.decode() {
            return Ok(Object::new(map));
        }
        let read = codec::json::decode(&self.json())?;
        Ok(Object::from_value(read.value).unwrap_or_default())
    }

    /// The labels; empty if they are not a map of strings.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.decode_metadata("labels").ok().flatten().unwrap_or_default()
    }

    /// Whether `selector` selects this object.
    pub fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        if selector.is_empty() {
            return true;
        }
        let labels = self.labels();
        selector.matches(|key| labels.get(key).map(String::as_str))
    }

    /// Whether the other item is the same state of the same object.
    pub fn is_same_state(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || !self.resource_version().is_empty()
                && self.key() == other.key()
                && self.uid() == other.uid()
                && self.resource_version() == other.resource_version()
    }

    /// Marks this state as read, and returns whether it was marked before.
    pub(crate) fn mark_read(&self) -> bool {
        // A load does not invalidate the cache line of other processors, a swap does.
        let is_read = &self.0.identity.is_read;
        is_read.load(Relaxed) || is_read.swap(true, Relaxed)
    }

    pub(crate) fn downgrade(&self) -> WeakItem {
        WeakItem(Arc::downgrade(&self.0))
    }

    /// The size of the JSON in memory, which may be shared.
    pub fn size(&self) -> usize {
        self.lock().size()
    }
}

impl WeakItem {
    /// The item, if it was not dropped.
    pub(crate) fn upgrade(&self) -> Option<Item> {
        self.0.upgrade().map(Item)
    }

    /// Whether this is a pointer to `item` or a clone of it.
    pub(crate) fn points_to(&self, item: &Item) -> bool {
        // No other item has this address while the weak pointer exists.
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&item.0))
    }

    /// Whether the item was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.resource_version())
    }
}

/// Compares two resourceVersions; `None` if they are not both numbers.
pub(crate) fn compare_versions(one: &str, other: &str) -> Option<Ordering> {
    Some(version_number(one)?.cmp(&version_number(other)?))
}

/// A resourceVersion as a number, if it is one.
pub(crate) fn version_number(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests;
