//! `/scale`: the number of replicas of an object, and its field managers.

use http::Method;

use crate::objects::{THINGS, thing, things};
use machinery::{Value, json};
use testenv::media_type::{MERGE_PATCH, TABLE};
use testenv::{Client, TestEnv};

const APPLY: &str = "application/apply-patch+yaml";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}})
}

fn scale(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name},
        "spec": {"replicas": replicas}})
}

/// Applies as `manager`; a name such as `hpa!` forces conflicts.
async fn apply(client: &Client, path: &str, manager: &str, config: &Value) -> (u16, Value) {
    let force = manager.ends_with('!');
    let manager = manager.trim_end_matches('!');
    let path = format!("{path}?fieldManager={manager}&force={force}");
    let reply = client.send(Method::PATCH, &path, APPLY, config.to_string()).await;
    (reply.code, reply.value())
}

/// The managers of the replicas, such as `hpa Apply scale`.
async fn owners(client: &Client, path: &str) -> Vec<String> {
    let found = client.read(path).await;
    let entries = found["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owning = entries.iter().filter(|it| it["fieldsV1"]["f:spec"].get("f:replicas").is_some());
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let line =
        |it: &Value| ["manager", "operation", "subresource"].map(|key| text(it, key)).join(" ");
    owning.map(|it| line(it).trim_end().to_owned()).collect()
}

#[tokio::test]
async fn a_table_of_a_scale_shows_desired_and_observed_replicas() {
    let plane = TestEnv::start().await;
    plane.create(DEPLOYMENTS, &deployment("a")).await;
    let table = plane.get_as(&format!("{DEPLOYMENTS}/a/scale"), TABLE).await.value();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let names: Vec<&str> = columns.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, 0, "0s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

/// A plane with a thing with replicas, whose CRD has a scale subresource.
async fn with_things() -> TestEnv {
    let plane = TestEnv::start().await;
    let numbers = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let schema =
        json!({"type": "object", "properties": {"spec": numbers.clone(), "status": numbers}});
    let mut definition = things(&schema);
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    plane.install_crd(&definition).await;
    plane
}

#[tokio::test]
async fn managed_fields_of_replicas_follow_the_scale() {
    let plane = TestEnv::start().await;
    let path = format!("{DEPLOYMENTS}/d");
    let at_scale = format!("{path}/scale");
    apply(&plane, &path, "owner", &deployment("d")).await;
    assert_eq!(owners(&plane, &path).await, ["owner Apply"]);

    let (code, refused) = apply(&plane, &at_scale, "hpa", &scale("d", 3)).await;
    let expected = "Apply failed with 1 conflict: conflict with \"owner\": .spec.replicas";
    assert_eq!((code, refused["message"].as_str().unwrap()), (409, expected));
    let (code, scaled) = apply(&plane, &at_scale, "hpa!", &scale("d", 3)).await;
    assert_eq!(
        (code, &scaled["kind"], &scaled["spec"]["replicas"]),
        (200, &json!("Scale"), &json!(3))
    );
    assert_eq!(owners(&plane, &path).await, ["hpa Apply scale"]);

    let (code, refused) = apply(&plane, &path, "owner", &deployment("d")).await;
    let expected = "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\": .spec.replicas";
    assert_eq!((code, refused["message"].as_str().unwrap()), (409, expected));
    apply(&plane, &at_scale, "other", &scale("d", 3)).await;
    assert_eq!(owners(&plane, &path).await, ["hpa Apply scale", "other Apply scale"]);
    apply(&plane, &path, "owner!", &deployment("d")).await;
    assert_eq!(owners(&plane, &path).await, ["owner Apply"]);
}

#[tokio::test]
async fn an_update_or_patch_of_the_scale_manages_the_replicas() {
    let plane = TestEnv::start().await;
    let path = format!("{DEPLOYMENTS}/d");
    let at_scale = format!("{path}/scale");
    apply(&plane, &path, "owner", &deployment("d")).await;
    let (code, _) = plane.put(&format!("{at_scale}?fieldManager=putter"), &scale("d", 2)).await;
    assert_eq!(code, 200);
    assert_eq!(owners(&plane, &path).await, ["putter Update scale"]);
    let patch = json!({"spec": {"replicas": 4}});
    plane.merge(&format!("{at_scale}?fieldManager=patcher"), &patch).await;
    assert_eq!(owners(&plane, &path).await, ["patcher Update scale"]);
    // A scale with the current number of replicas changes nothing.
    let before = plane.read(&path).await;
    plane.put(&format!("{at_scale}?fieldManager=putter"), &scale("d", 4)).await;
    assert_eq!(plane.read(&path).await, before);
}

#[tokio::test]
async fn an_apply_configuration_that_is_not_a_scale_is_refused() {
    let plane = TestEnv::start().await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    plane.create(DEPLOYMENTS, &deployment("d")).await;
    for (config, code, expected) in [
        (deployment("d"), 400, "invalid object type: apps/v1, Kind=Deployment"),
        (scale("e", 1), 400, "the name of the object (e) does not match the name on the URL (d)"),
        (scale("d", -1), 422, "spec.replicas: Invalid value: -1"),
        (
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"},
            "spec": {"foo": 1}}),
            500,
            ".spec.foo: field not declared in schema",
        ),
    ] {
        let (found, refused) = apply(&plane, &path, "m!", &config).await;
        assert_eq!(found, code, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    }
    let (code, _) = apply(&plane, &format!("{DEPLOYMENTS}/e/scale"), "m", &scale("e", 1)).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn custom_resources_are_scaled() {
    let plane = with_things().await;
    let path = format!("{THINGS}/t");
    let at_scale = format!("{path}/scale");
    apply(&plane, &path, "owner", &thing("t", &json!({"replicas": 1}))).await;
    let (code, _) = apply(&plane, &at_scale, "hpa", &scale("t", 2)).await;
    assert_eq!(code, 409);
    let (code, scaled) = apply(&plane, &at_scale, "hpa!", &scale("t", 2)).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(2)));
    assert_eq!(owners(&plane, &path).await, ["hpa Apply scale"]);
}

#[tokio::test]
async fn a_scale_with_a_value_of_the_wrong_type_is_refused() {
    let plane = with_things().await;
    plane.create(THINGS, &thing("t", &json!({"replicas": 1}))).await;
    let mut wrong = scale("t", 1);
    wrong["spec"]["replicas"] = json!("many");
    let (code, refused) = plane.put(&format!("{THINGS}/t/scale"), &wrong).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(code, 400);
    assert!(message.contains("cannot unmarshal string into Go struct field"), "{message}");
}

#[tokio::test]
async fn a_custom_resource_without_replicas_can_be_scaled() {
    let plane = with_things().await;
    let at_scale = format!("{THINGS}/t/scale");
    plane.create(THINGS, &thing("t", &json!({}))).await;
    let (code, refused) = plane.get(&at_scale).await;
    let expected =
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
    assert_eq!((code, refused["message"].as_str().unwrap()), (500, expected));
    let (code, refused) = plane.patch(&at_scale, MERGE_PATCH, &json!({"status": {}})).await;
    let expected = "the spec replicas field \".spec.replicas\" cannot be empty";
    assert_eq!((code, refused["message"].as_str().unwrap()), (400, expected));
    let scaled = plane.merge(&at_scale, &json!({"spec": {"replicas": 2}})).await;
    assert_eq!(scaled["spec"]["replicas"], 2);
}

#[tokio::test]
async fn a_mutating_policy_can_patch_a_scale() {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    let plane = TestEnv::start().await;
    plane.create(DEPLOYMENTS, &deployment("d")).await;
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["deployments/scale"]});
    let patch = "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}]";
    let policy = |mutation: Value| {
        json!({"metadata": {"name": "p"}, "spec": {"reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [rule]}, "mutations": [mutation]}})
    };
    let policies = format!("{GROUP}/mutatingadmissionpolicies");
    let patching = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": patch}});
    plane.create(&policies, &policy(patching)).await;
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}});
    plane.create(&format!("{GROUP}/mutatingadmissionpolicybindings"), &binding).await;
    let at_scale = format!("{DEPLOYMENTS}/d/scale");
    let scaled = plane.merge(&at_scale, &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled["spec"]["replicas"], 7);
    // A Scale has no schema for merging apply configurations.
    plane.delete(&format!("{policies}/p")).await;
    let configuring = json!({"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 5}}"}});
    plane.create(&policies, &policy(configuring)).await;
    let (code, refused) =
        plane.patch(&at_scale, MERGE_PATCH, &json!({"spec": {"replicas": 3}})).await;
    let expected = "no corresponding type for autoscaling/v1, Kind=Scale";
    assert!(code == 403 && refused["message"].as_str().unwrap().ends_with(expected), "{refused}");
}
