//! [`DeltaFifo`]: a queue of the changes of objects, grouped by object.
//!
//! One entry per object holds all changes of the object since the entry was last popped; entries
//! leave in the order of their first change.
//!
//! ```text
//! add(a) add(b) update(a)      queue: a b      a → [Added, Updated]   b → [Added]
//! pop()  = a, [Added, Updated] queue: b        one call for all changes of `a`
//! ```
//!
//! It is a [`ReflectorStore`]. A consumer pops its entries and keeps an indexer up to date. The queue
//! compares each list with the indexer to find the objects that were deleted:
//!
//! ```
//! use std::sync::Arc;
//! use informer::{BadItem, Delta, DeltaFifo, Indexer, Item, Transaction};
//!
//! fn pod(name: &str) -> Result<Item, BadItem> {
//!     Item::parse(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#))
//! }
//!
//! let indexer = Arc::new(Indexer::new());
//! let fifo = DeltaFifo::new(&indexer);
//! let process = |deltas: Vec<Delta>| {
//!     for delta in deltas {
//!         match delta {
//!             Delta::Added(item) | Delta::Updated(item) | Delta::Replaced(item) => {
//!                 indexer.insert(item);
//!             }
//!             Delta::Deleted(item) | Delta::DeletedFinalStateUnknown(item) => {
//!                 indexer.remove(item.key());
//!             }
//!             Delta::Sync(..) => {}
//!         }
//!     }
//! };
//! fifo.replace(vec![pod("a")?, pod("b")?], "7");
//! fifo.apply(vec![Transaction::Update(pod("a")?)]);
//! assert!(fifo.pop(|deltas| {
//!     assert!(matches!(deltas.as_slice(), [Delta::Replaced(_), Delta::Updated(_)]));
//!     process(deltas);
//! }));
//! assert!(fifo.pop(process) && fifo.has_synced());
//!
//! fifo.replace(vec![pod("b")?], "9");
//! while fifo.pop(process) {}
//! assert_eq!(indexer.len(), 1, "the deletion of a was found by the list");
//! # Ok::<(), BadItem>(())
//! ```
//!
//! Invariants:
//! - a key is in `order` exactly once if and only if `deltas` holds a non-empty list for it;
//! - two deletions of one object never follow each other: the one that was watched stays, or else
//!   the later one;
//! - a list of deltas that grows past [`MAX_DELTAS`] keeps only the last of its updates, so the
//!   queue is bounded by the number of objects;
//! - all changes up to `version` are in the indexer or wait here.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::event_handler::HandlerId;
use crate::item::version_number;
use crate::{Indexer, Item, ObjectKey, ReflectorStore, Transaction};

/// The number of deltas of one object from which on updates are merged.
pub(crate) const MAX_DELTAS: usize = 16;

/// A change of an object, with its state after the change.
#[derive(Debug, Clone)]
pub enum Delta {
    /// A watch has shown that the object was created, or came into scope.
    Added(Item),
    /// A watch has shown that the object was changed.
    Updated(Item),
    /// A watch has shown that the object was deleted, or left the scope. This is its last state.
    Deleted(Item),
    /// A list has shown this state, which may be the known one.
    Replaced(Item),
    /// A list does not contain the object any more. This is the last known state, which may be
    /// older than the last state of the object.
    DeletedFinalStateUnknown(Item),
    /// The object was not changed. This handler of an informer gets a resync.
    Sync(Item, HandlerId),
}

impl Delta {
    /// The object.
    pub fn item(&self) -> &Item {
        match self {
            Self::Added(item)
            | Self::Updated(item)
            | Self::Deleted(item)
            | Self::Replaced(item)
            | Self::DeletedFinalStateUnknown(item)
            | Self::Sync(item, _) => item,
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Self::Deleted(_) | Self::DeletedFinalStateUnknown(_))
    }
}

impl From<Transaction<Item>> for Delta {
    fn from(transaction: Transaction<Item>) -> Self {
        match transaction {
            Transaction::Add(item) => Self::Added(item),
            Transaction::Update(item) => Self::Updated(item),
            Transaction::Delete(item) => Self::Deleted(item),
        }
    }
}

/// See the [module documentation](self).
pub struct DeltaFifo {
    /// The objects known to the consumer.
    known_objects: Arc<Indexer>,
    /// Locked before the indexer.
    queue: Mutex<Queue>,
    added: Notify,
}

/// The content of a [`DeltaFifo`] while its lock is held.
#[derive(Default)]
pub(crate) struct Queue {
    order: VecDeque<ObjectKey>,
    deltas: HashMap<ObjectKey, Vec<Delta>>,
    /// The number of entries left to pop until the first list was popped; `None` before that list.
    initial_population_count: Option<usize>,
    /// The last resourceVersion that was put in, if it is a number.
    version: Option<u64>,
}

impl DeltaFifo {
    /// An empty queue, whose consumer keeps `known_objects` up to date.
    pub fn new(known_objects: &Arc<Indexer>) -> Self {
        Self {
            known_objects: Arc::clone(known_objects),
            queue: Mutex::default(),
            added: Notify::new(),
        }
    }

    /// Appends changes that a watch has shown.
    pub fn apply(&self, transactions: impl IntoIterator<Item = Transaction<Item>>) {
        let mut queue = self.lock();
        for transaction in transactions {
            let delta = Delta::from(transaction);
            queue.set_version(delta.item().resource_version());
            queue.push(delta);
        }
        drop(queue);
        self.added.notify_one();
    }

    /// Appends a whole list, and the deletion of every known object that is not in it.
    pub fn replace(&self, items: Vec<Item>, resource_version: &str) {
        let version = version_number(resource_version);
        let mut queue = self.lock();
        queue.version = version.or(queue.version);
        let missing = queue.missing(&items, self.known_objects.list());
        for item in items {
            queue.push(Delta::Replaced(item));
        }
        // All entries that wait now leave before those that are added later.
        let listed = queue.order.len();
        queue.initial_population_count.get_or_insert(listed);
        for item in missing {
            queue.push(Delta::DeletedFinalStateUnknown(item));
        }
        self.known_objects.end_list(version, |key| queue.deltas.contains_key(key));
        drop(queue);
        self.added.notify_one();
    }

    /// Takes the oldest entry and calls `process` with its deltas, while the queue is locked, so that
    /// every known object is always either queued or in the indexer. Returns false if the queue is empty.
    pub fn pop(&self, process: impl FnOnce(Vec<Delta>)) -> bool {
        let mut queue = self.lock();
        let Some(key) = queue.order.pop_front() else { return false };
        process(queue.deltas.remove(&key).expect("a queued key has deltas"));
        if let Some(count) = &mut queue.initial_population_count {
            *count = count.saturating_sub(1);
        }
        true
    }

    /// Waits until there is an entry to pop. For one consumer.
    pub async fn wait_for_entry(&self) {
        while self.lock().order.is_empty() {
            self.added.notified().await;
        }
    }

    /// Whether the whole first list was popped.
    pub fn has_synced(&self) -> bool {
        self.lock().initial_population_count == Some(0)
    }

    /// Notes that all changes up to `version` were put in.
    pub(crate) fn set_version(&self, version: &str) {
        self.lock().set_version(version);
    }

    /// Calls `act` while the queue is locked: nothing is put in or taken out meanwhile.
    pub(crate) fn with_lock<T>(&self, act: impl FnOnce(&Queue) -> T) -> T {
        act(&self.lock())
    }

    /// Appends a resync of `item`, unless the handler will be notified of a waiting delta anyway.
    pub(crate) fn sync(&self, item: Item, handler: HandlerId) {
        let mut queue = self.lock();
        let deltas = queue.deltas.get(item.key());
        let notifies = |delta: &Delta| !matches!(delta, Delta::Sync(_, other) if *other != handler);
        if !deltas.is_some_and(|deltas| deltas.iter().any(notifies)) {
            queue.push(Delta::Sync(item, handler));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReflectorStore<Item> for DeltaFifo {
    fn replace<'a>(&'a self, items: Vec<Item>, resource_version: &'a str) -> BoxFuture<'a, ()> {
        self.replace(items, resource_version);
        Box::pin(async {})
    }

    fn apply(&self, transactions: Vec<Transaction<Item>>) {
        self.apply(transactions);
    }

    fn bookmark(&self, resource_version: &str) {
        self.set_version(resource_version);
    }

    fn begin_list(&self) {
        self.known_objects.begin_list();
    }
}

impl Queue {
    /// The last resourceVersion that was put in, if it is a number.
    pub(crate) fn version(&self) -> Option<u64> {
        self.version
    }

    /// Whether a change of this object waits.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.deltas.contains_key(key)
    }

    /// Whether all changes up to this state of an object were put in and popped.
    pub(crate) fn has_passed(&self, item: &Item) -> bool {
        let version = version_number(item.resource_version());
        let is_put_in = version.zip(self.version).is_some_and(|(own, last)| own <= last);
        is_put_in && !self.contains(item.key())
    }

    fn set_version(&mut self, version: &str) {
        self.version = version_number(version).or(self.version);
    }

    /// The last states of the objects that are not in `list`, but are known or queued and not
    /// deleted; in the order of their keys.
    fn missing(&self, list: &[Item], known: Vec<Item>) -> Vec<Item> {
        if known.is_empty() && self.deltas.is_empty() {
            return Vec::new();
        }
        let listed: HashSet<&ObjectKey> = list.iter().map(Item::key).collect();
        let known = known.into_iter().map(|item| (item.key().clone(), item));
        let mut missing: BTreeMap<ObjectKey, Item> =
            known.filter(|(key, _)| !listed.contains(key)).collect();
        for (key, deltas) in self.deltas.iter().filter(|(key, _)| !listed.contains(key)) {
            let last = deltas.last().expect("a queued key has deltas");
            // A queued change is newer than the state in the indexer.
            if last.is_deletion() {
                missing.remove(key);
            } else {
                missing.insert(key.clone(), last.item().clone());
            }
        }
        missing.into_values().collect()
    }

    fn push(&mut self, delta: Delta) {
        let key = delta.item().key();
        let Some(deltas) = self.deltas.get_mut(key) else {
            self.order.push_back(key.clone());
            self.deltas.insert(key.clone(), vec![delta]);
            return;
        };
        let last = deltas.last_mut().expect("a queued key has deltas");
        if last.is_deletion() && delta.is_deletion() {
            // A watch knows the last state, a list does not.
            let keeps_last =
                matches!((&*last, &delta), (Delta::Deleted(_), Delta::DeletedFinalStateUnknown(_)));
            if !keeps_last {
                *last = delta;
            }
            return;
        }
        if deltas.len() >= MAX_DELTAS
            && let (Some(Delta::Updated(last)), Delta::Updated(item)) = (deltas.last_mut(), &delta)
        {
            *last = item.clone();
            return;
        }
        deltas.push(delta);
    }
}

#[cfg(test)]
mod tests;
