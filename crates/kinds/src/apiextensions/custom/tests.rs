//! The resource that a CRD defines.

use super::*;
use crate::validation::testing::{lines, object};
use machinery::json;

fn crd(versions: &Value) -> Object {
    object(json!({"metadata": {"name": "widgets.example.dev"}, "spec": {
        "group": "example.dev", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions},
        "status": {"acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget",
            "listKind": "WidgetList", "shortNames": ["wd"]}}}))
}

fn version_of(version: &Value) -> Version {
    resource(&crd(&json!([version]))).unwrap().versions.remove(0)
}

#[test]
fn versions_are_sorted_and_the_storage_version_is_found() {
    let versions: Value = ["v1alpha1", "v2", "v10", "foo"]
        .iter()
        .map(|name| json!({"name": name, "served": true, "storage": *name == "v1alpha1"}))
        .collect();
    let resource = resource(&crd(&versions)).unwrap();
    let names: Vec<&str> = resource.versions.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["v10", "v2", "v1alpha1", "foo"]);
    assert_eq!(resource.storage_version().name, "v1alpha1");
    assert_eq!(resource.prefix, "/registry/example.dev/widgets");
    assert_eq!((resource.singular.as_str(), resource.short_names.len()), ("widget", 1));
}

#[test]
fn without_a_storage_version_there_is_nothing_to_serve() {
    assert_eq!(resource(&crd(&json!([]))).unwrap_err(), Error::NoStorageVersion);
}

#[test]
fn a_kind_without_columns_shows_its_age() {
    let Columns::Paths(columns) = version_of(&json!({"name": "v1", "storage": true})).columns
    else {
        panic!("a custom resource's columns are paths")
    };
    assert_eq!((columns.len(), columns[0].name.as_str()), (1, "Age"));
}

#[test]
fn columns_end_where_a_path_cannot_be_read() {
    let columns = json!([{"name": "A", "type": "string", "jsonPath": ".a", "priority": 1},
        {"name": "B", "type": "string", "jsonPath": ".b["}]);
    let version =
        version_of(&json!({"name": "v1", "storage": true, "additionalPrinterColumns": columns}));
    let Columns::Paths(columns) = version.columns else {
        panic!("a custom resource's columns are paths")
    };
    assert_eq!((columns.len(), columns[0].priority), (1, 1));
    assert_eq!(
        columns[0].description,
        "Custom resource definition column (in JSONPath format): .a"
    );
}

#[test]
fn subresources_and_selectable_fields_are_taken_over() {
    let version = version_of(&json!({"name": "v1", "storage": true, "deprecated": true,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.size"}},
        "selectableFields": [{"jsonPath": ".spec.color"}]}));
    assert!(version.status);
    let scale = version.scale.unwrap();
    assert_eq!(scale.spec_replicas, ["spec", "size"]);
    assert!(scale.label_selector.is_none());
    assert_eq!(version.selectable[0].label, "spec.color");
    assert_eq!(version.deprecation.as_deref(), Some("example.dev/v1 Widget is deprecated"));
}

#[test]
fn without_a_schema_every_field_is_kept() {
    let version = version_of(&json!({"name": "v1", "storage": true}));
    let Shape::Structural(schema) = version.shape else { panic!("a custom resource has a schema") };
    let mut network = object(json!({"spec": {"cidr": "192.168.0.0/16", "deep": {"er": [null]}}}));
    let expected = network.clone();
    let mut unknown = Vec::new();
    schema.prune(network.map_mut(), &mut unknown);
    assert_eq!((network, unknown.len()), (expected, 0));
}

#[test]
fn an_update_of_the_status_changes_nothing_else() {
    let old = object(json!({"metadata": {"name": "a", "labels": {"k": "v"}}, "spec": {"n": 1},
        "status": {"phase": "X"}}));
    let mut new = object(json!({"metadata": {"name": "a", "managedFields": [1]}, "spec": {"n": 2},
        "status": {"phase": "Y"}}));
    (STRATEGY.prepare_status)(&mut new, &old);
    assert_eq!(
        new.into_value(),
        json!({"metadata": {"name": "a", "labels": {"k": "v"}, "managedFields": [1]},
            "spec": {"n": 1}, "status": {"phase": "Y"}})
    );
}

#[test]
fn replica_counts_are_not_negative() {
    let scale =
        scale(&json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n"}));
    let mut errors = ErrorList::new();
    let widget = object(json!({"spec": {"size": -1}, "status": {"n": 3_000_000_000_i64}}));
    validate_scale_spec(&scale, &widget, &mut errors);
    validate_scale_status(&scale, &widget, &mut errors);
    assert_eq!(
        lines(&errors),
        [
            ".spec.size: Invalid value: -1: should be a non-negative integer",
            ".status.n: Invalid value: 3000000000: should be less than or equal to 2147483647",
        ]
    );
}

#[test]
fn scale_reports_unreadable_fields_in_the_words_of_go() {
    let scale = scale(&json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.n",
        "labelSelectorPath": ".status.selector"}));
    let mut errors = ErrorList::new();
    let widget = object(json!({"spec": 5, "status": {"n": "x", "selector": {}}}));
    validate_scale_spec(&scale, &widget, &mut errors);
    validate_scale_status(&scale, &widget, &mut errors);
    assert_eq!(
        lines(&errors),
        [
            ".spec.size: Invalid value: 0: .spec.size accessor error: 5 is of the type int64, expected map[string]interface{}",
            ".status.n: Invalid value: 0: .status.n accessor error: x is of the type string, expected int64",
            ".status.selector: Invalid value: \"\": .status.selector accessor error: map[] is of the type map[string]interface {}, expected string",
        ]
    );
}

#[test]
fn the_warning_about_a_deprecated_version_names_a_better_one() {
    let spec = json!({"group": "example.dev", "versions": [
        {"name": "v1beta1", "served": true, "deprecated": true}, {"name": "v1", "served": true},
        {"name": "v2", "served": true}, {"name": "v3", "served": false}]});
    assert_eq!(
        deprecation_warning("v1beta1", &spec, "Widget"),
        "example.dev/v1beta1 Widget is deprecated; use example.dev/v2 Widget"
    );
    assert_eq!(deprecation_warning("v2", &spec, "Widget"), "example.dev/v2 Widget is deprecated");
}
