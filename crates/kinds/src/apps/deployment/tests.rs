//! Defaults, validation and columns of deployments.

use super::*;
use crate::validation::testing::{created, defaulted, lines, object, refusals, refusals_of_update};

fn spec() -> Value {
    json!({"selector": {"matchLabels": {"app": "a"}}, "template": {
        "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

/// The spec of a plain deployment with one field set.
fn with(field: &str, value: Value) -> Value {
    let mut spec = spec();
    spec[field] = value;
    json!({"metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn rolling_updates_default_to_25_percent() {
    let strategy =
        |spec: Value| defaulted(&STRATEGY, json!({"spec": spec}))["spec"]["strategy"].clone();
    assert_eq!(
        strategy(json!({})),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
    );
    assert_eq!(
        strategy(json!({"strategy": {"rollingUpdate": {"maxSurge": 0}}}))["rollingUpdate"],
        json!({"maxUnavailable": "25%", "maxSurge": 0})
    );
    assert_eq!(strategy(json!({"strategy": {"type": "Recreate"}})), json!({"type": "Recreate"}));
}

#[test]
fn the_status_is_reset_at_creation() {
    let deployment = created(&STRATEGY, json!({"spec": spec(), "status": {"replicas": 7}}));
    assert_eq!(deployment["status"], json!({}));
}

#[test]
fn selector_and_containers_are_required() {
    assert_eq!(
        refusals(&STRATEGY, json!({})),
        [
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
            "spec.template.spec.containers: Required value",
        ]
    );
}

#[test]
fn max_unavailable_is_at_most_100_percent_and_not_zero_if_max_surge_is() {
    let strategy = |rolling: Value| with("strategy", json!({"rollingUpdate": rolling}));
    assert_eq!(
        refusals(&STRATEGY, strategy(json!({"maxSurge": "0%", "maxUnavailable": 0}))),
        [
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"
        ]
    );
    assert_eq!(
        refusals(&STRATEGY, strategy(json!({"maxSurge": "200%", "maxUnavailable": "101%"}))),
        [
            r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#
        ]
    );
}

#[test]
fn invalid_strategies_are_refused() {
    assert_eq!(
        refusals(&STRATEGY, with("strategy", json!({"type": "Odd"}))),
        [
            r#"spec.strategy: Unsupported value: {"Type":"Odd","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#
        ]
    );
    let recreate = json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}});
    assert_eq!(
        refusals(&STRATEGY, with("strategy", recreate)),
        [
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
        ]
    );
}

#[test]
fn progress_deadline_and_revision_history_limit_are_validated() {
    assert_eq!(
        refusals(&STRATEGY, with("minReadySeconds", json!(600))),
        ["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"]
    );
    assert_eq!(
        refusals(&STRATEGY, with("revisionHistoryLimit", json!(-1))),
        ["spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn the_selector_is_immutable() {
    let mut new = json!({"spec": spec()});
    new["spec"]["selector"] = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    assert_eq!(
        refusals_of_update(&STRATEGY, new, json!({"spec": spec()})),
        [
            r#"spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable"#
        ]
    );
}

#[test]
fn changed_annotations_increment_the_generation() {
    let old = object(json!({"metadata": {"generation": 3}}));
    let mut new = object(json!({"metadata": {"generation": 3, "labels": {"a": "b"}}}));
    prepare_update(&mut new, &old);
    assert_eq!(new.generation(), 3);
    let mut new = object(json!({"metadata": {"generation": 3, "annotations": {"a": "b"}}}));
    prepare_update(&mut new, &old);
    assert_eq!(new.generation(), 4);
}

#[test]
fn a_status_update_keeps_spec_and_labels() {
    let old = object(json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}));
    let mut new = object(json!({"metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {"replicas": 2}, "status": {"replicas": 1}}));
    prepare_status(&mut new, &old);
    assert_eq!(
        new.into_value(),
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}, "status": {"replicas": 1}})
    );
}

#[test]
fn inconsistent_status_counters_are_refused() {
    let status = |status: Value| object(json!({"status": status}));
    let mut errors = ErrorList::new();
    let new = status(json!({"replicas": -1, "readyReplicas": 3, "collisionCount": 1}));
    validate_status(&new, &status(json!({"collisionCount": 2})), &mut errors);
    assert_eq!(
        lines(&errors),
        [
            "status.replicas: Invalid value: -1: must be greater than or equal to 0",
            "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
            "status.readyReplicas: Invalid value: 3: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
            "status.collisionCount: Invalid value: 1: cannot be decremented",
        ]
    );
}

#[test]
fn the_table_shows_replicas_images_and_selector() {
    let mut deployment = with("replicas", json!(2));
    deployment["status"] = json!({"readyReplicas": 1, "updatedReplicas": 2});
    let mut cells = cells(&object(deployment), &Now { unix_seconds: 0 });
    cells.remove(4);
    assert_eq!(Value::from(cells), json!(["a", "1/2", 2, 0, "c", "i", "app=a"]));
}
