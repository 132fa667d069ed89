//! Tests of metadata validation.

use super::*;

fn object(metadata: &Value) -> Object {
    Object::from_value(json!({ "metadata": metadata })).unwrap()
}

/// Validates the metadata of a new namespaced object.
fn check(metadata: &Value, expected: &[&str]) {
    let mut errors = ErrorList::new();
    validate_object_meta(&object(metadata), true, names::dns1123_subdomain, &mut errors);
    assert_errors(&errors, expected);
}

/// Validates an update from `old` to `new`.
fn check_update(old: &Value, new: &Value, expected: &[&str]) {
    let mut errors = ErrorList::new();
    validate_object_meta_update(&object(new), &object(old), &mut errors);
    assert_errors(&errors, expected);
}

/// Asserts that each error starts with the expected text: some messages are too long to repeat.
fn assert_errors(errors: &ErrorList, expected: &[&str]) {
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let alike = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
    assert!(alike, "{found:#?}");
}

#[test]
fn valid_metadata_has_no_errors() {
    check(&json!({"name": "a.b", "namespace": "n"}), &[]);
    check(&json!({"name": "a-x1", "generateName": "a-", "namespace": "n"}), &[]);
}

#[test]
fn name_and_namespace_are_required_and_validated() {
    check(
        &json!({}),
        &[
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value",
        ],
    );
    check(
        &json!({"name": "Not_Valid", "namespace": "a.b"}),
        &[
            r#"metadata.name: Invalid value: "Not_Valid": a lowercase RFC 1123 subdomain"#,
            r#"metadata.namespace: Invalid value: "a.b": must not contain dots"#,
        ],
    );
}

#[test]
fn a_namespace_is_forbidden_in_a_cluster_scoped_object() {
    let mut errors = ErrorList::new();
    let object = object(&json!({"name": "a", "namespace": "n"}));
    validate_object_meta(&object, false, names::dns1123_label, &mut errors);
    assert_errors(&errors, &["metadata.namespace: Forbidden: not allowed on this type"]);
}

#[test]
fn invalid_labels_and_annotations_are_refused() {
    check(
        &json!({"name": "a", "namespace": "n", "labels": {"a b": "-x"}}),
        &[
            r#"metadata.labels: Invalid value: "a b": name part must consist of"#,
            r#"metadata.labels: Invalid value: "-x": a valid label must be"#,
        ],
    );
    check(&json!({"name": "a", "namespace": "n", "annotations": {"EXAMPLE.com/x": "- -"}}), &[]);
    check(
        &json!({"name": "a", "namespace": "n", "annotations": {"a/b/c": "x".repeat(262_144)}}),
        &[
            r#"metadata.annotations: Invalid value: "a/b/c": a valid label key must"#,
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ],
    );
}

#[test]
fn owner_references_need_all_fields_and_at_most_one_controller() {
    check(
        &json!({"name": "a", "namespace": "n", "ownerReferences": [{"apiVersion": "a/b/c"}]}),
        &[
            r#"metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>"#,
            "metadata.ownerReferences[0].kind: Required value: must not be empty",
            "metadata.ownerReferences[0].name: Required value: must not be empty",
            "metadata.ownerReferences[0].uid: Required value: must not be empty",
        ],
    );
    check(
        &json!({"name": "a", "namespace": "n", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "u2", "controller": true},
        ]}),
        &[
            r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u1","controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"u2","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/p and Pod/q"#,
        ],
    );
    check(
        &json!({"name": "a", "namespace": "n", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u1"},
        ]}),
        &[
            r#"metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u1"}: /v1, Kind=Event is disallowed from being an owner"#,
        ],
    );
}

#[test]
fn invalid_finalizers_are_refused() {
    check(
        &json!({"name": "a", "namespace": "n", "finalizers": ["a b", "orphan", "foregroundDeletion"]}),
        &[
            r#"metadata.finalizers: Invalid value: "a b": name part must consist of"#,
            r#"metadata.finalizers: Invalid value: ["a b","orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#,
        ],
    );
    let mut errors = ErrorList::new();
    let object = object(&json!({"finalizers": ["nodomain", "example.com/x", "orphan"]}));
    validate_builtin_finalizers(&object, &mut errors);
    assert_errors(
        &errors,
        &[
            r#"metadata.finalizers[0]: Invalid value: "nodomain": name is neither a standard finalizer name nor is it fully qualified"#,
        ],
    );
}

#[test]
fn invalid_managed_fields_are_refused() {
    check(
        &json!({"name": "a", "namespace": "n", "managedFields": [
            {"operation": "Update", "manager": "m", "fieldsType": "FieldsV1"},
            {"operation": "Guess", "manager": "x".repeat(129), "fieldsType": "V2"},
        ]}),
        &[
            r#"metadata.managedFields[1].operation: Unsupported value: "Guess": supported values: "Apply", "Update""#,
            r#"metadata.managedFields[1].fieldsType: Invalid value: "V2": must be `FieldsV1`"#,
            "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes",
        ],
    );
}

#[test]
fn name_uid_and_timestamps_are_immutable() {
    let old = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1",
        "creationTimestamp": "2024-05-06T07:08:09Z", "generation": 2});
    check_update(&old, &old, &[]);
    let mut new = old.clone();
    new["creationTimestamp"] = "2024-05-06T09:08:09+02:00".into();
    check_update(&old, &new, &[]);
    check_update(
        &old,
        &json!({"name": "b", "namespace": "n", "uid": "v",
            "deletionTimestamp": "2024-05-06T07:08:09Z", "deletionGracePeriodSeconds": 5}),
        &[
            r#"metadata.resourceVersion: Invalid value: "": must be specified for an update"#,
            "metadata.generation: Invalid value: 0: must not be decremented",
            r#"metadata.name: Invalid value: "b": field is immutable"#,
            r#"metadata.uid: Invalid value: "v": field is immutable"#,
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            r#"metadata.deletionTimestamp: Invalid value: "2024-05-06T07:08:09Z": field is immutable"#,
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        ],
    );
}

#[test]
fn a_dying_object_gets_no_new_finalizers() {
    let old = json!({"resourceVersion": "1", "finalizers": ["example.com/wait"],
        "deletionTimestamp": "2024-05-06T07:08:09Z"});
    let mut new = old.clone();
    new["finalizers"] = json!(["example.com/wait", "example.com/more"]);
    check_update(
        &old,
        &new,
        &[
            r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/more"}"#,
        ],
    );
}
