//! [`Transform`]: changes objects before they are cached, and [`Transformer`], which applies the
//! transforms of an informer and packs the result.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::item::ManagedFields;
use crate::json_dictionary::JsonDictionary;
use crate::pack_queue::PackQueue;
use crate::{Indexer, Item};
use keel::Clock;
use machinery::Object;

/// Unused namespaces are removed when at least this many are known.
const MIN_NAMESPACES_TO_CLEAN: usize = 64;

/// Changes objects before they are cached, for instance to save memory.
#[derive(Clone)]
pub enum Transform {
    /// Removes `metadata.managedFields`, which controllers do not read and which are often half of an
    /// object. If the object is written without them, the server keeps them.
    StripManagedFields,
    /// Changes the object. Name, namespace, uid and resourceVersion should not be changed: the object
    /// is cached under the changed name. An object for which it panics, or that cannot be
    /// [decoded](Item::object), is cached unchanged.
    Custom(Arc<dyn Fn(&mut Object) + Send + Sync>),
}

impl Transform {
    /// See [`Transform::Custom`].
    ///
    /// ```
    /// # use informer::Transform;
    /// let without_data = Transform::custom(|object| drop(object.map_mut().remove("data")));
    /// ```
    pub fn custom(change: impl Fn(&mut Object) + Send + Sync + 'static) -> Self {
        Self::Custom(Arc::new(change))
    }

    fn apply(&self, item: Item) -> Item {
        match self {
            Self::StripManagedFields => {
                let namespace = item.key().namespace().into();
                item.compact(namespace, ManagedFields::Remove)
            }
            Self::Custom(change) => {
                let mut object = match item.object() {
                    Ok(object) => object,
                    Err(error) => {
                        tracing::warn!(object = ?item, %error, "a transform cannot be applied");
                        return item;
                    }
                };
                if catch_unwind(AssertUnwindSafe(|| change(&mut object))).is_err() {
                    tracing::error!(object = ?item, "a transform panicked");
                    return item;
                }
                // An object without a name cannot be cached; the transform is ignored.
                Item::parse(object.to_bytes()).unwrap_or(item)
            }
        }
    }
}

/// The form of cached objects.
///
/// ```
/// # use informer::{InformerOptions, Storage};
/// let fast_reads = InformerOptions { storage: Storage::Plain, ..InformerOptions::default() };
/// # drop(fast_reads);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// The common parts of objects are stored once. This takes a fraction of the memory, and a few
    /// microseconds for each read.
    #[default]
    Packed,
    /// The received bytes.
    Plain,
}

/// Transforms and packs the objects of one informer before they are cached.
#[derive(Default)]
pub(crate) struct Transformer {
    transforms: Vec<Transform>,
    storage: Storage,
    dictionary: Arc<JsonDictionary>,
    pack_queue: Mutex<PackQueue>,
    namespaces: Mutex<Namespaces>,
}

/// The names of namespaces, each of them once in memory.
#[derive(Default)]
struct Namespaces {
    known: HashSet<Arc<str>>,
    /// The number of names at which those without objects are removed.
    cleanup_at: usize,
}

impl Namespaces {
    fn intern(&mut self, namespace: &str) -> Arc<str> {
        if let Some(known) = self.known.get(namespace) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.cleanup_at {
            self.known.retain(|namespace| Arc::strong_count(namespace) > 1);
            self.cleanup_at = MIN_NAMESPACES_TO_CLEAN.max(2 * self.known.len());
        }
        let namespace: Arc<str> = namespace.into();
        self.known.insert(Arc::clone(&namespace));
        namespace
    }
}

impl Transformer {
    /// A transformer that applies `transforms` in this order.
    pub(crate) fn new(transforms: Vec<Transform>, storage: Storage) -> Self {
        Self { transforms, storage, ..Self::default() }
    }

    /// Transforms and packs an item.
    pub(crate) fn transform(&self, item: Item) -> Item {
        let (item, managed_fields) = self.apply_transforms(item);
        let namespace = self.intern(item.namespace());
        match self.storage {
            Storage::Plain => item.compact(namespace, managed_fields),
            Storage::Packed => item.packed(namespace, &self.dictionary, managed_fields),
        }
    }

    /// Transforms an item of an event. It is packed later, if it is still cached then.
    pub(crate) fn transform_unpacked(&self, item: Item, clock: &Clock) -> Item {
        let (item, managed_fields) = self.apply_transforms(item);
        if item.is_shared() {
            return item.with_shared_body(managed_fields);
        }
        let namespace = self.intern(item.namespace());
        let item = item.compact(namespace, managed_fields);
        if self.storage == Storage::Packed && self.pack_queue().push(&item, clock) {
            self.pack_due(clock);
        }
        item
    }

    /// Packs the items of events that are due.
    pub(crate) fn pack_due(&self, clock: &Clock) {
        let due = self.pack_queue().pop_due(clock);
        for item in due {
            item.pack_in_place(&self.dictionary);
        }
    }

    /// Applies the transforms. A [`Transform::StripManagedFields`] at the end is returned as
    /// [`ManagedFields::Remove`] instead, so that the caller removes them in the copy that it makes.
    fn apply_transforms(&self, item: Item) -> (Item, ManagedFields) {
        let (transforms, managed_fields) = match self.transforms.split_last() {
            Some((Transform::StripManagedFields, earlier)) => (earlier, ManagedFields::Remove),
            _ => (self.transforms.as_slice(), ManagedFields::Keep),
        };
        (transforms.iter().fold(item, |item, transform| transform.apply(item)), managed_fields)
    }

    /// Transforms and packs an item, or returns the cached item of the same state.
    pub(crate) fn transform_known(&self, item: Item, indexer: &Indexer) -> Item {
        match indexer.get(item.key()) {
            Some(known) if known.is_same_state(&item) => {
                // With custom transforms, the cached bytes are other ones.
                if item.is_shared() && self.shares_bytes() {
                    known.adopt_shared_bytes(&self.transform(item));
                }
                known
            }
            _ => self.transform(item),
        }
    }

    /// Whether the cached objects may share the bytes of a server in this process.
    fn shares_bytes(&self) -> bool {
        self.transforms.iter().all(|it| matches!(it, Transform::StripManagedFields))
    }

    /// Whether the cached objects have no managedFields, and no custom transform needs them.
    pub(crate) fn only_strips_managed_fields(&self) -> bool {
        !self.transforms.is_empty() && self.shares_bytes()
    }

    fn pack_queue(&self) -> MutexGuard<'_, PackQueue> {
        self.pack_queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn intern(&self, namespace: &str) -> Arc<str> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).intern(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"managedFields":[{"manager":"m"}],"name":"a","resourceVersion":"1"},"spec":{}}"#;

    #[test]
    fn transforms_are_applied_before_caching() {
        let without_spec = Transform::custom(|object| drop(object.map_mut().remove("spec")));
        let transformer =
            Transformer::new(vec![Transform::StripManagedFields, without_spec], Storage::Packed);
        let item = transformer.transform(Item::parse(POD.as_bytes()).unwrap());
        assert_eq!(&*item.json(), br#"{"metadata":{"name":"a","resourceVersion":"1"}}"#);
        assert_eq!(item.resource_version(), "1");
    }

    #[test]
    fn a_transform_that_removes_the_name_is_ignored() {
        let transformer = Transformer::new(
            vec![Transform::custom(|object| drop(object.remove_meta("name")))],
            Storage::Plain,
        );
        assert_eq!(transformer.transform(Item::parse(POD.as_bytes()).unwrap()).name(), "a");
    }

    #[test]
    fn an_object_for_which_a_transform_panics_is_cached_unchanged() {
        let panicking = Transform::custom(|object| assert_eq!(object.name(), "another"));
        let item = Transformer::new(vec![panicking], Storage::Packed)
            .transform(Item::parse(POD.as_bytes()).unwrap());
        assert_eq!(&*item.json(), POD.as_bytes());
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_cached_unchanged() {
        let json = r#"{"metadata":{"name":"a"},"spec":1e999}"#;
        for storage in [Storage::Packed, Storage::Plain] {
            let transformer = Transformer::new(
                vec![Transform::custom(|object| object.map_mut().clear())],
                storage,
            );
            assert_eq!(
                &*transformer.transform(Item::parse(json.as_bytes()).unwrap()).json(),
                json.as_bytes()
            );
        }
    }

    #[test]
    fn namespaces_are_shared_by_their_objects_and_removed_without_objects() {
        let transformer = Transformer::default();
        let transform = |namespace: &str| {
            let json = format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"a"}}}}"#);
            transformer.transform(Item::parse(json.into_bytes()).unwrap())
        };
        let kept: Vec<Item> = (0..100).map(|number| transform(&format!("kept-{number}"))).collect();
        for number in 0..10_000 {
            transform(&format!("left-{number}"));
        }
        assert!(transformer.namespaces.lock().unwrap().known.len() <= 4 * kept.len());
        assert!(std::ptr::eq(transform("kept-0").namespace(), kept[0].namespace()));
    }

    #[test]
    fn a_known_state_is_not_packed_again() {
        let (transformer, indexer) = (Transformer::default(), Indexer::new());
        let first = transformer.transform(Item::parse(POD.as_bytes()).unwrap());
        indexer.insert(first.clone());
        let again = transformer.transform_known(Item::parse(POD.as_bytes()).unwrap(), &indexer);
        assert!(std::ptr::eq(again.key(), first.key()));
    }
}
