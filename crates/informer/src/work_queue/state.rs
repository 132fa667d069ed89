//! [`State`]: all of a work queue that its lock guards; no method waits or wakes anybody.

use std::{hash::Hash, time::Duration};

use keel::{Clock, Entropy};

use super::{
    Ending, Job, Priority, QueueMetrics, QueueOptions, Shared, Thread,
    attendance::{Attendance, Seat},
    delaying::{Delayed, Passage},
    queue::{Arrival, Queue, Taken},
    rate_limiter::RateLimiter,
};

/// See the [module documentation](self).
pub(super) struct State<K> {
    pub(super) queue: Queue<K>,
    pub(super) delayed: Delayed<K>,
    pub(super) limiter: RateLimiter<K>,
    /// Read under the lock: whoever does more between two locks gives way to another processor there,
    /// and pays for fetching all of this back.
    pub(super) passage: Passage,
    /// What has been counted so far; the rest of the fields is filled in when asked for.
    pub(super) counted: QueueMetrics,
    pub(super) is_shut_down: bool,
    /// A worker was woken and has not looked yet.
    pub(super) is_waking: bool,
    pub(super) attendance: Attendance,
    pub(super) stand_in: StandIn,
    /// Workers that wait.
    pub(super) asleep: usize,
    /// One of them looks whether the one that is seated gets on.
    pub(super) is_watched: bool,
}

/// Whoever is woken last, see [`WorkQueue::stand_in`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandIn {
    Absent,
    Waits,
    Woken,
}

/// A worker that waits, until it is dropped.
pub(super) struct Asleep<'a, K: Clone + Eq + Hash> {
    pub(super) queue: &'a Shared<K>,
    /// Whether it is the one that looks after the one that is seated.
    pub(super) is_watching: bool,
}

impl<K: Clone + Eq + Hash> Drop for Asleep<'_, K> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        let now = state.passage.now();
        state.wake(self);
        // It may be the one that was woken.
        state.is_waking = false;
        self.queue.rouse(state, now, Thread::This);
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(options: &QueueOptions, clock: &Clock, entropy: &Entropy) -> Self {
        Self {
            queue: Queue::new(options.aging),
            delayed: Delayed::new(),
            limiter: RateLimiter::new(&options.limits, entropy),
            passage: Passage::new(clock),
            counted: QueueMetrics::default(),
            is_shut_down: false,
            is_waking: false,
            attendance: Attendance::default(),
            stand_in: StandIn::Absent,
            asleep: 0,
            is_watched: false,
        }
    }

    pub(super) fn may_stand_in(&mut self) -> bool {
        self.stand_in = StandIn::Waits;
        !self.is_shut_down
    }

    pub(super) fn wake(&mut self, asleep: &Asleep<'_, K>) {
        self.asleep -= 1;
        self.is_watched &= !asleep.is_watching;
    }

    pub(super) fn add(&mut self, key: K, priority: Priority, now: Duration, arrival: Arrival) {
        if self.is_shut_down {
            return;
        }
        if self.queue.add(key, priority, now, arrival) {
            self.counted.adds += 1;
        }
    }

    /// Whether those who sleep until the next key is due have to sleep less.
    pub(super) fn add_after(
        &mut self,
        key: K,
        priority: Priority,
        now: Duration,
        delay: Duration,
    ) -> bool {
        if delay.is_zero() {
            self.add(key, priority, now, Arrival::Due);
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

    /// The same for a key that failed.
    pub(super) fn add_rate_limited(&mut self, key: K, priority: Priority, now: Duration) -> bool {
        let delay = self.limiter.delay(key.clone(), now);
        self.counted.retries += 1;
        self.add_after(key, priority, now, delay)
    }

    fn add_due(&mut self, now: Duration) {
        for (key, priority) in self.delayed.take_due(now) {
            self.add(key, priority, now, Arrival::Due);
        }
    }

    /// The next key for whoever has this seat, and the seat that they have then.
    pub(super) fn take(
        &mut self,
        seat: Option<Seat>,
        now: Duration,
    ) -> Option<(Taken<K>, Option<Seat>)> {
        self.add_due(now);
        // Once there will be no more, nobody is to wait for another.
        if self.attendance.is_with_another(seat, now) && !self.is_shut_down {
            return None;
        }
        let taken = self.queue.take(now)?;
        self.counted.latency.observe(taken.waited);
        Some((taken, self.attendance.take(seat, now)))
    }

    /// How long a job took that has ended, and whether those who sleep have to sleep less.
    pub(super) fn end(&mut self, job: &Job<K>, ending: Ending, now: Duration) -> (Duration, bool) {
        let (key, priority) = (job.key(), job.priority());
        let is_sooner = match ending {
            Ending::Abandoned => false,
            Ending::Success => {
                self.limiter.forget(key);
                false
            }
            Ending::Failure => self.add_rate_limited(key.clone(), priority, now),
            Ending::Repetition(delay) => {
                self.limiter.forget(key);
                self.add_after(key.clone(), priority, now, delay)
            }
        };
        let worked = self.queue.done(key, now);
        self.counted.work_duration.observe(worked);
        (worked, is_sooner)
    }
}
