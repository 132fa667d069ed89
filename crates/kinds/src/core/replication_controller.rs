//! `ReplicationController`: the predecessor of `ReplicaSet`; its selector is a plain map of labels.

use crate::apps::replica_set::{COLUMNS, cells_with, validate_counters};
use crate::table;
use crate::validation::rules::at_least_zero;
use crate::validation::workload::columns::labels;
use crate::validation::workload::{self, SPEC};
use machinery::fields::{default_value, entries, integer, number, part, top};
use machinery::{ErrorList, Map, Object, Value, json, names};
use types::resource::{
    Columns, GarbageCollectionPolicy, Now, Resource, Strategy, Version, keep_status,
};

/// The resource of the kind `ReplicationController`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        scale: Some(workload::scale()),
        selectable: [table::selectable("status.replicas", "0")].into(),
        ..table::v1("core/v1.ReplicationController", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["rc".to_owned()],
        categories: vec!["all".to_owned()],
        prefix: "/registry/controllers".to_owned(),
        ..table::resource("", "ReplicationController", "replicationcontrollers", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create: |controller| workload::reset_status(controller, json!({"replicas": 0})),
    prepare_update: keep_status,
    validate,
    validate_name: names::long_name,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status: |new, _, errors| validate_counters(errors, top(new, "status")),
    generation: true,
    warnings: workload::warnings,
    update_warnings: Some(workload::update_warnings),
    garbage_collection: GarbageCollectionPolicy::OrphanDependents(None),
    ..Strategy::DEFAULT
};

fn cells(controller: &Object, now: &Now) -> Vec<Value> {
    cells_with(controller, now, labels(top(controller, "spec"), "selector"))
}

fn defaults(controller: &mut Object) {
    let template_labels = workload::template_labels(top(controller, "spec")).clone();
    let spec = controller.map_at(&["spec"]);
    if spec.get("template").is_some_and(Value::is_object) {
        workload::template_defaults(spec);
    }
    default_value(spec, "replicas", 1.into());
    if template_labels.is_object() {
        default_map(spec, "selector", &template_labels);
        default_map(controller.metadata_mut(), "labels", &template_labels);
    }
}

/// Sets a map that is missing or empty.
fn default_map(map: &mut Map<String, Value>, key: &str, value: &Value) {
    if map.get(key).and_then(Value::as_object).is_none_or(Map::is_empty) {
        map.insert(key.to_owned(), value.clone());
    }
}

fn validate(controller: &Object, errors: &mut ErrorList) {
    let spec = top(controller, "spec");
    at_least_zero(errors, &SPEC.child("minReadySeconds"), number(spec, "minReadySeconds"));
    if entries(spec, "selector").next().is_none() {
        errors.required(&SPEC.child("selector"), "");
    }
    match integer(spec, "replicas") {
        Some(replicas) => at_least_zero(errors, &SPEC.child("replicas"), replicas),
        None => errors.required(&SPEC.child("replicas"), ""),
    }
    let path = SPEC.child("template");
    let Some(template) = part(spec, "template") else { return errors.required(&path, "") };
    let labels = workload::template_labels(spec);
    if !entries(spec, "selector").all(|(key, value)| labels.get(key) == Some(value)) {
        workload::refuse_labels(errors, &path, labels);
    }
    workload::validate_always_restarted_template(errors, &path, template, "ReplicationController");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{defaulted, object, refusals};

    fn controller() -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"template": {"metadata": {"labels": {"x": "y"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    }

    #[test]
    fn selector_and_labels_default_to_the_labels_of_the_template() {
        let controller = defaulted(&STRATEGY, controller());
        assert_eq!(controller["spec"]["selector"], json!({"x": "y"}));
        assert_eq!(controller["metadata"]["labels"], json!({"x": "y"}));
        assert_eq!(controller["spec"]["replicas"], 1);
    }

    #[test]
    fn a_controller_requires_a_template_and_a_selector_that_matches_it() {
        assert_eq!(
            refusals(&STRATEGY, json!({})),
            ["spec.selector: Required value", "spec.template: Required value"]
        );
        let mut other = controller();
        other["spec"]["selector"] = json!({"x": "not valid!"});
        assert_eq!(
            refusals(&STRATEGY, other),
            [
                r#"spec.template.metadata.labels: Invalid value: {"x":"y"}: `selector` does not match template `labels`"#
            ]
        );
    }

    #[test]
    fn the_table_shows_the_plain_selector() {
        let controller = object(defaulted(&STRATEGY, controller()));
        let mut cells = cells(&controller, &Now { unix_seconds: 0 });
        cells.remove(4);
        assert_eq!(Value::from(cells), json!(["a", 1, 0, 0, "c", "i", "x=y"]));
    }
}
