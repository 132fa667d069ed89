//! Claims and volumes: default classes, protection, expansion.

use std::time::Duration;

use super::CLAIMS;
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn class(name: &str, is_default: bool, grows: bool) -> Value {
    let mark = is_default.to_string();
    json!({"metadata": {"name": name, "annotations":
        {"storageclass.kubernetes.io/is-default-class": mark}},
        "provisioner": "example.com/p", "allowVolumeExpansion": grows})
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

#[tokio::test]
async fn a_claim_without_a_class_gets_the_newest_default() {
    let plane = TestEnv::start().await;
    let before = plane.create(CLAIMS, &claim("before")).await;
    assert_eq!(before["spec"].get("storageClassName"), None);
    plane.create(CLASSES, &class("old", true, false)).await;
    plane.advance(Duration::from_secs(5));
    plane.create(CLASSES, &class("new", true, false)).await;
    plane.create(CLASSES, &class("other", false, false)).await;
    let after = plane.create(CLAIMS, &claim("after")).await;
    assert_eq!(after["spec"]["storageClassName"], "new");
    let mut none = claim("none");
    none["spec"]["storageClassName"] = json!("");
    let none = plane.create(CLAIMS, &none).await;
    assert_eq!(none["spec"]["storageClassName"], "");
}

#[tokio::test]
async fn claims_and_volumes_are_protected() {
    let plane = TestEnv::start().await;
    let created = plane.create(CLAIMS, &claim("a")).await;
    assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let volume = json!({"metadata": {"name": "v", "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp/x"}}});
    let created = plane.create("/api/v1/persistentvolumes", &volume).await;
    assert_eq!(created["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    let (code, deleted) = plane.delete(&format!("{CLAIMS}/a")).await;
    assert_eq!(code, 200);
    assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "{deleted}");
}

#[tokio::test]
async fn a_bound_claim_can_grow_if_its_class_allows_expansion() {
    let plane = TestEnv::start().await;
    plane.create(CLASSES, &class("firm", false, false)).await;
    plane.create(CLASSES, &class("soft", false, true)).await;
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    for name in ["firm", "soft"] {
        let mut claim = claim(name);
        claim["spec"]["storageClassName"] = json!(name);
        plane.create(CLAIMS, &claim).await;
    }
    let path = format!("{CLAIMS}/soft");
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    let of_phase = plane.patch(&path, MERGE_PATCH, &grow).await.1;
    assert_eq!(of_phase["code"], 422, "the kind's own rule comes first: {of_phase}");
    for name in ["firm", "soft"] {
        plane.merge(&format!("{CLAIMS}/{name}/status"), &bound).await;
    }
    let (code, status) = plane.patch(&format!("{CLAIMS}/firm"), MERGE_PATCH, &grow).await;
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (
            403,
            "persistentvolumeclaims \"firm\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
        )
    );
    plane.merge(&path, &grow).await;
}
