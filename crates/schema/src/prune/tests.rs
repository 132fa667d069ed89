//! Tests of pruning and of the reported unknown fields.

use super::*;
use machinery::{codec, json};

/// Prunes `object` by `schema`; returns the result and the reported fields.
fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
    let mut unknown = Vec::new();
    Structural::compile(schema).prune(object.as_object_mut().unwrap(), &mut unknown);
    (object, unknown)
}

#[test]
fn unspecified_fields_are_dropped_and_reported() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer"}, "parts": {"type": "array", "items":
            {"type": "object", "properties": {"id": {"type": "string"}}}}}}}});
    let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"odd": 1}, "extra": 1,
        "spec": {"sise": 1, "parts": [{"id": "x", "ix": "y"}]}});
    let (left, unknown) = pruned(&schema, object);
    assert_eq!(
        left,
        json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"odd": 1},
            "spec": {"parts": [{"id": "x"}]}})
    );
    assert_eq!(unknown, ["extra", "spec.parts[0].ix", "spec.sise"]);
}

#[test]
fn a_list_that_preserves_unknown_fields_preserves_those_of_its_items() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array",
        "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object",
            "properties": {"tight": {"type": "object"}}}}}});
    let object = json!({"l": [{"free": {"deep": 1}, "tight": {"gone": 1}}]});
    let (left, unknown) = pruned(&schema, object);
    assert_eq!(left, json!({"l": [{"free": {"deep": 1}, "tight": {}}]}));
    assert_eq!(unknown, ["l[0].tight.gone"]);
}

#[test]
fn preserve_unknown_fields_of_a_list_applies_to_the_items_of_nested_lists() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array",
        "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "array",
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}});
    let object = json!({"l": [[{"k": "v", "free": 1}]]});
    assert_eq!(pruned(&schema, object.clone()), (object, vec![]));
}

/// Each line has a random schema, a random object, the object after kube-apiserver's (v1.38) own
/// functions for pruning and defaulting, and the unknown fields in the order of their report.
#[test]
fn pruning_and_defaulting_have_the_recorded_results_of_upstream() {
    for line in include_str!("cases.jsonl").lines() {
        let case = codec::json::decode(line.as_bytes()).unwrap().value;
        let schema = Structural::compile(&case[0]);
        let (mut left, mut unknown) = (case[1].clone(), Vec::new());
        schema.prune(left.as_object_mut().unwrap(), &mut unknown);
        schema.default(left.as_object_mut().unwrap());
        assert_eq!((left, json!(unknown)), (case[2].clone(), case[3].clone()), "{line}");
    }
}

#[test]
fn specified_fields_beside_preserved_unknown_ones_are_pruned() {
    let schema = json!({"type": "object", "properties": {"free": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"tight": {"type": "object", "properties": {"k": {"type": "string"}}}}}}});
    let object = json!({"free": {"kept": {"deep": [1]}, "tight": {"k": "v", "gone": 1}}});
    let (left, unknown) = pruned(&schema, object);
    assert_eq!(left, json!({"free": {"kept": {"deep": [1]}, "tight": {"k": "v"}}}));
    assert_eq!(unknown, ["free.tight.gone"]);
}

#[test]
fn null_is_dropped_unless_it_is_nullable_or_has_a_default() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "nullable": true}, "b": {"type": "string"},
        "c": {"type": "string", "default": "x"}}});
    let (left, unknown) = pruned(&schema, json!({"a": null, "b": null, "c": null}));
    assert_eq!((left, unknown), (json!({"a": null, "c": null}), vec![]));
}

#[test]
fn the_metadata_of_an_embedded_resource_is_pruned() {
    let schema = json!({"type": "object", "properties": {"t": {"type": "object",
        "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
    let object = json!({"t": {"apiVersion": "v1", "kind": "Pod", "spec": {"any": 1},
        "metadata": {"name": "p", "odd": 1, "creationTimestamp": null, "labels": {"x": "y"}}}});
    let (left, unknown) = pruned(&schema, object);
    assert_eq!(
        left,
        json!({"t": {"apiVersion": "v1", "kind": "Pod", "spec": {"any": 1},
            "metadata": {"name": "p", "labels": {"x": "y"}}}})
    );
    assert_eq!(unknown, ["t.metadata.odd"]);
}

#[test]
fn a_crd_that_keeps_unknown_fields_keeps_them_at_any_depth() {
    let schema = Structural::compile(&json!({"type": "object", "properties":
        {"spec": {"type": "object"}}}))
    .keeping_unknown_fields();
    let mut object = json!({"spec": {"a": 1}, "b": null});
    let mut unknown = Vec::new();
    schema.prune(object.as_object_mut().unwrap(), &mut unknown);
    assert_eq!((object, unknown), (json!({"spec": {"a": 1}, "b": null}), vec![]));
}
