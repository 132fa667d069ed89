//! Tests of server-side apply.

use super::*;
use crate::json;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn request(manager: &'static str, now: &'static str) -> Request<'static, Deduced, OnlyVersion> {
    Request {
        schema: Deduced::Granular,
        api_version: "v1",
        kind: "Widget",
        subresource: "",
        manager,
        filter: Filter::ALL,
        now,
        versions: &OnlyVersion,
    }
}

fn object(mut value: Value) -> Object {
    (value["apiVersion"], value["kind"]) = ("v1".into(), "Widget".into());
    Object::from_value(value).unwrap()
}

fn applied(manager: &'static str, live: &Object, config: Value) -> Result<Object, String> {
    let request = request(manager, "2024-01-01T00:00:01Z");
    apply(&request, Some(live), &object(config), Force::No).map_err(|error| error.to_string())
}

/// Manager and fields of each entry.
fn owners(object: &Object) -> Vec<(String, String)> {
    let shown = |entry: &Value| {
        let fields = Set::parse(&entry["fieldsV1"]).unwrap().to_json();
        (entry["manager"].as_str().unwrap().to_owned(), fields)
    };
    request::entries(object).iter().map(shown).collect()
}

fn owner(manager: &str, fields: &str) -> (String, String) {
    (manager.to_owned(), fields.to_owned())
}

#[test]
fn fields_from_before_the_first_apply_belong_to_before_first_apply() {
    let live = object(json!({"metadata": {"uid": "u"}, "a": 1, "b": 2}));
    let it = applied("me", &live, json!({"b": 2, "c": 3})).unwrap();
    assert_eq!(
        owners(&it),
        [
            owner("me", r#"{"f:b":{},"f:c":{}}"#),
            owner("before-first-apply", r#"{"f:a":{},"f:b":{}}"#)
        ]
    );
    assert_eq!(
        applied("me", &live, json!({"b": 3})).unwrap_err(),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .b"#
    );
}

#[test]
fn an_untracked_object_stays_untracked_until_an_apply() {
    let live = object(json!({"metadata": {"uid": "u"}, "a": 1}));
    let mut new = object(json!({"metadata": {"uid": "u"}, "a": 2}));
    update(&request("me", ""), Some(&live), &mut new);
    assert!(owners(&new).is_empty());
}

/// A tracked object, and what `new` is after an update of it by `me`.
fn updated(new: Value) -> Object {
    let mut live = object(json!({"metadata": {"uid": "u"}, "a": 1}));
    update(&request("first", "2024-01-01T00:00:00Z"), None, &mut live);
    let mut new = object(new);
    update(&request("me", "2024-01-01T00:00:01Z"), Some(&live), &mut new);
    new
}

#[test]
fn an_update_may_set_reset_or_omit_the_entries() {
    let first = [owner("first", r#"{"f:a":{}}"#)];
    assert_eq!(owners(&updated(json!({"metadata": {"uid": "u"}, "a": 1}))), first);
    for reset in [json!([]), json!([{}])] {
        let it = updated(json!({"metadata": {"uid": "u", "managedFields": reset}, "a": 1}));
        assert!(owners(&it).is_empty());
    }
    let broken = json!([{"manager": "x"}]);
    let it = updated(json!({"metadata": {"uid": "u", "managedFields": broken}, "a": 1}));
    assert_eq!(owners(&it), first);
    let sent = json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}]);
    let it = updated(json!({"metadata": {"uid": "u", "managedFields": sent}, "a": 1, "b": 2}));
    assert_eq!(owners(&it), [owner("x", r#"{"f:a":{}}"#), owner("me", r#"{"f:b":{}}"#)]);
}

#[test]
fn removed_fields_have_no_owner() {
    let it = updated(json!({"metadata": {"uid": "u"}}));
    assert!(owners(&it).is_empty());
    // A value that changes from an object to a text takes the object's fields with it.
    let mut live = object(json!({"a": {"b": 1}}));
    update(&request("first", ""), None, &mut live);
    let mut new = object(json!({"a": "text"}));
    update(&request("me", ""), Some(&live), &mut new);
    assert_eq!(owners(&new), [owner("me", r#"{"f:a":{}}"#)]);
}

#[test]
fn entries_of_removed_versions_are_dropped() {
    let old = json!([{"manager": "x", "operation": "Update", "apiVersion": "v0",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}]);
    let live = object(json!({"metadata": {"uid": "u", "managedFields": old}, "a": 1}));
    assert_eq!(
        owners(&applied("me", &live, json!({"a": 2})).unwrap()),
        [owner("me", r#"{"f:a":{}}"#)]
    );
}

/// An object that client-side `kubectl apply` created.
fn client_side_applied() -> Object {
    let config = r#"{"apiVersion":"v1","kind":"Widget","a":1,"b":1}"#;
    let mut live = object(json!({"metadata": {"uid": "u", "annotations": {LAST_APPLIED: config}},
        "a": 1, "b": 2, "c": 3}));
    update(&request("kubectl-client-side-apply", "2024-01-01T00:00:00Z"), None, &mut live);
    live
}

#[test]
fn kubectl_takes_over_fields_that_it_applied_before() {
    let it = applied("kubectl", &client_side_applied(), json!({"a": "<2>"})).unwrap();
    assert_eq!(
        owners(&it),
        [
            owner("kubectl", r#"{"f:a":{}}"#),
            owner(
                "kubectl-client-side-apply",
                &format!(
                    r#"{{"f:b":{{}},"f:c":{{}},"f:metadata":{{"f:annotations":{{".":{{}},"f:{LAST_APPLIED}":{{}}}}}}}}"#
                )
            )
        ]
    );
    let renewed = "{\"a\":\"\\u003c2\\u003e\",\"apiVersion\":\"v1\",\"kind\":\"Widget\"}\n";
    assert_eq!(it.annotation(LAST_APPLIED), Some(renewed));
}

#[test]
fn kubectl_does_not_take_over_fields_that_others_changed() {
    let live = client_side_applied();
    let refusal = applied("kubectl", &live, json!({"a": 2, "b": 3, "c": 4})).unwrap_err();
    assert_eq!(
        refusal,
        "Apply failed with 2 conflicts: conflicts with \"kubectl-client-side-apply\" using v1:\n- .b\n- .c"
    );
    assert!(applied("helm", &live, json!({"a": 2})).unwrap_err().contains(".a"));
}

#[test]
fn times_are_kept_if_nothing_else_changed() {
    let live = updated(json!({"metadata": {"uid": "u"}, "a": 2}));
    let mut new = live.clone();
    new.map_at(&["metadata"])["managedFields"][0]["time"] = "2025-01-01T00:00:00Z".into();
    let mut changed = new.clone();
    keep_times_if_unchanged(&live, &mut new);
    assert_eq!(new, live);
    changed.map_mut().insert("a".into(), 3.into());
    let before = changed.clone();
    keep_times_if_unchanged(&live, &mut changed);
    assert_eq!(changed, before);
}

#[test]
fn the_managers_name_comes_from_the_request_or_from_the_user_agent() {
    assert_eq!(manager_name("me", "kubectl/v1"), "me");
    assert_eq!(manager_name("", "kube ctl\u{7}/v1.2 (linux)"), "kube ctl");
    assert_eq!(manager_name("", &"ä".repeat(100)).len(), 128);
    let mut it = object(json!({"a": 1}));
    update(&request("", ""), None, &mut it);
    assert_eq!(owners(&it), [owner("unknown", r#"{"f:a":{}}"#)]);
}
