//! Claims and volumes: default classes, protection, expansion.

use std::time::Duration;

use super::CLAIMS;
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// A class that is not the default and does not allow expansion.
fn class(name: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {IS_DEFAULT: "false"}},
        "provisioner": "example.com/p", "allowVolumeExpansion": false})
}

fn default_class(name: &str) -> Value {
    let mut class = class(name);
    class["metadata"]["annotations"][IS_DEFAULT] = "true".into();
    class
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
    plane.create(CLASSES, &default_class("old")).await;
    plane.advance(Duration::from_secs(5));
    plane.create(CLASSES, &default_class("new")).await;
    plane.create(CLASSES, &class("other")).await;
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
    plane.create(CLASSES, &class("fixed")).await;
    let mut expandable = class("expandable");
    expandable["allowVolumeExpansion"] = true.into();
    plane.create(CLASSES, &expandable).await;
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    for name in ["fixed", "expandable"] {
        let mut claim = claim(name);
        claim["spec"]["storageClassName"] = json!(name);
        plane.create(CLAIMS, &claim).await;
    }
    let path = format!("{CLAIMS}/expandable");
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    let (code, status) = plane.patch(&path, MERGE_PATCH, &grow).await;
    assert_eq!(code, 422, "a claim that is not bound cannot grow: {status}");
    for name in ["fixed", "expandable"] {
        plane.merge(&format!("{CLAIMS}/{name}/status"), &bound).await;
    }
    let (code, status) = plane.patch(&format!("{CLAIMS}/fixed"), MERGE_PATCH, &grow).await;
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (
            403,
            "persistentvolumeclaims \"fixed\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
        )
    );
    plane.merge(&path, &grow).await;
}
