//! [`Job`]: a key that a worker has, and what is to become of it.

use std::{fmt, hash::Hash, time::Duration};

use crate::work_queue::{Priority, WorkQueue, queue::Taken};

/// A key that a worker has; nobody else gets it until this is dropped, in whatever way.
pub struct Job<K: Clone + Eq + Hash> {
    queue: WorkQueue<K>,
    key: K,
    priority: Priority,
    waited: Duration,
    was_due: bool,
    ending: Ending,
}

/// What came of a key.
#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// Nobody said.
    Abandoned,
    Success,
    Failure,
    /// It is to come again after so long.
    Repetition(Duration),
}

impl<K: Clone + Eq + Hash> Job<K> {
    pub(super) fn new(queue: WorkQueue<K>, taken: Taken<K>) -> Self {
        let Taken { key, priority, waited, was_due } = taken;
        Self { queue, key, priority, waited, was_due, ending: Ending::Abandoned }
    }

    /// What to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// How urgent it was.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// How long it has waited for a worker.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether it is here because it was put off until now, by a failure or a repetition; others may
    /// have added it as well.
    pub fn was_due(&self) -> bool {
        self.was_due
    }

    /// It went well: its failures are forgotten.
    pub fn succeed(mut self) {
        self.ending = Ending::Success;
    }

    /// It went wrong: it comes again after its back-off.
    pub fn retry(mut self) {
        self.ending = Ending::Failure;
    }

    /// It went well, and should be looked at again after `delay`.
    pub fn repeat_after(mut self, delay: Duration) {
        self.ending = Ending::Repetition(delay);
    }
}

impl<K: Clone + Eq + Hash> Drop for Job<K> {
    fn drop(&mut self) {
        self.queue.end(&self.key, self.priority, self.ending);
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Job<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job {:?}", self.key)
    }
}
