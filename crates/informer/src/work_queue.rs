//! [`WorkQueue`]: the keys of objects to be processed by workers.
//!
//! - Fair: keys of one priority are handed out in the order in which they were added; if they belong
//!   to groups, such as namespaces, the groups take turns ([`WorkQueue::with_groups`]).
//! - Stingy: a key that was added several times before a worker got it is handed out once.
//! - A key is never processed by two workers at once; if it is added meanwhile, it is handed out
//!   again afterwards.
//! - A key may be added after a delay, or rate limited: after a backoff of its own and at a rate for
//!   all keys.
//! - A key of a higher priority overtakes; the priority of a key grows while it waits
//!   ([`Priority`]).
//!
//! ```
//! # use {informer::{WorkQueue, work_queue::QueueOptions}, keel::{Clock, Entropy}};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::new(&QueueOptions::default(), &Clock::system(), &Entropy::system());
//! queue.add("a");
//! queue.add("a");
//! let job = queue.get().await.unwrap();
//! assert_eq!((*job.key(), queue.metrics().depth), ("a", 0));
//! drop(job); // done
//! queue.shut_down();
//! assert!(queue.get().await.is_none());
//! # }
//! ```
//!
//! A worker reports the outcome; a key that failed is handed out again, later after each failure:
//!
//! ```
//! use informer::{WorkQueue, work_queue::{Job, Priority, QueueMetrics, QueueOptions, RateLimits}};
//! use keel::{Clock, Entropy};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let limits = RateLimits { backoff_cap: Duration::from_secs(60), ..RateLimits::default() };
//! let options = QueueOptions { limits, ..QueueOptions::default() };
//! let queue = WorkQueue::new(&options, &Clock::system(), &Entropy::system());
//! queue.add_with_priority("resync", Priority::LOW);
//! queue.add_with_priority("urgent", Priority::HIGH);
//! let job: Job<&str> = queue.get().await.unwrap();
//! assert_eq!(*job.key(), "urgent");
//! job.retry();
//! let QueueMetrics { depth, retries, .. } = queue.metrics();
//! assert_eq!((depth, retries), (1, 1));
//! # }
//! ```
//!
//! The queue is bounded by the number of different keys: one for each object that exists, or whose
//! deletion was not processed yet.

mod state;
mod queue;
mod delaying;
mod rate_limiter;
mod priority;
mod metrics;
mod job;

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use keel::{Clock, Entropy};
use queue::Arrival;
use state::State;

pub use job::{Job, JobOutcome};
pub use metrics::{HistogramMetric, QueueMetrics};
pub use priority::Priority;
pub use rate_limiter::RateLimits;

/// The options of a [`WorkQueue`].
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// The rate at which failed keys are handed out again.
    pub limits: RateLimits,
    /// The waiting time that counts as one step of priority.
    pub aging: Duration,
    /// Observes the time from the addition of a key to the time at which a worker gets it.
    pub latency: Arc<dyn HistogramMetric>,
    /// Observes the time for which a worker has a key.
    pub work_duration: Arc<dyn HistogramMetric>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            limits: RateLimits::default(),
            aging: Duration::from_secs(10),
            latency: Arc::new(()),
            work_duration: Arc::new(()),
        }
    }
}

/// The state of a key that is [not done](WorkQueue::unfinished_keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It waits for a worker.
    Waiting,
    /// A worker has it.
    Processing,
    /// It is delayed after this number of failures in a row.
    Failed(u32),
}

/// See the [module documentation](self). Clones are the same queue.
pub struct WorkQueue<K: Clone + Eq + Hash>(Arc<QueueState<K>>);

struct QueueState<K> {
    state: Mutex<State<K>>,
    /// A key was added, or is due earlier, or the queue was shut down.
    changed: Notify,
    /// A key was processed.
    finished: Notify,
    clock: Clock,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    pub fn new(options: &QueueOptions, clock: &Clock, entropy: &Entropy) -> Self {
        Self::with_groups(options, clock, entropy, |_| "")
    }

    /// An empty queue in which the groups of keys take turns: many keys of one group delay each key
    /// of another group by one key.
    pub fn with_groups(
        options: &QueueOptions,
        clock: &Clock,
        entropy: &Entropy,
        group_of: fn(&K) -> &str,
    ) -> Self {
        Self(Arc::new(QueueState {
            state: Mutex::new(State::new(options, clock, entropy, group_of)),
            changed: Notify::new(),
            finished: Notify::new(),
            clock: clock.clone(),
        }))
    }

    /// Adds a key, unless it waits already or the queue was shut down.
    pub fn add(&self, key: K) {
        self.add_with_priority(key, Priority::NORMAL);
    }

    /// Adds a key with a priority; a key that waits with a lower priority is raised.
    pub fn add_with_priority(&self, key: K, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.now();
        state.add(key, priority, now, Arrival::Added);
        self.0.wake_worker(state);
    }

    /// Adds a key after `delay`. If the key is delayed already, the earlier time counts.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.now();
        let is_sooner = state.add_after(key, priority, now, delay);
        self.0.notify(state, is_sooner);
    }

    /// Adds a key that failed, after its backoff and not faster than the rate for all keys.
    pub fn add_rate_limited(&self, key: K, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.now();
        let is_sooner = state.add_rate_limited(key, priority, now);
        self.0.notify(state, is_sooner);
    }

    /// Forgets the failures of a key, which has succeeded or will not be retried.
    pub fn forget(&self, key: &K) {
        self.0.lock().limiter.forget(key);
    }

    /// The number of failures of a key in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.0.lock().limiter.failures(key)
    }

    /// Waits for the next key. `None` once the queue was shut down and is empty.
    pub async fn get(&self) -> Option<Job<K>> {
        let mut is_woken = false;
        loop {
            // Created before the queue is read, so that it notices a change in between.
            let changed = self.0.changed.notified();
            let delay = match self.take(is_woken) {
                Next::Key(job) => return Some(job),
                Next::ShutDown => return None,
                Next::Wait(delay) => delay,
            };
            is_woken = match delay {
                None => {
                    changed.await;
                    true
                }
                Some(delay) => tokio::select! {
                    () = changed => true,
                    () = self.0.clock.sleep(delay) => false,
                },
            };
        }
    }

    /// Takes the next key for a worker. If other keys wait, another worker is woken.
    fn take(&self, is_woken: bool) -> Next<K> {
        let mut state = self.0.lock();
        if is_woken {
            state.is_waking = false;
        }
        let now = state.now();
        state.add_due(now);
        if let Some(taken) = state.take(now) {
            self.0.wake_worker(state);
            return Next::Key(Job::new(self.clone(), taken));
        }
        if state.is_shut_down {
            return Next::ShutDown;
        }
        Next::Wait(state.delayed.next_due().map(|due| due.saturating_sub(now)))
    }

    /// Stops accepting keys, and drops those that are delayed. Those that wait are still handed out.
    pub fn shut_down(&self) {
        let mut state = self.0.lock();
        state.is_shut_down = true;
        state.delayed.clear();
        drop(state);
        self.0.changed.notify_waiters();
        self.0.finished.notify_waiters();
    }

    /// [Shuts down](Self::shut_down), and waits until every key was handed out and processed.
    pub async fn drain(&self) {
        self.shut_down();
        loop {
            let finished = self.0.finished.notified();
            if self.0.lock().queue.is_idle() {
                return;
            }
            finished.await;
        }
    }

    /// The keys that are not done: those that wait for a worker, those that a worker has, and those
    /// that are delayed after a failure. A key that was added with a delay and is not due is none of
    /// them.
    ///
    /// ```
    /// # use {informer::{WorkQueue, work_queue::{KeyState, QueueOptions}}, keel::{Clock, Entropy}};
    /// let queue = WorkQueue::new(&QueueOptions::default(), &Clock::system(), &Entropy::system());
    /// queue.add("a");
    /// assert_eq!(queue.unfinished_keys(), [("a", KeyState::Waiting)]);
    /// ```
    pub fn unfinished_keys(&self) -> Vec<(K, KeyState)> {
        let state = self.0.lock();
        let now = state.now();
        let mut keys = state.queue.unfinished_keys();
        keys.extend(state.delayed.entries().filter_map(|(key, due)| {
            match state.limiter.failures(key) {
                _ if due <= now => Some((key.clone(), KeyState::Waiting)),
                0 => None,
                failures => Some((key.clone(), KeyState::Failed(failures))),
            }
        }));
        keys
    }

    /// The present state of the queue, and its counters.
    pub fn metrics(&self) -> QueueMetrics {
        self.0.lock().metrics()
    }

    fn end(&self, job: &Job<K>, outcome: JobOutcome) {
        let mut state = self.0.lock();
        let now = state.now();
        let is_sooner = state.end(job, outcome, now);
        self.0.notify(state, is_sooner);
    }
}

/// The next key for a worker.
enum Next<K: Clone + Eq + Hash> {
    Key(Job<K>),
    /// No key waits; the next one is due after this time, if one is delayed.
    Wait(Option<Duration>),
    ShutDown,
}

impl<K: Clone + Eq + Hash> QueueState<K> {
    /// Wakes those that wait for a change: a worker if a key waits, all workers if the next delayed
    /// key `is_sooner`, and [`WorkQueue::drain`].
    fn notify(&self, state: MutexGuard<'_, State<K>>, is_sooner: bool) {
        let is_shut_down = state.is_shut_down;
        self.wake_worker(state);
        if is_sooner {
            self.changed.notify_waiters();
        }
        if is_shut_down {
            self.finished.notify_waiters();
        }
    }

    /// Wakes a worker if a key waits and no worker is on its way to the queue. The worker wakes the
    /// next one, so that a few keys that are processed at once do not wake all workers.
    fn wake_worker(&self, mut state: MutexGuard<'_, State<K>>) {
        let is_needed = !state.is_waking && state.queue.depth() > 0;
        state.is_waking |= is_needed;
        drop(state);
        if is_needed {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = self.metrics();
        write!(
            f,
            "WorkQueue with {} waiting keys, {} unfinished",
            metrics.depth, metrics.unfinished
        )
    }
}

#[cfg(test)]
mod tests;
