//! Pods that their node rejects.

use std::time::Duration;

use crate::plane::{PODS, Plane};
use machinery::{Value, json};

fn spec(ports: &Value) -> Value {
    json!({"containers": [{"name": "main", "image": "nginx", "ports": ports}]})
}

#[tokio::test]
async fn a_pod_that_wants_a_port_of_another_pod_is_rejected() {
    let plane = Plane::start(2, &["none"]).await;
    let port = json!([{"containerPort": 80, "hostPort": 8080}]);
    plane.create_pod("first", json!({}), spec(&port)).await;
    plane.until_phase("first", "Running").await;
    plane.create_pod("second", json!({}), spec(&port)).await;
    plane.advance(Duration::from_secs(1));
    let second = plane.until_phase("second", "Failed").await;
    let status = &second["status"];
    assert_eq!(status["reason"], "NodePorts");
    let message =
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(status["message"], format!("Pod was rejected: {message}"));
    assert_eq!(status["containerStatuses"], Value::Null);
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason%3DNodePorts";
    let list = plane.until(events, |_, list| list["items"][0] != Value::Null).await;
    assert_eq!(list["items"][0]["message"], message);
    assert_eq!(list["items"][0]["type"], "Warning");

    let mut elsewhere = spec(&port);
    elsewhere["nodeName"] = json!("sampan-1");
    plane.create_pod("elsewhere", json!({}), elsewhere).await;
    plane.until_phase("elsewhere", "Running").await;
    let udp = json!([{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]);
    plane.create_pod("udp", json!({}), spec(&udp)).await;
    plane.until_phase("udp", "Running").await;

    plane.delete(&format!("{PODS}/first")).await;
    plane.until(&format!("{PODS}/first"), |code, _| code == 404).await;
    plane.create_pod("third", json!({}), spec(&port)).await;
    plane.until_phase("third", "Running").await;
    plane.stop().await;
}

/// Creates a node with room for two cpus and three pods.
async fn create_small_node(plane: &Plane) {
    let metadata = json!({"name": "small", "labels": {"kwok.x-k8s.io/node": "fake"}});
    let amounts = json!({"cpu": "2", "memory": "4Gi", "pods": "3", "example.com/gpu": "1"});
    let status = json!({"capacity": amounts, "allocatable": amounts});
    plane.create("/api/v1/nodes", &json!({"metadata": metadata, "status": status})).await;
}

fn requesting(requests: &Value) -> Value {
    json!({"nodeName": "small", "containers": [
        {"name": "main", "image": "nginx", "resources": {"requests": requests, "limits": requests}}]})
}

async fn check_rejected(plane: &Plane, name: &str, reason: &str, message: &str) {
    plane.advance(Duration::from_secs(1));
    let pod = plane.until_phase(name, "Failed").await;
    assert_eq!(pod["status"]["reason"], reason);
    assert_eq!(pod["status"]["message"], format!("Pod was rejected: {message}"));
}

#[tokio::test]
async fn a_pod_that_wants_more_than_its_node_has_left_is_rejected() {
    let plane = Plane::start(0, &["none"]).await;
    create_small_node(&plane).await;
    plane.create_pod("first", json!({}), requesting(&json!({"cpu": "1500m"}))).await;
    plane.until_phase("first", "Running").await;
    plane.create_pod("cpu", json!({}), requesting(&json!({"cpu": "1"}))).await;
    let message =
        "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000";
    check_rejected(&plane, "cpu", "OutOfcpu", message).await;
    plane.create_pod("gpu", json!({}), requesting(&json!({"example.com/gpu": "2"}))).await;
    let message =
        "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1";
    check_rejected(&plane, "gpu", "OutOfexample.com/gpu", message).await;
    plane.create_pod("memory", json!({}), requesting(&json!({"memory": "4Gi"}))).await;
    plane.until_phase("memory", "Running").await;

    let once = json!({"nodeName": "small", "restartPolicy": "Never"});
    plane.create_pod("once", json!({"sampan.dev/run-for": "1s"}), once.clone()).await;
    plane.until_phase("once", "Running").await;
    plane.create_pod("fourth", json!({}), once.clone()).await;
    let message = "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3";
    plane.until_phase("once", "Running").await;
    plane.delete(&format!("{PODS}/memory")).await;
    plane.until(&format!("{PODS}/memory"), |code, _| code == 404).await;
    plane.create_pod("fifth", json!({}), once.clone()).await;
    plane.until_phase("fifth", "Running").await;
    check_rejected(&plane, "fourth", "OutOfpods", message).await;
    plane.until_phase("once", "Succeeded").await;
    plane.create_pod("sixth", json!({}), once).await;
    plane.until_phase("sixth", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_does_not_select_its_node_is_rejected() {
    let plane = Plane::start(1, &["none"]).await;
    let message =
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    plane.create_pod("wrong", json!({}), json!({"nodeSelector": {"disk": "ssd"}})).await;
    check_rejected(&plane, "wrong", "NodeAffinity", message).await;
    let selector = json!({"kubernetes.io/hostname": "sampan-0"});
    plane.create_pod("right", json!({}), json!({"nodeSelector": selector})).await;
    plane.until_phase("right", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_of_another_operating_system_is_rejected() {
    let plane = Plane::start(1, &["none"]).await;
    let message = "Failed to admit pod as the OS field doesn't match node OS";
    plane.create_pod("other", json!({}), json!({"os": {"name": "windows"}})).await;
    check_rejected(&plane, "other", "PodOSNotSupported", message).await;
    plane.create_pod("same", json!({}), json!({"os": {"name": "linux"}})).await;
    plane.until_phase("same", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_restart_of_the_nodes_does_not_forget_what_their_pods_take() {
    let mut plane = Plane::start(0, &["none"]).await;
    create_small_node(&plane).await;
    plane.create_pod("first", json!({}), requesting(&json!({"cpu": "2"}))).await;
    plane.until_phase("first", "Running").await;
    plane.stop_nodes().await;
    plane.start_nodes(0);
    // Its name is before that of the other one.
    plane.create_pod("a", json!({}), requesting(&json!({"cpu": "1m"}))).await;
    let message = "Node didn't have enough resource: cpu, requested: 1, used: 2000, capacity: 2000";
    check_rejected(&plane, "a", "OutOfcpu", message).await;
    plane.stop().await;
}

#[tokio::test]
async fn pods_that_the_scheduler_binds_one_after_the_other_are_never_rejected() {
    let plane = Plane::start(0, &["*"]).await;
    create_small_node(&plane).await;
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "nginx",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]);
    let replica_set = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
    });
    plane.create("/apis/apps/v1/namespaces/default/replicasets", &replica_set).await;
    let path = "/apis/apps/v1/namespaces/default/replicasets/web";
    for _ in 0..20 {
        let is_ready = |_, found: &Value| found["status"]["readyReplicas"] == 2;
        plane.advance_until(Duration::from_secs(1), path, is_ready).await;
        let (_, list) = plane.get(PODS).await;
        for pod in list["items"].as_array().unwrap() {
            let (phase, name) = (&pod["status"]["phase"], pod["metadata"]["name"].as_str());
            assert_ne!(phase, "Failed", "{pod}");
            if phase == "Running" {
                plane.delete(&format!("{PODS}/{}", name.unwrap())).await;
            }
        }
    }
    plane.stop().await;
}
