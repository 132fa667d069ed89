//! [`MinimumIntervals`]: the minimum interval between two reconciles of the same object, if it is large.
//! Each reconcile reads all dependents of the object, so that one reconcile for each change of a
//! dependent would cost the square of their number.
//!
//! A reconcile function asks for the [remaining](MinimumIntervals::remaining) time first, and is
//! requeued for its end; at its own end, it [restarts](MinimumIntervals::restart) the interval.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keel::{Clock, ClockInstant};
use runtime::Request;

/// An object with more dependents is large.
const MAX_SMALL: usize = 100;

/// See the [module documentation](self).
pub(crate) struct MinimumIntervals {
    clock: Clock,
    per_dependent: Duration,
    running: Mutex<HashMap<Request, Interval>>,
}

struct Interval {
    start: ClockInstant,
    length: Duration,
}

impl MinimumIntervals {
    /// Intervals of this duration times the number of dependents.
    pub(crate) fn new(clock: &Clock, per_dependent: Duration) -> Self {
        Self { clock: clock.clone(), per_dependent, running: Mutex::default() }
    }

    /// Starts the interval of an object with this number of dependents, which was reconciled now.
    pub(crate) fn restart(&self, key: &Request, dependents: usize) {
        if dependents > MAX_SMALL {
            let factor = u32::try_from(dependents).unwrap_or(u32::MAX);
            let length = self.per_dependent.saturating_mul(factor);
            self.lock().insert(key.clone(), Interval { start: self.clock.instant(), length });
        }
    }

    /// The time until an object may be reconciled again; `None` if it may be now.
    pub(crate) fn remaining(&self, key: &Request) -> Option<Duration> {
        let mut running = self.lock();
        let Interval { start, length } = running.get(key)?;
        let remaining = length.saturating_sub(self.clock.elapsed_since(start));
        if remaining.is_zero() {
            running.remove(key);
            return None;
        }
        Some(remaining)
    }

    /// Forgets the interval of an object that was deleted.
    pub(crate) fn forget(&self, key: &Request) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Request, Interval>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    #[test]
    fn the_interval_of_a_large_object_is_proportional_to_its_dependents() {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let intervals = MinimumIntervals::new(&clock, Duration::from_millis(1));
        let (small, large) = (Request::new("n", "small"), Request::new("n", "large"));
        intervals.restart(&small, MAX_SMALL);
        intervals.restart(&large, 1000);
        assert_eq!(intervals.remaining(&small), None);
        clock.advance(Duration::from_millis(900));
        assert_eq!(intervals.remaining(&large), Some(Duration::from_millis(100)));
        clock.advance(Duration::from_millis(100));
        assert_eq!(intervals.remaining(&large), None);
        intervals.restart(&large, 1000);
        intervals.forget(&large);
        assert_eq!(intervals.remaining(&large), None);
    }
}
