//! [`Pauses`]: the pauses between two reconciles of the same object, if it is large. Its changes are
//! collected meanwhile, since each reconcile reads all of its dependents.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keel::{Clock, ClockInstant};
use runtime::Request;

/// The number of dependents up to which an object is reconciled at once.
const SMALL: usize = 100;

/// See the [module documentation](self).
pub(crate) struct Pauses {
    clock: Clock,
    for_each_dependent: Duration,
    /// When the pauses began, and how long they are.
    by_key: Mutex<HashMap<Request, (ClockInstant, Duration)>>,
}

impl Pauses {
    /// Pauses that are as long as the number of dependents times this duration.
    pub(crate) fn new(clock: &Clock, for_each_dependent: Duration) -> Self {
        Self { clock: clock.clone(), for_each_dependent, by_key: Mutex::default() }
    }

    /// Begins a pause after a reconcile of an object with this number of dependents.
    pub(crate) fn begin(&self, key: &Request, dependents: usize) {
        if dependents > SMALL {
            let factor = u32::try_from(dependents).unwrap_or(u32::MAX);
            let pause = self.for_each_dependent.saturating_mul(factor);
            self.lock().insert(key.clone(), (self.clock.instant(), pause));
        }
    }

    /// The rest of the pause of an object; `None` if it has none.
    pub(crate) fn rest(&self, key: &Request) -> Option<Duration> {
        let mut pauses = self.lock();
        let (began, pause) = pauses.get(key)?;
        let rest = pause.saturating_sub(self.clock.elapsed_since(began));
        if rest.is_zero() {
            pauses.remove(key);
            return None;
        }
        Some(rest)
    }

    /// Ends the pause of an object, which may have been deleted.
    pub(crate) fn end(&self, key: &Request) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Request, (ClockInstant, Duration)>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    #[test]
    fn large_objects_pause_in_proportion_to_their_dependents() {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let pauses = Pauses::new(&clock, Duration::from_millis(1));
        let (small, large) = (Request::new("n", "small"), Request::new("n", "large"));
        pauses.begin(&small, SMALL);
        pauses.begin(&large, 1000);
        assert_eq!(pauses.rest(&small), None);
        clock.advance(Duration::from_millis(900));
        assert_eq!(pauses.rest(&large), Some(Duration::from_millis(100)));
        clock.advance(Duration::from_millis(100));
        assert_eq!(pauses.rest(&large), None);
        pauses.begin(&large, 1000);
        pauses.end(&large);
        assert_eq!(pauses.rest(&large), None);
    }
}
