//! [`Decoded`]: objects that were read as a `T` and are likely to be read again, so that further
//! reads of a state cost no decoding.
//!
//! ```text
//! read a@7    decoded, not kept: many a state is read just once, by the reconcile that it causes
//! read a@7    decoded, kept            a@7 ──▶ Arc<T>
//! read a@7    the same Arc             a@7 ──▶ Arc<T>   used
//! a changes   nothing happens here
//! read a@8    decoded, not kept
//! ```
//!
//! That a state was read is noted in the [`Item`]; what comes in here was read before.
//!
//! What is kept goes around a clock: a hand passes the entries in turn, and when there is no room
//! it takes the first one that was not used since it came by last.
//!
//! Invariants:
//! - an object is handed out only for the very state that it was decoded from;
//! - one entry for a key: `places` holds the place of each entry, and nothing else;
//! - `bytes` is the sum of the entries' sizes, and never more than the budget;
//! - no `T` is decoded or dropped under the lock, since both run the reader's code;
//! - no entry keeps its state in memory, and whatever is added moves the hand over two entries and
//!   takes those whose state is gone: so what is deleted and never asked for again leaves as well.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Item, ObjectKey, item::Trace};

/// Room for the objects that a controller is busy with (10,000 of 1 KiB), and not for all of a
/// large cache, which would undo what packing it has saved.
pub(crate) const DEFAULT_BUDGET: usize = 32 << 20;

/// See the [module documentation](self).
pub(crate) struct Decoded<T> {
    budget: usize,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    entries: Vec<Entry<T>>,
    places: HashMap<ObjectKey, usize>,
    bytes: usize,
    /// The place of the entry that is looked at next.
    hand: usize,
}

struct Entry<T> {
    key: ObjectKey,
    state: Trace,
    object: Arc<T>,
    size: usize,
    is_used: bool,
}

impl<T> Decoded<T> {
    /// Keeps objects of `budget` bytes altogether; see [`keep`](Self::keep) for how they count.
    pub(crate) fn new(budget: usize) -> Self {
        let kept = Kept { entries: Vec::new(), places: HashMap::new(), bytes: 0, hand: 0 };
        Self { budget, kept: Mutex::new(kept) }
    }

    /// What this very state was decoded to.
    pub(crate) fn get(&self, item: &Item) -> Option<Arc<T>> {
        self.lock().find(item)
    }

    /// Keeps what `item`, whose JSON has this length, was decoded to. Gives back what later reads
    /// will get: if two have decoded the same state, both get the object of the first.
    ///
    /// An object counts with its JSON, which stands for what it holds on the heap, with its own
    /// size, and with its entry.
    pub(crate) fn keep(&self, item: &Item, json_length: usize, object: T) -> Arc<T> {
        let size = json_length + size_of::<T>() + size_of::<Entry<T>>();
        let object = Arc::new(object);
        let mut removed = Vec::new();
        let mut kept = self.lock();
        if let Some(first) = kept.find(item) {
            drop(kept);
            return first;
        }
        removed.extend(kept.remove(item.key()));
        removed.extend(kept.sweep());
        removed.extend(kept.sweep());
        // One that needs the whole budget is not worth all the others.
        if size <= self.budget {
            while kept.bytes + size > self.budget {
                removed.push(kept.evict());
            }
            kept.push(Entry {
                key: item.key().clone(),
                state: item.trace(),
                object: Arc::clone(&object),
                size,
                is_used: false,
            });
        }
        drop(kept);
        drop(removed);
        object
    }

    /// Lets go of an object that is not there any more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        let removed = self.lock().remove(key);
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kept<T> {
    fn find(&mut self, item: &Item) -> Option<Arc<T>> {
        let entry = &mut self.entries[*self.places.get(item.key())?];
        if !entry.state.is_of(item) {
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

    /// The last entry moves to the place that becomes free.
    fn remove_at(&mut self, place: usize) -> Arc<T> {
        let removed = self.entries.swap_remove(place);
        self.places.remove(&removed.key);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(moved.key.clone(), place);
        }
        self.bytes -= removed.size;
        removed.object
    }

    /// Takes the entry at the hand if its state is gone, and else moves the hand on.
    fn sweep(&mut self) -> Option<Arc<T>> {
        if self.entries.is_empty() {
            return None;
        }
        self.hand %= self.entries.len();
        if self.entries[self.hand].state.is_gone() {
            return Some(self.remove_at(self.hand));
        }
        self.hand += 1;
        None
    }

    /// Takes the next entry that is not in use; there must be one. The second round finds one at
    /// the latest.
    fn evict(&mut self) -> Arc<T> {
        loop {
            self.hand %= self.entries.len();
            let entry = &mut self.entries[self.hand];
            if !entry.is_used || entry.state.is_gone() {
                return self.remove_at(self.hand);
            }
            entry.is_used = false;
            self.hand += 1;
        }
    }
}

#[cfg(test)]
mod tests;
