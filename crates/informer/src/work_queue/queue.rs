//! [`Queue`]: which keys wait, and which are being worked on.
//!
//! ```text
//! add(a) add(a)   waiting: a             stingy: a key waits once
//! take() = a      worked on: a
//! add(a)          worked on: a, again    nobody else gets it meanwhile …
//! done(a)         waiting: a             … and it comes again
//! ```
//!
//! Invariants:
//! - a key is worked on by one worker at most;
//! - a key waits if and only if it was added since it was last taken, and is not worked on.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    time::Duration,
};

use crate::work_queue::priority::{ByPriority, Priority, Ticket};

/// See the [module documentation](self).
pub(super) struct Queue<K> {
    line: ByPriority<K>,
    /// Keys that were added since they were last taken: in the line, or to get there when the work
    /// on them is done.
    added: HashMap<K, Added>,
    /// Since when the keys that are worked on are.
    at_work: HashMap<K, Duration>,
}

#[derive(Clone, Copy)]
struct Added {
    priority: Priority,
    at: Duration,
    was_due: bool,
    /// None while the key is worked on.
    ticket: Option<Ticket>,
}

/// How a key got here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Somebody added it.
    Added,
    /// It was to come at this time.
    Due,
}

/// A key that a worker gets.
pub(super) struct Taken<K> {
    pub(super) key: K,
    pub(super) priority: Priority,
    pub(super) waited: Duration,
    /// Whether one of those who added it was the time for which it was put off.
    pub(super) was_due: bool,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(super) fn new(aging: Duration) -> Self {
        Self { line: ByPriority::new(aging), added: HashMap::new(), at_work: HashMap::new() }
    }

    /// Keys in the line.
    pub(super) fn depth(&self) -> usize {
        self.line.len()
    }

    /// Since when the keys that are worked on are.
    pub(super) fn worked_on(&self) -> impl Iterator<Item = Duration> {
        self.at_work.values().copied()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.at_work.is_empty() && self.line.len() == 0
    }

    /// Whether it was news.
    pub(super) fn add(
        &mut self,
        key: K,
        priority: Priority,
        now: Duration,
        arrival: Arrival,
    ) -> bool {
        let was_due = arrival == Arrival::Due;
        let Self { line, added, at_work } = self;
        match added.entry(key) {
            Entry::Vacant(place) => {
                let key = place.key();
                let is_free = at_work.is_empty() || !at_work.contains_key(key);
                let ticket = is_free.then(|| line.push(key.clone(), priority, now));
                place.insert(Added { priority, at: now, was_due, ticket });
                true
            }
            Entry::Occupied(mut place) => {
                let key = place.key().clone();
                let known = place.get_mut();
                known.was_due |= was_due;
                if priority > known.priority {
                    known.priority = priority;
                    let push = |_| line.push_again(key, priority, known.at);
                    known.ticket = known.ticket.map(push);
                }
                false
            }
        }
    }

    /// The next key.
    pub(super) fn take(&mut self, now: Duration) -> Option<Taken<K>> {
        let added = &self.added;
        let has = |key: &K, ticket| added.get(key).is_some_and(|it| it.ticket == Some(ticket));
        let (key, since) = self.line.pop(now, has)?;
        let added = self.added.remove(&key).expect("a key in the line was added");
        self.at_work.insert(key.clone(), now);
        let Added { priority, was_due, .. } = added;
        Some(Taken { key, priority, waited: now.saturating_sub(since), was_due })
    }

    /// How long the key was worked on. If it was added meanwhile, it waits again.
    pub(super) fn done(&mut self, key: &K, now: Duration) -> Duration {
        let Some(began) = self.at_work.remove(key) else { return Duration::ZERO };
        if let Some(added) = self.added.get_mut(key) {
            added.ticket = Some(self.line.push(key.clone(), added.priority, added.at));
        }
        now.saturating_sub(began)
    }
}
