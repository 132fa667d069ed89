//! `PodSecurity`: the Pod Security Standards in the labels of a namespace.

use http::Method;

use super::{pod, refused};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/n/pods";

fn namespace(labels: &Value) -> Value {
    let labels = labels.as_object().unwrap().iter();
    let labels: serde_json::Map<String, Value> = labels
        .map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), value.clone()))
        .collect();
    json!({"metadata": {"name": "n", "labels": labels}})
}

async fn plane_with_labels(labels: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    plane.create(NAMESPACES, &namespace(labels)).await;
    plane
}

fn privileged_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]})
}

const VIOLATION: &str = "privileged (container \"c\" must not set securityContext.privileged=true)";

#[tokio::test]
async fn a_pod_that_violates_the_enforced_level_is_refused() {
    let plane =
        plane_with_labels(&json!({"enforce": "baseline", "enforce-version": "v1.25"})).await;
    assert_eq!(
        refused(&plane, PODS, &pod("a", &privileged_spec())).await,
        format!("pods \"a\" is forbidden: violates PodSecurity \"baseline:v1.25\": {VIOLATION}")
    );
    plane.create(PODS, &pod("a", &json!({}))).await;
}

#[tokio::test]
async fn a_workload_that_violates_the_level_gets_a_warning() {
    let plane = plane_with_labels(&json!({"enforce": "baseline"})).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": privileged_spec()});
    let deployment = json!({"metadata": {"name": "d"}, "spec":
        {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let path = "/apis/apps/v1/namespaces/n/deployments";
    let reply = plane.send(Method::POST, path, JSON, deployment.to_string()).await;
    assert_eq!(reply.code, 201);
    assert_eq!(
        reply.warnings(),
        [format!("would violate PodSecurity \"baseline:latest\": {VIOLATION}")]
    );
}

#[tokio::test]
async fn a_pod_that_violates_the_warned_level_is_admitted() {
    let plane = plane_with_labels(&json!({"warn": "baseline"})).await;
    let reply =
        plane.send(Method::POST, PODS, JSON, pod("a", &privileged_spec()).to_string()).await;
    assert_eq!(reply.code, 201);
    assert_eq!(
        reply.warnings(),
        [format!("would violate PodSecurity \"baseline:latest\": {VIOLATION}")]
    );
}

#[tokio::test]
async fn raising_the_level_warns_of_existing_pods() {
    let plane = plane_with_labels(&json!({})).await;
    for name in ["b", "a"] {
        plane.create(PODS, &pod(name, &privileged_spec())).await;
    }
    plane.create(PODS, &pod("fine", &json!({}))).await;
    let path = format!("{NAMESPACES}/n");
    let raise = namespace(&json!({"enforce": "baseline"})).to_string();
    let reply = plane.send(Method::PATCH, &path, MERGE_PATCH, raise.clone()).await;
    assert_eq!(reply.code, 200);
    assert_eq!(
        reply.warnings(),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 1 other pod): privileged",
        ]
    );
    assert!(plane.send(Method::PATCH, &path, MERGE_PATCH, raise).await.warnings().is_empty());
    // An admitted pod stays. The level is enforced again only if fields change that it concerns.
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    plane.merge(&format!("{PODS}/a"), &label).await;
    let image = json!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    let (code, status) = plane.patch(&format!("{PODS}/a"), STRATEGIC_MERGE_PATCH, &image).await;
    assert_eq!(code, 403, "{status}");
}

#[tokio::test]
async fn invalid_pod_security_labels_are_refused() {
    let plane = TestEnv::start().await;
    let (code, status) = plane.post(NAMESPACES, &namespace(&json!({"enforce": "strict"}))).await;
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (
            422,
            "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted"
        )
    );
}
