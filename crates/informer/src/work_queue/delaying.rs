//! [`Delayed`]: keys that are to be added later, and [`Passage`], the time by which they wait.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use keel::{Clock, Moment};

use crate::work_queue::priority::Priority;

/// Time as it passes, however the clock is set meanwhile.
pub(super) struct Passage {
    clock: Clock,
    began: Moment,
}

impl Passage {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), began: clock.moment() }
    }

    /// Since the beginning.
    pub(super) fn now(&self) -> Duration {
        self.clock.passed_since(&self.began)
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
    use keel::Timestamp;

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
    fn no_time_passes_when_the_clock_is_set() {
        let clock = Clock::manual(Timestamp::from_seconds(10_000));
        let passage = Passage::new(&clock);
        let mut passed = Duration::ZERO;
        for hours in [-1, 1] {
            clock.jump(Timestamp::from_seconds(10_000 + hours * 3600));
            assert_eq!(passage.now(), passed);
            clock.advance(Duration::from_secs(3));
            passed += Duration::from_secs(3);
            assert_eq!(passage.now(), passed);
        }
    }
}
