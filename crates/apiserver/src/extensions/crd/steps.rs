//! [`Steps`]: what is done for definitions in the background. Statuses are written, and what is left
//! of a definition that is being deleted is removed.
//!
//! Each step is a task of its own, since an admission or conversion webhook may keep it waiting for
//! half a minute, and other definitions need not wait for that. A definition has one step at a time,
//! and at most [`MAX_STEPS`] run at once. A step that failed is repeated after a pause, which doubles
//! with each failure.

use crate::cache::storage::Storage;
use keel::{Clock, Moment};
use machinery::Object;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// The most steps that run at once.
const MAX_STEPS: usize = 256;

/// The pause after the first failure, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing is left to be done until the definition changes.
    Done,
    /// Something is left to be done.
    Again,
    /// It is to be repeated, after a pause.
    Failed,
}

/// See the [module documentation](self).
pub(super) struct Steps {
    clock: Clock,
    /// By the uid of the definition.
    running: HashMap<String, Step>,
    failures: HashMap<String, Failures>,
    /// The resource versions of definitions for which nothing is left to be done.
    done: HashMap<String, String>,
    /// Notified when a step is finished.
    finished: Arc<Notify>,
}

struct Step {
    /// The resource version of the definition when the step began.
    begun_at: String,
    /// The definition as the step leaves it, if that is known.
    updated: Option<Arc<Object>>,
    outcome: Arc<OnceLock<Outcome>>,
    /// The definition does not exist any more.
    is_forgotten: bool,
}

struct Failures {
    last: Moment,
    pause: Duration,
}

impl Steps {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            running: HashMap::new(),
            failures: HashMap::new(),
            done: HashMap::new(),
            finished: Arc::default(),
        }
    }

    /// Whether a step of this definition is under way.
    pub(super) fn is_running(&self, definition: &Object) -> bool {
        self.running.contains_key(definition.uid())
    }

    /// Whether the last step of this definition failed.
    pub(super) fn has_failed(&self, definition: &Object) -> bool {
        self.failures.contains_key(definition.uid())
    }

    /// Whether a step of this definition may start now.
    pub(super) fn may_start(&self, definition: &Object) -> bool {
        let failures = self.failures.get(definition.uid());
        let done = self.done.get(definition.uid());
        self.running.len() < MAX_STEPS
            && !self.is_running(definition)
            && done.is_none_or(|it| it != definition.resource_version())
            && failures.is_none_or(|it| self.clock.passed_since(&it.last) >= it.pause)
    }

    /// The definition as a step that is under way leaves it.
    pub(super) fn updated(&self, definition: &Object) -> Option<&Object> {
        self.running.get(definition.uid())?.updated.as_deref()
    }

    /// Starts a step. `updated` is the definition as the step leaves it, if that is known.
    pub(super) fn start(
        &mut self,
        storage: &Storage,
        definition: &Object,
        updated: Option<Arc<Object>>,
        step: impl Future<Output = Outcome> + Send + 'static,
    ) {
        let outcome = Arc::<OnceLock<Outcome>>::default();
        let begun_at = definition.resource_version().to_owned();
        let running =
            Step { begun_at, updated, outcome: Arc::clone(&outcome), is_forgotten: false };
        self.running.insert(definition.uid().to_owned(), running);
        let finish = Finish { outcome, finished: Arc::clone(&self.finished) };
        let stop = storage.tasks.shutdown();
        storage.tasks.spawn("definition", async move {
            tokio::select! {
                outcome = step => finish.with(outcome),
                () = stop => {}
            }
        });
    }

    /// Waits until a step is finished.
    pub(super) async fn finished(&self) {
        self.finished.notified().await;
    }

    /// Takes note of the steps that are finished; whether one of them has to be repeated.
    pub(super) fn take_finished(&mut self) -> bool {
        let Self { clock, running, failures, done, .. } = self;
        let mut is_unfinished = false;
        running.retain(|uid, step| {
            let Some(outcome) = step.outcome.get() else { return true };
            if step.is_forgotten {
                return false;
            }
            is_unfinished |= *outcome != Outcome::Done;
            if *outcome == Outcome::Failed {
                let [first, longest] = PAUSES;
                let pause = failures.get(uid).map_or(first, |it| longest.min(2 * it.pause));
                failures.insert(uid.clone(), Failures { last: clock.moment(), pause });
            } else {
                failures.remove(uid);
            }
            if *outcome == Outcome::Done {
                done.insert(uid.clone(), std::mem::take(&mut step.begun_at));
            }
            false
        });
        is_unfinished
    }

    /// Whether steps wait to be repeated.
    pub(super) fn have_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Forgets a definition that does not exist any more.
    pub(super) fn forget(&mut self, uid: &str) {
        self.failures.remove(uid);
        self.done.remove(uid);
        if let Some(step) = self.running.get_mut(uid) {
            step.is_forgotten = true;
        }
    }
}

/// Ends a step, also if it panics.
struct Finish {
    outcome: Arc<OnceLock<Outcome>>,
    finished: Arc<Notify>,
}

impl Finish {
    fn with(self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        let _ = self.outcome.set(Outcome::Failed);
        self.finished.notify_one();
    }
}

#[cfg(test)]
mod tests;
