//! [`WorkEstimate`]: the seats of a request, and for how long it has them.
//!
//! A write causes work after its response: its event is sent to watches. The request therefore has
//! two stages. It has the seats of the larger one in both, so that the second cannot fail:
//!
//! ```text
//! seats        │ execution │ additional latency │
//! final_seats  │                 events         │
//! ```
//!
//! Upstream: `util/flowcontrol/request/width.go`

use std::time::Duration;

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkEstimate {
    /// The seats during the execution.
    pub seats: usize,
    /// The seats after it.
    pub final_seats: usize,
    /// The time after the execution in which the seats are still in use.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// The estimate for a request without work after its execution.
    pub(crate) fn of_seats(seats: usize) -> Self {
        Self { seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    /// The seats that the request has in both stages.
    pub(super) fn max_seats(self) -> usize {
        self.seats.max(self.final_seats)
    }

    /// The work in seats times seconds, if the execution takes this many seconds.
    #[allow(clippy::cast_precision_loss, reason = "numbers of seats are small")]
    pub(super) fn work(self, seconds: f64) -> f64 {
        let after = self.final_seats as f64 * self.additional_latency.as_secs_f64();
        self.seats as f64 * seconds + after
    }
}
