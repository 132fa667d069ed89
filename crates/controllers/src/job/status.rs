//! [`JobStatus`]: the status of a Job.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time;
use keel::Clock;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobStatus {
    /// The number of active pods.
    pub active: usize,
    /// The number of ready pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<usize>,
    /// The number of pods that have not ended and are being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<usize>,
    /// The number of counted pods that succeeded; of an indexed Job, the number of such indexes.
    pub succeeded: usize,
    /// The number of counted pods that failed.
    pub failed: usize,
    /// The indexes that succeeded, as in `1,3-5`.
    pub completed_indexes: String,
    /// The indexes that failed, of a Job with a limit for each index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    /// The time at which the Job was started or resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The time at which the Job completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The pods that have ended, but still have the finalizer.
    pub uncounted_terminated_pods: UncountedPods,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// The uids of pods that have ended and are not part of the counters yet.
///
/// A pod is counted in three steps, each of which can be repeated: its uid is written here; its
/// finalizer is removed; its uid is removed and the counter incremented in the same write.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UncountedPods {
    /// The pods that succeeded.
    pub succeeded: Vec<String>,
    /// The pods that failed.
    pub failed: Vec<String>,
}

/// A condition of a Job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    /// The type: `Complete`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True` or `False`.
    pub status: String,
    last_probe_time: Option<Time>,
    /// The time of the last change.
    pub last_transition_time: Option<Time>,
    /// The reason in one word.
    pub reason: String,
    /// The reason for people.
    pub message: String,
}

pub(super) const COMPLETE: &str = "Complete";
pub(super) const FAILED: &str = "Failed";
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
pub(super) const SUSPENDED: &str = "Suspended";

impl Condition {
    /// A condition that holds from now on.
    pub(super) fn new(type_: &str, reason: &str, message: &str, clock: &Clock) -> Self {
        let now = Some(time::now(clock));
        Self {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            last_probe_time: now.clone(),
            last_transition_time: now,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// Another condition for the same reason.
    pub(super) fn followed_by(&self, type_: &str, clock: &Clock) -> Self {
        Self::new(type_, &self.reason, &self.message, clock)
    }
}

impl JobStatus {
    /// The condition of this type, if it is true.
    pub(super) fn true_condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|it| it.type_ == type_ && it.status == "True")
    }

    /// Whether the Job is complete or has failed.
    pub(super) fn is_finished(&self) -> bool {
        self.true_condition(COMPLETE).is_some() || self.true_condition(FAILED).is_some()
    }

    /// Sets a condition, and returns whether that changed anything. A condition that does not exist
    /// is not set to False.
    pub(super) fn set_condition(&mut self, condition: Condition) -> bool {
        let found = self.conditions.iter_mut().find(|it| it.type_ == condition.type_);
        match found {
            Some(found) => {
                let is_same = found.status == condition.status
                    && found.reason == condition.reason
                    && found.message == condition.message;
                if !is_same {
                    *found = condition;
                }
                !is_same
            }
            None if condition.status == "False" => false,
            None => {
                self.conditions.push(condition);
                true
            }
        }
    }

    /// Counts the pods that have lost their finalizer. Returns whether there were any.
    pub(super) fn count_pods_without_finalizer(&mut self, tracked: &HashSet<&str>) -> bool {
        let UncountedPods { succeeded, failed } = &mut self.uncounted_terminated_pods;
        let before = (succeeded.len(), failed.len());
        succeeded.retain(|uid| tracked.contains(uid.as_str()));
        failed.retain(|uid| tracked.contains(uid.as_str()));
        let counted = (before.0 - succeeded.len(), before.1 - failed.len());
        self.succeeded += counted.0;
        self.failed += counted.1;
        counted != (0, 0)
    }

    /// The merge patch that changes `old` into this status.
    pub(super) fn patch_from(&self, old: &Self) -> Value {
        let (old, mut new) = (fields(old), fields(self));
        for field in old.keys() {
            // A list of uids that is empty now is nested, and always part of the patch.
            new.entry(field).or_insert(Value::Null);
        }
        new.into()
    }
}

/// The fields of a status that are not empty. Those of the uncounted pods may be null.
fn fields(status: &JobStatus) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(status) else { return Map::new() };
    let is_empty =
        |value: &Value| value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty);
    for (name, value) in &mut fields {
        if let (Value::Object(lists), "uncountedTerminatedPods") = (value, name.as_str()) {
            lists.values_mut().filter(|list| is_empty(list)).for_each(|list| *list = Value::Null);
        }
    }
    for counter in ["active", "succeeded", "failed"] {
        if fields.get(counter).is_some_and(|count| *count == 0) {
            fields.remove(counter);
        }
    }
    fields.retain(|_, value| !is_empty(value));
    fields
}
