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

use std::{collections::HashMap, hash::Hash, time::Duration};

use crate::work_queue::priority::{ByPriority, Priority};

/// See the [module documentation](self).
pub(super) struct Queue<K> {
    line: ByPriority<K>,
    /// Keys that were added since they were last taken: in the line, or worked on.
    added: HashMap<K, Added>,
    /// Keys that are worked on, and since when.
    worked_on: HashMap<K, Duration>,
}

struct Added {
    priority: Priority,
    at: Duration,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(super) fn new(aging: Duration) -> Self {
        Self { line: ByPriority::new(aging), added: HashMap::new(), worked_on: HashMap::new() }
    }

    /// Keys in the line.
    pub(super) fn depth(&self) -> usize {
        self.line.len()
    }

    /// Since when the keys that are worked on are.
    pub(super) fn worked_on(&self) -> impl Iterator<Item = Duration> {
        self.worked_on.values().copied()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.worked_on.is_empty() && self.line.len() == 0
    }

    /// Whether it was news.
    pub(super) fn add(&mut self, key: K, priority: Priority, now: Duration) -> bool {
        let is_worked_on = self.worked_on.contains_key(&key);
        if let Some(added) = self.added.get_mut(&key) {
            if priority > added.priority {
                added.priority = priority;
                if !is_worked_on {
                    let since = added.at;
                    self.line.push(key, priority, since);
                }
            }
            return false;
        }
        self.added.insert(key.clone(), Added { priority, at: now });
        if !is_worked_on {
            self.line.push(key, priority, now);
        }
        true
    }

    /// The next key, how urgent it was, and how long it has waited.
    pub(super) fn take(&mut self, now: Duration) -> Option<(K, Priority, Duration)> {
        let (key, since) = self.line.pop(now)?;
        let added = self.added.remove(&key).expect("a key in the line was added");
        self.worked_on.insert(key.clone(), now);
        Some((key, added.priority, now.saturating_sub(since)))
    }

    /// How long the key was worked on, and whether it waits again.
    pub(super) fn done(&mut self, key: &K, now: Duration) -> (Duration, bool) {
        let began = self.worked_on.remove(key).unwrap_or(now);
        let again = self.added.get(key).map(|added| (added.priority, added.at));
        if let Some((priority, at)) = again {
            self.line.push(key.clone(), priority, at);
        }
        (now.saturating_sub(began), again.is_some())
    }
}
