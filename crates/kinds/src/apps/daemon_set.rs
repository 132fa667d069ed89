//! `DaemonSet`: one pod on every eligible node.
//!
//! The generation of its template is kept in an annotation, which replaces a field of earlier
//! versions: it starts at 1 and counts the changes of the template. An update cannot set it.

use super::rollout;
use crate::table;
use crate::validation::go_struct;
use crate::validation::rules::{
    at_least_zero, at_most_100_percent, count_or_percent, label_selector,
};
use crate::validation::workload::columns::{CONTAINERS, IMAGES, SELECTOR, containers, labels};
use crate::validation::workload::{self, SPEC, counters};
use machinery::fields::{at, default_text, default_value, map_mut, number, part, same, text, top};
use machinery::{ErrorList, Map, Object, Path, Value, json};
use types::columns::{AGE, NAME, age, column, integer, selector};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, keep_all_but_status, keep_status,
};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The resource of the kind `DaemonSet`.
pub fn resource() -> Resource {
    let version =
        Version { status: true, ..table::v1("apps/v1.DaemonSet", Columns::Fixed(COLUMNS, cells)) };
    Resource {
        short_names: vec!["ds".to_owned()],
        categories: vec!["all".to_owned()],
        ..table::resource("apps", "DaemonSet", "daemonsets", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    prepare_update,
    prepare_status: |new, old| {
        keep_all_but_status(new, old);
        set_template_generation(new, template_generation(old));
    },
    validate,
    validate_update: |new, old, errors| {
        workload::validate_same_selector(errors, new, old);
        validate(new, errors);
    },
    validate_status,
    generation: true,
    warnings: workload::warnings_of_template,
    update_warnings: Some(update_warnings),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "The number of nodes that should run a pod of the set."),
    integer("Current", "The number of nodes that should run a pod and have at least one."),
    integer("Ready", "The number of nodes that should run a pod and have a ready one."),
    integer("Up-to-date", "The number of nodes that have a pod of the current template."),
    integer("Available", "The number of nodes whose pod has been ready for `minReadySeconds`."),
    column("Node Selector", "The labels that a node must have in order to get a pod of the set."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(set: &Object, now: &Now) -> Vec<Value> {
    let (spec, status) = (top(set, "spec"), top(set, "status"));
    let [names, images] = containers(at(spec, &["template"]));
    vec![
        set.name().into(),
        number(status, "desiredNumberScheduled").into(),
        number(status, "currentNumberScheduled").into(),
        number(status, "numberReady").into(),
        number(status, "updatedNumberScheduled").into(),
        number(status, "numberAvailable").into(),
        labels(at(spec, &["template", "spec"]), "nodeSelector"),
        age(set, now),
        names,
        images,
        selector(at(spec, &["selector"])).into(),
    ]
}

fn defaults(set: &mut Object) {
    let spec = set.map_at(&["spec"]);
    workload::template_defaults(spec);
    default_value(spec, "updateStrategy", json!({}));
    if let Some(strategy) = map_mut(spec, "updateStrategy") {
        strategy_defaults(strategy);
    }
    default_value(spec, "revisionHistoryLimit", 10.into());
    // Upstream has a field for the generation, so that every set gets the annotation.
    default_value(set.map_at(&["metadata", "annotations"]), TEMPLATE_GENERATION, "0".into());
}

fn strategy_defaults(strategy: &mut Map<String, Value>) {
    default_text(strategy, "type", "RollingUpdate");
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    default_value(strategy, "rollingUpdate", json!({}));
    if let Some(rolling) = map_mut(strategy, "rollingUpdate") {
        default_value(rolling, "maxUnavailable", 1.into());
        default_value(rolling, "maxSurge", 0.into());
    }
}

fn prepare_create(set: &mut Object) {
    workload::reset_status(
        set,
        json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
            "numberReady": 0}),
    );
    set_template_generation(set, template_generation(set).max(1));
}

fn prepare_update(new: &mut Object, old: &Object) {
    keep_status(new, old);
    let template = |set| at(top(set, "spec"), &["template"]);
    let changes = i64::from(!same(template(new), template(old)));
    set_template_generation(new, template_generation(old) + changes);
}

fn template_generation(set: &Object) -> i64 {
    set.annotation(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(set: &mut Object, generation: i64) {
    let annotations = set.map_at(&["metadata", "annotations"]);
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}

fn validate(set: &Object, errors: &mut ErrorList) {
    let spec = top(set, "spec");
    let (selector_value, template) = (at(spec, &["selector"]), at(spec, &["template"]));
    label_selector(errors, &SPEC.child("selector"), selector_value);
    let path = SPEC.child("template");
    if let Some(selector) = workload::selector_of(spec) {
        workload::validate_match(errors, &path, &selector, workload::template_labels(spec));
    }
    if !selector_value.is_null() {
        workload::refuse_empty_selector(errors, selector_value, "daemonset");
    }
    workload::validate_always_restarted_template(errors, &path, template, "DaemonSet");
    at_least_zero(errors, &SPEC.child("minReadySeconds"), number(spec, "minReadySeconds"));
    validate_strategy(errors, &SPEC.child("updateStrategy"), at(spec, &["updateStrategy"]));
    let limit = number(spec, "revisionHistoryLimit");
    at_least_zero(errors, &SPEC.child("revisionHistoryLimit"), limit);
}

fn validate_strategy(errors: &mut ErrorList, path: &Path<'_>, strategy: &Value) {
    let rolling_path = path.child("rollingUpdate");
    match (text(strategy, "type"), part(strategy, "rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.required(&rolling_path, ""),
        ("RollingUpdate", Some(rolling)) => validate_rolling(errors, &rolling_path, rolling),
        _ => {
            let supported = &["RollingUpdate", "OnDelete"];
            go_struct::not_supported(errors, path, "DaemonSetUpdateStrategy", strategy, supported);
        }
    }
}

/// Exactly one of `maxUnavailable` and `maxSurge` is not zero.
fn validate_rolling(errors: &mut ErrorList, path: &Path<'_>, rolling: &Value) {
    let (unavailable, surge) = (at(rolling, &["maxUnavailable"]), at(rolling, &["maxSurge"]));
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    count_or_percent(errors, &unavailable_path, unavailable);
    count_or_percent(errors, &surge_path, surge);
    at_most_100_percent(errors, &unavailable_path, unavailable);
    at_most_100_percent(errors, &surge_path, surge);
    match (rollout::is_zero(unavailable), rollout::is_zero(surge)) {
        (false, false) => {
            let message = "may not be set when maxUnavailable is non-zero";
            errors.invalid(&surge_path, surge.clone(), message);
        }
        (true, true) => errors.required(&unavailable_path, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    let status = top(new, "status");
    counters::not_negative(
        errors,
        status,
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    );
    counters::collisions_only_grow(errors, status, top(old, "status"));
}

fn update_warnings(new: &Object, old: &Object) -> Vec<String> {
    if template_generation(new) == template_generation(old) {
        return Vec::new();
    }
    workload::warnings_of_template(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, defaulted, object, refusals};

    fn set(strategy: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "a"}},
            "updateStrategy": strategy, "template": {"metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    }

    #[test]
    fn the_generation_of_the_template_counts_its_changes_only() {
        let old = object(created(&STRATEGY, set(json!({}))));
        assert_eq!(old.annotation(TEMPLATE_GENERATION), Some("1"));
        let mut new = object(defaulted(&STRATEGY, set(json!({"type": "OnDelete"}))));
        prepare_update(&mut new, &old);
        assert_eq!(new.annotation(TEMPLATE_GENERATION), Some("1"));
        let mut changed = set(json!({}));
        changed["metadata"]["annotations"] = json!({TEMPLATE_GENERATION: "7"});
        changed["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
        let mut new = object(defaulted(&STRATEGY, changed));
        prepare_update(&mut new, &old);
        assert_eq!(new.annotation(TEMPLATE_GENERATION), Some("2"));
        let mut new = object(json!({"status": {"numberReady": 1}}));
        (STRATEGY.prepare_status)(&mut new, &old);
        assert_eq!(new.annotation(TEMPLATE_GENERATION), Some("1"));
    }

    #[test]
    fn exactly_one_of_max_unavailable_and_max_surge_is_not_zero() {
        let rolling = |unavailable: Value, surge: Value| {
            refusals(
                &STRATEGY,
                set(json!({"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})),
            )
        };
        assert_eq!(rolling(json!(0), json!("10%")), Vec::<String>::new());
        assert_eq!(
            rolling(json!(1), json!(1)),
            [
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"
            ]
        );
        assert_eq!(
            rolling(json!(0), json!(0)),
            [
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"
            ]
        );
    }

    #[test]
    fn strategies_and_selectors_are_validated() {
        assert_eq!(
            refusals(&STRATEGY, set(json!({"type": "Odd"}))),
            [
                r#"spec.updateStrategy: Unsupported value: {"Type":"Odd","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete""#
            ]
        );
        let mut empty = set(json!({}));
        empty["spec"]["selector"] = json!({});
        assert_eq!(
            refusals(&STRATEGY, empty),
            ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"]
        );
    }

    #[test]
    fn the_table_shows_numbers_of_nodes_and_the_node_selector() {
        let mut set = set(json!({}));
        set["status"] = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 2});
        set["spec"]["template"]["spec"]["nodeSelector"] = json!({"os": "linux"});
        let mut cells = cells(&object(set), &Now { unix_seconds: 0 });
        cells.remove(7);
        let expected = json!(["a", 3, 2, 0, 0, 0, "os=linux", "c", "i", "app=a"]);
        assert_eq!(Value::from(cells), expected);
    }
}
