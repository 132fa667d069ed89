//! Policies of Jobs: what a failed pod means, and when an indexed Job has succeeded.

use serde::Deserialize;

use super::indexes::IndexSet;
use super::view::{ContainerStatus, JobPod, PodCondition, count};

/// The rules for failed pods; the first that matches a pod applies to it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PodFailurePolicy {
    #[serde(default)]
    rules: Vec<FailureRule>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailureRule {
    action: String,
    #[serde(default)]
    on_exit_codes: Option<ExitCodes>,
    #[serde(default)]
    on_pod_conditions: Option<Vec<ConditionPattern>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExitCodes {
    #[serde(default)]
    container_name: Option<String>,
    operator: String,
    #[serde(default)]
    values: Vec<i32>,
}

#[derive(Debug, Clone, Deserialize)]
struct ConditionPattern {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    status: String,
}

/// What a failed pod means for its Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FailureAction {
    /// The failure counts towards the limits.
    Count,
    /// The failure does not count.
    Ignore,
    /// The index of the pod has failed.
    FailIndex,
    /// The Job has failed, for this reason.
    FailJob(String),
}

impl PodFailurePolicy {
    /// What the failure of `pod` means.
    pub(super) fn action(&self, pod: &JobPod) -> FailureAction {
        for (place, rule) in self.rules.iter().enumerate() {
            let Some(reason) = rule.reason(pod) else { continue };
            return match rule.action.as_str() {
                "Ignore" => FailureAction::Ignore,
                "FailIndex" => FailureAction::FailIndex,
                "FailJob" => FailureAction::FailJob(format!(
                    "{reason} matching {} rule at index {place}",
                    rule.action
                )),
                "Count" => FailureAction::Count,
                // An action of a later version; the next rule may apply.
                _ => continue,
            };
        }
        FailureAction::Count
    }
}

impl FailureRule {
    /// Why the rule matches a pod, if it does.
    fn reason(&self, pod: &JobPod) -> Option<String> {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        if let Some(codes) = &self.on_exit_codes {
            let (container, code) = codes.find(pod)?;
            return Some(format!(
                "Container {container} for pod {namespace}/{name} failed with exit code {code}"
            ));
        }
        let patterns = self.on_pod_conditions.as_ref()?;
        let matches = |condition: &&PodCondition| {
            patterns.iter().any(|it| it.type_ == condition.type_ && it.status == condition.status)
        };
        let condition = pod.status.conditions.iter().find(matches)?;
        Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
    }
}

impl ExitCodes {
    /// The first container that ended with a matching code, and the code.
    fn find<'a>(&self, pod: &'a JobPod) -> Option<(&'a str, i32)> {
        let status = &pod.status;
        let mut containers =
            status.container_statuses.iter().chain(&status.init_container_statuses);
        containers.find_map(|container| self.matching_code(container))
    }

    fn matching_code<'a>(&self, container: &'a ContainerStatus) -> Option<(&'a str, i32)> {
        let code = container.state.terminated.as_ref()?.exit_code;
        let is_named = self.container_name.as_ref().is_none_or(|name| *name == container.name);
        let is_listed = match self.operator.as_str() {
            "In" => self.values.contains(&code),
            "NotIn" => !self.values.contains(&code),
            _ => false,
        };
        (code != 0 && is_named && is_listed).then_some((container.name.as_str(), code))
    }
}

/// The rules for the success of an indexed Job; one is enough.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SuccessPolicy {
    #[serde(default)]
    rules: Vec<SuccessRule>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SuccessRule {
    #[serde(default)]
    succeeded_indexes: Option<String>,
    #[serde(default)]
    succeeded_count: Option<i32>,
}

impl SuccessPolicy {
    /// Which rule is met, if one is.
    pub(super) fn met_rule(&self, succeeded: &IndexSet, indexes: usize) -> Option<String> {
        if succeeded.is_empty() {
            return None;
        }
        let met = self.rules.iter().position(|rule| rule.is_met(succeeded, indexes))?;
        Some(format!("Matched rules at index {met}"))
    }
}

impl SuccessRule {
    fn is_met(&self, succeeded: &IndexSet, indexes: usize) -> bool {
        let is_enough = |found| self.succeeded_count.is_some_and(|wanted| found >= count(wanted));
        let Some(required) = &self.succeeded_indexes else { return is_enough(succeeded.len()) };
        let required = IndexSet::parse(required, indexes);
        let found = required.overlap(succeeded);
        !required.is_empty() && (found == required.len() || is_enough(found))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> JobPod {
        let pod = json!({"metadata": {"namespace": "n", "name": "p"}, "status": status});
        serde_json::from_value(pod).unwrap()
    }

    fn exited(container: &str, code: i32) -> JobPod {
        let state = json!({"terminated": {"exitCode": code}});
        pod(&json!({"containerStatuses": [{"name": container, "state": state}]}))
    }

    #[test]
    fn the_first_matching_rule_decides_about_a_failed_pod() {
        let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob",
             "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 42]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [7]}},
        ]}))
        .unwrap();
        let disrupted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
        assert_eq!(policy.action(&pod(&disrupted)), FailureAction::Ignore);
        let message =
            "Container main for pod n/p failed with exit code 42 matching FailJob rule at index 1";
        assert_eq!(policy.action(&exited("main", 42)), FailureAction::FailJob(message.to_owned()));
        assert_eq!(policy.action(&exited("side", 42)), FailureAction::FailIndex);
        assert_eq!(policy.action(&exited("main", 7)), FailureAction::Count);
        assert_eq!(policy.action(&exited("main", 0)), FailureAction::Count);
    }

    #[test]
    fn a_condition_can_fail_a_job() {
        let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": [
            {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]},
        ]}))
        .unwrap();
        let status = json!({"conditions": [{"type": "ConfigIssue", "status": "True"}]});
        let message = "Pod n/p has condition ConfigIssue matching FailJob rule at index 0";
        assert_eq!(policy.action(&pod(&status)), FailureAction::FailJob(message.to_owned()));
    }

    #[test]
    fn a_success_policy_counts_the_required_indexes() {
        let policy: SuccessPolicy = serde_json::from_value(json!({"rules": [
            {"succeededIndexes": "0-2", "succeededCount": 2},
            {"succeededIndexes": "8,9"},
            {"succeededCount": 5},
        ]}))
        .unwrap();
        let met = |succeeded: &str| policy.met_rule(&IndexSet::parse(succeeded, 10), 10);
        assert_eq!(met(""), None);
        assert_eq!(met("0,5,8"), None);
        assert_eq!(met("0,2").as_deref(), Some("Matched rules at index 0"));
        assert_eq!(met("8,9").as_deref(), Some("Matched rules at index 1"));
        assert_eq!(met("3-7").as_deref(), Some("Matched rules at index 2"));
    }
}
