//! [`LogLimit`]: how often something is logged that clients can make happen at any rate.
//!
//! ```
//! use keel::{Clock, LogLimit, Timestamp};
//!
//! let clock = Clock::manual(Timestamp::new(0, 0));
//! let limit = LogLimit::new(&clock);
//! assert_eq!(limit.pass(1), Some(1)); //  logged
//! assert_eq!(limit.pass(1), None); //     too soon
//! clock.advance(std::time::Duration::from_secs(10));
//! assert_eq!(limit.pass(1), Some(2)); //  two since the last line
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::{Clock, ClockInstant};

/// The time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// See the [module documentation](self).
#[derive(Debug)]
pub struct LogLimit {
    clock: Clock,
    last: Mutex<LastLine>,
}

#[derive(Debug, Default)]
struct LastLine {
    at: Option<ClockInstant>,
    /// The number of events since then.
    events: u64,
}

impl LogLimit {
    /// A limit of one line in ten seconds.
    pub fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), last: Mutex::default() }
    }

    /// The number of events since the last line, if it is time for another one.
    pub fn pass(&self, events: u64) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.events += events;
        let elapsed = last.at.as_ref().map(|it| self.clock.elapsed_since(it));
        if elapsed.is_some_and(|it| it < INTERVAL) {
            return None;
        }
        last.at = Some(self.clock.instant());
        Some(std::mem::take(&mut last.events))
    }
}
