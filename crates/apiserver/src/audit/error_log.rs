//! [`ErrorLog`]: counts the events that a plugin did not record, and logs them at most once in an
//! interval.

use crate::metrics::Counter;
use keel::{Clock, LogLimit};

/// See the [module documentation](self).
pub(super) struct ErrorLog {
    plugin: &'static str,
    count: Counter,
    limit: LogLimit,
}

impl ErrorLog {
    /// The errors of `plugin`, which `count` counts.
    pub(super) fn new(plugin: &'static str, count: Counter, clock: &Clock) -> Self {
        Self { plugin, count, limit: LogLimit::new(clock) }
    }

    /// Records that `events` events were not recorded.
    pub(super) fn add(&self, events: u64, error: &str) {
        self.count.add(events);
        if let Some(events) = self.limit.pass(events) {
            tracing::error!(plugin = self.plugin, error, events, "audit events were lost");
        }
    }
}
