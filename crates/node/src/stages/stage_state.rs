//! [`StageState`]: the Stages of one object that were and will be applied.

use std::collections::BTreeMap;
use std::time::Duration;

use super::stage::Stage;
use keel::Timestamp;

/// The least time between two applications of the same Stage to one object, so that a Stage that still
/// selects an object which it has changed does not run without pause.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// The longest error that is stored and reported, in characters.
const MAX_ERROR: usize = 500;

/// See the [module documentation](self).
#[derive(Debug, Default, Clone)]
pub(crate) struct StageState {
    pub(super) uid: String,
    /// The name of the Stage that will be applied, and the time.
    pub(super) next: Option<(String, Timestamp)>,
    /// The name of the Stage that was applied last, and the time.
    pub(super) last: Option<(String, Timestamp)>,
    /// The failures of Stages, by the name of the Stage, until it succeeds.
    pub(super) failures: BTreeMap<String, StageFailure>,
}

/// The last failures of a Stage for an object.
#[derive(Debug, Default, Clone)]
pub(super) struct StageFailure {
    /// The version of the Stage that has failed.
    version: String,
    part: Part,
    error: String,
    count: u32,
    retry_at: Timestamp,
}

/// A part of a Stage.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The queries that decide whether the Stage is applied.
    Selector,
    /// Its delay and its steps.
    #[default]
    Steps,
}

impl StageState {
    /// The time at which a Stage that was planned now is applied.
    pub(super) fn due(&self, stage: &Stage, planned: Timestamp) -> Timestamp {
        match &self.last {
            Some((name, at)) if *name == stage.name => planned.max(*at + REPEAT_PAUSE),
            _ => planned,
        }
    }

    /// The part of a Stage that has failed and must not be evaluated yet, and the time until it is.
    pub(super) fn failed_part(&self, stage: &Stage, now: Timestamp) -> Option<(Part, Duration)> {
        let failure = self.failures.get(&stage.name);
        let failure = failure.filter(|failure| failure.version == stage.version)?;
        let wait = failure.retry_at.since(now);
        (!wait.is_zero()).then_some((failure.part, wait))
    }

    /// Counts a failure. The shortened error if it was not reported before.
    pub(super) fn add_failure(
        &mut self,
        stage: &Stage,
        part: Part,
        error: &str,
        delay_after: impl FnOnce(u32) -> Duration,
        now: Timestamp,
    ) -> (Duration, Option<String>) {
        let failure = self.failures.entry(stage.name.clone()).or_default();
        if failure.version != stage.version {
            *failure = StageFailure { version: stage.version.clone(), ..StageFailure::default() };
        }
        failure.part = part;
        failure.count = failure.count.saturating_add(1);
        let wait = delay_after(failure.count);
        failure.retry_at = now + wait;
        let error: String = error.chars().take(MAX_ERROR).collect();
        if failure.error == error {
            return (wait, None);
        }
        failure.error.clone_from(&error);
        (wait, Some(error))
    }
}
