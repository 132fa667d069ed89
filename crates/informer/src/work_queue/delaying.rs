//! [`Delayed`]: keys that are to be added later, and [`Passage`], the time by which they wait.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use keel::{Clock, Timestamp};

use crate::work_queue::priority::Priority;

/// Time that only goes forward, even if the clock is set back: the step back is left out.
pub(super) struct Passage {
    clock: Clock,
    last: Timestamp,
    passed: Duration,
}

impl Passage {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), last: clock.now(), passed: Duration::ZERO }
    }

    /// Since the beginning.
    pub(super) fn now(&mut self) -> Duration {
        let now = self.clock.now();
        self.passed += now.since(self.last);
        self.last = now;
        self.passed
    }
}

/// A key is in here once, with the earliest time and the highest priority that were asked for.
pub(super) struct Delayed<K> {
    /// By the time; the number tells keys of the same time apart.
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

    /// Takes out what is due.
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

    /// When the next key is due.
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

    #[test]
    fn time_does_not_go_back_with_the_clock() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut passage = Passage::new(&clock);
        clock.advance(Duration::from_secs(5));
        assert_eq!(passage.now(), Duration::from_secs(5));
        // Somebody sets the clock back by an hour; then three seconds pass.
        passage.clock = Clock::manual(Timestamp::from_seconds(100 - 3600));
        assert_eq!(passage.now(), Duration::from_secs(5));
        passage.clock.advance(Duration::from_secs(3));
        assert_eq!(passage.now(), Duration::from_secs(8));
    }
}
