//! Validation of a job's status: consistent numbers and conditions, and a final state that does not
//! change.
//!
//! Most rules apply only if a field changes that they check, so that a status that is invalid
//! already does not prevent other changes.

use std::collections::HashSet;

use super::{indexes, is_finished, is_indexed, is_true};
use crate::validation::go_struct;
use crate::validation::rules::IMMUTABLE;
use crate::validation::workload::counters;
use machinery::field_path::ErrorType;
use machinery::fields::{at, flag, integer, list, number, part, same, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, timestamp};

static STATUS: Path<'static> = Path::root("status");

/// A change of a status, with the spec of its job.
struct Change<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
}

/// Validates a change of a job's status.
pub(super) fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    let change =
        Change { spec: top(new, "spec"), new: top(new, "status"), old: top(old, "status") };
    let counted = &["active", "succeeded", "failed", "ready", "terminating"];
    counters::not_negative(errors, change.new, counted);
    validate_uncounted(errors, change.new);
    change.validate_conditions(errors);
    change.validate_times(errors);
    change.validate_finished(errors);
    change.validate_indexes(errors);
    change.validate_monotonic(errors);
}

/// The uids of pods that are not counted yet are unique and not empty.
fn validate_uncounted(errors: &mut ErrorList, status: &Value) {
    let uncounted = at(status, &["uncountedTerminatedPods"]);
    let path = STATUS.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for field in ["succeeded", "failed"] {
        let path = path.child(field);
        for (index, uid) in texts(uncounted, field).enumerate() {
            if uid.is_empty() {
                errors.invalid(&path.index(index), uid, "must not be empty");
            } else if seen.contains(&uid) {
                errors.duplicate(&path.index(index), uid);
            } else {
                seen.insert(uid);
            }
        }
    }
}

fn bad_conditions(errors: &mut ErrorList, message: &str) {
    errors.add(ErrorType::Invalid, &STATUS.child("conditions"), None, message);
}

impl Change<'_> {
    /// Whether the status of the condition changes.
    fn condition_changes(&self, condition: &str) -> bool {
        is_true(self.new, condition) != is_true(self.old, condition)
    }

    fn changes(&self, field: &str) -> bool {
        !same(at(self.new, &[field]), at(self.old, &[field]))
    }

    /// Whether a field has another number; none counts as 0.
    fn changes_number(&self, field: &str) -> bool {
        number(self.new, field) != number(self.old, field)
    }

    fn validate_conditions(&self, errors: &mut ErrorList) {
        let holds = |condition| is_true(self.new, condition);
        let (complete, failed) = (holds("Complete"), holds("Failed"));
        let (target, met) = (holds("FailureTarget"), holds("SuccessCriteriaMet"));
        if complete
            && failed
            && (self.condition_changes("Complete") || self.condition_changes("Failed"))
        {
            bad_conditions(errors, "cannot set Complete=True and Failed=true conditions");
        }
        if complete
            && target
            && (self.condition_changes("Complete") || self.condition_changes("FailureTarget"))
        {
            bad_conditions(errors, "cannot set Complete=True and FailureTarget=true conditions");
        }
        if failed && !target && (self.condition_changes("Failed") || self.changes("failedIndexes"))
        {
            let message =
                "cannot set Failed=True condition without the FailureTarget=true condition";
            bad_conditions(errors, message);
        }
        if complete
            && !met
            && (self.condition_changes("Complete") || self.condition_changes("SuccessCriteriaMet"))
        {
            let message =
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            bad_conditions(errors, message);
        }
        if met && failed {
            bad_conditions(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
        }
        if met && target {
            let message = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
            bad_conditions(errors, message);
        }
        if part(self.spec, "successPolicy").is_some() && !met && complete {
            let message = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            bad_conditions(errors, message);
        }
    }

    fn validate_times(&self, errors: &mut ErrorList) {
        let path = STATUS.child("completionTime");
        let (start, end) = (part(self.new, "startTime"), part(self.new, "completionTime"));
        let is_complete = is_true(self.new, "Complete");
        let completion_changes =
            self.condition_changes("Complete") || self.changes("completionTime");
        match (end, is_complete) {
            (Some(end), false) if completion_changes => {
                let message = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(&path, end.clone(), message);
            }
            (None, true) if completion_changes => {
                errors.required(&path, "completionTime is required for Complete jobs");
            }
            _ => {}
        }
        if let (Some(start), Some(end)) = (start, end) {
            let at = |time: &Value| timestamp::parse(time.as_str().unwrap_or_default());
            let changes = self.changes("startTime") || self.changes("completionTime");
            if changes && at(end) < at(start) {
                errors.invalid(&path, end.clone(), "must be equal to or after `startTime`");
            }
        }
    }

    /// A finished job has no active pods.
    fn validate_finished(&self, errors: &mut ErrorList) {
        if !is_finished(self.new) {
            return self.validate_ready(errors);
        }
        let finishes = !is_finished(self.old);
        let active = number(self.new, "active");
        if active > 0 && (finishes || self.changes_number("active")) {
            let message = "active>0 is invalid for finished job";
            errors.invalid(&STATUS.child("active"), active, message);
        }
        let was_never_run =
            flag(self.spec, "suspend") && integer(self.spec, "completions") == Some(0);
        let start_changes = finishes || self.changes("startTime");
        if part(self.new, "startTime").is_none() && start_changes && !was_never_run {
            let message = "startTime is required for finished job";
            errors.required(&STATUS.child("startTime"), message);
        }
        let uncounted = at(self.new, &["uncountedTerminatedPods"]);
        let has_uncounted =
            !list(uncounted, "failed").is_empty() || !list(uncounted, "succeeded").is_empty();
        if has_uncounted && (finishes || self.changes("uncountedTerminatedPods")) {
            let path = STATUS.child("uncountedTerminatedPods");
            let message = "must be empty for finished job";
            go_struct::invalid(errors, &path, "UncountedTerminatedPods", uncounted, message);
        }
        let terminating = number(self.new, "terminating");
        if terminating > 0 && (finishes || self.changes("terminating")) {
            let message = "terminating>0 is invalid for finished job";
            errors.invalid(&STATUS.child("terminating"), terminating, message);
        }
        self.validate_ready(errors);
    }

    fn validate_ready(&self, errors: &mut ErrorList) {
        let changes = self.changes("ready") || self.changes_number("active");
        let ready = number(self.new, "ready");
        if changes && ready > number(self.new, "active") && part(self.new, "ready").is_some() {
            let message = "cannot set more ready pods than active";
            errors.invalid(&STATUS.child("ready"), ready, message);
        }
    }

    fn validate_indexes(&self, errors: &mut ErrorList) {
        let completions = integer(self.spec, "completions");
        let has_limit = part(self.spec, "backoffLimitPerIndex").is_some();
        let completed = text(self.new, "completedIndexes");
        let completed_changes = completed != text(self.old, "completedIndexes");
        let path = STATUS.child("completedIndexes");
        if let Some(completions) = completions.filter(|_| completed_changes)
            && let Err(why) = indexes::count(completed, completions)
        {
            let message = format!("error parsing completedIndexes: {why}");
            errors.invalid(&path, completed, &message);
        }
        if completed_changes && !completed.is_empty() && !is_indexed(self.spec) {
            let message = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(&path, completed, message);
        }
        let path = STATUS.child("failedIndexes");
        let failed_changes = self.changes("failedIndexes");
        let Some(failed) = part(self.new, "failedIndexes").and_then(Value::as_str) else { return };
        if let Some(completions) = completions.filter(|_| failed_changes && has_limit)
            && let Err(why) = indexes::count(failed, completions)
        {
            errors.invalid(&path, failed, &format!("error parsing failedIndexes: {why}"));
        }
        if failed_changes && !has_limit {
            let message = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(&path, failed, message);
        }
        if let Some(completions) = completions.filter(|_| failed_changes || completed_changes)
            && let Some(index) = indexes::overlap(completed, failed, completions)
        {
            let message = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.invalid(&path, failed, &message);
        }
    }

    /// Terminal conditions, counters and times cannot be reset.
    fn validate_monotonic(&self, errors: &mut ErrorList) {
        let is_undone = |condition| is_true(self.old, condition) && !is_true(self.new, condition);
        for condition in ["Failed", "Complete", "FailureTarget"] {
            if is_undone(condition) {
                let message = format!("cannot disable the terminal {condition}=True condition");
                bad_conditions(errors, &message);
            }
        }
        // An indexed job may have been scaled down.
        let may_shrink = is_indexed(self.spec)
            && same(at(self.spec, &["completions"]), at(self.spec, &["parallelism"]));
        for (field, may_shrink) in [("failed", false), ("succeeded", may_shrink)] {
            let count = number(self.new, field);
            if count < number(self.old, field) && !may_shrink {
                let message = format!("cannot decrease the {field} counter");
                errors.invalid(&STATUS.child(field), count, &message);
            }
        }
        let was_completed = part(self.old, "completionTime").is_some();
        if let Some(end) = part(self.new, "completionTime").filter(|_| was_completed)
            && self.changes("completionTime")
        {
            errors.invalid(&STATUS.child("completionTime"), end.clone(), IMMUTABLE);
        }
        let resumes = is_true(self.old, "Suspended")
            && list(self.new, "conditions").iter().any(|condition| {
                text(condition, "type") == "Suspended" && text(condition, "status") == "False"
            });
        let had_start = part(self.old, "startTime").is_some();
        let runs = !flag(self.spec, "suspend") && !resumes;
        if had_start && self.changes("startTime") && runs {
            let message = "field is immutable for unsuspended job once set";
            let start = at(self.new, &["startTime"]).clone();
            errors.invalid(&STATUS.child("startTime"), start, message);
        }
        if is_undone("SuccessCriteriaMet") {
            bad_conditions(errors, "cannot disable the SuccessCriteriaMet=True condition");
        }
        let meets_late = is_true(self.old, "Complete")
            && !is_true(self.old, "SuccessCriteriaMet")
            && is_true(self.new, "SuccessCriteriaMet");
        if meets_late {
            let message =
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            bad_conditions(errors, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object};
    use machinery::json;

    fn check(new: Value, old: Value, expected: &[&str]) {
        let job = |status| object(json!({"spec": {"completions": 5}, "status": status}));
        let mut errors = ErrorList::new();
        validate_status(&job(new), &job(old), &mut errors);
        assert_eq!(lines(&errors), expected);
    }

    fn conditions(kinds: &[&str]) -> Value {
        kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
    }

    #[test]
    fn a_complete_job_has_a_completion_time() {
        check(
            json!({"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:00:01Z",
                "conditions": conditions(&["SuccessCriteriaMet", "Complete"])}),
            json!({}),
            &[],
        );
        check(
            json!({"conditions": conditions(&["Complete"])}),
            json!({}),
            &[
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        );
    }

    #[test]
    fn terminal_conditions_and_the_failed_counter_cannot_be_reset() {
        check(
            json!({"failed": 1}),
            json!({"failed": 2, "conditions": conditions(&["FailureTarget", "Failed"])}),
            &[
                "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
                "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
            ],
        );
    }

    #[test]
    fn errors_of_the_stored_status_are_tolerated() {
        let status = json!({"conditions": conditions(&["Complete"]), "active": 1});
        check(status.clone(), status, &[]);
    }

    #[test]
    fn counters_and_indexes_are_validated() {
        check(
            json!({"active": 1, "ready": 2, "completedIndexes": "7", "failedIndexes": "1",
                "uncountedTerminatedPods": {"succeeded": ["u", ""], "failed": ["u"]}}),
            json!({}),
            &[
                r#"status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty"#,
                r#"status.uncountedTerminatedPods.failed[0]: Duplicate value: "u""#,
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
                r#"status.completedIndexes: Invalid value: "7": error parsing completedIndexes: too large index: "7""#,
                r#"status.completedIndexes: Invalid value: "7": cannot set non-empty completedIndexes when non-indexed completion mode"#,
                r#"status.failedIndexes: Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null"#,
            ],
        );
    }

    #[test]
    fn the_start_time_of_an_unsuspended_job_is_immutable() {
        check(
            json!({"startTime": "2024-01-02T00:00:00Z"}),
            json!({"startTime": "2024-01-01T00:00:00Z"}),
            &[
                r#"status.startTime: Invalid value: "2024-01-02T00:00:00Z": field is immutable for unsuspended job once set"#,
            ],
        );
    }
}
