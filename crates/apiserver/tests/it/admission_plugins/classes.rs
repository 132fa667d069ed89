//! `DefaultIngressClass`, `Priority` and `RuntimeClass`.

use super::{PODS, pod, refused};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const PRIORITIES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const RUNTIMES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

#[tokio::test]
async fn an_ingress_without_a_class_gets_the_default() {
    let plane = TestEnv::start().await;
    let class = json!({"metadata": {"name": "c", "annotations":
        {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "example.com/c"}});
    plane.create("/apis/networking.k8s.io/v1/ingressclasses", &class).await;
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let mut ingress = json!({"metadata": {"name": "a"}, "spec": {"defaultBackend": backend}});
    let created = plane.create(ingresses, &ingress).await;
    assert_eq!(created["spec"]["ingressClassName"], "c");
    ingress["metadata"] =
        json!({"name": "b", "annotations": {"kubernetes.io/ingress.class": "other"}});
    let created = plane.create(ingresses, &ingress).await;
    assert_eq!(created["spec"].get("ingressClassName"), None);
}

fn priority_class(name: &str, is_default: bool) -> Value {
    json!({"metadata": {"name": name}, "value": 7, "globalDefault": is_default})
}

#[tokio::test]
async fn a_pod_gets_and_keeps_the_priority_of_its_class() {
    let plane = TestEnv::start().await;
    plane.create(PRIORITIES, &priority_class("seven", true)).await;
    let created = plane.create(PODS, &pod("a", &json!({}))).await;
    assert_eq!(
        (&created["spec"]["priorityClassName"], &created["spec"]["priority"]),
        (&json!("seven"), &json!(7))
    );
    let mut sent = created.clone();
    sent["metadata"]["labels"] = json!({"a": "b"});
    sent["spec"].as_object_mut().unwrap().remove("priority");
    let (code, changed) = plane.put(&format!("{PODS}/a"), &sent).await;
    assert_eq!((code, &changed["spec"]["priority"]), (200, &json!(7)), "{changed}");
    assert_eq!(
        refused(&plane, PODS, &pod("b", &json!({"priorityClassName": "none"}))).await,
        "pods \"b\" is forbidden: no PriorityClass with name none was found"
    );
}

#[tokio::test]
async fn only_one_priority_class_can_be_the_default() {
    let plane = TestEnv::start().await;
    plane.create(PRIORITIES, &priority_class("first", true)).await;
    let why = "PriorityClass first is already marked as default. Only one default can exist";
    assert_eq!(
        refused(&plane, PRIORITIES, &priority_class("second", true)).await,
        format!("priorityclasses.scheduling.k8s.io \"second\" is forbidden: {why}")
    );
    plane.create(PRIORITIES, &priority_class("second", false)).await;
    let path = format!("{PRIORITIES}/second");
    assert_eq!(plane.patch(&path, MERGE_PATCH, &json!({"globalDefault": true})).await.0, 403);
    let touched = json!({"metadata": {"labels": {"a": "b"}}});
    plane.merge(&format!("{PRIORITIES}/first"), &touched).await;
}

#[tokio::test]
async fn a_runtime_class_sets_overhead_and_scheduling() {
    let plane = TestEnv::start().await;
    let class = json!({"metadata": {"name": "vm"}, "handler": "vm",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}}});
    plane.create(RUNTIMES, &class).await;
    let created = plane.create(PODS, &pod("a", &json!({"runtimeClassName": "vm"}))).await;
    assert_eq!(
        (&created["spec"]["overhead"], &created["spec"]["nodeSelector"]),
        (&json!({"cpu": "250m"}), &json!({"vm": "yes"}))
    );
    assert_eq!(
        refused(&plane, PODS, &pod("b", &json!({"runtimeClassName": "none"}))).await,
        "pods \"b\" is forbidden: pod rejected: RuntimeClass \"none\" not found"
    );
    assert_eq!(
        refused(&plane, PODS, &pod("b", &json!({"overhead": {"cpu": "1"}}))).await,
        "pods \"b\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    );
}
