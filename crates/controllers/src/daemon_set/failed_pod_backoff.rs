//! [`FailedPodBackoff`]: delays the replacement of pods that fail again and again on a node.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use keel::{Clock, Timestamp};

const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_mins(15);

/// The time without a failure after which the delay is forgotten.
const FORGET_AFTER: Duration = Duration::from_mins(30);

/// See the [module documentation](self).
pub(super) struct FailedPodBackoff {
    entries: Mutex<HashMap<Key, Entry>>,
    clock: Clock,
}

/// The uid of the set, the generation of its spec, and the node.
type Key = (String, i64, String);

struct Entry {
    delay: Duration,
    since: Timestamp,
}

impl FailedPodBackoff {
    /// Without any failures.
    pub(super) fn new(clock: Clock) -> Self {
        Self { entries: Mutex::default(), clock }
    }

    /// Notes a failed pod. Returns the time until it may be replaced; `None` if that is now.
    pub(super) fn delay(&self, set: &str, generation: i64, node: &str) -> Option<Duration> {
        let now = self.clock.now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (set.to_owned(), generation, node.to_owned());
        let Some(entry) = entries.get_mut(&key) else {
            entries.retain(|_, entry| now.since(entry.since) < FORGET_AFTER);
            entries.insert(key, Entry { delay: FIRST_DELAY, since: now });
            return None;
        };
        let elapsed = now.since(entry.since);
        if let Some(remaining) = entry.delay.checked_sub(elapsed).filter(|it| !it.is_zero()) {
            return Some(remaining);
        }
        let is_forgotten = elapsed >= FORGET_AFTER;
        entry.delay = if is_forgotten { FIRST_DELAY } else { (entry.delay * 2).min(MAX_DELAY) };
        entry.since = now;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_delay_until_there_was_none_for_long() {
        let clock = Clock::manual(Timestamp::from_seconds(1_000_000));
        let backoff = FailedPodBackoff::new(clock.clone());
        let delay = || backoff.delay("uid", 1, "n1");
        assert_eq!(delay(), None);
        assert_eq!(delay(), Some(Duration::from_secs(1)));
        assert_eq!(backoff.delay("uid", 1, "n2"), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!(delay(), None);
        assert_eq!(delay(), Some(Duration::from_secs(2)));
        clock.advance(FORGET_AFTER);
        assert_eq!(delay(), None);
        assert_eq!(delay(), Some(Duration::from_secs(1)));
    }
}
