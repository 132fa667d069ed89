//! [`StageState`]: the Stages of one object that were and will be applied.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::stage::Stage;
use keel::Timestamp;

/// The least time between two applications of the same Stage to one object, so that a Stage that still
/// selects an object which it has changed does not run without pause.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// The number of Stages that are applied to one object within [`REPEAT_PAUSE`], before it pauses for that
/// time, so that Stages which select the result of each other do not run without pause.
const MAX_BURST: u32 = 10;

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
    burst: Burst,
    /// The Stage whose steps were not executed to the end.
    interrupted: Option<InterruptedStage>,
    /// The failures of Stages, by the name of the Stage, until it succeeds.
    pub(super) failures: BTreeMap<String, StageFailure>,
}

/// A Stage that was applied in part. The object may be such that the Stage does not select it any more.
#[derive(Debug, Clone)]
struct InterruptedStage {
    name: String,
    /// The version of the Stage, whose steps have these numbers.
    version: String,
    /// The number of the next step.
    step: usize,
}

/// The Stages that were applied to an object shortly after each other.
#[derive(Debug, Default, Clone)]
struct Burst {
    start: Timestamp,
    count: u32,
    /// In alphabetical order.
    stages: BTreeSet<String>,
    /// Whether a loop of this object was reported.
    is_reported: bool,
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
    pub(super) fn new(uid: &str) -> Self {
        Self { uid: uid.to_owned(), ..Self::default() }
    }

    /// The time at which a Stage that was planned now is applied.
    pub(super) fn due(&self, stage: &Stage, planned: Timestamp, now: Timestamp) -> Timestamp {
        match &self.last {
            Some((name, at)) if *name == stage.name || self.is_looping(now) => {
                planned.max(*at + REPEAT_PAUSE)
            }
            _ => planned,
        }
    }

    /// Records that a Stage is applied. The names of the Stages of a loop, if one begins that was not
    /// reported before.
    pub(super) fn add_application(&mut self, stage: &Stage, now: Timestamp) -> Option<String> {
        (self.next, self.last) = (None, Some((stage.name.clone(), now)));
        let burst = &mut self.burst;
        if now.since(burst.start) >= REPEAT_PAUSE {
            *burst = Burst { start: now, is_reported: burst.is_reported, ..Burst::default() };
        }
        burst.count += 1;
        burst.stages.insert(stage.name.clone());
        if burst.count < MAX_BURST || burst.is_reported {
            return None;
        }
        burst.is_reported = true;
        Some(burst.stages.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    }

    /// Records that a Stage was interrupted before a step. Before the first one nothing was done, so the
    /// Stage is applied again only if it still selects the object.
    pub(super) fn interrupt(&mut self, stage: &Stage, step: usize, now: Timestamp) {
        let (name, version) = (stage.name.clone(), stage.version.clone());
        if step == 0 {
            self.next = Some((name, now));
        } else {
            self.interrupted = Some(InterruptedStage { name, version, step });
        }
    }

    /// Records that a Stage was executed to the end, or cannot be.
    pub(super) fn end(&mut self) {
        self.interrupted = None;
    }

    /// The Stage that was interrupted, and the number of its next step. A Stage that has changed
    /// meanwhile does not go on.
    pub(super) fn interrupted<'a>(&self, stages: &'a [Stage]) -> Option<(&'a Stage, usize)> {
        let InterruptedStage { name, version, step } = self.interrupted.as_ref()?;
        let is_same = |stage: &&Stage| stage.name == *name && stage.version == *version;
        stages.iter().find(is_same).map(|stage| (stage, *step))
    }

    fn is_looping(&self, now: Timestamp) -> bool {
        self.burst.count >= MAX_BURST && now.since(self.burst.start) < REPEAT_PAUSE
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stage(name: &str) -> Stage {
        let spec = json!({"resourceRef": {"kind": "Pod"}, "selector": {}});
        Stage::compile(&json!({"metadata": {"name": name}, "spec": spec})).unwrap().unwrap()
    }

    #[test]
    fn an_object_pauses_after_ten_stages_within_a_second() {
        let (ping, pong) = (stage("ping"), stage("pong"));
        let mut state = StageState::default();
        let start = Timestamp::default() + Duration::from_hours(1);
        let mut now = start;
        let mut reports = Vec::new();
        for i in 0..40 {
            let stage = if i % 2 == 0 { &ping } else { &pong };
            now = state.due(stage, now, now);
            reports.extend(state.add_application(stage, now));
            now = now + Duration::from_millis(1);
        }
        assert_eq!(now.since(start).as_secs(), 3);
        assert_eq!(reports, ["ping, pong"]);
        assert_eq!(state.due(&ping, now + REPEAT_PAUSE, now + REPEAT_PAUSE), now + REPEAT_PAUSE);
    }

    #[test]
    fn an_object_with_few_stages_does_not_pause() {
        let stages: Vec<Stage> = (0..9).map(|i| stage(&format!("s{i}"))).collect();
        let mut state = StageState::default();
        let now = Timestamp::default() + Duration::from_hours(1);
        for stage in &stages {
            assert_eq!(state.due(stage, now, now), now);
            assert_eq!(state.add_application(stage, now), None);
        }
        assert_eq!(state.due(&stages[0], now, now), now);
        assert_eq!(state.due(&stages[8], now, now), now + REPEAT_PAUSE);
    }
}
