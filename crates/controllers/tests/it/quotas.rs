//! The status of resource quotas. The API server itself writes it, with the counters of its admission,
//! so that there is no second controller.

use serde_json::{Value, json};

use crate::plane::Plane;
use testenv::TestEnv;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn until_used(plane: &Plane, name: &str, used: Value) {
    plane.until(&format!("{QUOTAS}/{name}"), |_, it| it["status"]["used"] == used).await;
}

async fn create_pod(plane: &Plane, name: &str, cpu: Option<&str>) {
    let requests = cpu.map(|cpu| json!({"requests": {"cpu": cpu}})).unwrap_or_default();
    let pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i", "resources": requests}]}});
    plane.create(PODS, &pod).await;
}

#[tokio::test]
async fn usage_falls_when_objects_are_deleted_or_finish() {
    let plane = Plane::start(&["none"]).await;
    let hard = json!({"pods": "5", "requests.cpu": "4", "count/configmaps": "9",
        "count/deployments.apps": "2"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    plane.create(QUOTAS, &quota).await;
    let used = |pods: &str, cpu: &str, maps: &str| {
        json!({"pods": pods, "requests.cpu": cpu, "count/configmaps": maps,
            "count/deployments.apps": "0"})
    };
    until_used(&plane, "q", used("0", "0", "0")).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    plane.create(maps, &json!({"metadata": {"name": "m"}})).await;
    create_pod(&plane, "a", Some("500m")).await;
    create_pod(&plane, "b", Some("1")).await;
    until_used(&plane, "q", used("2", "1500m", "1")).await;
    plane.delete(&format!("{PODS}/a")).await;
    until_used(&plane, "q", used("1", "1", "1")).await;
    plane.merge(&format!("{PODS}/b/status"), &json!({"status": {"phase": "Succeeded"}})).await;
    plane.delete(&format!("{maps}/m")).await;
    until_used(&plane, "q", used("0", "0", "0")).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_changed_quota_is_counted_anew() {
    let plane = Plane::start(&["none"]).await;
    create_pod(&plane, "best-effort", None).await;
    create_pod(&plane, "burstable", Some("1")).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"},
        "scopes": ["NotBestEffort"]}});
    plane.create(QUOTAS, &quota).await;
    until_used(&plane, "q", json!({"pods": "1"})).await;
    let hard = json!({"spec": {"hard": {"pods": "6", "requests.cpu": "3"}}});
    plane.merge(&format!("{QUOTAS}/q"), &hard).await;
    until_used(&plane, "q", json!({"pods": "1", "requests.cpu": "1"})).await;
    let quota = plane.read(&format!("{QUOTAS}/q")).await;
    assert_eq!(quota["status"]["hard"], json!({"pods": "6", "requests.cpu": "3"}));
    plane.stop().await;
}

#[tokio::test]
async fn objects_of_a_new_kind_are_counted() {
    let plane = Plane::start(&["none"]).await;
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/boats.example.com": "2"}}});
    plane.create(QUOTAS, &quota).await;
    until_used(&plane, "q", json!({"count/boats.example.com": "0"})).await;
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}});
    plane
        .install_crd(&json!({
            "metadata": {"name": "boats.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
                "versions": [version]},
        }))
        .await;
    let boats = "/apis/example.com/v1/namespaces/default/boats";
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}});
    plane.create(boats, &boat).await;
    until_used(&plane, "q", json!({"count/boats.example.com": "1"})).await;
    plane.delete(&format!("{boats}/b")).await;
    until_used(&plane, "q", json!({"count/boats.example.com": "0"})).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_quota_whose_status_is_not_written_is_enforced() {
    let config = |config: &mut apiserver::Config| config.writes_quota_status = false;
    let plane = Plane::start_with(TestEnv::builder().config(config), &["none"]).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "1"}}});
    plane.create(QUOTAS, &quota).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    plane.create(maps, &json!({"metadata": {"name": "a"}})).await;
    let (code, refused) = plane.post(maps, &json!({"metadata": {"name": "b"}})).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")), "{refused}");
    assert_eq!(plane.read(&format!("{QUOTAS}/q")).await["status"], json!({}));
    plane.stop().await;
}
