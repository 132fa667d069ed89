//! [`CountIntervals`]: limits how often the pods of a budget are counted, since each count reads all pods
//! of the namespace.
//!
//! ```text
//! change              counted at once, as are the next nine
//! a change each 1 ms  counted five times a second, and after the last change
//! ```
//!
//! A count that reads more than usual is followed by a longer interval.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keel::{Clock, ClockInstant};
use runtime::Request;

/// The interval after an ordinary count.
const INTERVAL: Duration = Duration::from_millis(200);

/// The part of the intervals that need not be waited for.
const BURST: Duration = Duration::from_secs(2);

/// See the [module documentation](self).
pub(super) struct CountIntervals {
    clock: Clock,
    start: ClockInstant,
    /// The ends of the intervals of all counts, if each had begun at the end of the previous one; since
    /// `start`.
    ends: Mutex<HashMap<Request, Duration>>,
}

/// What a count has read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CountSize {
    /// The number of requirements of the selector.
    pub(super) requirements: usize,
    /// The number of pods in the namespace.
    pub(super) pods: usize,
    /// The number of their controllers.
    pub(super) controllers: usize,
}

impl CountIntervals {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), start: clock.instant(), ends: Mutex::default() }
    }

    /// The time until the pods of a budget may be counted again; `None` if they may be now.
    pub(super) fn remaining(&self, budget: &Request) -> Option<Duration> {
        let end = self.lock().get(budget).copied()?;
        let remaining = end.saturating_sub(self.now() + BURST);
        Some(remaining).filter(|remaining| !remaining.is_zero())
    }

    /// The pods of a budget were counted now.
    pub(super) fn add(&self, budget: &Request, size: CountSize) {
        let now = self.now();
        let mut ends = self.lock();
        let end = ends.entry(budget.clone()).or_default();
        *end = now.max(*end) + size.interval();
    }

    /// Forgets a budget that was deleted.
    pub(super) fn forget(&self, budget: &Request) {
        self.lock().remove(budget);
    }

    fn now(&self) -> Duration {
        self.clock.elapsed_since(&self.start)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Request, Duration>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountSize {
    fn interval(self) -> Duration {
        let micros = 20 * (self.requirements + self.pods) + 2000 * self.controllers;
        INTERVAL.max(Duration::from_micros(micros.try_into().unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    #[test]
    fn the_tenth_change_within_a_moment_waits_and_then_five_in_a_second_are_counted() {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let intervals = CountIntervals::new(&clock);
        let (budget, other) = (Request::new("n", "a"), Request::new("n", "b"));
        let count = |budget: &Request, size| {
            let is_allowed = intervals.remaining(budget).is_none();
            if is_allowed {
                intervals.add(budget, size);
            }
            usize::from(is_allowed)
        };
        let small = CountSize::default();
        let at_once: usize = (0..100).map(|_| count(&budget, small)).sum();
        assert_eq!(at_once, 11);
        assert_eq!(intervals.remaining(&budget), Some(INTERVAL));
        let second = (0..1000).map(|_| {
            clock.advance(Duration::from_millis(1));
            count(&budget, small)
        });
        assert_eq!(second.sum::<usize>(), 5);
        assert_eq!(intervals.remaining(&other), None);
        let large = CountSize { requirements: 50_000, ..small };
        let at_once: usize = (0..100).map(|_| count(&other, large)).sum();
        assert_eq!(at_once, 3);
        assert_eq!(intervals.remaining(&other), Some(Duration::from_secs(1)));
        intervals.forget(&other);
        assert_eq!(intervals.remaining(&other), None);
    }
}
