//! `ReplicaSet`: a number of equal pods.

use crate::table;
use crate::validation::rules::at_least_zero;
use crate::validation::workload::columns::{CONTAINERS, IMAGES, SELECTOR, containers};
use crate::validation::workload::{self, SPEC, counters};
use machinery::fields::{at, default_value, number, top};
use machinery::{ErrorList, Object, Value, json};
use types::columns::{AGE, NAME, age, integer, selector};
use types::resource::{Behavior, Column, Columns, Now, Resource, Version, keep_status};

/// The row of `ReplicaSet`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        scale: Some(workload::scale()),
        ..table::v1("apps/v1.ReplicaSet", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["rs".to_owned()],
        categories: vec!["all".to_owned()],
        ..table::row("apps", "ReplicaSet", "replicasets", &BEHAVIOR, version)
    }
}

static BEHAVIOR: Behavior = Behavior {
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
    ..Behavior::PLAIN
};

/// The columns of everything that is a number of pods.
pub(crate) const COLUMNS: &[Column] = &[
    NAME,
    integer(
        "Desired",
        "How many pods there should be, which is one unless the spec says otherwise.",
    ),
    integer("Current", "How many pods there were when the controller looked for the last time."),
    integer(
        "Ready",
        "How many of the pods were ready when the controller looked for the last time.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(set: &Object, now: &Now) -> Vec<Value> {
    cells_with(set, now, selector(at(top(set, "spec"), &["selector"])).into())
}

/// The cells of [`COLUMNS`], of which the selector is given.
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

/// Validates the selector and the template of a replica set, or of a deployment, which makes them.
pub(super) fn validate_pods(errors: &mut ErrorList, spec: &Value) {
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

/// Validates the counters of everything that is a number of pods.
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
    fn a_new_set_has_made_nothing_yet() {
        let set = created(&BEHAVIOR, set(json!({"matchLabels": {"app": "a"}})));
        assert_eq!(
            (&set["spec"]["replicas"], &set["status"]),
            (&json!(1), &json!({"replicas": 0}))
        );
    }

    #[test]
    fn a_selector_must_make_sense() {
        assert_eq!(
            refusals(&BEHAVIOR, set(json!({}))),
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]
        );
        assert_eq!(
            refusals(
                &BEHAVIOR,
                set(json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]}))
            ),
            [
                r#"spec.selector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator"#,
                r#"spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Odd"}]}: invalid label selector"#,
            ]
        );
    }

    #[test]
    fn pods_of_a_set_never_end() {
        let mut set = set(json!({"matchLabels": {"app": "a"}}));
        set["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
        set["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 1.into();
        assert_eq!(
            refusals(&BEHAVIOR, set),
            [
                r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ]
        );
    }

    #[test]
    fn available_replicas_are_ready() {
        let mut errors = ErrorList::new();
        let status = json!({"replicas": 3, "availableReplicas": 2, "readyReplicas": 1});
        validate_counters(&mut errors, &status);
        assert_eq!(
            lines(&errors),
            ["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"]
        );
    }

    #[test]
    fn the_table_counts_pods() {
        let mut set = set(json!({"matchLabels": {"app": "a"}}));
        set["spec"]["replicas"] = 3.into();
        set["status"] = json!({"replicas": 2, "readyReplicas": 1});
        let mut cells = cells(&object(set), &Now { unix_seconds: 0 });
        cells.remove(4);
        assert_eq!(Value::from(cells), json!(["a", 3, 2, 1, "c", "i", "app=a"]));
    }
}
