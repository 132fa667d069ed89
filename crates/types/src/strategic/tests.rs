//! Patches and their results; the expectations were checked against upstream's own code.

use serde_json::json;

use super::*;
use crate::find;

fn patched(ty: &str, mut original: Value, patch: &Value) -> Result<Value, Error> {
    apply(find(ty).unwrap(), &mut original, patch)?;
    Ok(original)
}

/// Patches a `ty` and compares.
#[track_caller]
fn check(ty: &str, original: Value, patch: &Value, expected: &Value) {
    assert_eq!(&patched(ty, original, patch).unwrap(), expected);
}

/// Patches a `ty` and compares the error.
#[track_caller]
fn refused(ty: &str, original: Value, patch: &Value, message: &str) {
    assert_eq!(patched(ty, original, patch).unwrap_err().to_string(), message);
}

/// Patches the containers `c` and `d` of a Pod's spec, and compares names and images: `c=i`.
#[track_caller]
fn check_containers(patch: &Value, expected: &[&str]) {
    let original =
        json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]});
    let spec = patched("core/v1.PodSpec", original, patch).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let containers = spec["containers"].as_array().unwrap().iter();
    let found: Vec<String> =
        containers.map(|it| format!("{}={}", text(&it["name"]), text(&it["image"]))).collect();
    assert_eq!(found, expected);
}

/// Patches the finalizers of an object's metadata and compares.
#[track_caller]
fn check_finalizers(original: &[&str], patch: &Value, expected: &[&str]) {
    let metadata = patched("meta/v1.ObjectMeta", json!({"finalizers": original}), patch).unwrap();
    assert_eq!(metadata["finalizers"], json!(expected));
}

mod objects {
    use super::*;

    #[test]
    fn fields_merge_and_null_removes() {
        check(
            "core/v1.ConfigMap",
            json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "data": {"k": "v"}}),
            &json!({"metadata": {"labels": {"x": null, "z": "3"}}, "data": null}),
            &json!({"metadata": {"name": "a", "labels": {"y": "2", "z": "3"}}}),
        );
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        let original = json!({
            "metadata": {"finalizers": ["b", "a", "b"], "labels": {"x": "1"}, "extra": [null, {}]},
            "spec": {"containers": [{"name": "c"}, {"name": "c"}], "tolerations": []},
            "status": null,
        });
        for ty in crate::all() {
            let result = patched(ty.name(), original.clone(), &json!({})).unwrap();
            assert_eq!(result, original, "{}", ty.name());
        }
        check("core/v1.Pod", original.clone(), &Value::Null, &original);
        let touching = json!({
            "metadata": {"labels": {}}, "spec": {"containers": []}, "status": {"$patch": "delete"},
        });
        check(
            "core/v1.Pod",
            original,
            &touching,
            &json!({
                "metadata": {
                    "finalizers": ["b", "a", "b"], "labels": {"x": "1"}, "extra": [null, {}],
                },
                "spec": {"containers": [{"name": "c"}, {"name": "c"}], "tolerations": []},
            }),
        );
    }

    #[test]
    fn new_values_have_no_nulls_and_no_directives() {
        check(
            "core/v1.Pod",
            json!({"spec": "of another type"}),
            &json!({
                "metadata": {"labels": {"$patch": "replace", "x": "1"}, "name": null},
                "spec": {"volumes": [{"name": "a", "emptyDir": null}, {"$patch": "delete"}]},
                "stuff": {"a": {"b": null}, "$retainKeys": ["a"]},
            }),
            &json!({
                "metadata": {},
                "spec": {"volumes": [{"name": "a"}]},
                "stuff": {"a": {}, "$retainKeys": ["a"]},
            }),
        );
    }

    #[test]
    fn an_unknown_directive_is_an_error_only_if_the_object_exists() {
        let patch = json!({"data": {"$patch": "twist", "k": "v"}});
        check(
            "core/v1.ConfigMap",
            json!({"kind": "ConfigMap"}),
            &patch,
            &json!({"kind": "ConfigMap"}),
        );
        refused(
            "core/v1.ConfigMap",
            json!({"data": {"x": "1"}}),
            &patch,
            "unknown patch type: twist in map: map[$patch:twist k:v]",
        );
        refused(
            "core/v1.ConfigMap",
            json!({"data": {}}),
            &json!({"data": {"$patch": 5, "k": [1.5, 1e6, null, true]}}),
            "unknown patch type: %!s(int64=5) in map: map[$patch:5 k:[1.5 1e+06 <nil> true]]",
        );
    }

    #[test]
    fn an_object_is_replaced_or_emptied() {
        let original = json!({"labels": {"x": "1", "y": "2"}});
        check(
            "meta/v1.ObjectMeta",
            original.clone(),
            &json!({"labels": {"$patch": "replace", "z": "3", "n": null}}),
            &json!({"labels": {"z": "3", "n": null}}),
        );
        check(
            "meta/v1.ObjectMeta",
            original,
            &json!({"labels": {"$patch": "delete", "z": "3"}}),
            &json!({"labels": {}}),
        );
    }

    #[test]
    fn the_selector_of_a_disruption_budget_is_replaced() {
        check(
            "policy/v1.PodDisruptionBudget",
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}}),
            &json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
            &json!({"spec": {"selector": {"matchLabels": {"c": "d"}}, "minAvailable": 1}}),
        );
    }

    #[test]
    fn retain_keys_removes_all_other_fields() {
        let original =
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}});
        check(
            "apps/v1.DeploymentSpec",
            original.clone(),
            &json!({"strategy": {
                "$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null,
            }}),
            &json!({"strategy": {"type": "Recreate"}}),
        );
        for retained in [json!(["rollingUpdate"]), json!("type")] {
            refused(
                "apps/v1.DeploymentSpec",
                original.clone(),
                &json!({"strategy": {"$retainKeys": retained, "type": "Recreate"}}),
                "invalid patch format of retainKeys",
            );
        }
    }

    #[test]
    fn untyped_values_merge_one_level_deep() {
        let original = json!({"data": {"a": 1, "b": {"c": 1}}});
        check(
            "apps/v1.ControllerRevision",
            original.clone(),
            &json!({"data": {"a": 2, "d": {"e": 3}}}),
            &json!({"data": {"a": 2, "b": {"c": 1}, "d": {"e": 3}}}),
        );
        refused(
            "apps/v1.ControllerRevision",
            original,
            &json!({"data": {"b": {"c": 2}}}),
            "unable to find api field in struct RawExtension for the json field \"b\"",
        );
        refused(
            "certificates/v1.CertificateSigningRequestSpec",
            json!({"extra": {"a": ["x"]}}),
            &json!({"extra": {"a": ["y"]}}),
            "merging an object in json but data type is not struct, instead is: map",
        );
    }

    #[test]
    fn a_patch_must_be_an_object() {
        let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        refused("core/v1.Pod", json!({}), &json!([]), message);
    }
}

mod lists_of_objects {
    use super::*;

    #[test]
    fn elements_merge_by_key_and_keep_their_place() {
        let patch =
            json!({"containers": [{"name": "d", "image": "j"}, {"name": "e", "image": "k"}]});
        check_containers(&patch, &["c=i", "d=j", "e=k"]);
    }

    #[test]
    fn new_elements_go_first_without_an_order() {
        check_containers(&json!({"containers": [{"name": "x"}]}), &["x=?", "c=i", "d=i"]);
        check_containers(
            &json!({"containers": [{"name": "x"}, {"name": "c"}]}),
            &["x=?", "c=i", "d=i"],
        );
        check_containers(
            &json!({"containers": [{"name": "d"}, {"name": "x"}, {"name": "c"}]}),
            &["d=i", "x=?", "c=i"],
        );
    }

    #[test]
    fn nested_lists_merge_as_well() {
        check(
            "core/v1.Container",
            json!({"args": ["x"], "env": [{"name": "A", "value": "1"}, {"name": "B"}]}),
            &json!({"args": ["z"], "env": [{"name": "B", "value": "3"}, {"name": "C"}]}),
            &json!({"args": ["z"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C"}]}),
        );
    }

    #[test]
    fn the_first_of_several_elements_of_one_key_merges() {
        check(
            "core/v1.Container",
            json!({"ports": [{"containerPort": 53, "protocol": "UDP"},
                {"containerPort": 53, "protocol": "TCP"}]}),
            &json!({"ports": [{"containerPort": 53, "name": "dns"}]}),
            &json!({"ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"},
                {"containerPort": 53, "protocol": "TCP"}]}),
        );
    }

    #[test]
    fn a_delete_directive_removes_an_element() {
        let delete = json!({"name": "c", "$patch": "delete"});
        check_containers(&json!({"containers": [delete]}), &["d=i"]);
        check_containers(&json!({"containers": [{"name": "e"}, delete]}), &["e=?", "d=i"]);
    }

    #[test]
    fn a_replace_directive_replaces_a_list() {
        let patch = json!({"containers": [{"name": "e", "image": "i"}, {"$patch": "replace"}]});
        check_containers(&patch, &["e=i"]);
    }

    #[test]
    fn a_list_without_merge_strategy_is_replaced() {
        check(
            "core/v1.NodeSpec",
            json!({"taints": [{"key": "a", "effect": "NoSchedule"}]}),
            &json!({"taints": [{"key": "k", "value": null}]}),
            &json!({"taints": [{"key": "k", "value": null}]}),
        );
    }

    #[test]
    fn elements_must_have_their_key() {
        let original = || json!({"containers": [{"name": "c"}]});
        let message = "map: map[image:j] does not contain declared merge key: name";
        refused("core/v1.PodSpec", original(), &json!({"containers": [{"image": "j"}]}), message);
        let message = "map: map[$patch:delete] does not contain declared merge key: name";
        refused(
            "core/v1.PodSpec",
            original(),
            &json!({"containers": [{"$patch": "delete"}]}),
            message,
        );
    }

    #[test]
    fn other_errors_have_the_words_of_upstream() {
        let cases = [
            (
                json!([{"name": "c", "$patch": "merge"}]),
                "merging lists cannot yet be specified in the patch",
            ),
            (json!([{"$patch": "twist"}]), "unknown patch type: twist in map: map[$patch:twist]"),
            (json!(["x", 1]), "list element types are not identical: [[map[name:c]] [x 1]]"),
        ];
        for (list, message) in cases {
            let original = json!({"containers": [{"name": "c"}]});
            refused("core/v1.PodSpec", original, &json!({"containers": list}), message);
        }
        let message = "lists of lists are not supported";
        refused(
            "core/v1.PodSpec",
            json!({"containers": []}),
            &json!({"containers": [[]]}),
            message,
        );
    }
}

mod lists_of_primitives {
    use super::*;

    #[test]
    fn a_merged_list_of_primitives_is_a_set() {
        check_finalizers(&["a", "b"], &json!({"finalizers": ["c"]}), &["c", "a", "b"]);
        check_finalizers(
            &["a", "b", "c"],
            &json!({"finalizers": ["b", "d", "b"]}),
            &["a", "b", "d", "c"],
        );
        check_finalizers(&["a", "b"], &json!({"finalizers": ["b", "a"]}), &["b", "a"]);
    }

    #[test]
    fn values_are_deleted_from_any_list() {
        check_finalizers(
            &["c", "a", "b"],
            &json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"]}),
            &["c", "b"],
        );
        check(
            "core/v1.Container",
            json!({"args": ["x", "y", "x"]}),
            &json!({
                "$deleteFromPrimitiveList/args": ["x"], "$deleteFromPrimitiveList/command": ["y"],
            }),
            &json!({"args": ["y"]}),
        );
        refused(
            "core/v1.Container",
            json!({}),
            &json!({"$deleteFromPrimitiveList": ["x"]}),
            "invalid patch format of primitive list",
        );
    }

    #[test]
    fn values_can_be_added_deleted_and_ordered_at_once() {
        check_finalizers(
            &["a", "b"],
            &json!({"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["b", "c"]}),
            &["b", "c"],
        );
        check_finalizers(
            &["a", "b"],
            &json!({"$setElementOrder/finalizers": ["b", "a"]}),
            &["b", "a"],
        );
    }
}

mod element_order {
    use super::*;

    #[test]
    fn elements_get_the_order_of_the_patch() {
        let order = json!([{"name": "d"}, {"name": "e"}, {"name": "c"}]);
        check_containers(
            &json!({
                "$setElementOrder/containers": order,
                "containers": [{"name": "e", "image": "i"}],
            }),
            &["d=i", "e=i", "c=i"],
        );
        check_containers(&json!({"$setElementOrder/containers": order}), &["d=i", "c=i"]);
    }

    #[test]
    fn elements_outside_of_the_order_are_placed_by_their_former_position() {
        let conditions = json!([{"type": "PodScheduled"}]);
        let order = json!([{"type": "Initialized"}, {"type": "Ready"}]);
        check(
            "core/v1.PodStatus",
            json!({"conditions": conditions}),
            &json!({"$setElementOrder/conditions": order, "conditions": order}),
            &json!({
                "conditions":
                    [{"type": "Initialized"}, {"type": "Ready"}, {"type": "PodScheduled"}],
            }),
        );
        check_containers(&json!({"$setElementOrder/containers": [{"name": "d"}]}), &["c=i", "d=i"]);
    }

    #[test]
    fn a_new_element_takes_the_place_of_a_deleted_one() {
        let volumes =
            |names: &[&str]| -> Value { names.iter().map(|it| json!({"name": it})).collect() };
        check(
            "core/v1.PodSpec",
            json!({"volumes": volumes(&["e", "d", "b"])}),
            &json!({
                "$setElementOrder/volumes": volumes(&["a"]),
                "volumes": [{"name": "a"}, {"name": "b", "$patch": "delete"}],
            }),
            &json!({"volumes": volumes(&["e", "d", "a"])}),
        );
    }

    #[test]
    fn a_new_list_has_no_directives() {
        check(
            "core/v1.PodSpec",
            json!({}),
            &json!({
                "$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}],
                "volumes": [{"name": "b"}, {"name": "c", "$patch": "delete"}, {"name": "a"}],
            }),
            &json!({"volumes": [{"name": "b"}, {"name": "a"}]}),
        );
        check(
            "core/v1.PodSpec",
            json!({}),
            &json!({"$setElementOrder/volumes": [{"name": "b"}]}),
            &json!({}),
        );
    }

    #[test]
    fn the_patch_must_have_the_same_order() {
        let list = "[map[name:a] map[name:b]]";
        refused(
            "core/v1.PodSpec",
            json!({"volumes": [{"name": "a"}]}),
            &json!({
                "$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}],
                "volumes": [{"name": "a"}, {"name": "b"}],
            }),
            &format!(
                "The order in patch list:\n{list}\n doesn't match $setElementOrder list:\n\
                 [map[name:b] map[name:a]]\n"
            ),
        );
    }

    #[test]
    fn an_order_for_something_other_than_a_mergeable_list_is_refused() {
        let cases = [
            (
                "$setElementOrder/volumes",
                json!("x"),
                "expected a []interface {}, but received a string",
            ),
            ("$setElementOrder", json!([]), "invalid patch format of setElementOrder list"),
            (
                "$setElementOrder/hostname",
                json!([]),
                "expected a []interface {}, but received a string",
            ),
            (
                "$setElementOrder/nodeSelector",
                json!([]),
                "expected slice or array type, but got: struct",
            ),
            (
                "$setElementOrder/nope",
                json!([]),
                "unable to find api field in struct PodSpec for the json field \"nope\"",
            ),
            (
                "$setElementOrder/tolerations",
                json!([{"key": "a"}]),
                "runtime error: hash of unhashable type map[string]interface {}",
            ),
        ];
        for (directive, order, message) in cases {
            let original = json!({"hostname": "h", "tolerations": [{"key": "a"}]});
            refused("core/v1.PodSpec", original, &json!({directive: order}), message);
        }
        let pointer = json!({"strategy": {"rollingUpdate": {"$setElementOrder/maxSurge": []}}});
        let original = json!({"strategy": {"rollingUpdate": {}}});
        check("apps/v1.DeploymentSpec", original.clone(), &pointer, &original);
    }
}
