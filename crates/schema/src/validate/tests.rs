//! Tests of validation with errors that were recorded from kube-apiserver.

use super::*;
use machinery::json;

/// All errors of `{"spec": spec}` by a schema of `spec`, sorted.
fn messages(spec_schema: &Value, spec: &Value) -> Vec<String> {
    validation_errors(
        &json!({"type": "object", "properties": {"spec": spec_schema}}),
        &json!({"spec": spec}),
        None,
    )
}

fn validation_errors(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = ErrorList::new();
    let old = old.map(|it| it.as_object().unwrap());
    Structural::compile(schema).validate(new.as_object().unwrap(), old, &mut errors);
    let mut messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    messages.sort();
    messages
}

#[test]
fn values_of_another_type_are_reported() {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
        "b": {"type": "boolean"}, "a": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object"}, "p": {"x-kubernetes-int-or-string": true}}});
    assert_eq!(
        messages(
            &schema,
            &json!({"s": 1, "i": "1", "n": "x", "b": "true", "a": {}, "o": [], "p": true})
        ),
        [
            r#"spec.a: Invalid value: "object": spec.a in body must be of type array: "object""#,
            r#"spec.b: Invalid value: "string": spec.b in body must be of type boolean: "string""#,
            r#"spec.i: Invalid value: "string": spec.i in body must be of type integer: "string""#,
            r#"spec.n: Invalid value: "string": spec.n in body must be of type number: "string""#,
            r#"spec.o: Invalid value: "array": spec.o in body must be of type object: "array""#,
            r#"spec.p: Invalid value: "boolean": spec.p in body must be of type integer,string: "boolean""#,
            r#"spec.s: Invalid value: "integer": spec.s in body must be of type string: "integer""#,
        ]
    );
    assert_eq!(
        messages(&schema, &json!({"i": 1.5})),
        [
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.i"#,
            r#"spec.i: Invalid value: "number": spec.i in body must be of type integer: "number""#,
        ]
    );
    let good = json!({"s": "x", "i": 1.0, "n": 2, "b": true, "a": ["y"], "o": {}, "p": "50%"});
    assert_eq!(messages(&schema, &good), [""; 0]);
    assert_eq!(
        messages(&schema, &json!({"a": ["x", null]})),
        [r#"spec.a[1]: Invalid value: "null": spec.a[1] in body must be of type string: "null""#]
    );
}

#[test]
fn bounds_multiples_and_formats_of_numbers_are_checked() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer", "minimum": 1, "maximum": 3},
        "b": {"type": "number", "minimum": 0, "exclusiveMinimum": true,
            "maximum": 1, "exclusiveMaximum": true},
        "n": {"type": "integer", "multipleOf": 5},
        "m": {"type": "number", "multipleOf": 0.5},
        "h": {"type": "integer", "format": "int32"}}});
    assert_eq!(
        messages(&schema, &json!({"a": 0, "b": 0, "n": 7, "m": 1})),
        [
            "spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1",
            "spec.b: Invalid value: 0: spec.b in body should be greater than 0",
            "spec.m: Invalid value: 0: factor MultipleOf declared for spec.m must be positive: 0",
            "spec.n: Invalid value: 7: spec.n in body should be a multiple of 5",
        ]
    );
    assert_eq!(
        messages(&schema, &json!({"a": 4, "b": 1.5, "n": 10, "h": 3_000_000_000_u64})),
        [
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.h"#,
            "spec.a: Invalid value: 4: spec.a in body should be less than or equal to 3",
            "spec.b: Invalid value: 1.5: spec.b in body should be less than 1",
        ]
    );
}

#[test]
fn sizes_of_strings_lists_and_maps_are_checked() {
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string", "minLength": 2, "maxLength": 3},
        "a": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        "m": {"type": "object", "minProperties": 1, "maxProperties": 2,
            "additionalProperties": {"type": "integer"}}}});
    assert_eq!(
        messages(&schema, &json!({"s": "ä", "a": [], "m": {}})),
        [
            "spec.a: Invalid value: 0: spec.a in body should have at least 1 items",
            "spec.m: Invalid value: 0: spec.m in body should have at least 1 properties",
            r#"spec.s: Invalid value: "ä": spec.s in body should be at least 2 chars long"#,
        ]
    );
    assert_eq!(
        messages(&schema, &json!({"s": "xxxx", "a": [1, 2, 3], "m": {"a": 1, "b": 2, "c": "z"}})),
        [
            "spec.a: Too many: 3: must have at most 2 items",
            r#"spec.m.c: Invalid value: "string": spec.m.c in body must be of type integer: "string""#,
            "spec.m: Too many: 3: must have at most 2 items",
            "spec.s: Too long: may not be more than 3 bytes",
        ]
    );
}

#[test]
fn enums_patterns_and_formats_are_checked() {
    let schema = json!({"type": "object", "properties": {
        "c": {"type": "string", "nullable": true, "enum": ["red", null]},
        "n": {"type": "integer", "enum": [1, 2]},
        "s": {"type": "string", "pattern": "^[a-z]+$"},
        "b": {"type": "string", "format": "ipv4"},
        "g": {"type": "string", "format": "nonsense"}}});
    assert_eq!(
        messages(&schema, &json!({"c": null, "n": 3, "s": "A1", "b": "x", "g": "x"})),
        [
            r#"spec.b: Invalid value: "x": spec.b in body must be of type ipv4: "x""#,
            r#"spec.c: Unsupported value: null: supported values: "red", "null""#,
            r#"spec.n: Unsupported value: 3: supported values: "1", "2""#,
            r#"spec.s: Invalid value: "A1": spec.s in body should match '^[a-z]+$'"#,
        ]
    );
}

#[test]
fn missing_required_fields_are_reported() {
    let schema = json!({"type": "object", "required": ["size", "list"], "properties": {
        "list": {"type": "array", "items": {"type": "object", "required": ["k"]}}}});
    assert_eq!(
        messages(&schema, &json!({})),
        ["spec.list: Required value", "spec.size: Required value"]
    );
    assert_eq!(
        messages(&schema, &json!({"size": 1, "list": [{}]})),
        ["spec.list[0].k: Required value"]
    );
}

#[test]
fn any_of_and_one_of_report_the_errors_of_the_closest_alternative() {
    let schema = json!({"type": "object",
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c", "d"]}});
    assert_eq!(
        messages(&schema, &json!({})),
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value",
        ]
    );
    assert_eq!(
        messages(&schema, &json!({"a": 1, "b": 2})),
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert_eq!(
        messages(&schema, &json!({"a": 1, "c": 2, "d": 3})),
        [r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#]
    );
    let schema = json!({"type": "object", "allOf": [{"required": ["a"]}],
        "anyOf": [{"properties": {"a": {"minimum": 5}}}, {"properties": {"a": {"maximum": 0}}}]});
    assert_eq!(
        messages(&schema, &json!({"a": 1})),
        [
            r#"<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)"#,
            "spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 5",
        ]
    );
}

#[test]
fn additional_properties_false_forbids_other_fields() {
    let schema = json!({"type": "object", "additionalProperties": false});
    assert_eq!(
        messages(&schema, &json!({"x": 1})),
        [r#"spec: Invalid value: "x": spec.x in body is a forbidden property"#]
    );
}

#[test]
fn type_and_metadata_of_an_embedded_resource_are_validated() {
    let schema = json!({"type": "object", "properties": {"t": {"type": "object",
        "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
    let found = messages(
        &schema,
        &json!({"t": {"kind": "Pod", "metadata": {"name": "P_P", "labels": {"x": "-"}}}}),
    );
    assert_eq!(found[0], "spec.t.apiVersion: Required value");
    assert!(found[1].starts_with(r#"spec.t.metadata.labels: Invalid value: "-": a valid label"#));
    assert_eq!(found.len(), 2);
}

/// A schema that became stricter after objects were stored.
fn tightened() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "n": {"type": "integer", "minimum": 5}, "s": {"type": "string"},
        "l": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {
                "k": {"type": "string"}, "v": {"type": "integer", "maximum": 3}}}},
        "a": {"type": "array", "items": {"type": "integer", "maximum": 3}}}}}})
}

#[test]
fn errors_of_unchanged_values_are_ratcheted() {
    let old = json!({"spec": {"n": 1, "s": "x"}});
    let check = |new: Value| validation_errors(&tightened(), &new, Some(&old));
    assert_eq!(check(json!({"spec": {"n": 1, "s": "y"}})), [""; 0]);
    assert_eq!(
        check(json!({"spec": {"n": 2, "s": "x"}})),
        ["spec.n: Invalid value: 2: spec.n in body should be greater than or equal to 5"]
    );
}

#[test]
fn items_of_a_list_map_correspond_by_key_and_those_of_other_lists_do_not() {
    let old = json!({"spec": {"l": [{"k": "a", "v": 9}], "a": [9]}});
    let check = |new: Value| validation_errors(&tightened(), &new, Some(&old));
    assert_eq!(check(json!({"spec": {"l": [{"k": "b"}, {"k": "a", "v": 9}], "a": [9]}})), [""; 0]);
    assert_eq!(
        check(json!({"spec": {"a": [9, 1]}})),
        ["spec.a[0]: Invalid value: 9: spec.a[0] in body should be less than or equal to 3"]
    );
}

#[test]
fn duplicates_that_existed_before_are_ratcheted() {
    let schema = tightened();
    let duplicated = json!({"spec": {"l": [{"k": "a"}, {"k": "a"}]}});
    assert_eq!(
        validation_errors(&schema, &duplicated, Some(&json!({"spec": {}}))),
        [r#"spec.l[1]: Duplicate value: {"k":"a"}"#]
    );
    assert_eq!(validation_errors(&schema, &duplicated, Some(&duplicated)), [""; 0]);
}

#[test]
fn a_status_is_validated_by_its_own_schema() {
    let schema = Structural::compile(&json!({"type": "object", "required": ["spec"], "properties":
        {"status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}));
    let mut errors = ErrorList::new();
    let new = json!({"status": {"phase": 3}});
    schema.validate_status(new.as_object().unwrap(), &Map::new(), &mut errors);
    assert_eq!(
        errors.summary(),
        r#"status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#
    );
}

/// A comparison of each new item with each old one would take minutes.
#[test]
fn the_items_of_a_long_list_are_found_by_their_keys() {
    let schema = json!({"type": "object", "properties": {"l": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {
            "k": {"type": "integer"}, "v": {"type": "string", "maxLength": 1}}}}}});
    let items = |values: std::ops::Range<u32>| -> Value {
        values.map(|k| json!({"k": k, "v": "long"})).collect()
    };
    let old = json!({"l": items(0..50_000)});
    let new = json!({"l": items(1..50_001)});
    assert_eq!(
        validation_errors(&schema, &new, Some(&old)),
        ["l[49999].v: Too long: may not be more than 1 byte"]
    );
}
