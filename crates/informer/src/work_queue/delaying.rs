//! [`Delayed`]: the keys that are added after a delay.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use crate::work_queue::priority::Priority;

/// See the [module documentation](self). A key is contained once, with the earliest time and the
/// highest priority with which it was added.
pub(super) struct Delayed<K> {
    /// By time; the number distinguishes keys of the same time.
    by_time: BTreeMap<(Duration, u64), (K, Priority)>,
    places: HashMap<K, (Duration, u64)>,
    count: u64,
}

impl<K: Clone + Eq + Hash> Delayed<K> {
    pub(super) fn new() -> Self {
        Self { by_time: BTreeMap::new(), places: HashMap::new(), count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The keys, each with the time at which it is due.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&K, Duration)> {
        self.by_time.iter().map(|((due, _), (key, _))| (key, *due))
    }

    pub(super) fn add(&mut self, key: K, priority: Priority, due: Duration) {
        self.count += 1;
        let (mut place, mut priority) = ((due, self.count), priority);
        if let Some(known) = self.places.remove(&key)
            && let Some((_, known_priority)) = self.by_time.remove(&known)
        {
            place = place.min(known);
            priority = priority.max(known_priority);
        }
        self.places.insert(key.clone(), place);
        self.by_time.insert(place, (key, priority));
    }

    /// Takes out the keys that are due.
    pub(super) fn take_due(&mut self, now: Duration) -> Vec<(K, Priority)> {
        if self.next_due().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let later = self.by_time.split_off(&(now, u64::MAX));
        let due: Vec<_> = std::mem::replace(&mut self.by_time, later).into_values().collect();
        for (key, _) in &due {
            self.places.remove(key);
        }
        due
    }

    /// The time at which the next key is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.by_time.keys().next().map(|(due, _)| *due)
    }

    pub(super) fn clear(&mut self) {
        self.by_time.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_time_and_the_higher_priority_win() {
        let mut delayed = Delayed::new();
        let at = Duration::from_secs;
        delayed.add("a", Priority::LOW, at(5));
        delayed.add("a", Priority::NORMAL, at(9));
        assert_eq!((delayed.len(), delayed.next_due()), (1, Some(at(5))));
        assert!(delayed.take_due(at(4)).is_empty());
        assert_eq!(delayed.take_due(at(5)), [("a", Priority::NORMAL)]);
        assert_eq!((delayed.len(), delayed.next_due()), (0, None));
    }
}
