//! The status of a Deployment: the sums of its ReplicaSets, and the conditions `Available`,
//! `Progressing` and `ReplicaFailure`.
//!
//! Upstream: `deployment/progress.go`

use std::sync::Arc;
use std::time::Duration;

use super::view::{DeploymentCondition, DeploymentStatus, DeploymentView, OwnedReplicaSetView};
use crate::time;
use keel::Clock;

/// The type of the condition about the rollout.
pub(super) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const PAUSED: &str = "DeploymentPaused";

impl DeploymentStatus {
    /// A condition.
    pub(super) fn condition(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.conditions.iter().find(|it| it.type_ == type_)
    }

    /// Sets a condition, unless it has the same status and reason. The time of the transition changes
    /// with the status only.
    fn set(&mut self, mut condition: DeploymentCondition) {
        if let Some(present) = self.condition(&condition.type_) {
            if present.status == condition.status && present.reason == condition.reason {
                return;
            }
            if present.status == condition.status {
                condition.last_transition_time.clone_from(&present.last_transition_time);
            }
        }
        self.remove(&condition.type_.clone());
        self.conditions.push(condition);
    }

    fn remove(&mut self, type_: &str) {
        self.conditions.retain(|it| it.type_ != type_);
    }

    /// Sets the condition `Progressing`, if the rollout has a deadline.
    pub(super) fn set_progressing(
        &mut self,
        deployment: &DeploymentView,
        (status, reason): (&str, &str),
        message: &str,
        clock: &Clock,
    ) {
        if deployment.progress_deadline().is_some() {
            self.set(condition(PROGRESSING, status, reason, message, clock));
        }
    }

    /// Notes in the condition `Progressing` that a rollout was paused or resumed, so that the pause
    /// does not count as a lack of progress.
    pub(super) fn note_pause(&mut self, deployment: &DeploymentView, clock: &Clock) {
        let reason = self.condition(PROGRESSING).map(|it| it.reason.as_str()).unwrap_or_default();
        let was_paused = reason == PAUSED;
        if reason == TIMED_OUT || was_paused == deployment.spec.paused {
            return;
        }
        let (reason, message) = if deployment.spec.paused {
            (PAUSED, "Deployment is paused")
        } else {
            ("DeploymentResumed", "Deployment is resumed")
        };
        self.set_progressing(deployment, ("Unknown", reason), message, clock);
    }

    /// Whether all desired pods are updated and available, and no others exist.
    pub(super) fn is_complete(&self, deployment: &DeploymentView) -> bool {
        let wanted = deployment.replicas();
        self.updated_replicas == wanted
            && self.replicas == wanted
            && self.available_replicas == wanted
            && self.observed_generation >= deployment.metadata.generation
    }

    /// Sets the counts and the condition `Available`.
    pub(super) fn count(
        &mut self,
        deployment: &DeploymentView,
        sets: &[Arc<OwnedReplicaSetView>],
        new: Option<&OwnedReplicaSetView>,
        clock: &Clock,
    ) {
        let sum = |of: fn(&OwnedReplicaSetView) -> i32| {
            sets.iter().fold(0, |sum: i32, set| sum.saturating_add(of(set)))
        };
        self.observed_generation = deployment.metadata.generation;
        self.replicas = sum(|set| set.status.replicas);
        self.updated_replicas = new.map_or(0, |set| set.status.replicas);
        self.ready_replicas = sum(|set| set.status.ready_replicas);
        self.available_replicas = sum(|set| set.status.available_replicas);
        self.unavailable_replicas =
            sum(OwnedReplicaSetView::replicas).saturating_sub(self.available_replicas).max(0);
        let is_reported = |set: &Arc<OwnedReplicaSetView>| {
            set.status.terminating_replicas.is_some() || set.status.observed_generation == 0
        };
        self.terminating_replicas = sets
            .iter()
            .all(is_reported)
            .then(|| sum(|set| set.status.terminating_replicas.unwrap_or(0)));
        let (status, reason, message) =
            if self.available_replicas >= deployment.replicas() - deployment.max_unavailable() {
                ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
            } else {
                (
                    "False",
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.",
                )
            };
        self.set(condition(AVAILABLE, status, reason, message, clock));
    }

    /// Sets the conditions of a rollout, after the counts. `before` is the stored status.
    pub(super) fn note_progress(
        &mut self,
        deployment: &DeploymentView,
        sets: &[Arc<OwnedReplicaSetView>],
        new: Option<&OwnedReplicaSetView>,
        clock: &Clock,
    ) {
        let before = &deployment.status;
        let subject = match new {
            Some(set) => format!("ReplicaSet {:?}", set.metadata.name),
            None => format!("Deployment {:?}", deployment.metadata.name),
        };
        let current = self.condition(PROGRESSING).cloned();
        let was_complete = self.replicas == self.updated_replicas
            && current.as_ref().is_some_and(|it| it.reason == NEW_SET_AVAILABLE);
        if deployment.progress_deadline().is_none() {
            self.remove(PROGRESSING);
        } else if was_complete {
            // No rollout is under way: for example, a pod was replaced.
        } else if self.is_complete(deployment) {
            let message = format!("{subject} has successfully progressed.");
            self.set(condition(PROGRESSING, "True", NEW_SET_AVAILABLE, &message, clock));
        } else if self.has_progressed_since(before) {
            let message = format!("{subject} is progressing.");
            let mut progress = condition(PROGRESSING, "True", "ReplicaSetUpdated", &message, clock);
            // The time of the update is new also if the reason is the same.
            if let Some(current) = current.filter(|it| it.status == "True") {
                progress.last_transition_time = current.last_transition_time;
            }
            self.remove(PROGRESSING);
            self.conditions.push(progress);
        } else if self.until_timeout(deployment, clock) == Some(Duration::ZERO) {
            let message = format!("{subject} has timed out progressing.");
            self.set(condition(PROGRESSING, "False", TIMED_OUT, &message, clock));
        }
        self.copy_failure(sets, new);
    }

    /// Copies the failure of the new ReplicaSet, or of another.
    fn copy_failure(
        &mut self,
        sets: &[Arc<OwnedReplicaSetView>],
        new: Option<&OwnedReplicaSetView>,
    ) {
        let failure = |set: &OwnedReplicaSetView| {
            set.status.conditions.iter().find(|it| it.type_ == REPLICA_FAILURE).cloned()
        };
        let failure = new.and_then(failure).or_else(|| sets.iter().find_map(|set| failure(set)));
        match failure {
            Some(mut failure) => {
                failure.last_update_time.clone_from(&failure.last_transition_time);
                self.set(failure);
            }
            None => self.remove(REPLICA_FAILURE),
        }
    }

    /// Whether pods were updated, removed, or became ready or available.
    fn has_progressed_since(&self, before: &Self) -> bool {
        let old_replicas = |status: &Self| status.replicas - status.updated_replicas;
        self.updated_replicas > before.updated_replicas
            || old_replicas(self) < old_replicas(before)
            || self.ready_replicas > before.ready_replicas
            || self.available_replicas > before.available_replicas
    }

    /// The time until the rollout is reported as stuck; `None` if no rollout is under way, or if that
    /// was reported.
    pub(super) fn until_timeout(
        &self,
        deployment: &DeploymentView,
        clock: &Clock,
    ) -> Option<Duration> {
        let deadline = Duration::from_secs(deployment.progress_deadline()?);
        let progressing = self.condition(PROGRESSING)?;
        let is_decided =
            matches!(progressing.reason.as_str(), NEW_SET_AVAILABLE | TIMED_OUT | PAUSED);
        if is_decided || self.is_complete(deployment) {
            return None;
        }
        let since = time::since(clock, progressing.last_update_time.as_ref()?);
        // One second more than the deadline, since times of objects are in whole seconds.
        Some((deadline + Duration::from_secs(1)).saturating_sub(since))
    }
}

fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    clock: &Clock,
) -> DeploymentCondition {
    let now = Some(time::now(clock));
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_update_time: now.clone(),
        last_transition_time: now,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}
