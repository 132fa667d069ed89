//! The admission plugins, one file each, through the in-process client.

mod certificates;
mod classes;
mod limit_ranger;
mod off_by_default;
mod owner_references;
mod pod_security;
mod quota_usage;
mod resource_quota;
mod service_account;
mod storage;

use machinery::{Value, json};
use testenv::{Client, TestEnv};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// A plane with the default plugins, the `enabled` ones, and without the `disabled` ones.
async fn plane_with(enabled: &[&str], disabled: &[&str]) -> TestEnv {
    let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let builder = TestEnv::builder().config(|config| {
        config.enabled_plugins = owned(enabled);
        config.disabled_plugins = owned(disabled);
    });
    builder.start().await
}

/// A pod with one container and further fields of its spec.
fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [container("c")]}});
    machinery::patch::merge::apply(&mut pod["spec"], spec);
    pod
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "i"})
}

/// A pod with one container and its resources.
fn pod_with_resources(name: &str, resources: &Value) -> Value {
    pod(name, &json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}))
}

/// Sends a create that must be forbidden, and returns the message.
async fn refused(client: &Client, path: &str, object: &Value) -> String {
    let (code, status) = client.post(path, object).await;
    assert_eq!(code, 403, "POST {path}: {status}");
    status["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_disabled_plugin_has_no_effect() {
    let plane = plane_with(&[], &["DefaultTolerationSeconds", "Priority", "ServiceAccount"]).await;
    let created = plane.create(PODS, &pod("a", &json!({}))).await;
    for field in ["tolerations", "priority", "serviceAccountName", "volumes"] {
        assert_eq!(created["spec"].get(field), None, "{created}");
    }
}

#[tokio::test]
async fn enabling_an_unknown_plugin_fails() {
    let enabled = vec!["EventRateLimit".to_owned()];
    let builder = TestEnv::builder().config(|config| config.enabled_plugins = enabled);
    let error = builder.try_start().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        cause,
        "the admission plugin EventRateLimit cannot be enabled: it is not implemented"
    );
}

#[tokio::test]
async fn without_namespace_lifecycle_a_namespace_need_not_exist() {
    let plane = plane_with(&[], &["NamespaceLifecycle"]).await;
    plane
        .create("/api/v1/namespaces/nowhere/configmaps", &json!({"metadata": {"name": "a"}}))
        .await;
}
