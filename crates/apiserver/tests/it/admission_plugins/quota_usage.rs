//! `ResourceQuota`: the usage of different kinds, and the scopes of a quota.

use super::resource_quota::plane_with_quota;
use super::{CLAIMS, PODS, pod, pod_with_resources, refused};
use machinery::{Value, json};
use testenv::media_type::MERGE_PATCH;

const SERVICES: &str = "/api/v1/namespaces/default/services";

#[tokio::test]
async fn a_quota_with_a_scope_covers_only_matching_pods() {
    let plane = plane_with_quota(&json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})).await;
    plane.create(PODS, &pod("a", &json!({}))).await;
    assert_eq!(
        refused(&plane, PODS, &pod("b", &json!({}))).await,
        "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
    plane.create(PODS, &pod_with_resources("b", &json!({"requests": {"cpu": "1"}}))).await;
}

#[tokio::test]
async fn a_scope_selector_matches_priority_classes() {
    let selector = json!({"matchExpressions":
        [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    let plane = plane_with_quota(&json!({"hard": {"pods": "0"}, "scopeSelector": selector})).await;
    let class = json!({"metadata": {"name": "high"}, "value": 10});
    plane.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    plane.create(PODS, &pod("a", &json!({}))).await;
    refused(&plane, PODS, &pod("b", &json!({"priorityClassName": "high"}))).await;
}

#[tokio::test]
async fn a_pod_with_an_active_deadline_moves_to_the_terminating_quota() {
    let plane = plane_with_quota(&json!({"hard": {"pods": "0"}, "scopes": ["Terminating"]})).await;
    plane.create(PODS, &pod("a", &json!({}))).await;
    let path = format!("{PODS}/a");
    let patch = json!({"spec": {"activeDeadlineSeconds": 5}});
    let (code, status) = plane.patch(&path, MERGE_PATCH, &patch).await;
    assert_eq!(code, 403, "{status}");
}

#[tokio::test]
async fn services_use_quota_for_node_ports() {
    let plane = plane_with_quota(&json!({"hard": {"services.nodeports": "2"}})).await;
    let service = |name: &str, kind: &str| {
        json!({"metadata": {"name": name}, "spec": {"type": kind, "ports":
            [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}})
    };
    plane.create(SERVICES, &service("a", "ClusterIP")).await;
    plane.create(SERVICES, &service("b", "NodePort")).await;
    assert_eq!(
        refused(&plane, SERVICES, &service("c", "NodePort")).await,
        "services \"c\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, limited: services.nodeports=2"
    );
    let (code, status) = plane
        .patch(&format!("{SERVICES}/a"), MERGE_PATCH, &json!({"spec": {"type": "NodePort"}}))
        .await;
    assert_eq!(code, 403, "{status}");
}

#[tokio::test]
async fn claims_use_the_storage_quota_of_their_class() {
    let hard = json!({"gold.storageclass.storage.k8s.io/requests.storage": "3Gi"});
    let plane = plane_with_quota(&json!({"hard": hard})).await;
    let claim = |name: &str, class: &str| -> Value {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": class, "resources": {"requests": {"storage": "2Gi"}}}})
    };
    plane.create(CLAIMS, &claim("a", "gold")).await;
    plane.create(CLAIMS, &claim("b", "tin")).await;
    assert_eq!(
        refused(&plane, CLAIMS, &claim("c", "gold")).await,
        "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=2Gi, used: gold.storageclass.storage.k8s.io/requests.storage=2Gi, limited: gold.storageclass.storage.k8s.io/requests.storage=3Gi"
    );
}
