//! Evictions: whether a disruption budget allows one, and its record in the budget's status.

use super::pod_disruption_budget::selects;
use machinery::fields::{entries, list, list_mut, number, text, top};
use machinery::status::Cause;
use machinery::{GroupResource, Object, Reason, Status, Value, json};
use types::columns::condition;

/// The number of disrupted pods that a budget may list before its controller has processed them.
const MAX_DISRUPTED: usize = 2000;

/// The `retryAfterSeconds` of a refusal.
const RETRY_AFTER: u32 = 10;

/// The message if a budget does not allow the eviction.
pub const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Whether budgets apply to the pod: not if it is pending, finished or being deleted.
pub fn needs_budget(pod: &Object) -> bool {
    let phase = pod.str_at(&["status", "phase"]);
    !matches!(phase, "Succeeded" | "Failed" | "Pending") && pod.deletion_timestamp().is_none()
}

/// Whether the eviction of the pod must be allowed by the budget.
pub fn covers(budget: &Object, pod: &Object) -> bool {
    let is_ready = condition(top(pod, "status"), "Ready") == "True";
    selects(budget, pod) && (is_ready || !always_evicts_unready(budget))
}

/// Whether the budget does not count the eviction of a pod that is not ready.
fn always_evicts_unready(budget: &Object) -> bool {
    let status = top(budget, "status");
    let (healthy, wanted) = (number(status, "currentHealthy"), number(status, "desiredHealthy"));
    let is_enough = healthy >= wanted && wanted > 0;
    text(top(budget, "spec"), "unhealthyPodEvictionPolicy") == "AlwaysAllow" || is_enough
}

/// The error about a pod that several budgets cover.
pub fn more_than_one_budget() -> Status {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    Status::new(500, Reason::Unknown, message)
}

/// Checks whether the budget allows a disruption; the error is the response.
pub fn check_disruption_allowed(budget: &Object) -> Result<(), Status> {
    let name = budget.name();
    let status = top(budget, "status");
    if number(status, "observedGeneration") < budget.generation() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(with_cause(Status::too_many_requests(VIOLATES, RETRY_AFTER), why));
    }
    let allowed = number(status, "disruptionsAllowed");
    let forbidden = |why: &str, cause: &str| {
        let what = GroupResource::new("policy", "poddisruptionbudget");
        let none = format!("The disruption budget {name} does not allow evicting pods currently");
        Err(with_cause(Status::forbidden(&what, name, why), format!("{none}: {cause}")))
    };
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return forbidden(why, why);
    }
    if entries(status, "disruptedPods").count() > MAX_DISRUPTED {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 {
        return Err(with_cause(
            Status::too_many_requests(VIOLATES, 0),
            refusal_reason(name, status),
        ));
    }
    Ok(())
}

/// Records one disruption in the budget, for the pod that is evicted at the time `now`.
pub fn record_disruption(budget: &mut Object, pod: &str, now: &str) {
    let allowed = number(top(budget, "status"), "disruptionsAllowed");
    let status = budget.map_at(&["status"]);
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    budget.map_at(&["status", "disruptedPods"]).insert(pod.to_owned(), now.into());
}

/// Sets the condition `DisruptionTarget` of a pod that is evicted at the time `now`.
pub fn set_disruption_target(pod: &mut Object, now: &str) {
    let conditions = list_mut(pod.map_at(&["status"]), "conditions");
    let index = conditions.iter().position(|it| text(it, "type") == "DisruptionTarget");
    let old = index.map(|it| &conditions[it]).filter(|it| text(it, "status") == "True");
    let since = old.map_or(now, |it| text(it, "lastTransitionTime"));
    let condition = json!({
        "type": "DisruptionTarget", "status": "True",
        "lastProbeTime": null, "lastTransitionTime": since,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    match index {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// Why a budget allows no disruption.
fn refusal_reason(name: &str, status: &Value) -> String {
    let (healthy, wanted) = (number(status, "currentHealthy"), number(status, "desiredHealthy"));
    let condition = list(status, "conditions").iter().find(|it| {
        text(it, "type") == "DisruptionAllowed"
            && text(it, "status") == "False"
            && !text(it, "message").is_empty()
    });
    let none = format!("The disruption budget {name} does not allow evicting pods currently");
    match condition.map(|it| (text(it, "reason"), text(it, "message"))) {
        Some(("SyncFailed", message)) => format!("{none} because it failed sync: {message}"),
        _ if healthy <= wanted => format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        ),
        Some((reason, message)) => format!("{none} ({reason}): {message}"),
        None => none,
    }
}

fn with_cause(mut status: Status, message: String) -> Status {
    let details = status.details.get_or_insert_default();
    details.causes.push(Cause {
        reason: "DisruptionBudget".to_owned(),
        message,
        field: String::new(),
    });
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    fn pod(ready: &str) -> Object {
        object(json!({"metadata": {"name": "p", "labels": {"app": "a"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}))
    }

    fn budget(status: Value) -> Object {
        object(json!({"metadata": {"name": "b", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": status}))
    }

    fn why(budget: &Object) -> String {
        let status = check_disruption_allowed(budget).expect_err("the eviction is refused");
        status.details.expect("the refusal has details").causes[0].message.clone()
    }

    #[test]
    fn a_budget_without_status_allows_no_disruption() {
        assert_eq!(
            why(&budget(json!({}))),
            "The disruption budget b is still being processed by the server."
        );
    }

    #[test]
    fn a_disruption_is_counted() {
        let mut budget = budget(json!({"observedGeneration": 1, "disruptionsAllowed": 1}));
        assert_eq!(check_disruption_allowed(&budget), Ok(()));
        record_disruption(&mut budget, "p", "now");
        assert_eq!(
            top(&budget, "status"),
            &json!({"observedGeneration": 1, "disruptionsAllowed": 0, "disruptedPods": {"p": "now"}})
        );
    }

    #[test]
    fn the_message_of_an_exhausted_budget_has_its_numbers() {
        let status = json!({"observedGeneration": 1, "desiredHealthy": 2, "currentHealthy": 2});
        assert_eq!(
            why(&budget(status)),
            "The disruption budget b needs 2 healthy pods and has 2 currently"
        );
    }

    #[test]
    fn an_unready_pod_is_not_covered_if_enough_pods_are_healthy() {
        let budget = budget(json!({"desiredHealthy": 2, "currentHealthy": 2}));
        assert!(covers(&budget, &pod("True")));
        assert!(!covers(&budget, &pod("False")));
    }

    #[test]
    fn a_pod_that_is_not_selected_is_not_covered() {
        let mut other = pod("True");
        other.set_meta("labels", json!({"app": "b"}));
        assert!(!covers(&budget(json!({})), &other));
        assert!(needs_budget(&other));
    }
}
