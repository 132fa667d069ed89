//! [`CrdTasks`]: what is done for crds in the background. Statuses are written, and what is left
//! of a crd that is being deleted is removed.
//!
//! Each task is a task of its own, since an admission or conversion webhook may keep it waiting for
//! half a minute, and other crds need not wait for that. A crd has one task at a time,
//! and at most [`MAX_TASKS`] run at once. A task that failed is repeated after a pause, which doubles
//! with each failure.

use crate::cache::storage::Storage;
use keel::{Clock, Moment};
use machinery::Object;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// The most tasks that run at once.
const MAX_TASKS: usize = 256;

/// The pause after the first failure, and the longest one.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskOutcome {
    /// Nothing is left to be done until the crd changes.
    Done,
    /// Something is left to be done.
    Retry,
    /// It is to be repeated, after a pause.
    Failed,
}

/// See the [module documentation](self).
pub(super) struct CrdTasks {
    clock: Clock,
    /// By the uid of the crd.
    running: HashMap<String, CrdTask>,
    failures: HashMap<String, Failures>,
    /// The resource versions of crds for which nothing is left to be done.
    done: HashMap<String, String>,
    /// Notified when a task is finished.
    finished: Arc<Notify>,
}

struct CrdTask {
    /// The resource version of the crd when the task began.
    resource_version: String,
    /// The crd as the task leaves it, if that is known.
    updated: Option<Arc<Object>>,
    outcome: Arc<OnceLock<TaskOutcome>>,
    /// The crd does not exist any more.
    is_crd_deleted: bool,
}

struct Failures {
    last: Moment,
    pause: Duration,
}

impl CrdTasks {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            running: HashMap::new(),
            failures: HashMap::new(),
            done: HashMap::new(),
            finished: Arc::default(),
        }
    }

    /// Whether a task of this crd is under way.
    pub(super) fn is_running(&self, crd: &Object) -> bool {
        self.running.contains_key(crd.uid())
    }

    /// Whether the last task of this crd failed.
    pub(super) fn has_failed(&self, crd: &Object) -> bool {
        self.failures.contains_key(crd.uid())
    }

    /// Whether a task of this crd may start now.
    pub(super) fn may_start(&self, crd: &Object) -> bool {
        let failures = self.failures.get(crd.uid());
        let done = self.done.get(crd.uid());
        self.running.len() < MAX_TASKS
            && !self.is_running(crd)
            && done.is_none_or(|it| it != crd.resource_version())
            && failures.is_none_or(|it| self.clock.passed_since(&it.last) >= it.pause)
    }

    /// The crd as a task that is under way leaves it.
    pub(super) fn updated(&self, crd: &Object) -> Option<&Object> {
        self.running.get(crd.uid())?.updated.as_deref()
    }

    /// Starts a task. `updated` is the crd as the task leaves it, if that is known.
    pub(super) fn start(
        &mut self,
        storage: &Storage,
        crd: &Object,
        updated: Option<Arc<Object>>,
        task: impl Future<Output = TaskOutcome> + Send + 'static,
    ) {
        let outcome = Arc::<OnceLock<TaskOutcome>>::default();
        let resource_version = crd.resource_version().to_owned();
        let running = CrdTask {
            resource_version,
            updated,
            outcome: Arc::clone(&outcome),
            is_crd_deleted: false,
        };
        self.running.insert(crd.uid().to_owned(), running);
        let guard = OutcomeGuard { outcome, finished: Arc::clone(&self.finished) };
        let stop = storage.tasks.shutdown();
        storage.tasks.spawn("crd-task", async move {
            tokio::select! {
                outcome = task => guard.finish(outcome),
                () = stop => {}
            }
        });
    }

    /// Waits until a task is finished.
    pub(super) async fn finished(&self) {
        self.finished.notified().await;
    }

    /// Takes note of the tasks that are finished; whether one of them has to be repeated.
    pub(super) fn take_finished(&mut self) -> bool {
        let Self { clock, running, failures, done, .. } = self;
        let mut is_unfinished = false;
        running.retain(|uid, task| {
            let Some(outcome) = task.outcome.get() else { return true };
            if task.is_crd_deleted {
                return false;
            }
            is_unfinished |= *outcome != TaskOutcome::Done;
            if *outcome == TaskOutcome::Failed {
                let [first, longest] = RETRY_PAUSES;
                let pause = failures.get(uid).map_or(first, |it| longest.min(2 * it.pause));
                failures.insert(uid.clone(), Failures { last: clock.moment(), pause });
            } else {
                failures.remove(uid);
            }
            if *outcome == TaskOutcome::Done {
                done.insert(uid.clone(), std::mem::take(&mut task.resource_version));
            }
            false
        });
        is_unfinished
    }

    /// Whether tasks wait to be repeated.
    pub(super) fn have_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Forgets a crd that does not exist any more.
    pub(super) fn remove_crd(&mut self, uid: &str) {
        self.failures.remove(uid);
        self.done.remove(uid);
        if let Some(task) = self.running.get_mut(uid) {
            task.is_crd_deleted = true;
        }
    }
}

/// Ends a task, also if it panics.
struct OutcomeGuard {
    outcome: Arc<OnceLock<TaskOutcome>>,
    finished: Arc<Notify>,
}

impl OutcomeGuard {
    fn finish(self, outcome: TaskOutcome) {
        let _ = self.outcome.set(outcome);
    }
}

impl Drop for OutcomeGuard {
    fn drop(&mut self) {
        let _ = self.outcome.set(TaskOutcome::Failed);
        self.finished.notify_one();
    }
}

#[cfg(test)]
mod tests;
