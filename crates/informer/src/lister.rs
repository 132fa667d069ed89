//! [`Lister`]: typed reads from an indexer. Objects are decoded when they are read, into a type
//! that need not name more than the reader wants.
//!
//! ```
//! # use {informer::{Indexer, Item}, std::sync::Arc};
//! use informer::{Listed, Lister, Misfit};
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
//! let Listed { objects, misfits } = lister.list_namespace("n");
//! assert_eq!(objects[0].spec.size, 3);
//! let Misfit { item, error } = &misfits[0]; // reported, and the rest is there
//! assert_eq!(item.name(), "b");
//! assert!(error.to_string().contains("expected u32"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{fmt, sync::Arc};

use machinery::selector::LabelSelector;
use serde::de::DeserializeOwned;

use crate::{
    Indexer, Item, NoSuchIndex, ObjectKey,
    decoded::{DEFAULT_BUDGET, Decoded},
};

/// See the [module documentation](self). Clones share what [`shared`](Self::shared) keeps.
pub struct Lister<T> {
    indexer: Arc<Indexer>,
    decoded: Arc<Decoded<T>>,
}

/// What a list gave: the objects that fit the type, and those that do not.
#[derive(Debug)]
pub struct Listed<T> {
    /// In the order of namespaces and names.
    pub objects: Vec<T>,
    /// As they are, with the reason.
    pub misfits: Vec<Misfit>,
}

/// An object that does not fit the type it was read as.
#[derive(Debug, thiserror::Error)]
#[error("{} does not fit the type", .item.key())]
pub struct Misfit {
    /// The object, raw.
    pub item: Item,
    /// What does not fit.
    #[source]
    pub error: serde_json::Error,
}

impl<T> Lister<T> {
    /// Reads from `indexer`.
    pub fn new(indexer: Arc<Indexer>) -> Self {
        Self { indexer, decoded: Arc::new(Decoded::new(DEFAULT_BUDGET)) }
    }

    /// The indexer, for reads without decoding.
    pub fn indexer(&self) -> &Arc<Indexer> {
        &self.indexer
    }
}

impl<T: DeserializeOwned> Lister<T> {
    /// The object with this name; the namespace is empty for objects that have none.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<T>, Misfit> {
        self.get_key(&ObjectKey::new(namespace, name))
    }

    /// The object with this key.
    pub fn get_key(&self, key: &ObjectKey) -> Result<Option<T>, Misfit> {
        self.indexer.get(key).map(decode).transpose()
    }

    /// The object with this name, to be read and not changed. A state that is read a second time is
    /// kept decoded, and then handed to all who ask, for as long as it stays and there is room.
    ///
    /// The room is 32 MiB, counted by JSON; of what does not fit, those read least lately are decoded
    /// again.
    pub fn shared(&self, namespace: &str, name: &str) -> Result<Option<Arc<T>>, Misfit> {
        self.shared_key(&ObjectKey::new(namespace, name))
    }

    /// The object with this key, as [`shared`](Self::shared) gives it.
    pub fn shared_key(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, Misfit> {
        let Some(item) = self.indexer.get(key) else {
            self.decoded.forget(key);
            return Ok(None);
        };
        if !item.note_reading() {
            self.decoded.forget(key);
            return decode(item).map(|object| Some(Arc::new(object)));
        }
        if let Some(object) = self.decoded.get(&item) {
            return Ok(Some(object));
        }
        match item.measure_and_decode() {
            (length, Ok(object)) => Ok(Some(self.decoded.keep(&item, length, object))),
            (_, Err(error)) => Err(Misfit { item, error }),
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

    /// The objects with certain labels, in one namespace or (None) in all.
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

fn decode<T: DeserializeOwned>(item: Item) -> Result<T, Misfit> {
    item.decode().map_err(|error| Misfit { item, error })
}

impl<T: DeserializeOwned> FromIterator<Item> for Listed<T> {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let mut listed = Self { objects: Vec::new(), misfits: Vec::new() };
        for item in items {
            match decode(item) {
                Ok(object) => listed.objects.push(object),
                Err(misfit) => listed.misfits.push(misfit),
            }
        }
        for misfit in &listed.misfits {
            tracing::warn!(object = %misfit.item.key(), error = %misfit.error, "{misfit}");
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
