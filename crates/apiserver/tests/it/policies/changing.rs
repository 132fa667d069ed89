//! Mutating admission policies.

use super::{MUTATING, applied, mutate, mutated, patched};
use crate::objects::{MAPS, labeled, map};
use machinery::{Value, json};
use testenv::TestEnv;

#[tokio::test]
async fn an_apply_configuration_is_merged_into_the_object() {
    let plane = mutated(&json!([
        applied("Object{metadata: Object.metadata{labels: {'seen': 'yes'}}}"),
        applied(
            "Object{data: {'by': request.userInfo.username, 'labels': \
            string(object.metadata.labels.size())}}"
        ),
    ]))
    .await;
    let created = plane.create(MAPS, &labeled("a", "own", "kept")).await;
    assert_eq!(created["metadata"]["labels"], json!({"own": "kept", "seen": "yes"}));
    assert_eq!(created["data"]["labels"], "2");
    assert_eq!(plane.read(&format!("{MAPS}/a")).await["data"], created["data"]);
}

#[tokio::test]
async fn a_patch_is_applied_unless_its_test_fails() {
    let plane = mutated(&json!([patched(
        "[JSONPatch{op: 'test', path: '/data/on', value: 'yes'}, \
            JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}, \
            JSONPatch{op: 'add', value: 'x', \
                path: '/metadata/annotations/' + jsonpatch.escapeKey('example.com/a')}]"
    ),]))
    .await;
    let created = plane.create(MAPS, &map("a", &json!({"on": "yes"}))).await;
    assert_eq!(created["metadata"]["annotations"], json!({"example.com/a": "x"}));
    let created = plane.create(MAPS, &map("b", &json!({"on": "no"}))).await;
    assert_eq!(created["metadata"]["annotations"], Value::Null);
}

#[tokio::test]
async fn an_impossible_mutation_is_a_failure_of_the_policy() {
    for (mutation, expected) in [
        (
            applied("Object{data: Object.spec{a: 'x'}}"),
            "type mismatch: unexpected type name \"Object.spec\", expected \"Object.data\", which matches field name path from root Object type",
        ),
        (
            applied("Object{nothing: 1}"),
            "error applying patch: failed to convert patch object to typed object: .nothing: field not declared in schema",
        ),
        (
            patched("[JSONPatch{op: 'add', path: '/data/a', value: 'x'}]"),
            "JSON Patch: add operation does not apply: doc is missing path: \"/data/a\": missing value",
        ),
        (
            patched(
                "[JSONPatch{op: 'add', path: '/data', value: {}}, JSONPatch{op: 'move', from: '/data/a', path: '/data/b'}]",
            ),
            "JSON Patch: error in move for path: 'a': Unable to remove nonexistent key: a: missing value",
        ),
        (
            patched(
                "[JSONPatch{op: 'add', path: '/metadata/finalizers', value: []}, JSONPatch{op: 'replace', path: '/metadata/finalizers/0', value: 'x'}]",
            ),
            "JSON Patch: replace operation does not apply: doc is missing key: /metadata/finalizers/0: missing value",
        ),
        (patched("[JSONPatch{op: 'grow', path: '/data'}]"), "JSON Patch: Unexpected kind: grow"),
        (
            applied("Object{metadata: Object.metadata{ownerReferences: [object.nothing]}}"),
            "expression 'Object{metadata: Object.metadata{ownerReferences: [object.nothing]}}' resulted in error: no such key: nothing",
        ),
    ] {
        let plane = mutated(&json!([mutation])).await;
        let (code, status) = plane.post(MAPS, &map("a", &json!({}))).await;
        let message = format!("policy 'p' with binding 'p' denied request: {expected}");
        assert_eq!((code, &status["reason"]), (403, &json!("Invalid")), "{status}");
        assert_eq!(status["message"], message);
        assert_eq!(status["details"]["causes"], json!([{"message": message}]));
        let ignore = json!({"spec": {"failurePolicy": "Ignore"}});
        plane.merge(&format!("{MUTATING}/p"), &ignore).await;
        plane.create(MAPS, &map("a", &json!({}))).await;
    }
}

#[tokio::test]
async fn atomic_fields_cannot_be_merged() {
    let plane = TestEnv::start().await;
    let pods = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["pods"]}]});
    let spec = json!({"matchConstraints": pods, "reinvocationPolicy": "Never", "mutations": [
        applied("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', \
            args: ['x']}]}}")]});
    mutate(&plane, "p", &spec).await;
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (code, status) = plane.post("/api/v1/namespaces/default/pods", &pod).await;
    assert_eq!(code, 403);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args"),
        "{message}"
    );
}

#[tokio::test]
async fn a_policy_is_reinvoked_after_later_mutations() {
    // The reinvocation sees the count itself and the field of the other policy.
    for (again, expected) in [("IfNeeded", "3"), ("Never", "1")] {
        let plane = TestEnv::start().await;
        let count = "Object{data: {'count': string(object.data.size())}}";
        let first = json!({"reinvocationPolicy": again, "mutations": [applied(count)]});
        mutate(&plane, "a-counts", &first).await;
        let second = json!({"reinvocationPolicy": "Never",
            "mutations": [applied("Object{data: {'more': ''}}")]});
        mutate(&plane, "b-adds", &second).await;
        let created = plane.create(MAPS, &map("a", &json!({"one": ""}))).await;
        assert_eq!(created["data"]["count"], expected, "{again}");
    }
    // The policy's own change also counts.
    let plane = TestEnv::start().await;
    let more = "Object{data: {'more': object.data.more + '!'}}";
    mutate(&plane, "a", &json!({"reinvocationPolicy": "IfNeeded", "mutations": [applied(more)]}))
        .await;
    let created = plane.create(MAPS, &map("a", &json!({"more": ""}))).await;
    assert_eq!(created["data"]["more"], "!!");
}
