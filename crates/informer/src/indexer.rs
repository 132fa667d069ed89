//! [`Indexer`]: the local store of an informer: the last known state of every object, by name, by
//! namespace, or by a custom index.
//!
//! ```
//! use informer::{Indexer, Item};
//! let indexer = Indexer::new();
//! indexer.add_index("node", |item| {
//!     let pod = item.object().unwrap_or_default();
//!     vec![pod.str_at(&["spec", "nodeName"]).to_owned()]
//! });
//! let pod = br#"{"metadata":{"namespace":"n","name":"a"},"spec":{"nodeName":"node-1"}}"#;
//! indexer.insert(Item::parse(pod.as_slice())?);
//! assert_eq!(indexer.by_index("node", "node-1")?[0].name(), "a");
//! assert_eq!(indexer.list_namespace("n").len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A read copies no object, since an [`Item`] is a pointer. The objects of a namespace are in the
//! order of their names.
//!
//! Invariants:
//! - an object is in every index under exactly the values of its present state;
//! - after a write was observed, no read of its key returns an older state;
//! - no index function is called under the lock by a change of an object, so that readers do not wait
//!   for it. The values of the old state are computed again, since they would take more memory than
//!   the objects.

mod index_change;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::de::DeserializeOwned;

use crate::item::compare_versions;
use crate::unconfirmed_writes::{Origin, UnconfirmedWrites};
use crate::{DecodeFailures, Item, ObjectKey};
use index_change::{Index, IndexChange, IndexFunctions};

/// Returns the values of an object in an index. It must return the same values for the same state,
/// and must not read from the indexer, which may be locked meanwhile. An object for which it panics is
/// in the cache but not in the index.
///
/// ```
/// use informer::indexer::IndexFunction;
/// let by_node: IndexFunction = Box::new(|item| {
///     let pod = item.object().unwrap_or_default();
///     vec![pod.str_at(&["spec", "nodeName"]).to_owned()]
/// });
/// # drop(by_node);
/// ```
pub type IndexFunction = Box<dyn Fn(&Item) -> Vec<String> + Send + Sync>;

/// There is no index with this name.
///
/// ```
/// use informer::{Indexer, NoSuchIndex};
/// let missing = Indexer::new().by_index("node", "node-1").unwrap_err();
/// assert_eq!(missing, NoSuchIndex("node".to_owned()));
/// ```
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no index {0:?}: add it to the indexer of this informer (`add_typed_index`)")]
pub struct NoSuchIndex(pub String);

/// See the [module documentation](self).
#[derive(Default)]
pub struct Indexer(RwLock<Store>);

#[derive(Default)]
struct Store {
    objects: BTreeSet<ByKey>,
    indices: BTreeMap<String, Index>,
    /// Those of `indices`, with the same names.
    functions: Arc<IndexFunctions>,
    unconfirmed_writes: UnconfirmedWrites,
}

/// The change of the cache by an event, a list or a write.
#[derive(Debug)]
pub(crate) enum Applied {
    Added(Item),
    Updated { old: Item, new: Item },
    Deleted(Item),
    Nothing,
}

impl Indexer {
    /// An empty store that finds objects by name and namespace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an index of all objects, or replaces the one with this name.
    pub fn add_index(
        &self,
        name: &str,
        values_of: impl Fn(&Item) -> Vec<String> + Send + Sync + 'static,
    ) {
        let values_of: IndexFunction = Box::new(values_of);
        let mut store = self.write();
        let mut index = Index::default();
        for ByKey(item) in &store.objects {
            index.insert(item, index_change::values(&values_of, item));
        }
        store.indices.insert(name.to_owned(), index);
        let mut functions = IndexFunctions::clone(&store.functions);
        functions.insert(name.to_owned(), Arc::new(values_of));
        store.functions = Arc::new(functions);
    }

    /// Adds an index of all objects unless there is one with this name.
    ///
    /// ```
    /// # use informer::Indexer;
    /// let indexer = Indexer::new();
    /// indexer.ensure_index("name", |item| vec![item.name().to_owned()]);
    /// indexer.ensure_index("name", |_| unreachable!("the first one stays"));
    /// assert!(indexer.by_index("name", "a").is_ok());
    /// ```
    pub fn ensure_index(
        &self,
        name: &str,
        values_of: impl Fn(&Item) -> Vec<String> + Send + Sync + 'static,
    ) {
        // Two callers at once may both add it, which changes nothing for readers.
        if !self.read().indices.contains_key(name) {
            self.add_index(name, values_of);
        }
    }

    /// Adds an index of objects of a Rust type. An object that does not decode is logged as a warning,
    /// once, and is not in the index.
    ///
    /// ```
    /// # use informer::{Indexer, Item};
    /// #[derive(serde::Deserialize)]
    /// struct Pod { spec: Spec }
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct Spec { node_name: String }
    ///
    /// let indexer = Indexer::new();
    /// indexer.add_typed_index("node", |pod: &Pod| vec![pod.spec.node_name.clone()]);
    /// # let pod = br#"{"metadata":{"namespace":"n","name":"a"},"spec":{"nodeName":"node-1"}}"#;
    /// # indexer.insert(Item::parse(pod.as_slice())?);
    /// assert_eq!(indexer.by_index("node", "node-1")?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_typed_index<T: DeserializeOwned>(
        &self,
        name: &str,
        values_of: impl Fn(&T) -> Vec<String> + Send + Sync + 'static,
    ) {
        let failures = DecodeFailures::new(&format!("the index {name:?}"));
        self.add_index(name, move |item| {
            failures.decode(item).map(|object| values_of(&object)).unwrap_or_default()
        });
    }

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Item> {
        self.read().objects.get(key).map(|ByKey(item)| item.clone())
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Item> {
        self.read().objects.iter().map(|ByKey(item)| item.clone()).collect()
    }

    /// The objects of one namespace, by name.
    pub fn list_namespace(&self, namespace: &str) -> Vec<Item> {
        let store = self.read();
        let from = store.objects.range::<ObjectKey, _>(ObjectKey::new(namespace, "")..);
        let here = from.take_while(|ByKey(item)| item.namespace() == namespace);
        here.map(|ByKey(item)| item.clone()).collect()
    }

    /// The objects that have `value` in the index `name`.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Item>, NoSuchIndex> {
        let store = self.read();
        let index = store.indices.get(name).ok_or_else(|| NoSuchIndex(name.to_owned()))?;
        Ok(index.items(value).map(|ByKey(item)| item.clone()).collect())
    }

    /// The values of all objects in the index `name`, sorted.
    pub fn index_values(&self, name: &str) -> Result<Vec<String>, NoSuchIndex> {
        let store = self.read();
        let index = store.indices.get(name).ok_or_else(|| NoSuchIndex(name.to_owned()))?;
        let mut values: Vec<String> = index.values().map(str::to_owned).collect();
        values.sort_unstable();
        Ok(values)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts an object, and returns the state that it replaces.
    #[allow(clippy::needless_pass_by_value, reason = "the indexer keeps the item")]
    pub fn insert(&self, item: Item) -> Option<Item> {
        let (mut store, change) = self.write_indexed(item.key(), Some(&item));
        let replaced = store.insert(&item, change);
        drop(store);
        replaced
    }

    /// Removes an object, and returns its last state.
    pub fn remove(&self, key: &ObjectKey) -> Option<Item> {
        let (mut store, change) = self.write_indexed(key, None);
        store.remove(key, change)
    }

    /// Applies the object that a successful write returned: from now on reads of its key return this
    /// state or a newer one, and older events of the watch are ignored.
    pub(crate) fn apply_write(&self, item: Item) -> Applied {
        let (mut store, change) = self.write_state(&item);
        if !store.accepts_write(&item) {
            return Applied::Nothing;
        }
        store.unconfirmed_writes.record_write(&item);
        store.put(item, change)
    }

    /// Applies a write after which the object is out of scope.
    pub(crate) fn apply_write_out_of_scope(&self, item: Item) -> Applied {
        let (mut store, change) = self.write_indexed(item.key(), None);
        if !store.accepts_write(&item) {
            return Applied::Nothing;
        }
        store.unconfirmed_writes.record_write(&item);
        store.remove(item.key(), change).map_or(Applied::Nothing, |_| Applied::Deleted(item))
    }

    /// Applies the deletion of this object by a successful write. If the object still exists because
    /// of finalizers, the response is passed to [`apply_write`](Self::apply_write) instead.
    pub(crate) fn apply_deletion(&self, key: &ObjectKey, uid: &str) -> Applied {
        let (mut store, change) = self.write_indexed(key, None);
        let last = store.get(key).cloned();
        // The events of an object that is not cached may still arrive.
        if uid.is_empty() || last.as_ref().is_some_and(|last| last.uid() != uid) {
            return Applied::Nothing;
        }
        store.unconfirmed_writes.record_deletion(key, uid, last.as_ref());
        store.remove(key, change).map_or(Applied::Nothing, Applied::Deleted)
    }

    /// Applies a state from an event or a list.
    pub(crate) fn apply_state(&self, item: Item, origin: Origin) -> Applied {
        let (mut store, change) = self.write_state(&item);
        if !store.unconfirmed_writes.accepts_state(&item, origin) {
            return Applied::Nothing;
        }
        store.put(item, change)
    }

    /// Applies the deletion of an object by an event, or by a list that does not contain it. `last`
    /// is the last state in the event, or the last state that is known.
    pub(crate) fn apply_removal(&self, last: Item, origin: Origin) -> Applied {
        let (mut store, change) = self.write_indexed(last.key(), None);
        if !store.unconfirmed_writes.accepts_removal(&last, origin) {
            return Applied::Nothing;
        }
        let removed = store.remove(last.key(), change);
        removed.map_or(Applied::Nothing, |cached| match origin {
            Origin::Watch => Applied::Deleted(last),
            Origin::List => Applied::Deleted(cached),
        })
    }

    /// A list is about to be requested.
    pub(crate) fn begin_list(&self) {
        self.write().unconfirmed_writes.begin_list();
    }

    /// The list has arrived. Forgets the own writes that it shows, but for those whose events are
    /// queued.
    pub(crate) fn end_list(&self, version: Option<u64>, is_queued: impl Fn(&ObjectKey) -> bool) {
        self.write().unconfirmed_writes.end_list(version, is_queued);
    }

    /// Forgets the own writes that the watch has passed, whose last resourceVersion is `reached`.
    pub(crate) fn forget_passed_writes(
        &self,
        reached: Option<u64>,
        is_queued: impl Fn(&ObjectKey) -> bool,
    ) {
        self.write().unconfirmed_writes.forget_passed(reached, is_queued);
    }

    fn read(&self) -> RwLockReadGuard<'_, Store> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the store for the state of an event, a list or a write. Nothing is computed for a state that
    /// is cached already.
    fn write_state(&self, item: &Item) -> (RwLockWriteGuard<'_, Store>, IndexChange) {
        let is_cached =
            |store: &Store| store.get(item.key()).is_some_and(|known| known.is_same_state(item));
        self.write_unless(is_cached, item.key(), Some(item))
    }

    /// Locks the store for a change of the object with this key to the state `new`, or its removal.
    fn write_indexed(
        &self,
        key: &ObjectKey,
        new: Option<&Item>,
    ) -> (RwLockWriteGuard<'_, Store>, IndexChange) {
        self.write_unless(|_| false, key, new)
    }

    /// The change of the indices is computed without the lock, unless it is not needed.
    fn write_unless(
        &self,
        is_unneeded: impl Fn(&Store) -> bool,
        key: &ObjectKey,
        new: Option<&Item>,
    ) -> (RwLockWriteGuard<'_, Store>, IndexChange) {
        let mut change = IndexChange::default();
        loop {
            let store = self.write();
            let old = store.get(key);
            if store.indices.is_empty()
                || old.is_none() && new.is_none()
                || change.is_from(&store.functions, old)
                || is_unneeded(&store)
            {
                return (store, change);
            }
            // Another writer may change the object before the next round.
            let (functions, old) = (Arc::clone(&store.functions), old.cloned());
            drop(store);
            change = IndexChange::compute(functions, old, new);
        }
    }
}

impl Store {
    /// Whether the response to a write is at least as new as the cached state.
    fn accepts_write(&mut self, item: &Item) -> bool {
        let is_newer = |ByKey(known): &ByKey| {
            compare_versions(known.resource_version(), item.resource_version())
                == Some(Ordering::Greater)
        };
        !self.objects.get(item.key()).is_some_and(is_newer)
            && self.unconfirmed_writes.accepts_state(item, Origin::Watch)
    }

    fn get(&self, key: &ObjectKey) -> Option<&Item> {
        self.objects.get(key).map(|ByKey(item)| item)
    }

    fn put(&mut self, item: Item, change: IndexChange) -> Applied {
        if let Some(known) = self.get(item.key()).filter(|known| known.is_same_state(&item)) {
            // Keeps the item that readers may share.
            known.adopt_shared_bytes(&item);
            return Applied::Nothing;
        }
        match self.insert(&item, change) {
            Some(old) => Applied::Updated { old, new: item },
            None => Applied::Added(item),
        }
    }

    fn insert(&mut self, item: &Item, change: IndexChange) -> Option<Item> {
        let old = self.objects.replace(ByKey(item.clone())).map(|ByKey(old)| old);
        change.apply(&mut self.indices, item.key(), Some(item));
        old
    }

    fn remove(&mut self, key: &ObjectKey, change: IndexChange) -> Option<Item> {
        let ByKey(old) = self.objects.take(key)?;
        change.apply(&mut self.indices, key, None);
        Some(old)
    }
}

/// An item that is ordered by its key, so that a set of items is a map from keys to items.
struct ByKey(Item);

impl Borrow<ObjectKey> for ByKey {
    fn borrow(&self) -> &ObjectKey {
        self.0.key()
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

#[cfg(test)]
mod tests;
