//! `ServiceAccount`: the accounts of pods.

use super::{PODS, container, plane_with, pod, refused};
use machinery::json;
use testenv::TestEnv;
use testenv::media_type::STRATEGIC_MERGE_PATCH;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[tokio::test]
async fn a_missing_account_is_refused_if_the_plugin_is_enabled_explicitly() {
    let plane = plane_with(&["ServiceAccount"], &[]).await;
    assert_eq!(
        refused(&plane, PODS, &pod("a", &json!({}))).await,
        "pods \"a\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
    );
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "default"}})).await;
    let created = plane.create(PODS, &pod("a", &json!({}))).await;
    assert_eq!(created["spec"]["serviceAccountName"], "default");
}

#[tokio::test]
async fn a_missing_account_is_accepted_by_default() {
    let plane = TestEnv::start().await;
    let created = plane.create(PODS, &pod("a", &json!({"serviceAccountName": "x"}))).await;
    assert_eq!(created["spec"]["serviceAccount"], "x");
    assert_eq!(created["spec"]["containers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_account_sets_token_mounts_and_image_pull_secrets() {
    let plane = TestEnv::start().await;
    let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false,
        "imagePullSecrets": [{"name": "r"}]});
    plane.create(ACCOUNTS, &account).await;
    let created = plane.create(PODS, &pod("a", &json!({}))).await;
    assert_eq!(created["spec"].get("volumes"), None);
    assert_eq!(created["spec"]["imagePullSecrets"], json!([{"name": "r"}]));
}

#[tokio::test]
async fn an_account_with_enforced_secrets_refuses_others() {
    let plane = TestEnv::start().await;
    let account = json!({"metadata": {"name": "default",
        "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "s"}]});
    plane.create(ACCOUNTS, &account).await;
    let using = |name: &str| json!({"volumes": [{"name": "v", "secret": {"secretName": name}}]});
    plane.create(PODS, &pod("a", &using("s"))).await;
    assert_eq!(
        refused(&plane, PODS, &pod("b", &using("x"))).await,
        "pods \"b\" is forbidden: volume with secret.secretName=\"x\" is not allowed because service account default does not reference that secret"
    );
    let mut added = container("d");
    added["envFrom"] = json!([{"secretRef": {"name": "x"}}]);
    let patch = json!({"spec": {"ephemeralContainers": [added]}});
    let path = format!("{PODS}/a/ephemeralcontainers");
    let (code, status) = plane.patch(&path, STRATEGIC_MERGE_PATCH, &patch).await;
    assert_eq!(code, 403, "{status}");
    assert!(status["message"].as_str().unwrap().contains("ephemeral container d with envFrom"));
}

#[tokio::test]
async fn a_mirror_pod_has_no_account() {
    let plane = TestEnv::start().await;
    let mut mirror = pod("a", &json!({"serviceAccountName": "x", "nodeName": "n"}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"});
    assert_eq!(
        refused(&plane, PODS, &mirror).await,
        "pods \"a\" is forbidden: a mirror pod may not reference service accounts"
    );
    mirror["spec"].as_object_mut().unwrap().remove("serviceAccountName");
    let created = plane.create(PODS, &mirror).await;
    assert_eq!(created["spec"].get("serviceAccountName"), None);
}
