//! Validation of updates of pods: only few fields may change, since the containers are running.

use std::collections::HashSet;

use super::containers::forbid_untrimmed_image;
use super::{annotations, scheduling, spec};
use crate::validation::go_struct;
use crate::validation::rules::{range_message, required};
use crate::validation::unified_diff::{DiffBudget, unified_diff};
use machinery::field_path::ErrorType;
use machinery::fields::{at, default_value, entries, integer, list, part, same, text, top};
use machinery::{ErrorList, Map, Object, Path, Value, json};

static SPEC: Path<'static> = Path::root("spec");

/// The fields that may change, in Kubernetes' words.
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update of a pod.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    spec::validate_pod(new, errors);
    let metadata = top(new, "metadata");
    annotations::validate_change(errors, metadata, top(old, "metadata"));
    annotations::validate_pod(errors, metadata, top(new, "spec"));
    let (new, old) = (top(new, "spec"), top(old, "spec"));
    for part in ["containers", "initContainers"] {
        if !validate_images(errors, part, new, old) {
            return;
        }
    }
    if !validate_deadline(errors, new, old) {
        return;
    }
    validate_tolerations(errors, new, old);
    validate_gates(errors, new, old);
    if same(new, old) {
        return;
    }
    let mut munged = with_old_updatable_fields(new, old);
    if !list(old, "schedulingGates").is_empty() {
        validate_gated(errors, &mut munged, old);
    }
    let munged = Value::Object(munged);
    if !same(&munged, old) {
        let difference = unified_diff(
            &go_struct::lines("PodSpec", old),
            &go_struct::lines("PodSpec", &munged),
            &mut DiffBudget::default(),
        );
        let message =
            format!("pod updates may not change fields other than {UPDATABLE}\n{difference}");
        errors.forbidden(&SPEC, &message);
    }
}

/// Validates the images of containers. Returns false if containers were added or removed, so that
/// nothing else can be compared.
fn validate_images(errors: &mut ErrorList, part: &str, new: &Value, old: &Value) -> bool {
    let path = SPEC.child(part);
    if list(new, part).len() != list(old, part).len() {
        errors.forbidden(&path, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in list(new, part).iter().enumerate() {
        let path = path.index(index);
        required(errors, &path.child("image"), text(container, "image"));
        forbid_untrimmed_image(errors, &path, container);
    }
    true
}

/// Validates that a deadline is only reduced. Returns false if Kubernetes stops the validation.
fn validate_deadline(errors: &mut ErrorList, new: &Value, old: &Value) -> bool {
    const FIELD: &str = "activeDeadlineSeconds";
    let path = SPEC.child(FIELD);
    let max = i64::from(i32::MAX);
    match (integer(new, FIELD), integer(old, FIELD)) {
        (Some(new), _) if !(0..=max).contains(&new) => {
            errors.invalid(&path, new, &range_message(0, max));
            return false;
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(&path, new, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            let message = "must not update from a positive integer to nil value";
            errors.invalid(&path, Value::Null, message);
        }
        _ => {}
    }
    true
}

/// Validates that tolerations are only added, or change only their `tolerationSeconds`.
fn validate_tolerations<'a>(errors: &mut ErrorList, new: &'a Value, old: &'a Value) {
    let path = SPEC.child("tolerations");
    let immutable_part =
        |it: &'a Value| ["key", "operator", "value", "effect"].map(|field| text(it, field));
    let kept: HashSet<[&str; 4]> = list(new, "tolerations").iter().map(immutable_part).collect();
    if !list(old, "tolerations").iter().all(|old| kept.contains(&immutable_part(old))) {
        let message = "existing toleration can not be modified except its tolerationSeconds";
        return errors.forbidden(&path, message);
    }
    scheduling::validate_tolerations(errors, &path, list(new, "tolerations"));
}

/// Validates that scheduling gates are only removed.
fn validate_gates(errors: &mut ErrorList, new: &Value, old: &Value) {
    let path = SPEC.child("schedulingGates");
    let before: HashSet<&str> =
        list(old, "schedulingGates").iter().map(|it| text(it, "name")).collect();
    for (index, gate) in list(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !before.contains(name) {
            let path = path.index(index);
            let message =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.child("name"), &message);
        }
    }
}

/// The new spec with the old values of all fields that may change.
fn with_old_updatable_fields(new: &Value, old: &Value) -> Map<String, Value> {
    let mut munged = new.as_object().cloned().unwrap_or_default();
    let mut restore = |key: &str| match part(old, key) {
        Some(value) => drop(munged.insert(key.to_owned(), value.clone())),
        None => drop(munged.remove(key)),
    };
    restore("activeDeadlineSeconds");
    restore("schedulingGates");
    restore("tolerations");
    if integer(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && integer(new, "terminationGracePeriodSeconds") == Some(1)
    {
        restore("terminationGracePeriodSeconds");
    }
    for part in ["containers", "initContainers"] {
        let images = list(old, part).iter().map(|container| at(container, &["image"]).clone());
        for (container, image) in machinery::fields::maps_mut(&mut munged, part).zip(images) {
            container.insert("image".to_owned(), image);
        }
    }
    munged
}

/// Validates the node selector and node affinity of a pod with scheduling gates, which may only
/// become narrower, and restores their old values in `munged`.
fn validate_gated(errors: &mut ErrorList, munged: &mut Map<String, Value>, old: &Value) {
    let new = Value::Object(munged.clone());
    let kept = |(key, value): (&str, &Value)| at(&new, &["nodeSelector", key]) == value;
    if !entries(old, "nodeSelector").all(kept) {
        let message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&SPEC.child("nodeSelector"), at(&new, &["nodeSelector"]).clone(), message);
    }
    match part(old, "nodeSelector") {
        Some(selector) => munged.insert("nodeSelector".to_owned(), selector.clone()),
        None => munged.remove("nodeSelector"),
    };
    let (new_nodes, old_nodes) =
        (at(&new, &["affinity", "nodeAffinity"]), at(old, &["affinity", "nodeAffinity"]));
    if same(new_nodes, old_nodes) {
        return;
    }
    validate_node_affinity(errors, new_nodes, old_nodes);
    default_value(munged, "affinity", json!({}));
    if let Some(affinity) = machinery::fields::map_mut(munged, "affinity") {
        match old_nodes {
            Value::Null => drop(affinity.remove("nodeAffinity")),
            nodes => drop(affinity.insert("nodeAffinity".to_owned(), nodes.clone())),
        }
    }
}

fn validate_node_affinity(errors: &mut ErrorList, new: &Value, old: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |affinity| list(at(affinity, &[REQUIRED]), "nodeSelectorTerms");
    let path = SPEC.child("affinity");
    let path = path.child("nodeAffinity");
    let path = path.child(REQUIRED);
    let path = path.child("nodeSelectorTerms");
    if !terms(old).is_empty() && terms(old).len() != terms(new).len() {
        let message = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = go_struct::line_of_list("NodeSelectorTerm", terms(new));
        return errors.add(ErrorType::Invalid, &path, None, &format!("{shown}: {message}"));
    }
    for (index, (new, old)) in terms(new).iter().zip(terms(old)).enumerate() {
        if !only_adds(new, old) {
            let message = "only additions are allowed (no mutations or deletions)";
            let shown = go_struct::line("NodeSelectorTerm", new);
            let detail = format!("{shown}: {message}");
            errors.add(ErrorType::Invalid, &path.index(index), None, &detail);
        }
    }
}

/// Whether the new term has the requirements of the old one, and possibly more.
fn only_adds(new: &Value, old: &Value) -> bool {
    let parts = ["matchExpressions", "matchFields"];
    // A term without requirements matches no node; with an added one it would match some.
    if parts.iter().all(|part| list(old, part).is_empty()) {
        return parts.iter().all(|part| list(new, part).is_empty());
    }
    parts.iter().all(|part| {
        let (new, old) = (list(new, part), list(old, part));
        new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| same(new, old))
    })
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use super::*;
    use crate::validation::testing::refusals_of_update;

    fn spec(changes: Value) -> Value {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        for (key, value) in changes.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        json!({"spec": spec})
    }

    fn check(new: Value, old: Value, expected: &[&str]) {
        assert_eq!(refusals_of_update(&STRATEGY, spec(new), spec(old)), expected);
    }

    #[test]
    fn an_image_may_change() {
        let new = json!({"containers": [{"name": "c", "image": "j", "imagePullPolicy": "Always"}]});
        check(new, json!({}), &[]);
    }

    #[test]
    fn the_error_shows_the_forbidden_difference() {
        let difference = "\n@@ -35,7 +35,7 @@\n   }\n  ],\n  \"EphemeralContainers\": null,\n- \"RestartPolicy\": \"Always\",\n+ \"RestartPolicy\": \"Never\",\n  \"TerminationGracePeriodSeconds\": 30,\n  \"ActiveDeadlineSeconds\": null,\n  \"DNSPolicy\": \"ClusterFirst\",\n";
        let expected = format!(
            "spec: Forbidden: pod updates may not change fields other than {UPDATABLE}{difference}"
        );
        check(json!({"restartPolicy": "Never"}), json!({}), &[&expected]);
    }

    #[test]
    fn containers_may_not_be_added_or_removed() {
        let two = json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]});
        let expected = "spec.containers: Forbidden: pod updates may not add or remove containers";
        check(two, json!({}), &[expected]);
    }

    #[test]
    fn a_deadline_may_only_be_reduced() {
        check(json!({"activeDeadlineSeconds": 5}), json!({"activeDeadlineSeconds": 9}), &[]);
        check(
            json!({"activeDeadlineSeconds": 9}),
            json!({"activeDeadlineSeconds": 5}),
            &[
                "spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value",
            ],
        );
    }

    #[test]
    fn tolerations_may_only_be_added() {
        let one = json!({"tolerations": [{"key": "a", "operator": "Exists"}]});
        check(one.clone(), json!({}), &[]);
        check(
            json!({}),
            one,
            &[
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            ],
        );
    }

    #[test]
    fn a_gated_pod_may_only_add_to_its_node_selector() {
        let gated = |selector: Value| json!({"schedulingGates": [{"name": "example.com/g"}], "nodeSelector": selector});
        check(gated(json!({"a": "1", "b": "2"})), gated(json!({"a": "1"})), &[]);
        check(
            gated(json!({"b": "2"})),
            gated(json!({"a": "1"})),
            &[
                r#"spec.nodeSelector: Invalid value: {"b":"2"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)"#,
            ],
        );
    }
}
