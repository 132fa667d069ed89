//! [`Job`]: a key that a worker processes, and its outcome.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use crate::work_queue::queue::Taken;
use crate::work_queue::{Priority, WorkQueue};

/// A key that a worker processes. No other worker gets the key until the job is dropped.
pub struct Job<K: Clone + Eq + Hash> {
    queue: WorkQueue<K>,
    taken: Taken<K>,
    outcome: JobOutcome,
}

/// The outcome of a job.
///
/// ```
/// use informer::work_queue::{Job, JobOutcome};
/// use std::time::Duration;
///
/// fn finish(job: Job<String>, is_ready: bool) {
///     let poll_again = JobOutcome::RequeueAfter(Duration::from_secs(10));
///     job.end(if is_ready { JobOutcome::Success } else { poll_again });
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// The worker has dropped the job without an outcome.
    Unknown,
    /// The job succeeded: the failures of the key are forgotten.
    Success,
    /// The job failed: the key is handed out again after its backoff.
    Failure,
    /// The job succeeded, and the key is handed out again after this time.
    RequeueAfter(Duration),
}

impl<K: Clone + Eq + Hash> Job<K> {
    pub(super) fn new(queue: WorkQueue<K>, taken: Taken<K>) -> Self {
        Self { queue, taken, outcome: JobOutcome::Unknown }
    }

    /// The key to process.
    pub fn key(&self) -> &K {
        &self.taken.key
    }

    /// The priority of the key.
    pub fn priority(&self) -> Priority {
        self.taken.priority
    }

    /// The time for which the key has waited for a worker.
    pub fn waited(&self) -> Duration {
        self.taken.waited
    }

    /// Whether the key was added by the end of a delay, after a failure or a requeue; it may have
    /// been added otherwise as well.
    pub fn was_delayed(&self) -> bool {
        self.taken.was_delayed
    }

    /// Ends the job with success: the failures of the key are forgotten.
    pub fn succeed(self) {
        self.end(JobOutcome::Success);
    }

    /// Ends the job with a failure: the key is handed out again after its backoff.
    pub fn retry(self) {
        self.end(JobOutcome::Failure);
    }

    /// Ends the job with success; the key is handed out again after `delay`.
    pub fn requeue_after(self, delay: Duration) {
        self.end(JobOutcome::RequeueAfter(delay));
    }

    /// Ends the job.
    pub fn end(mut self, outcome: JobOutcome) {
        self.outcome = outcome;
    }
}

impl<K: Clone + Eq + Hash> Drop for Job<K> {
    fn drop(&mut self) {
        self.queue.end(self, self.outcome);
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Job<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job {:?}", self.taken.key)
    }
}
