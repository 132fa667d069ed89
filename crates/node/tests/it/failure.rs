//! Nodes that stop.

use std::time::Duration;

use crate::plane::{PODS, Plane, condition};
use machinery::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CONTROLLERS: [&str; 3] =
    ["node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller"];

/// Creates a node that is ready and has no taints, and is not simulated.
async fn create_other_node(plane: &Plane) {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let node = json!({"metadata": {"name": "other"}, "status": {"conditions": ready}});
    plane.create("/api/v1/nodes", &node).await;
    let lease = json!({"metadata": {"name": "other"}, "spec": {"holderIdentity": "other"}});
    plane.create(LEASES, &lease).await;
}

/// Advances the clock in steps, while the other node lives on.
async fn advance_until(plane: &Plane, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    for step in 0..3_000 {
        let (_, found) = plane.get(path).await;
        if is_expected(&found) {
            return found;
        }
        plane.advance(Duration::from_secs(2));
        let renewal = json!({"spec": {"renewTime": format!("2024-01-02T00:00:00.{step:06}Z")}});
        plane.merge(&format!("{LEASES}/other"), &renewal).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    panic!("{path} is not as expected: {:?}", plane.get(path).await);
}

#[tokio::test]
async fn a_node_that_stops_loses_its_pods_after_five_minutes() {
    let mut plane = Plane::start(1, &CONTROLLERS).await;
    create_other_node(&plane).await;
    let path = "/api/v1/nodes/sampan-0";
    plane.until(path, |code, node| code == 200 && node["spec"]["taints"].is_null()).await;
    plane.create_pod("a", json!({}), json!({})).await;
    plane.until_phase("a", "Running").await;
    plane.stop_nodes().await;
    let stopped_at = plane.clock().now();
    advance_until(&plane, path, |node| condition(node, "Ready")["status"] == "Unknown").await;
    assert!(plane.clock().now().since(stopped_at) >= Duration::from_secs(40));
    let pod_path = format!("{PODS}/a");
    advance_until(&plane, &pod_path, |pod| condition(pod, "Ready")["status"] == "False").await;
    let is_evicted = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    let pod = advance_until(&plane, &pod_path, is_evicted).await;
    assert!(plane.clock().now().since(stopped_at) >= Duration::from_secs(340));
    assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    assert_eq!(pod["status"]["phase"], "Running", "no node ends the pod");

    plane.start_nodes(1);
    advance_until(&plane, &pod_path, |pod| pod["code"] == 404).await;
    advance_until(&plane, path, |node| {
        condition(node, "Ready")["status"] == "True" && node["spec"]["taints"].is_null()
    })
    .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_clock_that_jumps_does_not_lose_nodes() {
    let plane = Plane::start(2, &CONTROLLERS).await;
    plane.until(&format!("{LEASES}/sampan-1"), |code, _| code == 200).await;
    plane.create_pod("a", json!({}), json!({})).await;
    plane.until_phase("a", "Running").await;
    let events = "/api/v1/namespaces/default/events";
    let registered = |list: &Value| {
        let events = list["items"].as_array().unwrap().iter();
        events.filter(|event| event["reason"] == "RegisteredNode").count()
    };
    let is_registered = |_: u16, list: &Value| registered(list) == 2;
    plane.advance_until(Duration::from_secs(5), events, is_registered).await;
    let start = plane.clock().now().seconds();
    for hour in 1..=5 {
        plane.advance(Duration::from_hours(1));
        let renewed = machinery::timestamp::format_micros(start + hour * 3600, 0);
        for node in ["sampan-0", "sampan-1"] {
            let path = format!("{LEASES}/{node}");
            plane.until(&path, |_, lease| lease["spec"]["renewTime"] == *renewed).await;
        }
    }
    let list = plane.read(events).await;
    let lost = list["items"].as_array().unwrap().iter().find(|it| it["reason"] == "NodeNotReady");
    assert_eq!(lost, None);
    plane.stop().await;
}
