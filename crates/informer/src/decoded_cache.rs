//! [`DecodedCache`]: decoded objects, so that repeated reads of one state are decoded once.
//!
//! ```text
//! read a@7    decoded, not cached: most states are read once, by the reconcile that they cause
//! read a@7    decoded, cached          a@7 ──▶ Arc<T>
//! read a@7    the same Arc             a@7 ──▶ Arc<T>   used
//! a changes   no effect
//! read a@8    decoded, not cached
//! ```
//!
//! The [`Item`] remembers whether its state was read before.
//!
//! Entries are evicted by the CLOCK algorithm: a hand moves over the entries, and takes the first one
//! that was not used since its last round.
//!
//! Invariants:
//! - an object is returned only for the state that it was decoded from;
//! - there is one entry per key, and `places` holds the index of each entry;
//! - `bytes` is the sum of the entries' sizes, and never more than the budget;
//! - no `T` is decoded or dropped under the lock, since both run code of the type;
//! - no entry keeps its state in memory. An insertion moves the hand over two entries and removes
//!   those whose state was dropped, so that deleted objects leave the cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::item::WeakItem;
use crate::{Item, ObjectKey};

/// Enough for 10,000 objects of 1 KiB with which a controller is busy; too little for a whole large
/// cache, so that the memory saved by packing stays saved.
pub(crate) const DEFAULT_BUDGET: usize = 32 << 20;

/// See the [module documentation](self).
pub(crate) struct DecodedCache<T> {
    budget: usize,
    entries: Mutex<DecodedEntries<T>>,
}

struct DecodedEntries<T> {
    entries: Vec<Entry<T>>,
    places: HashMap<ObjectKey, usize>,
    bytes: usize,
    /// The index of the entry that is checked next.
    hand: usize,
}

struct Entry<T> {
    key: ObjectKey,
    state: WeakItem,
    object: Arc<T>,
    size: usize,
    is_used: bool,
}

impl<T> DecodedCache<T> {
    /// A cache of objects of `budget` bytes in total; see [`insert`](Self::insert).
    pub(crate) fn new(budget: usize) -> Self {
        let entries =
            DecodedEntries { entries: Vec::new(), places: HashMap::new(), bytes: 0, hand: 0 };
        Self { budget, entries: Mutex::new(entries) }
    }

    /// The decoded object of this state.
    pub(crate) fn get(&self, item: &Item) -> Option<Arc<T>> {
        self.lock().find(item)
    }

    /// Inserts the decoded object of `item`, whose JSON has this length. Returns the cached object:
    /// if two readers have decoded the same state, both get the first object.
    ///
    /// The size of an object is the length of its JSON, as an estimate of its heap memory, its own
    /// size, and that of its entry.
    pub(crate) fn insert(&self, item: &Item, json_length: usize, object: T) -> Arc<T> {
        let size = json_length + size_of::<T>() + size_of::<Entry<T>>();
        let object = Arc::new(object);
        let mut removed = Vec::new();
        let mut entries = self.lock();
        if let Some(first) = entries.find(item) {
            drop(entries);
            return first;
        }
        removed.extend(entries.remove(item.key()));
        removed.extend(entries.sweep());
        removed.extend(entries.sweep());
        // An object that exceeds the budget is not cached.
        if size <= self.budget {
            while entries.bytes + size > self.budget {
                removed.push(entries.evict());
            }
            entries.push(Entry {
                key: item.key().clone(),
                state: item.downgrade(),
                object: Arc::clone(&object),
                size,
                is_used: false,
            });
        }
        drop(entries);
        drop(removed);
        object
    }

    /// Removes an object.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        let removed = self.lock().remove(key);
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, DecodedEntries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> DecodedEntries<T> {
    fn find(&mut self, item: &Item) -> Option<Arc<T>> {
        let entry = &mut self.entries[*self.places.get(item.key())?];
        if !entry.state.points_to(item) {
            return None;
        }
        entry.is_used = true;
        Some(Arc::clone(&entry.object))
    }

    fn push(&mut self, entry: Entry<T>) {
        self.bytes += entry.size;
        self.places.insert(entry.key.clone(), self.entries.len());
        self.entries.push(entry);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        let place = *self.places.get(key)?;
        Some(self.remove_at(place))
    }

    /// The last entry moves to the freed index.
    fn remove_at(&mut self, place: usize) -> Arc<T> {
        let removed = self.entries.swap_remove(place);
        self.places.remove(&removed.key);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(moved.key.clone(), place);
        }
        self.bytes -= removed.size;
        removed.object
    }

    /// Removes the entry at the hand if its state was dropped, and otherwise moves the hand.
    fn sweep(&mut self) -> Option<Arc<T>> {
        if self.entries.is_empty() {
            return None;
        }
        self.hand %= self.entries.len();
        if self.entries[self.hand].state.is_dropped() {
            return Some(self.remove_at(self.hand));
        }
        self.hand += 1;
        None
    }

    /// Removes the next entry that was not used. There must be an entry; the second round finds one
    /// at the latest.
    fn evict(&mut self) -> Arc<T> {
        loop {
            self.hand %= self.entries.len();
            let entry = &mut self.entries[self.hand];
            if !entry.is_used || entry.state.is_dropped() {
                return self.remove_at(self.hand);
            }
            entry.is_used = false;
            self.hand += 1;
        }
    }
}

#[cfg(test)]
mod tests;
