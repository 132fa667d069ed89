//! `ReplicaSet`: a number of equal pods.

use crate::table;
use crate::validation::rules::at_least_zero;
use crate::validation::workload::columns::{CONTAINERS, IMAGES, SELECTOR, containers};
use crate::validation::workload::{self, SPEC, counters};
use machinery::fields::{at, default_value, number, top};
use machinery::{ErrorList, Object, Value, json};
use types::columns::{AGE, NAME, age, integer, selector};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version, keep_status};

/// The resource of the kind `ReplicaSet`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        scale: Some(workload::scale()),
        ..table::v1("apps/v1.ReplicaSet", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["rs".to_owned()],
        categories: vec!["all".to_owned()],
        ..table::resource("apps", "ReplicaSet", "replicasets", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: |set| workload::reset_status(set, json!({"replicas": 0})),
    prepare_update: keep_status,
    validate,
    validate_update: |new, old, errors| {
        validate(new, errors);
        workload::validate_same_selector(errors, new, old);
    },
    validate_status: |new, _, errors| validate_counters(errors, top(new, "status")),
    generation: true,
    warnings: workload::warnings,
    update_warnings: Some(workload::update_warnings),
    ..Strategy::DEFAULT
};

/// The columns of replica sets and replication controllers.
pub(crate) const COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "The number of pods that there should be, 1 by default."),
    integer("Current", "The number of pods that the controller last observed."),
    integer("Ready", "The number of ready pods that the controller last observed."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(set: &Object, now: &Now) -> Vec<Value> {
    cells_with(set, now, selector(at(top(set, "spec"), &["selector"])).into())
}

/// The cells of [`COLUMNS`], with the given cell for the selector.
pub(crate) fn cells_with(object: &Object, now: &Now, selector: Value) -> Vec<Value> {
    let (spec, status) = (top(object, "spec"), top(object, "status"));
    let [names, images] = containers(at(spec, &["template"]));
    vec![
        object.name().into(),
        number(spec, "replicas").into(),
        number(status, "replicas").into(),
        number(status, "readyReplicas").into(),
        age(object, now),
        names,
        images,
        selector,
    ]
}

fn defaults(set: &mut Object) {
    let spec = set.map_at(&["spec"]);
    default_value(spec, "replicas", 1.into());
    workload::template_defaults(spec);
}

fn validate(set: &Object, errors: &mut ErrorList) {
    let spec = top(set, "spec");
    for field in ["replicas", "minReadySeconds"] {
        at_least_zero(errors, &SPEC.child(field), number(spec, field));
    }
    validate_pods(errors, spec);
}

/// Validates the selector and the template of a replica set, or of a deployment, which creates
/// replica sets.
pub(super) fn validate_pods(errors: &mut ErrorList, spec: &Value) {
    // As upstream: the message names deployments for replica sets too.
    workload::validate_selector(errors, spec, "deployment");
    let Some(selector) = workload::selector_of(spec) else {
        let message = "invalid label selector";
        return workload::invalid_selector(errors, at(spec, &["selector"]), message);
    };
    let path = SPEC.child("template");
    // An empty selector, which is a separate error, matches everything.
    workload::validate_match(errors, &path, &selector, workload::template_labels(spec));
    workload::validate_always_restarted_template(
        errors,
        &path,
        at(spec, &["template"]),
        "ReplicaSet",
    );
}

/// Validates the counters of replica sets and replication controllers.
pub(crate) fn validate_counters(errors: &mut ErrorList, status: &Value) {
    counters::not_negative(
        errors,
        status,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    );
    let parts = &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    counters::at_most_replicas(errors, status, parts);
    counters::available_are_ready(errors, status, "cannot be greater than readyReplicas");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, lines, object, refusals};

    fn set(selector: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"selector": selector, "template": {"metadata":
            {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    }

    #[test]
    fn a_new_set_has_one_replica_and_an_empty_status() {
        let set = created(&STRATEGY, set(json!({"matchLabels": {"app": "a"}})));
        assert_eq!(
            (&set["spec"]["replicas"], &set["status"]),
            (&json!(1), &json!({"replicas": 0}))
        );
    }

    #[test]
    fn empty_and_invalid_selectors_are_refused() {
        assert_eq!(
            refusals(&STRATEGY, set(json!({}))),
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]
        );
        assert_eq!(
            refusals(
                &STRATEGY,
                set(json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]}))
            ),
            [
                r#"spec.selector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator"#,
                r#"spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Odd"}]}: invalid label selector"#,
            ]
        );
    }

    #[test]
    fn pods_are_always_restarted_and_have_no_deadline() {
        let mut set = set(json!({"matchLabels": {"app": "a"}}));
        set["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
        set["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 1.into();
        assert_eq!(
            refusals(&STRATEGY, set),
            [
                r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ]
        );
    }

    #[test]
    fn more_available_than_ready_replicas_are_refused() {
        let mut errors = ErrorList::new();
        let status = json!({"replicas": 3, "availableReplicas": 2, "readyReplicas": 1});
        validate_counters(&mut errors, &status);
        assert_eq!(
            lines(&errors),
            ["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"]
        );
    }

    #[test]
    fn the_table_shows_replicas_images_and_selector() {
        let mut set = set(json!({"matchLabels": {"app": "a"}}));
        set["spec"]["replicas"] = 3.into();
        set["status"] = json!({"replicas": 2, "readyReplicas": 1});
        let mut cells = cells(&object(set), &Now { unix_seconds: 0 });
        cells.remove(4);
        assert_eq!(Value::from(cells), json!(["a", 3, 2, 1, "c", "i", "app=a"]));
    }
}
