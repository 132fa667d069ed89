//! [`ErrorLog`]: counts the events that a plugin did not record, and logs them at most once in an
//! interval.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::Counter;
use keel::{Clock, ClockInstant};

/// The time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// See the [module documentation](self).
pub(super) struct ErrorLog {
    plugin: &'static str,
    count: Counter,
    clock: Clock,
    last: Mutex<LastLine>,
}

#[derive(Default)]
struct LastLine {
    at: Option<ClockInstant>,
    /// The number of events since the last line.
    events: u64,
}

impl ErrorLog {
    /// The errors of `plugin`, which `count` counts.
    pub(super) fn new(plugin: &'static str, count: Counter, clock: &Clock) -> Self {
        Self { plugin, count, clock: clock.clone(), last: Mutex::default() }
    }

    /// Records that `events` events were not recorded.
    pub(super) fn add(&self, events: u64, error: &str) {
        self.count.add(events);
        let lost = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.events += events;
            let elapsed = last.at.as_ref().map(|it| self.clock.elapsed_since(it));
            if elapsed.is_some_and(|it| it < INTERVAL) {
                return;
            }
            last.at = Some(self.clock.instant());
            std::mem::take(&mut last.events)
        };
        tracing::error!(plugin = self.plugin, error, events = lost, "audit events were lost");
    }
}
