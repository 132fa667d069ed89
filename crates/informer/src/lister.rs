//! [`Lister`]: typed reads from an indexer. Objects are decoded when they are read, into a type that
//! may have only the fields of interest.
//!
//! ```
//! # use {informer::{Indexer, Item}, std::sync::Arc};
//! use informer::{Listed, Lister, ObjectDecodeError};
//!
//! #[derive(serde::Deserialize)]
//! struct Sized { spec: Spec }
//! #[derive(serde::Deserialize)]
//! struct Spec { size: u32 }
//!
//! let indexer = Arc::new(Indexer::new());
//! # for json in [r#"{"metadata":{"namespace":"n","name":"a"},"spec":{"size":3}}"#,
//! #              r#"{"metadata":{"namespace":"n","name":"b"},"spec":{"size":"wrong"}}"#] {
//! #     indexer.insert(Item::parse(json.as_bytes())?);
//! # }
//! let lister = Lister::<Sized>::new(indexer);
//! let object = lister.shared("n", "a")?.unwrap(); // an Arc, which later reads share
//! assert_eq!(object.spec.size, 3);
//!
//! let Listed { objects, errors } = lister.list_namespace("n");
//! assert_eq!(objects[0].spec.size, 3);
//! let ObjectDecodeError { item, error } = &errors[0]; // logged, and the other objects are returned
//! assert_eq!(item.name(), "b");
//! assert!(error.to_string().contains("expected u32"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::decoded_cache::{DEFAULT_BUDGET, DecodedCache};
use crate::{Indexer, Item, NoSuchIndex, ObjectKey};
use machinery::selector::LabelSelector;

/// See the [module documentation](self). Clones share the cache of [`shared`](Self::shared).
pub struct Lister<T> {
    indexer: Arc<Indexer>,
    decoded: Arc<DecodedCache<T>>,
}

/// The objects of a list, and those that cannot be decoded.
#[derive(Debug)]
pub struct Listed<T> {
    /// The objects, in the order of namespaces and names.
    pub objects: Vec<T>,
    /// The objects that cannot be decoded.
    pub errors: Vec<ObjectDecodeError>,
}

/// An object that cannot be decoded into the type of a lister.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode {}", .item.key())]
pub struct ObjectDecodeError {
    /// The object.
    pub item: Item,
    /// The reason.
    #[source]
    pub error: serde_json::Error,
}

impl<T> Lister<T> {
    /// Reads from `indexer`.
    pub fn new(indexer: Arc<Indexer>) -> Self {
        Self { indexer, decoded: Arc::new(DecodedCache::new(DEFAULT_BUDGET)) }
    }

    /// The indexer, for reads without decoding.
    pub fn indexer(&self) -> &Arc<Indexer> {
        &self.indexer
    }
}

impl<T: DeserializeOwned> Lister<T> {
    /// The object with this name; the namespace is empty for objects that have none.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<T>, ObjectDecodeError> {
        self.get_key(&ObjectKey::new(namespace, name))
    }

    /// The object with this key.
    pub fn get_key(&self, key: &ObjectKey) -> Result<Option<T>, ObjectDecodeError> {
        self.indexer.get(key).map(decode).transpose()
    }

    /// The object with this name, shared with other readers. A state that is read a second time is
    /// cached in its decoded form.
    ///
    /// The cache has 32 MiB, measured by the length of the JSON; objects that were not read
    /// recently are evicted.
    pub fn shared(&self, namespace: &str, name: &str) -> Result<Option<Arc<T>>, ObjectDecodeError> {
        self.shared_key(&ObjectKey::new(namespace, name))
    }

    /// The object with this key, shared with other readers; see [`shared`](Self::shared).
    pub fn shared_key(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, ObjectDecodeError> {
        let Some(item) = self.indexer.get(key) else {
            self.decoded.remove(key);
            return Ok(None);
        };
        self.share(item).map(Some)
    }

    /// The objects that have `value` in the index `name`, shared with other readers; see
    /// [`shared`](Self::shared).
    ///
    /// ```
    /// # use {informer::{Indexer, Item, Lister}, serde_json::Value, std::sync::Arc};
    /// let indexer = Arc::new(Indexer::new());
    /// indexer.add_index("namespace", |item| vec![item.namespace().to_owned()]);
    /// # indexer.insert(Item::parse(br#"{"metadata":{"namespace":"n","name":"a"}}"#.as_slice())?);
    /// let lister = Lister::<Value>::new(indexer);
    /// let objects: Vec<Arc<Value>> = lister.shared_by_index("namespace", "n")?.objects;
    /// assert_eq!(objects[0]["metadata"]["name"], "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared_by_index(
        &self,
        name: &str,
        value: &str,
    ) -> Result<Listed<Arc<T>>, NoSuchIndex> {
        let items = self.indexer.by_index(name, value)?;
        Ok(items.into_iter().map(|item| self.share(item)).collect())
    }

    /// The decoded object of `item`.
    fn share(&self, item: Item) -> Result<Arc<T>, ObjectDecodeError> {
        if !item.mark_read() {
            self.decoded.remove(item.key());
            return decode(item).map(Arc::new);
        }
        if let Some(object) = self.decoded.get(&item) {
            return Ok(object);
        }
        match item.decode_with_length() {
            (length, Ok(object)) => Ok(self.decoded.insert(&item, length, object)),
            (_, Err(error)) => Err(ObjectDecodeError { item, error }),
        }
    }

    /// All objects.
    pub fn list(&self) -> Listed<T> {
        self.indexer.list().into_iter().collect()
    }

    /// The objects of one namespace.
    pub fn list_namespace(&self, namespace: &str) -> Listed<T> {
        self.indexer.list_namespace(namespace).into_iter().collect()
    }

    /// The objects that `selector` selects, in one namespace or (`None`) in all.
    pub fn select(&self, namespace: Option<&str>, selector: &LabelSelector) -> Listed<T> {
        let items = match namespace {
            Some(namespace) => self.indexer.list_namespace(namespace),
            None => self.indexer.list(),
        };
        items.into_iter().filter(|item| item.is_selected_by(selector)).collect()
    }

    /// The objects that have `value` in the index `name`.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Listed<T>, NoSuchIndex> {
        Ok(self.indexer.by_index(name, value)?.into_iter().collect())
    }
}

fn decode<T: DeserializeOwned>(item: Item) -> Result<T, ObjectDecodeError> {
    item.decode().map_err(|error| ObjectDecodeError { item, error })
}

impl<T: DeserializeOwned> FromIterator<Item> for Listed<T> {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        items.into_iter().map(decode).collect()
    }
}

impl<T> FromIterator<Result<T, ObjectDecodeError>> for Listed<T> {
    fn from_iter<I: IntoIterator<Item = Result<T, ObjectDecodeError>>>(results: I) -> Self {
        let mut listed = Self { objects: Vec::new(), errors: Vec::new() };
        for result in results {
            match result {
                Ok(object) => listed.objects.push(object),
                Err(decode_error) => listed.errors.push(decode_error),
            }
        }
        for decode_error in &listed.errors {
            tracing::warn!(object = %decode_error.item.key(), error = %decode_error.error, "{decode_error}");
        }
        listed
    }
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self { indexer: Arc::clone(&self.indexer), decoded: Arc::clone(&self.decoded) }
    }
}

impl<T> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lister of {} objects", self.indexer.len())
    }
}
