//! [`Queue`]: the keys that wait, and those that are being processed.
//!
//! ```text
//! add(a) add(a)   waiting: a               a key waits once
//! take() = a      processing: a
//! add(a)          processing: a, dirty: a  no other worker gets it meanwhile …
//! done(a)         waiting: a               … and it is handed out again
//! ```
//!
//! Invariants:
//! - a key is processed by one worker at most;
//! - a key waits if and only if it is dirty and not being processed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::time::Duration;

use crate::work_queue::KeyState;
use crate::work_queue::priority::{GroupOf, Priority, PriorityQueue, Ticket};

/// See the [module documentation](self).
pub(super) struct Queue<K> {
    waiting: PriorityQueue<K>,
    /// The keys that were added since they were last taken.
    dirty: HashMap<K, Dirty>,
    /// The keys that are being processed, and since when.
    processing: HashMap<K, Duration>,
}

#[derive(Clone, Copy)]
struct Dirty {
    priority: Priority,
    since: Duration,
    was_delayed: bool,
    /// The entry in `waiting`; `None` while the key is being processed.
    ticket: Option<Ticket>,
}

/// The way in which a key is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// By a call.
    Added,
    /// By the end of a delay.
    Delayed,
}

/// A key that is handed out to a worker.
pub(super) struct Taken<K> {
    pub(super) key: K,
    pub(super) priority: Priority,
    pub(super) waited: Duration,
    /// Whether the end of a delay was one of its additions.
    pub(super) was_delayed: bool,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(super) fn new(aging: Duration, group_of: GroupOf<K>) -> Self {
        let waiting = PriorityQueue::new(aging, group_of);
        Self { waiting, dirty: HashMap::new(), processing: HashMap::new() }
    }

    /// The number of keys that wait.
    pub(super) fn depth(&self) -> usize {
        self.waiting.len()
    }

    /// The times since which keys are being processed.
    pub(super) fn processing_since(&self) -> impl Iterator<Item = Duration> {
        self.processing.values().copied()
    }

    /// The keys that wait, and those that are being processed.
    pub(super) fn unfinished_keys(&self) -> Vec<(K, KeyState)> {
        let waiting = self.dirty.keys().map(|key| (key.clone(), KeyState::Waiting));
        let processing = self.processing.keys().map(|key| (key.clone(), KeyState::Processing));
        waiting.chain(processing).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.processing.is_empty() && self.waiting.len() == 0
    }

    /// Adds a key; returns whether it was not dirty before.
    pub(super) fn add(
        &mut self,
        key: K,
        priority: Priority,
        now: Duration,
        arrival: Arrival,
    ) -> bool {
        let was_delayed = arrival == Arrival::Delayed;
        let Self { waiting, dirty, processing } = self;
        match dirty.entry(key) {
            Entry::Vacant(entry) => {
                let key = entry.key();
                let is_processed = processing.contains_key(key);
                let ticket = (!is_processed).then(|| waiting.push(key.clone(), priority, now));
                entry.insert(Dirty { priority, since: now, was_delayed, ticket });
                true
            }
            Entry::Occupied(mut entry) => {
                let key = entry.key().clone();
                let known = entry.get_mut();
                known.was_delayed |= was_delayed;
                if priority > known.priority {
                    known.priority = priority;
                    let push = |_| waiting.push_again(key, priority, known.since);
                    known.ticket = known.ticket.map(push);
                }
                false
            }
        }
    }

    /// Takes the next key.
    pub(super) fn take(&mut self, now: Duration) -> Option<Taken<K>> {
        let dirty = &self.dirty;
        let is_valid = |key: &K, ticket| dirty.get(key).is_some_and(|it| it.ticket == Some(ticket));
        let (key, since) = self.waiting.pop(now, is_valid)?;
        let dirty = self.dirty.remove(&key).expect("a key that waits is dirty");
        self.processing.insert(key.clone(), now);
        let Dirty { priority, was_delayed, .. } = dirty;
        Some(Taken { key, priority, waited: now.saturating_sub(since), was_delayed })
    }

    /// Ends the processing of a key, and returns its duration. If the key is dirty, it waits again.
    pub(super) fn done(&mut self, key: &K, now: Duration) -> Duration {
        let Some(began) = self.processing.remove(key) else { return Duration::ZERO };
        if let Some(dirty) = self.dirty.get_mut(key) {
            dirty.ticket = Some(self.waiting.push(key.clone(), dirty.priority, dirty.since));
        }
        now.saturating_sub(began)
    }
}
