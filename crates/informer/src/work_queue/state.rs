//! [`State`]: the part of a work queue that its lock guards; no method waits or wakes a worker.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::delaying::Delayed;
use super::priority::GroupOf;
use super::queue::{Arrival, Queue, Taken};
use super::rate_limiter::RateLimiter;
use super::{HistogramMetric, Job, JobOutcome, Priority, QueueMetrics, QueueOptions};
use keel::{Clock, ClockInstant, Entropy};

/// See the [module documentation](self).
pub(super) struct State<K> {
    pub(super) queue: Queue<K>,
    pub(super) delayed: Delayed<K>,
    pub(super) limiter: RateLimiter<K>,
    clock: Clock,
    /// All times in the queue are counted from here.
    began: ClockInstant,
    adds: u64,
    retries: u64,
    latency: Arc<dyn HistogramMetric>,
    work_duration: Arc<dyn HistogramMetric>,
    pub(super) is_shut_down: bool,
    /// A worker was woken and has not read the queue yet, or the next worker that waits is woken at
    /// once. A worker that is dropped in between passes its wakeup on (`tokio::sync::Notify`).
    pub(super) is_waking: bool,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(
        options: &QueueOptions,
        clock: &Clock,
        entropy: &Entropy,
        group_of: GroupOf<K>,
    ) -> Self {
        Self {
            queue: Queue::new(options.aging, group_of),
            delayed: Delayed::new(),
            limiter: RateLimiter::new(&options.limits, entropy),
            clock: clock.clone(),
            began: clock.instant(),
            adds: 0,
            retries: 0,
            latency: Arc::clone(&options.latency),
            work_duration: Arc::clone(&options.work_duration),
            is_shut_down: false,
            is_waking: false,
        }
    }

    /// The time since the queue was created, independent of changes of the clock.
    pub(super) fn now(&self) -> Duration {
        self.clock.elapsed_since(&self.began)
    }

    pub(super) fn add(&mut self, key: K, priority: Priority, now: Duration, arrival: Arrival) {
        if self.is_shut_down {
            return;
        }
        if self.queue.add(key, priority, now, arrival) {
            self.adds += 1;
        }
    }

    /// Returns whether the next delayed key is due earlier than before.
    pub(super) fn add_after(
        &mut self,
        key: K,
        priority: Priority,
        now: Duration,
        delay: Duration,
    ) -> bool {
        if delay.is_zero() {
            self.add(key, priority, now, Arrival::Delayed);
            return false;
        }
        if self.is_shut_down {
            return false;
        }
        let due = now.saturating_add(delay);
        let is_sooner = self.delayed.next_due().is_none_or(|next| due < next);
        self.delayed.add(key, priority, due);
        is_sooner
    }

    /// Delays a key that failed; returns whether the next delayed key is due earlier than before.
    pub(super) fn add_rate_limited(&mut self, key: K, priority: Priority, now: Duration) -> bool {
        let delay = self.limiter.delay(key.clone(), now);
        self.retries += 1;
        self.add_after(key, priority, now, delay)
    }

    /// Adds the delayed keys that are due.
    pub(super) fn add_due(&mut self, now: Duration) {
        for (key, priority) in self.delayed.take_due(now) {
            self.add(key, priority, now, Arrival::Delayed);
        }
    }

    /// Takes the next key.
    pub(super) fn take(&mut self, now: Duration) -> Option<Taken<K>> {
        let taken = self.queue.take(now)?;
        self.latency.observe(taken.waited);
        Some(taken)
    }

    /// Ends a job; returns whether the next delayed key is due earlier than before.
    pub(super) fn end(&mut self, job: &Job<K>, outcome: JobOutcome, now: Duration) -> bool {
        let (key, priority) = (job.key(), job.priority());
        let is_sooner = match outcome {
            JobOutcome::Unknown => false,
            JobOutcome::Success => {
                self.limiter.forget(key);
                false
            }
            JobOutcome::Failure => self.add_rate_limited(key.clone(), priority, now),
            JobOutcome::RequeueAfter(delay) => {
                self.limiter.forget(key);
                self.add_after(key.clone(), priority, now, delay)
            }
        };
        self.work_duration.observe(self.queue.done(key, now));
        is_sooner
    }

    pub(super) fn metrics(&self) -> QueueMetrics {
        let now = self.now();
        let running = || self.queue.processing_since().map(|since| now.saturating_sub(since));
        QueueMetrics {
            depth: self.queue.depth(),
            delayed: self.delayed.len(),
            adds: self.adds,
            retries: self.retries,
            unfinished: running().count(),
            unfinished_work: running().sum(),
            longest_running: running().max().unwrap_or_default(),
        }
    }
}
