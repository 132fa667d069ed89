//! The controllers of nodes: node lifecycle, taint eviction and the pod garbage collector.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{Method, StatusCode};

use crate::interception::{self, Interception};
use crate::plane::Plane;
use machinery::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CONTROLLERS: [&str; 3] =
    ["node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller"];

async fn create_node(plane: &Plane, name: &str) {
    let ready = json!([{"type": "Ready", "status": "True",
        "lastHeartbeatTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z"}]);
    let node = json!({"metadata": {"name": name}, "status": {"conditions": ready}});
    plane.create("/api/v1/nodes", &node).await;
    let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
    plane.create(LEASES, &lease).await;
}

async fn create_pod(plane: &Plane, name: &str, spec: Value) {
    let mut whole = json!({"containers": [{"name": "c", "image": "example.com/app:1"}]});
    machinery::patch::merge::apply(&mut whole, &spec);
    plane.create(PODS, &json!({"metadata": {"name": name}, "spec": whole})).await;
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let taints = taints.map(|taint| format!("{}:{}", text(&taint["key"]), text(&taint["effect"])));
    taints.collect()
}

/// Advances the clock in steps, renews the leases of `alive` in each, and checks an object.
async fn advance_until(
    plane: &Plane,
    alive: &[&str],
    path: &str,
    is_expected: impl Fn(u16, &Value) -> bool,
) -> Value {
    for step in 0..2_000 {
        let (code, found) = plane.get(path).await;
        if is_expected(code, &found) {
            return found;
        }
        plane.advance(Duration::from_secs(1));
        for name in alive {
            let renewed = format!("2024-01-02T00:00:00.{step:06}Z");
            let renewed = json!({"spec": {"renewTime": renewed}});
            plane.merge(&format!("{LEASES}/{name}"), &renewed).await;
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    panic!("{path} is not as expected: {:?}", plane.get(path).await);
}

#[tokio::test]
async fn a_node_has_the_taints_of_its_conditions_and_of_a_cordon() {
    let plane = Plane::start(&CONTROLLERS).await;
    create_node(&plane, "a").await;
    // The server adds the taint `not-ready` to every new node.
    let path = "/api/v1/nodes/a";
    plane.until(path, |_, node| taints(node).is_empty()).await;
    plane.merge(path, &json!({"spec": {"unschedulable": true}})).await;
    let cordoned = ["node.kubernetes.io/unschedulable:NoSchedule"];
    plane.until(path, |_, node| taints(node) == cordoned).await;
    plane.merge(path, &json!({"spec": {"unschedulable": false}})).await;
    plane.until(path, |_, node| taints(node).is_empty()).await;
    let pressure = json!({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}});
    let status = format!("{path}/status");
    plane.patch(&status, "application/strategic-merge-patch+json", &pressure).await;
    let full = ["node.kubernetes.io/disk-pressure:NoSchedule"];
    plane.until(path, |_, node| taints(node) == full).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_lost_node_is_tainted_and_its_pods_are_evicted() {
    let plane = Plane::start(&CONTROLLERS).await;
    create_node(&plane, "lost").await;
    create_node(&plane, "alive").await;
    let tolerations = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 30}]);
    create_pod(&plane, "p", json!({"nodeName": "lost", "tolerations": tolerations})).await;
    let all = json!([{"operator": "Exists"}]);
    create_pod(&plane, "daemon", json!({"nodeName": "lost", "tolerations": all})).await;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let status = format!("{PODS}/p/status");
    plane.patch(&status, "application/strategic-merge-patch+json", &ready).await;

    let lost = "/api/v1/nodes/lost";
    let is_tainted = |_: u16, node: &Value| {
        taints(node).contains(&"node.kubernetes.io/unreachable:NoExecute".to_owned())
    };
    let node = advance_until(&plane, &["alive"], lost, is_tainted).await;
    let ready = condition(&node, "Ready");
    assert_eq!(ready["status"], "Unknown");
    assert_eq!(ready["reason"], "NodeStatusUnknown");
    assert_eq!(ready["message"], "Kubelet stopped posting node status.");
    let pressure = condition(&node, "MemoryPressure");
    assert_eq!(pressure["reason"], "NodeStatusNeverUpdated");
    let tainted_at = plane.clock().now();

    let pod = plane.read(&format!("{PODS}/p")).await;
    assert_eq!(condition(&pod, "Ready")["status"], "False");
    assert_eq!(pod["metadata"]["deletionTimestamp"], json!(null));
    let path = format!("{PODS}/p");
    let is_evicted = |_: u16, pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    let pod = advance_until(&plane, &["alive"], &path, is_evicted).await;
    let target = condition(&pod, "DisruptionTarget");
    assert_eq!(target["reason"], "DeletionByTaintManager");
    assert!(plane.clock().now().since(tainted_at) >= Duration::from_secs(30));
    let daemon = plane.read(&format!("{PODS}/daemon")).await;
    assert_eq!(daemon["metadata"]["deletionTimestamp"], json!(null));
    let events = "/api/v1/namespaces/default/events";
    let has = |list: &Value, message: &str| {
        list["items"].as_array().unwrap().iter().any(|event| event["message"] == message)
    };
    plane
        .until(events, |_, list| {
            has(list, "Node lost status is now: NodeNotReady")
                && has(list, "Marking for deletion Pod default/p")
                && has(list, "Node alive event: Registered Node alive in Controller")
        })
        .await;
    assert!(taints(&plane.read("/api/v1/nodes/alive").await).is_empty());
    plane.stop().await;
}

/// Creates pods that are ready on a node.
async fn create_ready_pods(plane: &Plane, node: &str, names: &[&str]) {
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for name in names {
        create_pod(plane, name, json!({"nodeName": node})).await;
        let status = format!("{PODS}/{name}/status");
        plane.patch(&status, "application/strategic-merge-patch+json", &ready).await;
    }
}

fn is_not_ready(_: u16, pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "False"
}

#[tokio::test]
async fn a_pod_that_cannot_be_marked_does_not_hold_up_the_others_of_a_lost_node() {
    let mut plane = Plane::start(&["node-lifecycle-controller"]).await;
    let connect = interception::connect(&plane, |request| {
        let is_refused = request.method() == Method::PATCH
            && request.uri().path() == format!("{PODS}/a-refused/status");
        if is_refused {
            Interception::Refused(StatusCode::INTERNAL_SERVER_ERROR)
        } else {
            Interception::None
        }
    });
    plane.restart_with(connect).await;
    create_node(&plane, "lost").await;
    create_node(&plane, "alive").await;
    create_ready_pods(&plane, "lost", &["a-refused", "b"]).await;
    advance_until(&plane, &["alive"], &format!("{PODS}/b"), is_not_ready).await;
    let refused = plane.read(&format!("{PODS}/a-refused")).await;
    assert_eq!(condition(&refused, "Ready")["status"], "True");
    plane.stop().await;
}

#[tokio::test]
async fn nodes_are_monitored_after_a_panic() {
    let mut plane = Plane::start(&["node-lifecycle-controller"]).await;
    let has_panicked = AtomicBool::new(false);
    let connect = interception::connect(&plane, move |request| {
        let is_mark = request.method() == Method::PATCH
            && request.uri().path() == "/api/v1/nodes/lost/status";
        assert!(!is_mark || has_panicked.swap(true, Relaxed), "the panic of this test");
        Interception::None
    });
    plane.restart_with(connect).await;
    create_node(&plane, "lost").await;
    create_node(&plane, "alive").await;
    create_ready_pods(&plane, "lost", &["p"]).await;
    advance_until(&plane, &["alive"], &format!("{PODS}/p"), is_not_ready).await;
    let metrics = plane.controllers().manager().metrics_text();
    let panics =
        "controller_runtime_reconcile_panics_total{controller=\"node-lifecycle-controller\"} 1";
    assert!(metrics.contains(panics), "{metrics}");
    plane.stop().await;
}

#[tokio::test]
async fn no_pod_is_evicted_while_no_node_is_ready() {
    let plane = Plane::start(&CONTROLLERS).await;
    create_node(&plane, "only").await;
    create_pod(&plane, "p", json!({"nodeName": "only"})).await;
    let path = "/api/v1/nodes/only";
    advance_until(&plane, &[], path, |_, node| condition(node, "Ready")["status"] == "Unknown")
        .await;
    let unreachable = ["node.kubernetes.io/unreachable:NoSchedule"];
    let start = plane.clock().now();
    let mut node = Value::Null;
    while plane.clock().now().since(start) < Duration::from_secs(400) {
        node = advance_until(&plane, &[], path, |code, _| code == 200).await;
        plane.advance(Duration::from_secs(5));
        plane.until(path, |code, _| code == 200).await;
    }
    assert_eq!(taints(&node), unreachable);
    let pod = plane.read(&format!("{PODS}/p")).await;
    assert_eq!(pod["metadata"]["deletionTimestamp"], json!(null));
    plane.stop().await;
}

#[tokio::test]
async fn a_toleration_that_is_over_evicts_and_a_removed_taint_cancels() {
    let plane = Plane::start(&["taint-eviction-controller"]).await;
    create_node(&plane, "n").await;
    let tolerations =
        json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}]);
    create_pod(&plane, "p", json!({"nodeName": "n", "tolerations": tolerations})).await;
    create_pod(&plane, "q", json!({"nodeName": "n"})).await;
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    plane.merge("/api/v1/nodes/n", &taint).await;
    let is_deleting = |_: u16, pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    plane.until(&format!("{PODS}/q"), is_deleting).await;
    plane.merge("/api/v1/nodes/n", &json!({"spec": {"taints": null}})).await;
    let events = "/api/v1/namespaces/default/events";
    let has = |list: &Value, message: &str| {
        list["items"].as_array().unwrap().iter().any(|event| event["message"] == message)
    };
    plane.until(events, |_, it| has(it, "Cancelling deletion of Pod default/p")).await;
    plane.advance(Duration::from_secs(20));
    plane.merge("/api/v1/nodes/n", &taint).await;
    // A pod that is bound to a tainted node is evicted, too.
    create_pod(&plane, "r", json!({"nodeName": "n"})).await;
    plane.until(&format!("{PODS}/r"), is_deleting).await;
    let pod = plane.read(&format!("{PODS}/p")).await;
    assert_eq!(pod["metadata"]["deletionTimestamp"], json!(null));
    advance_until(&plane, &[], &format!("{PODS}/p"), is_deleting).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_restarted_controller_counts_a_toleration_from_the_time_of_the_taint() {
    let mut plane = Plane::start(&["taint-eviction-controller"]).await;
    create_node(&plane, "n").await;
    let tolerations =
        json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}]);
    create_pod(&plane, "p", json!({"nodeName": "n", "tolerations": tolerations})).await;
    let now = jiff::Timestamp::from_second(plane.clock().now().seconds()).unwrap().to_string();
    let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": now});
    plane.merge("/api/v1/nodes/n", &json!({"spec": {"taints": [taint]}})).await;
    plane.advance(Duration::from_secs(6));
    plane.restart_controllers().await;
    plane.advance(Duration::from_secs(3));
    create_pod(&plane, "intolerant", json!({"nodeName": "n"})).await;
    let is_deleting = |_: u16, pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    plane.until(&format!("{PODS}/intolerant"), is_deleting).await;
    let pod = plane.read(&format!("{PODS}/p")).await;
    assert_eq!(pod["metadata"]["deletionTimestamp"], json!(null));
    plane.advance(Duration::from_secs(1));
    plane.until(&format!("{PODS}/p"), is_deleting).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_comes_after_the_taint_is_tolerated_for_the_whole_time() {
    let plane = Plane::start(&["taint-eviction-controller"]).await;
    create_node(&plane, "n").await;
    let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": "2023-12-31T23:00:00Z"});
    plane.merge("/api/v1/nodes/n", &json!({"spec": {"taints": [taint]}})).await;
    let is_deleting = |_: u16, pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    let tolerations = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    create_pod(&plane, "p", json!({"nodeName": "n", "tolerations": tolerations})).await;
    for (advance, name) in [(0, "first"), (299, "second")] {
        plane.advance(Duration::from_secs(advance));
        // The controller has seen `p` before it evicts this one.
        create_pod(&plane, name, json!({"nodeName": "n"})).await;
        plane.until(&format!("{PODS}/{name}"), is_deleting).await;
        let pod = plane.read(&format!("{PODS}/p")).await;
        assert_eq!(pod["metadata"]["deletionTimestamp"], json!(null), "after {advance} seconds");
    }
    plane.advance(Duration::from_secs(1));
    plane.until(&format!("{PODS}/p"), is_deleting).await;
    plane.stop().await;
}

#[tokio::test]
async fn pods_of_absent_nodes_fail_and_are_removed() {
    let plane = Plane::start(&["pod-garbage-collector-controller"]).await;
    create_pod(&plane, "orphan", json!({"nodeName": "absent"})).await;
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    plane.merge(&format!("{PODS}/orphan"), &keep).await;
    create_node(&plane, "present").await;
    create_pod(&plane, "other", json!({"nodeName": "present"})).await;
    let path = format!("{PODS}/orphan");
    let start = plane.clock().now();
    let is_deleting = |_: u16, pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    let orphan = advance_until(&plane, &[], &path, is_deleting).await;
    assert!(plane.clock().now().since(start) >= Duration::from_secs(40));
    assert_eq!(orphan["status"]["phase"], "Failed");
    let target = condition(&orphan, "DisruptionTarget");
    assert_eq!(target["message"], "PodGC: node no longer exists");
    assert_eq!(plane.get(&format!("{PODS}/other")).await.0, 200);
    plane.stop().await;
}

#[tokio::test]
async fn a_deleted_pod_on_a_node_out_of_service_is_removed() {
    let plane = Plane::start(&["pod-garbage-collector-controller"]).await;
    create_node(&plane, "n").await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    plane.merge("/api/v1/nodes/n/status", &status).await;
    create_pod(&plane, "p", json!({"nodeName": "n"})).await;
    let path = format!("{PODS}/p");
    plane.delete(&path).await;
    let taint = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    plane.merge("/api/v1/nodes/n", &json!({"spec": {"taints": taint}})).await;
    advance_until(&plane, &[], &path, |code, _| code == 404).await;
    plane.stop().await;
}
