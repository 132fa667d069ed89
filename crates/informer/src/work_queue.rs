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

mod state;
mod queue;
mod attendance;
mod delaying;
mod rate_limiter;
mod priority;
mod metrics;
mod job;

use std::{
    fmt,
    hash::Hash,
    mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keel::{Clock, Entropy};
use tokio::sync::Notify;

pub use job::{Ending, Job};
pub use metrics::{Histogram, QueueMetrics};
pub use priority::Priority;
pub use rate_limiter::RateLimits;

use attendance::Seat;
use job::step_aside;
use queue::{Arrival, Taken};
use state::{Asleep, StandIn, State};

/// How long keys wait at the most when the worker that is seated is stuck, and no key is added.
const WATCH: Duration = Duration::from_millis(100);

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
    /// The same for the one that [watches](State::is_watched).
    relief: Notify,
    /// A key was done.
    finished: Notify,
    /// See [`WorkQueue::stand_in`].
    stand_in: Notify,
    clock: Clock,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    pub fn new(options: &QueueOptions, clock: &Clock, entropy: &Entropy) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State::new(options, clock, entropy)),
            changed: Notify::new(),
            relief: Notify::new(),
            finished: Notify::new(),
            stand_in: Notify::new(),
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
        self.0.rouse(state, now, Thread::This);
    }

    /// Adds a key after `delay`. A key that is to come earlier already, comes then.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        let is_sooner = state.add_after(key, priority, now, delay);
        self.0.tell(state, now, is_sooner, Thread::This);
    }

    /// Adds a key that failed, after its back-off and not faster than all keys may come.
    pub fn add_rate_limited(&self, key: K, priority: Priority) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        let is_sooner = state.add_rate_limited(key, priority, now);
        self.0.tell(state, now, is_sooner, Thread::This);
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
        match self.glance() {
            Glance::Key(job) => return Some(job),
            Glance::Nothing => {}
            // It was woken on this thread, and cannot stand in again before it had it.
            Glance::StandIn => step_aside().await,
        }
        let mut asleep = None;
        loop {
            let mut changed = pin!(self.0.changed.notified());
            // Before looking: what is added in between must not be missed.
            changed.as_mut().enable();
            let delay;
            (asleep, delay) = match self.look(asleep.take()) {
                Found::Key(job) => return Some(job),
                Found::End => return None,
                Found::Nothing(asleep, delay) => {
                    if asleep.is_watching {
                        changed.set(self.0.relief.notified());
                    }
                    (Some(asleep), delay)
                }
            };
            match delay {
                None => changed.await,
                Some(delay) => tokio::select! {
                    () = changed => {}
                    () = self.0.clock.sleep(delay) => {}
                },
            }
        }
    }

    /// To be awaited by a task of its own, so that workers get threads of their own. It ends when the
    /// queue is shut down.
    ///
    /// A runtime keeps the task that was woken last for the thread that woke it. If a worker wakes
    /// another one before it begins, and then keeps its thread, that one would be stuck: so whoever
    /// awaits this is woken last, for nothing.
    pub async fn stand_in(&self) {
        while self.0.lock().may_stand_in() {
            self.0.stand_in.notified().await;
        }
    }

    fn glance(&self) -> Glance<K> {
        let mut state = self.0.lock();
        if state.stand_in == StandIn::Woken {
            return Glance::StandIn;
        }
        let now = state.passage.now();
        let taken = state.take(None, now);
        taken.map_or(Glance::Nothing, |taken| Glance::Key(self.hand_out(state, taken, now)))
    }

    fn look(&self, asleep: Option<Asleep<'_, K>>) -> Found<'_, K> {
        let mut state = self.0.lock();
        let now = state.passage.now();
        state.is_waking = false;
        if let Some(asleep) = asleep {
            state.wake(&asleep);
            mem::forget(asleep);
        }
        if let Some(taken) = state.take(None, now) {
            return Found::Key(self.hand_out(state, taken, now));
        }
        if state.is_shut_down {
            return Found::End;
        }
        let due = state.delayed.next_due().map(|due| due.saturating_sub(now));
        // Keys that are left to another one.
        let is_watching = state.queue.depth() > 0 && !state.is_watched;
        state.is_watched |= is_watching;
        state.asleep += 1;
        let delay = if is_watching { Some(due.map_or(WATCH, |due| due.min(WATCH))) } else { due };
        Found::Nothing(Asleep { queue: &self.0, is_watching }, delay)
    }

    fn hand_out(
        &self,
        state: MutexGuard<'_, State<K>>,
        (taken, seat): (Taken<K>, Option<Seat>),
        now: Duration,
    ) -> Job<K> {
        self.0.rouse(state, now, Thread::Another);
        Job::new(self.clone(), taken, seat)
    }

    /// Takes no more keys, and forgets those that were to come later. Those that wait are still
    /// handed out.
    pub fn shut_down(&self) {
        let mut state = self.0.lock();
        state.is_shut_down = true;
        state.delayed.clear();
        drop(state);
        self.0.changed.notify_waiters();
        self.0.relief.notify_one();
        self.0.finished.notify_waiters();
        self.0.stand_in.notify_one();
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
    fn end(&self, job: &Job<K>, ending: Ending) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        let (_, is_sooner) = state.end(job, ending, now);
        state.attendance.leave(job.seat());
        self.0.tell(state, now, is_sooner, Thread::This);
    }

    /// The same, and what the worker gets next.
    fn exchange(&self, job: &Job<K>, ending: Ending) -> Option<(Taken<K>, Option<Seat>)> {
        let mut state = self.0.lock();
        let now = state.passage.now();
        let (worked, is_sooner) = state.end(job, ending, now);
        state.attendance.note(worked, job.is_handed_on());
        let is_free = state.stand_in != StandIn::Woken;
        let next = is_free.then(|| state.take(job.seat(), now)).flatten();
        if next.is_none() {
            state.attendance.leave(job.seat());
        }
        self.0.tell(state, now, is_sooner, Thread::Another);
        next
    }

    fn hand_on(&self, seat: Option<Seat>) {
        let mut state = self.0.lock();
        let now = state.passage.now();
        state.attendance.leave(seat);
        self.0.rouse(state, now, Thread::This);
    }
}

/// Where a worker is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// On this thread, which will be free in a moment.
    This,
    /// On another one if possible, since this one is about to be busy.
    Another,
}

/// What is in the queue at first glance.
enum Glance<K: Clone + Eq + Hash> {
    Key(Job<K>),
    Nothing,
    /// The stand-in has to go first.
    StandIn,
}

/// What is in the queue for a worker.
enum Found<'a, K: Clone + Eq + Hash> {
    Key(Job<K>),
    /// Perhaps after this time.
    Nothing(Asleep<'a, K>, Option<Duration>),
    /// The queue was shut down and is empty.
    End,
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// Wakes those whom a change is about.
    fn tell(
        &self,
        state: MutexGuard<'_, State<K>>,
        now: Duration,
        is_sooner: bool,
        thread: Thread,
    ) {
        let is_shut_down = state.is_shut_down;
        self.rouse(state, now, thread);
        if is_sooner {
            self.changed.notify_waiters();
            self.relief.notify_one();
        }
        // Nobody else waits for the end of a job.
        if is_shut_down {
            self.finished.notify_waiters();
        }
    }

    /// Wakes a worker if a key waits and none is on its way to it. Each wakes the next one: so a few
    /// keys that are done at once do not set all workers, and all processors, in motion.
    fn rouse(&self, mut state: MutexGuard<'_, State<K>>, now: Duration, thread: Thread) {
        let is_needed = !state.is_waking
            && state.asleep > 0
            && state.queue.depth() > 0
            && !(state.is_watched && state.attendance.is_with_another(None, now));
        state.is_waking |= is_needed;
        let stands_in = is_needed && thread == Thread::Another && state.stand_in == StandIn::Waits;
        if stands_in {
            state.stand_in = StandIn::Woken;
        }
        let only_one_watches = state.asleep == usize::from(state.is_watched);
        drop(state);
        if is_needed {
            // The one that watches goes on watching, if there is another one.
            let worker = if only_one_watches { &self.relief } else { &self.changed };
            worker.notify_one();
        }
        if stands_in {
            self.stand_in.notify_one();
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
