//! [`QueueMetrics`]: the state of a work queue at one time, and its counters.

use std::fmt::Debug;
use std::time::Duration;

/// Observes durations, for instance in a histogram. `()` ignores them.
///
/// ```
/// use informer::work_queue::{HistogramMetric, QueueOptions};
/// use std::{sync::Arc, time::Duration};
///
/// #[derive(Debug)]
/// struct LogSlow;
///
/// impl HistogramMetric for LogSlow {
///     fn observe(&self, duration: Duration) {
///         if duration > Duration::from_secs(1) {
///             println!("a key was processed for {duration:?}");
///         }
///     }
/// }
/// let options = QueueOptions { work_duration: Arc::new(LogSlow), ..QueueOptions::default() };
/// # drop(options);
/// ```
pub trait HistogramMetric: Debug + Send + Sync {
    /// Observes one duration. It is called while the queue is locked.
    fn observe(&self, duration: Duration);
}

impl HistogramMetric for () {
    fn observe(&self, _: Duration) {}
}

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    /// The number of keys that wait for a worker.
    pub depth: usize,
    /// The number of keys that are delayed.
    pub delayed: usize,
    /// The number of keys that were added and did not wait already.
    pub adds: u64,
    /// The number of keys that were added again after a failure.
    pub retries: u64,
    /// The number of keys that are being processed.
    pub unfinished: usize,
    /// The sum of the times for which these keys are being processed.
    pub unfinished_work: Duration,
    /// The longest of these times.
    pub longest_running: Duration,
}
