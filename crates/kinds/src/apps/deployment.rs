//! `Deployment`: a number of equal pods, which are replaced when their template changes.

use super::rollout;
use crate::table;
use crate::validation::go_struct;
use crate::validation::rules::{at_least_zero, at_most_100_percent, count_or_percent};
use crate::validation::workload::columns::{CONTAINERS, IMAGES, SELECTOR, containers};
use crate::validation::workload::{self, SPEC, counters};
use machinery::fields::{
    at, default_text, default_value, integer, map_mut, number, part, same, text, top,
};
use machinery::selector::LabelSelector;
use machinery::{ErrorList, Map, Object, Path, Value, json};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, keep_all_but_status, keep_status,
};

/// The resource of the kind `Deployment`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        scale: Some(workload::scale()),
        ..table::v1("apps/v1.Deployment", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["deploy".to_owned()],
        categories: vec!["all".to_owned()],
        ..table::resource("apps", "Deployment", "deployments", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: |deployment| workload::reset_status(deployment, json!({})),
    prepare_update,
    prepare_status,
    validate,
    validate_update,
    validate_status,
    generation: true,
    warnings: workload::warnings,
    update_warnings: Some(workload::update_warnings),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "Number of the pod with ready state"),
    column("Up-to-date", "The number of pods that were created from the current pod template."),
    column("Available", "The number of pods that have been ready for `minReadySeconds`."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(deployment: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(deployment, "spec"), top(deployment, "status"));
    let [names, images] = containers(at(spec, &["template"]));
    let selector = LabelSelector::from_value(at(spec, &["selector"]));
    vec![
        deployment.name().into(),
        format!("{}/{}", number(status, "readyReplicas"), number(spec, "replicas")).into(),
        number(status, "updatedReplicas").into(),
        number(status, "availableReplicas").into(),
        age(deployment, now),
        names,
        images,
        selector.map_or_else(|_| "<invalid>".to_owned(), |selector| selector.to_string()).into(),
    ]
}

fn defaults(deployment: &mut Object) {
    let spec = deployment.map_at(&["spec"]);
    default_value(spec, "replicas", 1.into());
    workload::template_defaults(spec);
    default_value(spec, "strategy", json!({}));
    if let Some(strategy) = map_mut(spec, "strategy") {
        strategy_defaults(strategy);
    }
    default_value(spec, "revisionHistoryLimit", 10.into());
    default_value(spec, "progressDeadlineSeconds", 600.into());
}

fn strategy_defaults(strategy: &mut Map<String, Value>) {
    default_text(strategy, "type", "RollingUpdate");
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    default_value(strategy, "rollingUpdate", json!({}));
    if let Some(rolling) = map_mut(strategy, "rollingUpdate") {
        default_value(rolling, "maxUnavailable", "25%".into());
        default_value(rolling, "maxSurge", "25%".into());
    }
}

fn prepare_update(new: &mut Object, old: &Object) {
    keep_status(new, old);
    // Annotations are copied to the replica sets, so the controller must observe their changes.
    let annotations = |deployment| at(top(deployment, "metadata"), &["annotations"]);
    if !same(annotations(new), annotations(old)) {
        new.set_meta("generation", old.generation() + 1);
    }
}

fn prepare_status(new: &mut Object, old: &Object) {
    keep_all_but_status(new, old);
    match old.metadata().and_then(|metadata| metadata.get("labels")) {
        Some(labels) => new.set_meta("labels", labels.clone()),
        None => drop(new.remove_meta("labels")),
    }
}

fn validate(deployment: &Object, errors: &mut ErrorList) {
    let spec = top(deployment, "spec");
    at_least_zero(errors, &SPEC.child("replicas"), number(spec, "replicas"));
    super::replica_set::validate_pods(errors, spec);
    validate_strategy(errors, &SPEC.child("strategy"), at(spec, &["strategy"]));
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        at_least_zero(errors, &SPEC.child(field), number(spec, field));
    }
    let deadline = integer(spec, "progressDeadlineSeconds");
    if let Some(seconds) = deadline.filter(|it| *it <= number(spec, "minReadySeconds")) {
        let path = SPEC.child("progressDeadlineSeconds");
        errors.invalid(&path, seconds, "must be greater than minReadySeconds");
    }
}

fn validate_strategy(errors: &mut ErrorList, path: &Path<'_>, strategy: &Value) {
    let rolling_path = path.child("rollingUpdate");
    match (text(strategy, "type"), part(strategy, "rollingUpdate")) {
        ("Recreate", None) => {}
        ("Recreate", Some(_)) => {
            let message = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden(&rolling_path, message);
        }
        ("RollingUpdate", None) => {
            errors.required(&rolling_path, "this should be defaulted and never be nil");
        }
        ("RollingUpdate", Some(rolling)) => validate_rolling(errors, &rolling_path, rolling),
        _ => {
            let supported = &["Recreate", "RollingUpdate"];
            go_struct::not_supported(errors, path, "DeploymentStrategy", strategy, supported);
        }
    }
}

fn validate_rolling(errors: &mut ErrorList, path: &Path<'_>, rolling: &Value) {
    let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
    let unavailable_path = path.child("maxUnavailable");
    count_or_percent(errors, &unavailable_path, unavailable);
    count_or_percent(errors, &path.child("maxSurge"), surge);
    if rollout::is_zero(unavailable) && rollout::is_zero(surge) {
        let message = "may not be 0 when `maxSurge` is 0";
        errors.invalid(&unavailable_path, unavailable.clone(), message);
    }
    at_most_100_percent(errors, &unavailable_path, unavailable);
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    workload::validate_same_selector(errors, new, old);
}

fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    let status = top(new, "status");
    counters::not_negative(
        errors,
        status,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    );
    let parts = &["updatedReplicas", "readyReplicas", "availableReplicas"];
    counters::at_most_replicas(errors, status, parts);
    counters::available_are_ready(errors, status, "cannot be greater than readyReplicas");
    counters::collisions_only_grow(errors, status, top(old, "status"));
}

#[cfg(test)]
mod tests;
