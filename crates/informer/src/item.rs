//! [`Item`]: an object in the cache: its JSON bytes, and the few parts of its metadata that the
//! machinery itself needs. It is decoded when somebody asks, into the type they ask for.
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
//! A clone is one more pointer to the same bytes.

mod body;
mod element_type;
mod head;
mod identity;

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use machinery::{
    Object,
    codec::{self, DecodeError},
    selector::LabelSelector,
};
use serde::{Deserialize, de::DeserializeOwned};

use crate::json_dictionary::JsonDictionary;
use body::Body;
pub(crate) use element_type::ElementType;
use head::Head;
use identity::Identity;

/// Namespace and name: which object, of a resource that is known from elsewhere.
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
    /// The namespace is empty for objects that have none.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Empty for objects that have none.
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
        // Without marks between the two, which would cost as much as they do: few keys are alike
        // when written one behind the other.
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
pub struct Item(Arc<Parts>);

/// Recognizes a state in memory without keeping it there.
pub(crate) struct Trace(Weak<Parts>);

/// There are as many of these as there are objects: a field more takes sixteen bytes for each.
struct Parts {
    identity: Identity,
    /// The same JSON always, but not always in the same form.
    body: Mutex<Body>,
}

/// What is to become of `metadata.managedFields`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    Kept,
    /// Behind.
    Left,
}

/// JSON that cannot be cached, because nobody could ask for it.
///
/// ```
/// use informer::{BadItem, Item};
/// let parsed = Item::parse(br#"{"metadata":{}}"#.as_slice());
/// assert!(matches!(parsed, Err(BadItem::Nameless)));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum BadItem {
    /// It is no JSON object with metadata; the connection or the server is at fault.
    #[error("cannot read the metadata of an object")]
    Malformed(#[source] serde_json::Error),
    /// It has no name.
    #[error("an object has no name")]
    Nameless,
}

impl Item {
    /// Takes the JSON of one object. It is read once from end to end, and only its metadata kept
    /// beside the bytes.
    pub fn parse(json: impl Into<Bytes>) -> Result<Self, BadItem> {
        let json = json.into();
        let head = Head::read(&json)?;
        let identity = Identity::of(&head.metadata)?;
        let managed_fields = head.managed_fields(&json);
        Ok(Self::new(identity, Body::plain(json, managed_fields)))
    }

    /// An element of a list, which lacks the type that it has elsewhere; what is missing of it is
    /// written in front.
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
        // What was written lies before it, unless something was taken out as well.
        let written = typed.len().checked_sub(json.len()).filter(|_| !head.mentions_null());
        let moved = written.zip(managed_fields);
        let managed_fields = moved.map(|(by, from)| from.start + by..from.end + by);
        Ok(Self::new(identity, Body::plain(typed.into(), managed_fields)))
    }

    fn new(identity: Identity, body: Body) -> Self {
        Self(Arc::new(Parts { identity, body: Mutex::new(body) }))
    }

    /// The same object in less memory: its JSON packed, its namespace shared with others.
    pub(crate) fn packed(
        self,
        namespace: Arc<str>,
        dictionary: &Arc<JsonDictionary>,
        managed_fields: ManagedFields,
    ) -> Self {
        let (json, cut) = self.cut(managed_fields);
        let packed = dictionary.pack(&json, cut, self.identity_hash());
        self.with(namespace, Body::Packed(packed, Arc::clone(dictionary)))
    }

    /// The same object in memory of its own, of just the size that it needs.
    pub(crate) fn compact(self, namespace: Arc<str>, managed_fields: ManagedFields) -> Self {
        let (json, cut) = self.cut(managed_fields);
        let left = [&json[..cut.start], &json[cut.end..]].concat();
        self.with(namespace, Body::plain(left.into(), None))
    }

    /// The JSON, and what is not to be part of it any more.
    fn cut(&self, managed_fields: ManagedFields) -> (Bytes, Range<usize>) {
        let body = self.lock();
        let json = body.json();
        let is_cut = managed_fields == ManagedFields::Left;
        let cut = is_cut.then(|| body.managed_fields(&json)).flatten();
        (json, cut.unwrap_or_default())
    }

    /// Packs the JSON where it is, for all who have this item.
    pub(crate) fn settle(&self, dictionary: &Arc<JsonDictionary>) {
        let body = self.lock();
        if let Body::Plain(_) = &*body {
            let json = body.json();
            drop(body);
            let packed = dictionary.pack(&json, 0..0, self.identity_hash());
            *self.lock() = Body::Packed(packed, Arc::clone(dictionary));
        }
    }

    /// The same state in another form; in the same place if nobody else knows it yet.
    fn with(mut self, namespace: Arc<str>, body: Body) -> Self {
        if let Some(parts) = Arc::get_mut(&mut self.0) {
            (parts.identity.key.namespace, parts.body) = (namespace, Mutex::new(body));
            return self;
        }
        Self::new(self.0.identity.within(namespace), body)
    }

    /// The same for all states of one object.
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

    /// Empty for objects that have none.
    pub fn namespace(&self) -> &str {
        self.0.identity.key.namespace()
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        self.0.identity.key.name()
    }

    /// Tells this object from an earlier or later one with the same name.
    pub fn uid(&self) -> &str {
        self.0.identity.uid()
    }

    /// Which state of the object this is.
    pub fn resource_version(&self) -> &str {
        self.0.identity.resource_version()
    }

    /// Counts the changes of the spec; 0 where the server does not.
    pub fn generation(&self) -> i64 {
        self.0.identity.generation()
    }

    /// The object's JSON.
    pub fn json(&self) -> Bytes {
        self.lock().json()
    }

    /// The object as a `T`, which may well name only the fields that matter.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        body::read(&self.0.body, |json| body::parse(json))
    }

    /// The length of the JSON, and what it says.
    pub(crate) fn measure_and_decode<T>(&self) -> (usize, Result<T, serde_json::Error>)
    where
        T: DeserializeOwned,
    {
        body::read(&self.0.body, |json| (json.len(), body::parse(json)))
    }

    /// The object as a JSON map, read as Go would read it. Only what no server should ever have
    /// sent cannot be: numbers beyond all measure, or maps and lists nested more than a thousand
    /// deep.
    pub fn object(&self) -> Result<Object, DecodeError> {
        // Nearly always enough, and faster.
        if let Ok(map) = self.decode() {
            return Ok(Object::new(map));
        }
        let read = codec::json::decode(&self.json())?;
        Ok(Object::from_value(read.value).unwrap_or_default())
    }

    /// The labels; empty if they are not a map of strings.
    pub fn labels(&self) -> BTreeMap<String, String> {
        #[derive(Deserialize)]
        struct Labeled {
            metadata: Labels,
        }
        #[derive(Deserialize)]
        struct Labels {
            #[serde(default)]
            labels: BTreeMap<String, String>,
        }
        self.decode::<Labeled>().map(|labeled| labeled.metadata.labels).unwrap_or_default()
    }

    /// Whether `selector` selects this object.
    pub fn is_selected_by(&self, selector: &LabelSelector) -> bool {
        if selector.is_empty() {
            return true;
        }
        let labels = self.labels();
        selector.matches(|key| labels.get(key).map(String::as_str))
    }

    /// Whether the other is the same state of the same object, so that nothing needs telling.
    pub fn is_same_state(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || !self.resource_version().is_empty()
                && self.key() == other.key()
                && self.uid() == other.uid()
                && self.resource_version() == other.resource_version()
    }

    /// Notes that this state is read, and says whether it was before.
    pub(crate) fn note_reading(&self) -> bool {
        // Mostly it is known already, and then nobody's copy of this memory is taken away.
        let is_read = &self.0.identity.is_read;
        is_read.load(Relaxed) || is_read.swap(true, Relaxed)
    }

    pub(crate) fn trace(&self) -> Trace {
        Trace(Arc::downgrade(&self.0))
    }

    /// How many bytes the JSON takes in memory.
    pub fn size(&self) -> usize {
        self.lock().size()
    }
}

impl Trace {
    /// The item, if somebody has it still.
    pub(crate) fn item(&self) -> Option<Item> {
        self.0.upgrade().map(Item)
    }

    /// Whether this is the item that left the trace, or a clone of it.
    pub(crate) fn is_of(&self, item: &Item) -> bool {
        // No later item can have this address while there is the trace.
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&item.0))
    }

    /// Whether nobody has the item any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.resource_version())
    }
}

/// Which of two resourceVersions is the newer one; `None` if they are not both numbers.
pub(crate) fn compare_versions(one: &str, other: &str) -> Option<Ordering> {
    Some(version_number(one)?.cmp(&version_number(other)?))
}

/// A resourceVersion that can be compared with others.
pub(crate) fn version_number(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests;
