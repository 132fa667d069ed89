//! [`Job`]: a key that a worker has, and what is to become of it.

use std::{fmt, future::poll_fn, hash::Hash, mem, task::Poll, time::Duration};

use crate::work_queue::{Priority, WorkQueue, attendance::Seat, queue::Taken};

/// A key that a worker has; nobody else gets it until this is dropped, in whatever way.
pub struct Job<K: Clone + Eq + Hash> {
    queue: WorkQueue<K>,
    taken: Taken<K>,
    seat: Option<Seat>,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    UnderWay,
    /// The worker may have to wait.
    HandedOn,
    Ends(Ending),
    /// The queue knows how.
    Ended,
}

/// What came of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nobody knows.
    Abandoned,
    /// It went well: its failures are forgotten.
    Success,
    /// It went wrong: it comes again after its back-off.
    Failure,
    /// It went well, and should be looked at again after so long.
    Repetition(Duration),
}

impl<K: Clone + Eq + Hash> Job<K> {
    pub(super) fn new(queue: WorkQueue<K>, taken: Taken<K>, seat: Option<Seat>) -> Self {
        Self { queue, taken, seat, stage: Stage::UnderWay }
    }

    /// What to work on.
    pub fn key(&self) -> &K {
        &self.taken.key
    }

    /// How urgent it was.
    pub fn priority(&self) -> Priority {
        self.taken.priority
    }

    /// How long it has waited for a worker.
    pub fn waited(&self) -> Duration {
        self.taken.waited
    }

    /// Whether it is here because it was put off until now, by a failure or a repetition; others may
    /// have added it as well.
    pub fn was_due(&self) -> bool {
        self.taken.was_due
    }

    /// It went well: its failures are forgotten.
    pub fn succeed(self) {
        self.end(Ending::Success);
    }

    /// It went wrong: it comes again after its back-off.
    pub fn retry(self) {
        self.end(Ending::Failure);
    }

    /// It went well, and should be looked at again after `delay`.
    pub fn repeat_after(self, delay: Duration) {
        self.end(Ending::Repetition(delay));
    }

    /// It ended like this.
    pub fn end(mut self, ending: Ending) {
        self.stage = Stage::Ends(ending);
    }

    /// Ends this, and takes the next key if one waits; in one step, and so for less than both.
    ///
    /// Whoever has done some keys in a row quickly is left alone with the rest, since several would
    /// mostly be in each other's way; the others get None then, and wait in
    /// [`get`](WorkQueue::get). Before waiting for something, a worker must [hand
    /// on](Self::hand_on) what waits.
    ///
    /// ```
    /// # use {informer::{WorkQueue, work_queue::{Ending, QueueOptions}}, keel::{Clock, Entropy}};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let queue = WorkQueue::new(&QueueOptions::default(), &Clock::system(), &Entropy::system());
    /// queue.add("a");
    /// queue.add("b");
    /// let job = queue.get().await.unwrap();
    /// let mut job = job.next(Ending::Success).unwrap();
    /// job.hand_on(); // others may work while this one waits
    /// tokio::task::yield_now().await;
    /// assert!(job.next(Ending::Success).is_none());
    /// # }
    /// ```
    #[must_use = "the next key is with the caller"]
    pub fn next(mut self, ending: Ending) -> Option<Self> {
        let next = self.queue.exchange(&self, ending);
        self.stage = Stage::Ended;
        (self.taken, self.seat) = next?;
        self.stage = Stage::UnderWay;
        Some(self)
    }

    /// Lets others get what waits, because this one may take long.
    pub fn hand_on(&mut self) {
        self.stage = Stage::HandedOn;
        if self.seat.is_some() {
            self.queue.hand_on(self.seat.take());
        }
    }

    pub(super) fn is_handed_on(&self) -> bool {
        matches!(self.stage, Stage::HandedOn)
    }

    pub(super) fn seat(&self) -> Option<Seat> {
        self.seat
    }
}

impl<K: Clone + Eq + Hash> Drop for Job<K> {
    fn drop(&mut self) {
        match self.stage {
            Stage::UnderWay | Stage::HandedOn => self.queue.end(self, Ending::Abandoned),
            Stage::Ends(ending) => self.queue.end(self, ending),
            Stage::Ended => {}
        }
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Job<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job {:?}", self.taken.key)
    }
}

/// Lets other tasks have the thread, and lets other threads have this task meanwhile, unlike
/// [`tokio::task::yield_now`].
pub(super) async fn step_aside() {
    let mut is_aside = false;
    poll_fn(|cx| {
        if mem::replace(&mut is_aside, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
