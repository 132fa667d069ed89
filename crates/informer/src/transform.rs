//! [`Transform`]: changes objects before they are cached, and [`Transformer`], which applies the
//! transforms of an informer and packs the result.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keel::Clock;
use machinery::Object;

use crate::{Indexer, Item, item::ManagedFields, json_dictionary::JsonDictionary, recent::Recent};

/// So many names of namespaces are not worth looking at.
const FEW_NAMESPACES: usize = 64;

/// Changes objects before they are cached, so that what nobody reads takes no memory.
#[derive(Clone)]
pub enum Transform {
    /// Takes out `metadata.managedFields`, which controllers do not read and which are often half of
    /// an object. An object that is written back without them keeps them: servers see to that.
    StripManagedFields,
    /// Changes the object. Name, namespace, uid and resourceVersion should be left alone: whoever
    /// changes them gets the object under the new name. An object on which it panics, or that
    /// cannot be [read](Item::object), is cached as it came.
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
                item.compact(namespace, ManagedFields::Left)
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
                // A transform that leaves no name behind has not made an object.
                Item::parse(object.to_bytes()).unwrap_or(item)
            }
        }
    }
}

/// How objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// What objects have in common is kept once: a fraction of the memory, and a few microseconds
    /// for each read.
    #[default]
    Packed,
    /// The bytes as they came.
    Plain,
}

/// Makes the form in which the objects of one informer are cached.
#[derive(Default)]
pub(crate) struct Transformer {
    transforms: Vec<Transform>,
    storage: Storage,
    dictionary: Arc<JsonDictionary>,
    recent: Mutex<Recent>,
    namespaces: Mutex<Namespaces>,
}

/// The names of namespaces, each of them once.
#[derive(Default)]
struct Namespaces {
    known: HashSet<Arc<str>>,
    /// With so many, those that no object is in any more are looked for.
    many: usize,
}

impl Namespaces {
    fn shared(&mut self, namespace: &str) -> Arc<str> {
        if let Some(known) = self.known.get(namespace) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.many {
            self.known.retain(|namespace| Arc::strong_count(namespace) > 1);
            self.many = FEW_NAMESPACES.max(2 * self.known.len());
        }
        let namespace: Arc<str> = namespace.into();
        self.known.insert(Arc::clone(&namespace));
        namespace
    }
}

impl Transformer {
    /// Applies `transforms` in this order.
    pub(crate) fn new(transforms: Vec<Transform>, storage: Storage) -> Self {
        Self { transforms, storage, ..Self::default() }
    }

    /// The form in which `item` is to be cached.
    pub(crate) fn transform(&self, item: Item) -> Item {
        let (item, managed_fields) = self.apply_transforms(item);
        let namespace = self.shared(item.namespace());
        match self.storage {
            Storage::Plain => item.compact(namespace, managed_fields),
            Storage::Packed => item.packed(namespace, &self.dictionary, managed_fields),
        }
    }

    /// The same for what has just happened: it is packed later, if it is still there then.
    pub(crate) fn transform_recent(&self, item: Item, clock: &Clock) -> Item {
        let (item, managed_fields) = self.apply_transforms(item);
        let namespace = self.shared(item.namespace());
        let item = item.compact(namespace, managed_fields);
        if self.storage == Storage::Packed && self.recent().note(&item, clock) {
            self.settle(clock);
        }
        item
    }

    /// Packs what was recent and is not any more.
    pub(crate) fn settle(&self, clock: &Clock) {
        let settled = self.recent().take_settled(clock);
        for item in settled {
            item.settle(&self.dictionary);
        }
    }

    /// Applies all transforms but the last one if that only leaves something out, which need not be
    /// copied before the rest is.
    fn apply_transforms(&self, item: Item) -> (Item, ManagedFields) {
        let (transforms, managed_fields) = match self.transforms.split_last() {
            Some((Transform::StripManagedFields, earlier)) => (earlier, ManagedFields::Left),
            _ => (self.transforms.as_slice(), ManagedFields::Kept),
        };
        (transforms.iter().fold(item, |item, transform| transform.apply(item)), managed_fields)
    }

    /// The same, but what is cached is not made again.
    pub(crate) fn transform_known(&self, item: Item, indexer: &Indexer) -> Item {
        match indexer.get(item.key()) {
            Some(known) if known.is_same_state(&item) => known,
            _ => self.transform(item),
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self, namespace: &str) -> Arc<str> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).shared(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"managedFields":[{"manager":"m"}],"name":"a","resourceVersion":"1"},"spec":{}}"#;

    #[test]
    fn transforms_come_before_caching() {
        let marked = Transform::custom(|object| drop(object.map_mut().remove("spec")));
        let transformer =
            Transformer::new(vec![Transform::StripManagedFields, marked], Storage::Packed);
        let item = transformer.transform(Item::parse(POD.as_bytes()).unwrap());
        assert_eq!(&*item.json(), br#"{"metadata":{"name":"a","resourceVersion":"1"}}"#);
        assert_eq!(item.resource_version(), "1");
    }

    #[test]
    fn a_transform_that_takes_the_name_is_ignored() {
        let transformer = Transformer::new(
            vec![Transform::custom(|object| drop(object.remove_meta("name")))],
            Storage::Plain,
        );
        assert_eq!(transformer.transform(Item::parse(POD.as_bytes()).unwrap()).name(), "a");
    }

    #[test]
    fn an_object_on_which_a_transform_panics_is_cached_as_it_came() {
        let clumsy = Transform::custom(|object| assert_eq!(object.name(), "another"));
        let item = Transformer::new(vec![clumsy], Storage::Packed)
            .transform(Item::parse(POD.as_bytes()).unwrap());
        assert_eq!(&*item.json(), POD.as_bytes());
    }

    #[test]
    fn an_object_that_no_transform_can_read_is_cached_as_it_came() {
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
    fn namespaces_are_shared_by_their_objects_and_not_kept_without_any() {
        let transformer = Transformer::default();
        let admit = |namespace: &str| {
            let json = format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"a"}}}}"#);
            transformer.transform(Item::parse(json.into_bytes()).unwrap())
        };
        let kept: Vec<Item> = (0..100).map(|number| admit(&format!("kept-{number}"))).collect();
        for number in 0..10_000 {
            admit(&format!("left-{number}"));
        }
        assert!(transformer.namespaces.lock().unwrap().known.len() <= 4 * kept.len());
        assert!(std::ptr::eq(admit("kept-0").namespace(), kept[0].namespace()));
    }

    #[test]
    fn a_known_state_is_not_made_again() {
        let (transformer, indexer) = (Transformer::default(), Indexer::new());
        let first = transformer.transform(Item::parse(POD.as_bytes()).unwrap());
        indexer.insert(first.clone());
        let again = transformer.transform_known(Item::parse(POD.as_bytes()).unwrap(), &indexer);
        assert!(std::ptr::eq(again.key(), first.key()));
    }
}
