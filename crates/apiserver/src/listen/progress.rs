//! [`Progress`]: detects clients that do not read their responses.
//!
//! The HTTP library polls the body of a response for its next part once it has sent the previous
//! part. So a response is stalled if a part was handed out to the library and the next one is not
//! polled. Regular checks compare two observations, so that a part costs two additions and no read of
//! the clock:
//!
//! ```text
//! count   0 ── part handed out ──▶ 1 ── next part polled ──▶ 2 ── …
//!         odd, and the same as in the previous checks: stalled
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A response is ended after this many checks without progress.
const MAX_CHECKS: u32 = 4;

/// A watch is ended after this many checks without progress. At the default timeout, the events that
/// it missed are compacted by then.
const MAX_WATCH_CHECKS: u32 = 5 * MAX_CHECKS;

/// The time between two checks, if responses may be stalled for `timeout`.
pub(super) fn check_interval(timeout: Duration) -> Duration {
    (timeout / MAX_CHECKS).max(Duration::from_millis(1))
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Progress {
    count: AtomicU64,
    is_stream: AtomicBool,
}

impl Progress {
    /// The progress of the response with this number on its connection. Observations of responses with
    /// different numbers differ.
    pub(super) fn new(number: u32) -> Self {
        Self { count: AtomicU64::new(u64::from(number) << 32), ..Self::default() }
    }

    /// Marks a response without a defined end, such as a watch.
    pub(super) fn set_stream(&self) {
        self.is_stream.store(true, Ordering::Relaxed);
    }

    /// Whether the response is a watch or another one without a defined end.
    pub(super) fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }

    /// Records that a part was handed out to the HTTP library: the count becomes odd.
    pub(super) fn record_handed_out(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store((count + 1) | 1, Ordering::Relaxed);
    }

    /// Records that all parts handed out were sent: the count becomes even.
    pub(super) fn record_sent(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store((count + 1) & !1, Ordering::Relaxed);
    }

    /// A value to compare with that of other checks; None if all parts handed out were sent.
    pub(super) fn observe(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        (count % 2 == 1).then_some(count)
    }
}

/// Compares the observations of one response or transport.
#[derive(Debug, Default)]
pub(super) struct StallDetector {
    last: Option<u64>,
    stalled: u32,
}

impl StallDetector {
    /// Whether too many checks have seen no progress. `observed` is None if nothing waits to be read;
    /// otherwise it is a value that changes with each progress.
    pub(super) fn is_overdue(&mut self, observed: Option<u64>, is_stream: bool) -> bool {
        if observed.is_none() || observed != self.last {
            self.last = observed;
            self.stalled = 0;
            return false;
        }
        self.stalled += 1;
        self.stalled >= if is_stream { MAX_WATCH_CHECKS } else { MAX_CHECKS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of checks until the response is overdue.
    fn checks_until_overdue(progress: &Progress) -> u32 {
        let mut stalls = StallDetector::default();
        (1..1000).find(|_| stalls.is_overdue(progress.observe(), progress.is_stream())).unwrap()
    }

    #[test]
    fn a_part_that_is_not_sent_is_overdue_after_the_maximum_number_of_checks() {
        let progress = Progress::default();
        progress.record_handed_out();
        assert_eq!(checks_until_overdue(&progress), MAX_CHECKS + 1);
        progress.set_stream();
        assert_eq!(checks_until_overdue(&progress), MAX_WATCH_CHECKS + 1);
    }

    #[test]
    fn a_response_is_not_confused_with_the_previous_one() {
        let mut stalls = StallDetector::default();
        for number in 0..10 * MAX_CHECKS {
            let progress = Progress::new(number);
            progress.record_handed_out();
            assert!(!stalls.is_overdue(progress.observe(), false));
        }
    }

    #[test]
    fn a_response_is_not_overdue_while_its_parts_are_sent() {
        let progress = Progress::default();
        let mut stalls = StallDetector::default();
        for _ in 0..10 * MAX_CHECKS {
            progress.record_handed_out();
            assert!(!stalls.is_overdue(progress.observe(), false));
            progress.record_sent();
        }
        for _ in 0..10 * MAX_CHECKS {
            assert!(!stalls.is_overdue(progress.observe(), false), "nothing was handed out");
        }
    }
}
