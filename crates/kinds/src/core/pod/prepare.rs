//! Prepares pods for validation: sets fields that only the server sets, and resets those that a
//! user may not set.

use std::collections::BTreeMap;

use super::{qos_class, totals};
use machinery::fields::{
    at, default_number, default_text, default_value, integer, keep, list, list_mut, map_mut,
    maps_mut, number, part, text, top,
};
use machinery::{Map, Object, Value, json};
use types::resource::keep_all_but_status;

/// A new pod is pending and unscheduled; a status sent by the client is replaced.
pub(super) fn prepare_create(pod: &mut Object) {
    drop_disabled_fields(pod.map_at(&["spec"]));
    let mut status = json!({"phase": "Pending"});
    if !list(top(pod, "spec"), "schedulingGates").is_empty() {
        let now = match pod.meta_text("creationTimestamp") {
            "" => Value::Null,
            now => now.into(),
        };
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": now,
        }]);
    }
    merge_label_keys(pod);
    default_pod_requests(pod);
    status["qosClass"] = qos_class::class_of(top(pod, "spec")).into();
    pod.map_mut().insert("status".to_owned(), status);
}

/// Drops the fields of features that are off by default: stop signals.
fn drop_disabled_fields(spec: &mut Map<String, Value>) {
    for part in super::CONTAINERS {
        for container in maps_mut(spec, part) {
            let Some(lifecycle) = map_mut(container, "lifecycle") else { continue };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.remove("lifecycle");
            }
        }
    }
}

pub(super) fn prepare_update(new: &mut Object, old: &Object) {
    keep(new, old, "status");
    // A client that omits the field does not mean to remove it.
    if let Some(resources) = part(top(old, "spec"), "resources") {
        default_value(new.map_at(&["spec"]), "resources", resources.clone());
    }
}

pub(super) fn prepare_status(new: &mut Object, old: &Object) {
    keep_all_but_status(new, old);
    match old.metadata().and_then(|metadata| metadata.get("ownerReferences")) {
        Some(owners) => new.set_meta("ownerReferences", owners.clone()),
        None => drop(new.remove_meta("ownerReferences")),
    }
    let old_status = top(old, "status");
    let status = new.map_at(&["status"]);
    if !text(old_status, "qosClass").is_empty() {
        default_text(status, "qosClass", text(old_status, "qosClass"));
    }
    for field in ["resourceClaimStatuses", "extendedResourceClaimStatus"] {
        if let Some(value) = part(old_status, field) {
            default_value(status, field, value.clone());
        }
    }
    keep_observed_generations(status, old_status);
}

/// Keeps the stored `observedGeneration` of the status and of its conditions where the client omits
/// it, since an older client does not know the field.
fn keep_observed_generations(status: &mut Map<String, Value>, old_status: &Value) {
    const FIELD: &str = "observedGeneration";
    let fill = |map: &mut Map<String, Value>, generation: i64| {
        if generation != 0 {
            default_number(map, FIELD, generation);
        }
    };
    fill(status, number(old_status, FIELD));
    // The conditions of one type are matched in order; the last of a `Vec` is the first of them.
    let mut known: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for condition in list(old_status, "conditions").iter().rev() {
        known.entry(text(condition, "type")).or_default().push(number(condition, FIELD));
    }
    for condition in maps_mut(status, "conditions") {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        let generation = known.get_mut(kind).and_then(Vec::pop).unwrap_or(0);
        fill(condition, generation);
    }
}

/// The maximum size in bytes of the requirements made from label keys, 1.5 MiB. A pod with more is
/// refused, since it is too large to be stored.
const MERGED_MAX: usize = 3 << 19;

/// The JSON of a requirement without its key and its value.
const REQUIREMENT: &str = r#"{"key":"","operator":"In","values":[""]},"#;

/// The maximum length of a label's value. A longer one is not copied: validation refuses its pod.
const LABEL_VALUE_MAX: usize = 63;

/// Turns the keys in `matchLabelKeys` into requirements with the pod's own values, so that the
/// scheduler only needs the selectors.
fn merge_label_keys(pod: &mut Object) {
    let labels = at(top(pod, "metadata"), &["labels"]).clone();
    let spec = pod.map_at(&["spec"]);
    let mut left = MERGED_MAX;
    for constraint in maps_mut(spec, "topologySpreadConstraints") {
        merge_keys_of(constraint, &labels, &mut left);
    }
    let Some(affinity) = map_mut(spec, "affinity") else { return };
    for part in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = map_mut(affinity, part) else { continue };
        for term in maps_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys_of(term, &labels, &mut left);
        }
        for weighted in maps_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = map_mut(weighted, "podAffinityTerm") {
                merge_keys_of(term, &labels, &mut left);
            }
        }
    }
}

/// Adds requirements to the selector of a term, as long as there are bytes `left`.
fn merge_keys_of(term: &mut Map<String, Value>, labels: &Value, left: &mut usize) {
    let mut requirements = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(field).and_then(Value::as_array).into_iter().flatten();
        for key in keys.filter_map(Value::as_str) {
            let value = labels.get(key).and_then(Value::as_str);
            let Some(value) = value.filter(|it| it.len() <= LABEL_VALUE_MAX && *left > 0) else {
                continue;
            };
            *left = left.saturating_sub(REQUIREMENT.len() + key.len() + value.len());
            requirements.push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
    if let Some(selector) = map_mut(term, "labelSelector").filter(|_| !requirements.is_empty()) {
        list_mut(selector, "matchExpressions").extend(requirements);
    }
}

/// A pod with pod-level limits requests the sum of its containers' requests, or its limits.
fn default_pod_requests(pod: &mut Object) {
    let spec = top(pod, "spec");
    let limits = at(spec, &["resources", "limits"]);
    if limits.as_object().is_none_or(Map::is_empty) {
        return;
    }
    let mut requests =
        at(spec, &["resources", "requests"]).as_object().cloned().unwrap_or_default();
    let total = totals::sum_of_containers(spec, "requests");
    for name in ["cpu", "memory"] {
        if let Some(total) = total.get(name) {
            requests.entry(name).or_insert_with(|| total.to_string().into());
        }
    }
    for (name, limit) in limits.as_object().into_iter().flatten() {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
    if let Some(resources) = map_mut(pod.map_at(&["spec"]), "resources") {
        resources.insert("requests".to_owned(), requests.into());
    }
}

/// The default grace period of the deletion of a pod in seconds; 0 if no container is running.
pub(super) fn grace_period(pod: &Object) -> i64 {
    if is_deleted_at_once(pod) {
        return 0;
    }
    match integer(top(pod, "spec"), "terminationGracePeriodSeconds").unwrap_or(0) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

/// Whether a pod is deleted at once, because none of its containers runs.
fn is_deleted_at_once(pod: &Object) -> bool {
    text(top(pod, "spec"), "nodeName").is_empty()
        || matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    #[test]
    fn a_new_pod_is_pending() {
        let mut pod = object(
            json!({"spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}}),
        );
        prepare_create(&mut pod);
        assert_eq!(top(&pod, "status"), &json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }

    #[test]
    fn a_gated_pod_has_a_condition() {
        let mut pod = object(json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"schedulingGates": [{"name": "example.com/g"}]}}));
        prepare_create(&mut pod);
        let condition = &top(&pod, "status")["conditions"][0];
        assert_eq!(condition["reason"], "SchedulingGated");
        assert_eq!(condition["lastTransitionTime"], "2024-01-01T00:00:00Z");
    }

    #[test]
    fn label_keys_become_requirements() {
        let mut pod = object(json!({"metadata": {"labels": {"v": "1"}}, "spec": {
            "topologySpreadConstraints": [{"matchLabelKeys": ["v", "w"], "labelSelector": {}}]}}));
        prepare_create(&mut pod);
        assert_eq!(
            top(&pod, "spec")["topologySpreadConstraints"][0]["labelSelector"],
            json!({"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}]})
        );
    }

    #[test]
    fn requirements_are_merged_until_the_pod_is_too_large() {
        let keys: Value = (0..100_000).map(|_| "v".into()).collect::<Vec<Value>>().into();
        let constraint = json!({"matchLabelKeys": keys, "labelSelector": {}});
        let merged = |value: &str| {
            let mut pod = object(json!({"metadata": {"labels": {"v": value}},
                "spec": {"topologySpreadConstraints": [constraint]}}));
            prepare_create(&mut pod);
            let selector = &top(&pod, "spec")["topologySpreadConstraints"][0]["labelSelector"];
            selector.to_string().len()
        };
        assert!((MERGED_MAX..MERGED_MAX + 100).contains(&merged("1")), "{}", merged("1"));
        assert_eq!(merged(&"x".repeat(64)), 2, "the label is invalid");
    }

    #[test]
    fn status_updates_keep_fields_unknown_to_the_client() {
        let old = object(json!({"metadata": {"name": "a", "ownerReferences": [{"uid": "u"}]},
            "spec": {"nodeName": "n"}, "status": {"qosClass": "Burstable", "observedGeneration": 2,
            "conditions": [{"type": "Ready", "observedGeneration": 2}]}}));
        let mut new = object(json!({"metadata": {"name": "a"}, "spec": {},
            "status": {"phase": "Running", "conditions": [{"type": "Ready"}]}}));
        prepare_status(&mut new, &old);
        assert_eq!(
            new.into_value(),
            json!({"metadata": {"name": "a", "ownerReferences": [{"uid": "u"}]}, "spec": {"nodeName": "n"},
                "status": {"phase": "Running", "qosClass": "Burstable", "observedGeneration": 2,
                    "conditions": [{"type": "Ready", "observedGeneration": 2}]}})
        );
    }

    #[test]
    fn a_pod_that_does_not_run_has_no_grace_period() {
        let pod = |node: &str, phase: &str| {
            object(json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30},
                "status": {"phase": phase}}))
        };
        assert_eq!(grace_period(&pod("n", "Running")), 30);
        assert_eq!(grace_period(&pod("", "Pending")), 0);
        assert_eq!(grace_period(&pod("n", "Failed")), 0);
    }

    #[test]
    fn pod_level_requests_default_to_the_total_of_containers_or_to_limits() {
        let mut pod = object(
            json!({"spec": {"resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "2"}}}]}}),
        );
        prepare_create(&mut pod);
        assert_eq!(
            top(&pod, "spec")["resources"]["requests"],
            json!({"cpu": "2", "memory": "1Gi"})
        );
    }
}
