//! [`WorkQueue`]: keys of objects that something should be done about.
//!
//! - Fair: keys of one priority come in the order in which they were added.
//! - Stingy: a key that was added several times before a worker got it comes once.
//! - A key is never with two workers at once; if it is added meanwhile, it comes again afterwards.
//! - Keys may be added later, or after a back-off of their own and at a rate for all.
//! - Priorities overtake, and waiting makes urgent ([`Priority`]).
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
//! A worker says how it went; failures come again later each time:
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
//! Bound: as many keys as there are different ones; whoever adds keys of objects that exist, or of
//! which the end was not dealt with yet, cannot grow it beyond that.

mod queue;
mod delaying;
mod rate_limiter;
mod priority;
mod metrics;
mod job;

use std::{
    fmt,
    hash::Hash,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keel::{Clock, Entropy};
use tokio::sync::Notify;

pub use job::Job;
pub use metrics::{Histogram, QueueMetrics};
pub use priority::Priority;
pub use rate_limiter::RateLimits;

use delaying::{Delayed, Passage};
use job::Ending;
use queue::{Arrival, Queue, Taken};
use rate_limiter::RateLimiter;

/// How a queue behaves.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// For keys that failed.
    pub limits: RateLimits,
    /// Waiting so long counts as one step of priority.
    pub aging: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { limits: RateLimits::default(), aging: Duration::from_secs(10) }
    }
}

/// See the [module documentation](self). Clones are the same queue.
pub struct WorkQueue<K: Clone + Eq + Hash>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    /// A key is there, or is due earlier, or the queue was shut down.
    changed: Notify,
    /// A key was done.
    finished: Notify,
    clock: Clock,
}

struct State<K> {
    queue: Queue<K>,
    delayed: Delayed<K>,
    limiter: RateLimiter<K>,
    /// Read under the lock: whoever does more between two locks gives way to another processor there,
    /// and pays for fetching all of this back.
    passage: Passage,
    /// What has been counted so far; the rest of the fields is filled in when asked for.
    counted: QueueMetrics,
    is_shut_down: bool,
    /// A worker was woken and has not looked yet.
    is_waking: bool,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    pub fn new(options: &QueueOptions, clock: &Clock, entropy: &Entropy) -> Self {
        let state = State {
            queue: Queue::new(options.aging),
            delayed: Delayed::new(),
            limiter: RateLimiter::new(&options.limits, entropy),
            passage: Passage::new(clock),
            counted: QueueMetrics::default(),
            is_shut_down: false,
            is_waking: false,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Notify::new(),
            finished: Notify::new(),
            clock: clock.clone(),
        }))
    }

    /// Adds a key; nothing happens if it waits already, or if the queue was shut down.
    pub fn add(&self, key: K) {
        self.add_with_priority(key, Priority::NORMAL);
    }

    /// The same; a key that waits with a lower priority is lifted.
    pub fn add_with_priority(&self, key: K, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        state.add(key, priority, now, Arrival::Added);
        self.0.rouse(state);
    }

    /// Adds a key after `delay`. A key that is to come earlier already, comes then.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        state.add_after(key, priority, now, delay);
        self.0.tell_of(state, delay);
    }

    /// Adds a key that failed, after its back-off and not faster than all keys may come.
    pub fn add_rate_limited(&self, key: K, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        let delay = state.add_rate_limited(key, priority, now);
        self.0.tell_of(state, delay);
    }

    /// Forgets the failures of a key: it has succeeded, or nobody will try again.
    pub fn forget(&self, key: &K) {
        self.0.lock().limiter.forget(key);
    }

    /// How often a key has failed in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.0.lock().limiter.failures(key)
    }

    /// Waits for the next key. None once the queue was shut down and is empty.
    pub async fn get(&self) -> Option<Job<K>> {
        // Most of the time there is something, and nobody needs to be ready to wait.
        if let Found::Key(job) = self.look() {
            return Some(job);
        }
        loop {
            let mut changed = pin!(self.0.changed.notified());
            // Before looking: what is added in between must not be missed.
            changed.as_mut().enable();
            match self.look() {
                Found::Key(job) => return Some(job),
                Found::End => return None,
                Found::Nothing => changed.await,
                Found::Later(delay) => tokio::select! {
                    () = changed => {}
                    () = self.0.clock.sleep(delay) => {}
                },
            }
        }
    }

    fn look(&self) -> Found<K> {
        let mut state = self.0.lock();
        let now = state.passage.now();
        state.add_due(now);
        state.is_waking = false;
        if let Some(taken) = state.take(now) {
            self.0.rouse(state);
            return Found::Key(Job::new(self.clone(), taken));
        }
        if state.is_shut_down {
            return Found::End;
        }
        let due = state.delayed.next_due();
        due.map_or(Found::Nothing, |due| Found::Later(due.saturating_sub(now)))
    }

    /// Takes no more keys, and forgets those that were to come later. Those that wait are still
    /// handed out.
    pub fn shut_down(&self) {
        let mut state = self.0.lock();
        state.is_shut_down = true;
        state.delayed.clear();
        drop(state);
        self.0.changed.notify_waiters();
        self.0.finished.notify_waiters();
    }

    /// [Shuts down](Self::shut_down), and waits until every key was handed out and done.
    pub async fn drain(&self) {
        self.shut_down();
        loop {
            let mut finished = pin!(self.0.finished.notified());
            finished.as_mut().enable();
            if self.0.lock().queue.is_idle() {
                return;
            }
            finished.await;
        }
    }

    /// How the queue fares.
    pub fn metrics(&self) -> QueueMetrics {
        let state = self.0.lock();
        let now = state.passage.now();
        let running = || state.queue.worked_on().map(|since| now.saturating_sub(since));
        QueueMetrics {
            depth: state.queue.depth(),
            delayed: state.delayed.len(),
            unfinished: running().count(),
            unfinished_work: running().sum(),
            longest_running: running().max().unwrap_or_default(),
            ..state.counted.clone()
        }
    }

    /// All that the end of a job means, in one step.
    fn end(&self, key: &K, priority: Priority, ending: Ending) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        let delay = match ending {
            Ending::Abandoned => None,
            Ending::Success => {
                state.limiter.forget(key);
                None
            }
            Ending::Failure => Some(state.add_rate_limited(key.clone(), priority, now)),
            Ending::Repetition(delay) => {
                state.limiter.forget(key);
                state.add_after(key.clone(), priority, now, delay);
                Some(delay)
            }
        };
        let worked = state.queue.done(key, now);
        state.counted.work_duration.observe(worked);
        let is_shut_down = state.is_shut_down;
        self.0.tell_of(state, delay.unwrap_or_default());
        // Nobody else waits for that.
        if is_shut_down {
            self.0.finished.notify_waiters();
        }
    }
}

/// What is in the queue for a worker.
enum Found<K: Clone + Eq + Hash> {
    Key(Job<K>),
    /// Only later.
    Later(Duration),
    Nothing,
    /// The queue was shut down and is empty.
    End,
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K, priority: Priority, now: Duration, arrival: Arrival) {
        if self.is_shut_down {
            return;
        }
        if self.queue.add(key, priority, now, arrival) {
            self.counted.adds += 1;
        }
    }

    fn add_after(&mut self, key: K, priority: Priority, now: Duration, delay: Duration) {
        if delay.is_zero() {
            self.add(key, priority, now, Arrival::Due);
        } else if !self.is_shut_down {
            self.delayed.add(key, priority, now.saturating_add(delay));
        }
    }

    /// Says after how long it comes.
    fn add_rate_limited(&mut self, key: K, priority: Priority, now: Duration) -> Duration {
        let delay = self.limiter.delay(key.clone(), now);
        self.counted.retries += 1;
        self.add_after(key, priority, now, delay);
        delay
    }

    fn add_due(&mut self, now: Duration) {
        for (key, priority) in self.delayed.take_due(now) {
            self.add(key, priority, now, Arrival::Due);
        }
    }

    fn take(&mut self, now: Duration) -> Option<Taken<K>> {
        let taken = self.queue.take(now)?;
        self.counted.latency.observe(taken.waited);
        Some(taken)
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// A key was added, to come after `delay`.
    fn tell_of(&self, state: MutexGuard<'_, State<K>>, delay: Duration) {
        self.rouse(state);
        if !delay.is_zero() {
            // Whoever sleeps may have to sleep less.
            self.changed.notify_waiters();
        }
    }

    /// Wakes a worker if a key waits and none is on its way to it. Each wakes the next one: so a few
    /// keys that are done at once do not set all workers, and all processors, in motion.
    fn rouse(&self, mut state: MutexGuard<'_, State<K>>) {
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
        write!(f, "WorkQueue, {} waiting, {} worked on", metrics.depth, metrics.unfinished)
    }
}

#[cfg(test)]
mod tests;
