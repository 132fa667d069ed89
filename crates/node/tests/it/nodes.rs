//! Registration and heartbeats of nodes.

use std::time::Duration;

use kube_client::Client;

use crate::plane::{PODS, Plane, condition};
use apiserver::{Config, StoreConfig};
use cluster::{Cluster, ClusterConfig};
use controllers::Selection;
use machinery::{Value, json};
use runtime::client::json_requests;

const NODES: &str = "/api/v1/nodes";

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/sampan-0";

#[tokio::test]
async fn nodes_register_and_say_that_they_are_simulated() {
    let plane = Plane::start(2, &["none"]).await;
    for name in ["sampan-0", "sampan-1"] {
        let path = format!("/api/v1/nodes/{name}");
        let node = plane.until(&path, |code, _| code == 200).await;
        assert_eq!(node["metadata"]["labels"]["sampan.dev/simulated"], "true");
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], name);
        assert_eq!(condition(&node, "Ready")["status"], "True");
        assert_eq!(condition(&node, "Simulated")["status"], "True");
        let not_ready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        assert_eq!(node["spec"]["taints"], not_ready, "the taint of every new node, and no other");
        assert_eq!(node["status"]["capacity"]["cpu"], "1k");
        let version = node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap();
        assert!(version.ends_with("-simulated"), "{version}");
    }
    assert_eq!(plane.get("/api/v1/nodes/sampan-2").await.0, 404);
    plane.stop().await;
}

#[tokio::test]
async fn a_lease_is_renewed_every_ten_seconds_and_a_changed_status_is_restored() {
    let plane = Plane::start(1, &["none"]).await;
    let lease = plane.until(LEASE, |code, _| code == 200).await;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["spec"]["renewTime"], "2024-01-01T00:00:00.000000Z");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["kind"], "Node");
    plane.advance(Duration::from_secs(11));
    let is_renewed = |code: u16, lease: &Value| {
        code == 200 && lease["spec"]["renewTime"] == "2024-01-01T00:00:11.000000Z"
    };
    plane.until(LEASE, is_renewed).await;
    let node = plane.read("/api/v1/nodes/sampan-0").await;
    let heartbeat = &condition(&node, "Ready")["lastHeartbeatTime"];
    assert_eq!(*heartbeat, "2024-01-01T00:00:00Z");
    let mut changed = node["status"]["conditions"].clone();
    let changed_conditions = changed.as_array_mut().unwrap();
    changed_conditions.iter_mut().find(|it| it["type"] == "Ready").unwrap()["status"] =
        json!("Unknown");
    let patch = json!({"status": {"conditions": changed}});
    plane.merge("/api/v1/nodes/sampan-0/status", &patch).await;
    let node = plane
        .until("/api/v1/nodes/sampan-0", |_, node| condition(node, "Ready")["status"] == "True")
        .await;
    assert_eq!(condition(&node, "Ready")["lastHeartbeatTime"], "2024-01-01T00:00:11Z");
    assert_eq!(condition(&node, "Ready")["lastTransitionTime"], "2024-01-01T00:00:11Z");
    plane.stop().await;
}

#[tokio::test]
async fn a_new_node_is_told_as_by_a_kubelet_and_a_known_one_is_not() {
    const EVENTS: &str =
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind%3DNode";
    let mut plane = Plane::start(1, &["none"]).await;
    let number = |list: &Value| list["items"].as_array().unwrap().len();
    let list = plane.until(EVENTS, |_, list| number(list) == 5).await;
    let events = list["items"].as_array().unwrap().iter();
    let mut told: Vec<&str> = events.map(|it| it["message"].as_str().unwrap()).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "Node sampan-0 status is now: NodeHasNoDiskPressure",
            "Node sampan-0 status is now: NodeHasSufficientMemory",
            "Node sampan-0 status is now: NodeHasSufficientPID",
            "Node sampan-0 status is now: NodeReady",
            "Starting kubelet.",
        ]
    );
    assert_eq!(list["items"][0]["source"], json!({"component": "kubelet", "host": "sampan-0"}));
    let node = plane.read("/api/v1/nodes/sampan-0").await;
    let conditions = node["status"]["conditions"].as_array().unwrap().iter();
    let types: Vec<&str> = conditions.map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!((types[0], types[types.len() - 1]), ("MemoryPressure", "Ready"));

    plane.stop_nodes().await;
    plane.start_nodes(2);
    // The events of the new node.
    let list = plane.until(EVENTS, |_, list| number(list) == 10).await;
    assert!(list["items"].as_array().unwrap().iter().all(|event| event["count"] == 1));
    plane.stop().await;
}

#[tokio::test]
async fn fewer_nodes_after_a_restart_remove_the_others_and_keep_the_rest() {
    let mut plane = Plane::start(3, &["none"]).await;
    let first = plane.until("/api/v1/nodes/sampan-0", |code, _| code == 200).await;
    plane.until("/api/v1/nodes/sampan-2", |code, _| code == 200).await;
    plane.stop_nodes().await;
    plane.start_nodes(2);
    plane.until("/api/v1/nodes/sampan-2", |code, _| code == 404).await;
    let again = plane.read("/api/v1/nodes/sampan-0").await;
    assert_eq!(first["metadata"]["uid"], again["metadata"]["uid"]);
    assert_eq!(plane.get("/api/v1/nodes/sampan-1").await.0, 200);
    plane.stop().await;
}

#[tokio::test]
async fn a_node_that_a_user_creates_for_kwok_is_managed() {
    let plane = Plane::start(0, &["none"]).await;
    let metadata = json!({"name": "mine", "annotations": {"kwok.x-k8s.io/node": "fake"}});
    let status = json!({"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}});
    plane.create("/api/v1/nodes", &json!({"metadata": metadata, "status": status})).await;
    let node = plane
        .until("/api/v1/nodes/mine", |_, node| condition(node, "Ready")["status"] == "True")
        .await;
    assert_eq!(node["status"]["capacity"], json!({"cpu": "4"}));
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "mine");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    plane.create_pod("a", json!({}), json!({"nodeName": "mine"})).await;
    plane.until_phase("a", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_node_that_a_user_deletes_stays_away() {
    let plane = Plane::start(2, &["none"]).await;
    plane.until(LEASE, |code, _| code == 200).await;
    plane.delete("/api/v1/nodes/sampan-0").await;
    plane.create_pod("a", json!({}), json!({"nodeName": "sampan-1"})).await;
    plane.until_phase("a", "Running").await;
    plane.advance(Duration::from_mins(1));
    plane.create_pod("b", json!({}), json!({"nodeName": "sampan-1"})).await;
    plane.until_phase("b", "Running").await;
    assert_eq!(plane.get("/api/v1/nodes/sampan-0").await.0, 404);
    plane.stop().await;
}

#[tokio::test]
async fn a_start_without_nodes_removes_those_of_the_former_start_but_not_those_of_kwok() {
    let directory = tempfile::tempdir().unwrap();
    let start = async |nodes| {
        let store = StoreConfig::Embedded(directory.path().to_owned());
        let server = Config { store, ..Config::default() };
        let controllers = Selection::parse(&["none"]).unwrap();
        let config = ClusterConfig { server, nodes, controllers, ..ClusterConfig::default() };
        Cluster::start(config).await.unwrap()
    };
    let client = |cluster: &Cluster| Client::new(cluster.server().in_process_client(), "default");
    let cluster = start(2).await;
    let metadata = json!({"name": "sampan-7", "labels": {"sampan.dev/simulated": "true"},
        "annotations": {"kwok.x-k8s.io/node": "fake"}});
    let kwok = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
    json_requests::create::<Value>(&client(&cluster), NODES, &kwok).await.unwrap();
    while names(&client(&cluster)).await.len() < 3 {
        tokio::task::yield_now().await;
    }
    cluster.stop().await.unwrap();
    let cluster = start(0).await;
    assert_eq!(names(&client(&cluster)).await, ["sampan-7"]);
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_cluster_without_nodes_simulates_those_of_kwok_if_it_has_controllers() {
    for (controllers, expect) in [("job", "True"), ("none", "")] {
        let controllers = Selection::parse(&[controllers]).unwrap();
        let config = ClusterConfig { nodes: 0, controllers, ..ClusterConfig::default() };
        let cluster = Cluster::start(config).await.unwrap();
        let client = Client::new(cluster.server().in_process_client(), "default");
        let metadata = json!({"name": "mine", "annotations": {"kwok.x-k8s.io/node": "fake"}});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        json_requests::create::<Value>(&client, NODES, &node).await.unwrap();
        let path = format!("{NODES}/mine");
        let mut status = String::new();
        for _ in 0..10_000 {
            let node: Option<Value> = json_requests::get(&client, &path).await.unwrap();
            let node = node.unwrap();
            condition(&node, "Ready")["status"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut status);
            if status == "True" {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(status, expect, "{:?}", names(&client).await);
        assert_eq!(names(&client).await, ["mine"]);
        cluster.stop().await.unwrap();
    }
}

/// The names of all nodes.
async fn names(client: &Client) -> Vec<String> {
    let list: Option<Value> = json_requests::get(client, NODES).await.unwrap();
    let items = list.unwrap()["items"].take();
    let nodes = items.as_array().unwrap().iter();
    nodes.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_small_node_of_a_user_takes_only_the_pods_that_fit() {
    let plane = Plane::start(0, &["kube-scheduler", "node-lifecycle-controller"]).await;
    let metadata = json!({"name": "small", "annotations": {"kwok.x-k8s.io/node": "fake"}});
    let capacity = json!({"cpu": "2", "memory": "4Gi", "pods": "10"});
    let status = json!({"capacity": capacity, "allocatable": capacity});
    plane.create(NODES, &json!({"metadata": metadata, "status": status})).await;
    let pod = |name: &str, cpu: &str| {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main",
            "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}]}})
    };
    plane.create(PODS, &pod("little", "1500m")).await;
    let little = plane.until_phase("little", "Running").await;
    assert_eq!(little["spec"]["nodeName"], "small");
    plane.create(PODS, &pod("large", "4")).await;
    let large = plane
        .until_pod("large", |pod| {
            let message = condition(pod, "PodScheduled")["message"].as_str().unwrap_or_default();
            message.contains("Insufficient cpu")
        })
        .await;
    assert_eq!(large["status"]["phase"], "Pending");
    plane.stop().await;
}
