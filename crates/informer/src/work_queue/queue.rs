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
    /// Keys that were added since they were last taken, or are worked on, or both.
    standings: HashMap<K, Standing>,
    /// How many keys are worked on.
    at_work: usize,
}

#[derive(Default)]
struct Standing {
    /// It is in the line, or gets there when the work on it is done.
    added: Option<Added>,
    worked_on_since: Option<Duration>,
}

#[derive(Clone, Copy)]
struct Added {
    priority: Priority,
    at: Duration,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(super) fn new(aging: Duration) -> Self {
        Self { line: ByPriority::new(aging), standings: HashMap::new(), at_work: 0 }
    }

    /// Keys in the line.
    pub(super) fn depth(&self) -> usize {
        self.line.len()
    }

    /// Since when the keys that are worked on are.
    pub(super) fn worked_on(&self) -> impl Iterator<Item = Duration> {
        self.standings.values().filter_map(|standing| standing.worked_on_since)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.at_work == 0 && self.line.len() == 0
    }

    /// Whether it was news.
    pub(super) fn add(&mut self, key: K, priority: Priority, now: Duration) -> bool {
        let standing = self.standings.entry(key.clone()).or_default();
        let known = standing.added;
        if known.is_some_and(|added| priority <= added.priority) {
            return false;
        }
        let at = known.map_or(now, |added| added.at);
        standing.added = Some(Added { priority, at });
        if standing.worked_on_since.is_none() {
            self.line.push(key, priority, at);
        }
        known.is_none()
    }

    /// The next key, how urgent it was, and how long it has waited.
    pub(super) fn take(&mut self, now: Duration) -> Option<(K, Priority, Duration)> {
        let (key, since) = self.line.pop(now)?;
        let standing = self.standings.get_mut(&key);
        let standing = standing.expect("a key in the line has a standing");
        let added = standing.added.take().expect("a key in the line was added");
        standing.worked_on_since = Some(now);
        self.at_work += 1;
        Some((key, added.priority, now.saturating_sub(since)))
    }

    /// How long the key was worked on, and whether it waits again.
    pub(super) fn done(&mut self, key: &K, now: Duration) -> (Duration, bool) {
        let Some(standing) = self.standings.get_mut(key) else { return (Duration::ZERO, false) };
        let began = standing.worked_on_since.take();
        let again = standing.added;
        match again {
            Some(Added { priority, at }) => self.line.push(key.clone(), priority, at),
            None => drop(self.standings.remove(key)),
        }
        self.at_work -= usize::from(began.is_some());
        (now.saturating_sub(began.unwrap_or(now)), again.is_some())
    }
}
