//! The flow schemas and priority levels of every plane, and the status of flow schemas.

use std::time::Duration;

use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_plane_has_the_flow_schemas_and_priority_levels_of_kubernetes() {
    let plane = TestEnv::start().await;
    assert_eq!(
        names(&plane.read(SCHEMAS).await),
        [
            "catch-all",
            "exempt",
            "global-default",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-system-service-accounts",
            "probes",
            "service-accounts",
            "system-leader-election",
            "system-node-high",
            "system-nodes",
        ]
    );
    assert_eq!(
        names(&plane.read(LEVELS).await),
        [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low",
        ]
    );
}

#[tokio::test]
async fn the_specs_of_mandatory_objects_are_fixed() {
    let plane = TestEnv::start().await;
    let refused = async |path: String, spec: Value| {
        let (code, status) = plane.patch(&path, MERGE_PATCH, &json!({"spec": spec})).await;
        (code, status["message"].as_str().unwrap_or_default().to_owned())
    };
    let shares = json!({"limited": {"nominalConcurrencyShares": 6}});
    assert_eq!(
        refused(format!("{LEVELS}/catch-all"), shares).await,
        (
            422,
            r#"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io "catch-all" is invalid: spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":6,"LimitResponse":{"Type":"Reject","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'catch-all' must equal the fixed value"#.to_owned()
        )
    );
    assert_eq!(
        refused(format!("{LEVELS}/exempt"), json!({"type": "Limited", "exempt": null})).await,
        (
            422,
            r#"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io "exempt" is invalid: [spec.type: Invalid value: "Limited": must be 'Exempt' if and only if `name` is 'exempt', spec: Invalid value: {"Type":"Limited","Limited":null,"Exempt":null}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value, spec.limited: Required value]"#.to_owned()
        )
    );
    let shares = json!({"exempt": {"nominalConcurrencyShares": 6}});
    assert_eq!(refused(format!("{LEVELS}/exempt"), shares).await.0, 200);
    for name in ["catch-all", "exempt"] {
        let (code, message) = refused(format!("{SCHEMAS}/{name}"), json!({"rules": null})).await;
        assert_eq!(code, 422);
        let expected = format!(r#""Rules":null}}: spec of '{name}' must equal the fixed value"#);
        assert!(message.ends_with(&expected), "{message}");
    }
}

#[tokio::test]
async fn stored_objects_that_are_up_to_date_are_not_written_again() {
    let plane = TestEnv::start().await;
    for name in ["catch-all", "global-default"] {
        plane
            .until(&format!("{SCHEMAS}/{name}"), |_, it| it["status"]["conditions"].is_array())
            .await;
    }
    let until_described = |_: u16, list: &Value| {
        list["items"].as_array().unwrap().iter().all(|it| it["status"]["conditions"].is_array())
    };
    plane.until(SCHEMAS, until_described).await;
    let before = (plane.read(SCHEMAS).await, plane.read(LEVELS).await);
    // A deleted object shows that the check after the interval is over.
    plane.delete(&format!("{LEVELS}/system")).await;
    plane.advance(Duration::from_secs(61));
    plane.until(&format!("{LEVELS}/system"), |code, _| code == 200).await;
    let after = plane.read(LEVELS).await;
    for (before, after) in
        before.1["items"].as_array().unwrap().iter().zip(after["items"].as_array().unwrap())
    {
        if before["metadata"]["name"] != "system" {
            assert_eq!(before["metadata"], after["metadata"]);
        }
        assert_eq!(before["spec"], after["spec"]);
    }
    for schema in before.0["items"].as_array().unwrap() {
        let path = format!("{SCHEMAS}/{}", schema["metadata"]["name"].as_str().unwrap());
        assert_eq!(plane.read(&path).await["metadata"]["generation"], 1, "{path}");
    }
}

#[tokio::test]
async fn a_changed_mandatory_object_and_deleted_objects_are_restored() {
    let plane = TestEnv::start().await;
    let catch_all = format!("{SCHEMAS}/catch-all");
    let change = json!({"metadata": {"annotations": {AUTO_UPDATE: "false"}}});
    plane.merge(&catch_all, &change).await;
    let deleted = [format!("{LEVELS}/system"), format!("{SCHEMAS}/exempt")];
    for path in &deleted {
        plane.delete(path).await;
    }
    plane.advance(Duration::from_secs(61));
    plane.until(&catch_all, |_, it| it["metadata"]["annotations"][AUTO_UPDATE] == "true").await;
    for path in &deleted {
        plane.until(path, |code, _| code == 200).await;
    }
}

#[tokio::test]
async fn a_suggested_object_that_a_user_has_taken_over_keeps_its_changes() {
    let plane = TestEnv::start().await;
    let system = format!("{LEVELS}/system");
    let change = |annotation: &str| {
        json!({"metadata": {"annotations": {AUTO_UPDATE: annotation}},
            "spec": {"limited": {"nominalConcurrencyShares": 77}}})
    };
    plane.merge(&system, &change("false")).await;
    let other = format!("{LEVELS}/workload-low");
    plane.merge(&other, &change("true")).await;
    plane.advance(Duration::from_secs(61));
    plane.until(&other, |_, it| it["spec"]["limited"]["nominalConcurrencyShares"] == 100).await;
    let kept = plane.read(&system).await;
    assert_eq!(kept["spec"]["limited"]["nominalConcurrencyShares"], 77);
}

#[tokio::test]
async fn an_object_of_an_earlier_release_is_deleted() {
    let plane = TestEnv::start().await;
    let level = |name: &str, annotations: Value| {
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"type": "Limited",
            "limited": {"limitResponse": {"type": "Reject"}}}})
    };
    plane.create(LEVELS, &level("old", json!({AUTO_UPDATE: "true"}))).await;
    plane.create(LEVELS, &level("mine", json!({}))).await;
    plane.advance(Duration::from_secs(61));
    plane.until(&format!("{LEVELS}/old"), |code, _| code == 404).await;
    plane.read(&format!("{LEVELS}/mine")).await;
}

#[tokio::test]
async fn the_status_of_a_flow_schema_says_whether_its_priority_level_exists() {
    let plane = TestEnv::start().await;
    let schema = json!({"metadata": {"name": "mine"}, "spec": {
        "priorityLevelConfiguration": {"name": "missing"}, "rules": [{
            "subjects": [{"kind": "User", "user": {"name": "alice"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}});
    plane.create(SCHEMAS, &schema).await;
    let path = format!("{SCHEMAS}/mine");
    let condition = |schema: &Value| schema["status"]["conditions"][0].clone();
    let dangling = plane.until(&path, |_, it| condition(it)["status"] == "True").await;
    let dangling = condition(&dangling);
    assert_eq!((&dangling["type"], &dangling["reason"]), (&json!("Dangling"), &json!("NotFound")));
    assert_eq!(
        dangling["message"],
        "This FlowSchema references the PriorityLevelConfiguration object named \"missing\" but there is no such object"
    );
    let level = json!({"metadata": {"name": "missing"}, "spec": {"type": "Limited",
        "limited": {"limitResponse": {"type": "Reject"}}}});
    plane.create(LEVELS, &level).await;
    let found = plane.until(&path, |_, it| condition(it)["status"] == "False").await;
    assert_eq!(
        condition(&found)["message"],
        "This FlowSchema references the PriorityLevelConfiguration object named \"missing\" and it exists"
    );
}
