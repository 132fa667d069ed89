//! [`CrdTasks`]: background tasks that write the status of CRDs and delete the objects of CRDs that
//! are being deleted.
//!
//! Tasks run concurrently, since an admission or conversion webhook may delay one by half a minute,
//! which must not delay other CRDs. A CRD has one task at a time, and at most [`MAX_TASKS`] run at
//! once. A task that failed is repeated after a pause, which doubles with each failure.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use crate::storage::Storage;
use keel::{Clock, ClockInstant};
use machinery::Object;

/// The maximum number of tasks that run at once.
const MAX_TASKS: usize = 256;

/// The pause after the first failure.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The maximum pause after a failure.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskOutcome {
    /// Nothing is left to be done until the CRD changes.
    Done,
    /// The CRD needs another task.
    Retry,
    /// The task is repeated after a pause.
    Failed,
}

/// See the [module documentation](self).
pub(super) struct CrdTasks {
    clock: Clock,
    /// The tasks in progress, by the uid of the CRD.
    running: HashMap<String, CrdTask>,
    /// The failures of the last task, by the uid of the CRD.
    failures: HashMap<String, Failures>,
    /// The resource versions of CRDs for which nothing is left to be done, by uid.
    done: HashMap<String, String>,
    /// Notified when a task is finished.
    finished: Arc<Notify>,
}

struct CrdTask {
    /// The resource version of the CRD when the task began.
    resource_version: String,
    /// The CRD as the task writes it, if that is known.
    updated: Option<Arc<Object>>,
    outcome: Arc<OnceLock<TaskOutcome>>,
    /// Whether the CRD was deleted meanwhile.
    is_crd_deleted: bool,
}

struct Failures {
    last: ClockInstant,
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

    /// Whether a task of this CRD is in progress.
    pub(super) fn is_running(&self, crd: &Object) -> bool {
        self.running.contains_key(crd.uid())
    }

    /// Whether the last task of this CRD failed.
    pub(super) fn has_failed(&self, crd: &Object) -> bool {
        self.failures.contains_key(crd.uid())
    }

    /// Whether a task of this CRD may start now.
    pub(super) fn may_start(&self, crd: &Object) -> bool {
        let failures = self.failures.get(crd.uid());
        let done = self.done.get(crd.uid());
        self.running.len() < MAX_TASKS
            && !self.is_running(crd)
            && done.is_none_or(|it| it != crd.resource_version())
            && failures.is_none_or(|it| self.clock.elapsed_since(&it.last) >= it.pause)
    }

    /// The CRD as its task in progress writes it.
    pub(super) fn updated(&self, crd: &Object) -> Option<&Object> {
        self.running.get(crd.uid())?.updated.as_deref()
    }

    /// Starts a task. `updated` is the CRD as the task writes it, if that is known.
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

    /// Records the outcomes of finished tasks; returns whether one of them must be repeated.
    pub(super) fn take_finished(&mut self) -> bool {
        let Self { clock, running, failures, done, .. } = self;
        let mut must_repeat = false;
        running.retain(|uid, task| {
            let Some(outcome) = task.outcome.get() else { return true };
            if task.is_crd_deleted {
                return false;
            }
            must_repeat |= *outcome != TaskOutcome::Done;
            if *outcome == TaskOutcome::Failed {
                let last_pause = failures.get(uid).map(|it| it.pause);
                let pause = last_pause.map_or(FIRST_RETRY_PAUSE, |it| MAX_RETRY_PAUSE.min(2 * it));
                failures.insert(uid.clone(), Failures { last: clock.instant(), pause });
            } else {
                failures.remove(uid);
            }
            if *outcome == TaskOutcome::Done {
                done.insert(uid.clone(), std::mem::take(&mut task.resource_version));
            }
            false
        });
        must_repeat
    }

    /// Whether tasks wait to be repeated.
    pub(super) fn have_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Removes a CRD that was deleted.
    pub(super) fn remove_crd(&mut self, uid: &str) {
        self.failures.remove(uid);
        self.done.remove(uid);
        if let Some(task) = self.running.get_mut(uid) {
            task.is_crd_deleted = true;
        }
    }
}

/// Records the outcome of a task, also if it panics.
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
