//! The life of pods on simulated nodes.

use std::time::Duration;

use crate::plane::{PODS, Plane, condition};
use machinery::{Value, json};

#[tokio::test]
async fn a_bound_pod_becomes_running_by_one_write() {
    let plane = Plane::start(1, &["none"]).await;
    let created = plane.create_pod("web", json!({}), json!({})).await;
    let mut watch = plane
        .watch(&format!(
            "{PODS}?watch=true&resourceVersion={}",
            created["metadata"]["resourceVersion"].as_str().unwrap()
        ))
        .await;
    let pod = watch.expect("MODIFIED").await;
    let status = &pod["status"];
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["podIP"], "10.128.0.1");
    assert_eq!(status["podIPs"], json!([{"ip": "10.128.0.1"}]));
    assert_eq!(status["hostIP"], "10.64.0.1");
    assert_eq!(status["startTime"], "2024-01-01T00:00:00Z");
    assert_eq!(status["qosClass"], "BestEffort");
    for type_ in
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    {
        assert_eq!(condition(&pod, type_)["status"], "True", "{type_}");
    }
    let container = &status["containerStatuses"][0];
    assert_eq!((&container["ready"], &container["started"]), (&json!(true), &json!(true)));
    assert_eq!(container["restartCount"], 0);
    assert!(container["containerID"].as_str().unwrap().starts_with("simulated://"));
    assert_eq!(container["state"]["running"]["startedAt"], "2024-01-01T00:00:00Z");
    let managers = pod["metadata"]["managedFields"].as_array().unwrap().iter();
    let managers: Vec<_> = managers.filter_map(|it| it["manager"].as_str()).collect();
    assert!(managers.contains(&"kubelet"), "{managers:?}");
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_bound_before_its_node_registers_runs() {
    let plane = Plane::start(0, &["none"]).await;
    plane.create_pod("early", json!({}), json!({"nodeName": "late"})).await;
    let metadata = json!({"name": "late", "labels": {"kwok.x-k8s.io/node": "fake"}});
    plane.create("/api/v1/nodes", &json!({"metadata": metadata})).await;
    plane.until_phase("early", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn pods_of_all_nodes_have_different_addresses() {
    let plane = Plane::start(2, &["none"]).await;
    let mut addresses = std::collections::BTreeSet::new();
    for (name, node) in [("a", "sampan-0"), ("b", "sampan-1"), ("c", "sampan-0")] {
        plane.create_pod(name, json!({}), json!({"nodeName": node})).await;
        let pod = plane.until_phase(name, "Running").await;
        addresses.insert(pod["status"]["podIP"].as_str().unwrap().to_owned());
    }
    assert_eq!(addresses.len(), 3);
    plane.create_pod("host", json!({}), json!({"hostNetwork": true})).await;
    let host = plane.until_phase("host", "Running").await;
    assert_eq!(host["status"]["podIP"], host["status"]["hostIP"]);
    plane.stop().await;
}

#[tokio::test]
async fn a_new_run_of_the_nodes_does_not_reuse_addresses() {
    let mut plane = Plane::start(1, &["none"]).await;
    plane.create_pod("a", json!({}), json!({})).await;
    let first = plane.until_phase("a", "Running").await;
    plane.stop_nodes().await;
    plane.start_nodes(1);
    plane.create_pod("b", json!({}), json!({})).await;
    let second = plane.until_phase("b", "Running").await;
    assert_ne!(first["status"]["podIP"], second["status"]["podIP"]);
    plane.stop().await;
}

#[tokio::test]
async fn init_containers_and_creation_take_the_annotated_time() {
    let plane = Plane::start(1, &["none"]).await;
    let annotations = json!({"sampan.dev/start-after": "5s", "sampan.dev/init-duration": "2s"});
    let init = json!([{"name": "first", "image": "example.com/init:1"}]);
    plane.create_pod("slow", annotations, json!({"initContainers": init})).await;
    let waiting = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let pod = plane.until_pod("slow", |pod| waiting(pod)["reason"] == "PodInitializing").await;
    assert_eq!(condition(&pod, "Initialized")["reason"], "ContainersNotInitialized");
    plane.advance(Duration::from_secs(5));
    let init = |pod: &Value| pod["status"]["initContainerStatuses"][0]["state"].clone();
    plane.until_pod("slow", |pod| init(pod)["running"].is_object()).await;
    plane.advance(Duration::from_secs(2));
    let pod = plane.until_phase("slow", "Running").await;
    assert_eq!(init(&pod)["terminated"]["reason"], "Completed");
    assert_eq!(
        condition(&pod, "Initialized"),
        &json!({
            "type": "Initialized", "status": "True", "observedGeneration": 1,
            "lastProbeTime": null, "lastTransitionTime": "2024-01-01T00:00:07Z",
        })
    );
    plane.stop().await;
}

#[tokio::test]
async fn a_container_that_fails_is_restarted_after_a_delay() {
    let plane = Plane::start(1, &["none"]).await;
    let annotations = json!({"sampan.dev/run-for": "1s", "sampan.dev/exit-code": "3"});
    plane.create_pod("bad", annotations, json!({})).await;
    plane.until_phase("bad", "Running").await;
    let container = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    plane.advance(Duration::from_secs(1));
    plane.until_pod("bad", |pod| container(pod)["restartCount"] == 1).await;
    plane.advance(Duration::from_secs(1));
    let pod = plane
        .until_pod("bad", |pod| container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff")
        .await;
    assert_eq!(container(&pod)["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(condition(&pod, "Ready")["reason"], "ContainersNotReady");
    let events = "/api/v1/namespaces/default/events";
    let is_back_off = |event: &Value| event["reason"] == "BackOff";
    plane.until(events, |_, list| list["items"].as_array().unwrap().iter().any(is_back_off)).await;
    plane.advance(Duration::from_secs(10));
    let pod = plane.until_pod("bad", |pod| container(pod)["restartCount"] == 2).await;
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    plane.stop().await;
}

#[tokio::test]
async fn an_annotation_lets_a_pod_fail() {
    let plane = Plane::start(1, &["none"]).await;
    let annotations = json!({"sampan.dev/exit-code": "7"});
    plane.create_pod("bad", annotations, json!({"restartPolicy": "Never"})).await;
    let pod = plane.until_phase("bad", "Failed").await;
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["terminated"]["exitCode"], 7);
    assert_eq!(condition(&pod, "Ready")["reason"], "PodFailed");
    plane.stop().await;
}

#[tokio::test]
async fn the_pod_of_a_job_succeeds() {
    let plane = Plane::start(1, &["none"]).await;
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"});
    let pod = json!({
        "metadata": {"name": "job", "ownerReferences": [owner]},
        "spec": {
            "nodeName": "sampan-0", "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/job:1"}],
        },
    });
    plane.create(PODS, &pod).await;
    let pod = plane.until_phase("job", "Succeeded").await;
    assert_eq!(pod["status"]["podIP"], "10.128.0.1");
    assert_eq!(condition(&pod, "Ready")["reason"], "PodCompleted");
    plane.stop().await;
}

#[tokio::test]
async fn a_readiness_gate_delays_the_readiness() {
    let plane = Plane::start(1, &["none"]).await;
    let gates = json!([{"conditionType": "example.com/gate"}]);
    plane.create_pod("gated", json!({}), json!({"readinessGates": gates})).await;
    let pod = plane.until_phase("gated", "Running").await;
    assert_eq!(condition(&pod, "ContainersReady")["status"], "True");
    assert_eq!(condition(&pod, "Ready")["reason"], "ReadinessGatesNotReady");
    let open = json!({"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}});
    let path = format!("{PODS}/gated/status");
    let patched = plane.patch(&path, "application/strategic-merge-patch+json", &open).await;
    assert_eq!(patched.0, 200);
    plane.until_pod("gated", |pod| condition(pod, "Ready")["status"] == "True").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_deleted_pod_ends_at_once_and_is_removed() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("a", json!({}), json!({})).await;
    let pod = plane.until_phase("a", "Running").await;
    let version = pod["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = plane.watch(&format!("{PODS}?watch=true&resourceVersion={version}")).await;
    plane.delete(&format!("{PODS}/a")).await;
    assert_eq!(watch.expect("MODIFIED").await["status"]["phase"], "Running");
    let ended = watch.expect("MODIFIED").await;
    assert_eq!(ended["status"]["phase"], "Succeeded");
    let state = &ended["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["terminated"]["exitCode"], 0, "as servers end");
    watch.expect("DELETED").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_with_a_finalizer_ends_and_stays() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("a", json!({}), json!({})).await;
    let path = format!("{PODS}/a");
    plane.merge(&path, &json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    plane.until_phase("a", "Running").await;
    plane.delete(&path).await;
    let pod = plane.until_pod("a", |it| it["metadata"]["deletionGracePeriodSeconds"] == 0).await;
    assert_eq!(pod["status"]["phase"], "Succeeded");
    plane.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    plane.until(&path, |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_log_says_that_the_pod_is_simulated() {
    let plane = Plane::start(1, &["none"]).await;
    plane.create_pod("a", json!({}), json!({})).await;
    plane.until_phase("a", "Running").await;
    let log = plane.get_as(&format!("{PODS}/a/log"), "*/*").await;
    assert_eq!(log.code, 200);
    let expected = "pod \"a\" is simulated (node \"sampan-0\"): container \"main\" does not run and has no log\n";
    assert_eq!(log.text(), expected);
    let exec = plane.post(&format!("{PODS}/a/exec?command=ls&stdout=true"), &json!({})).await;
    assert_eq!(exec.0, 400);
    let expected = "pod \"a\" is simulated (node \"sampan-0\"): exec is not possible";
    assert_eq!(exec.1["message"], expected);
    plane.stop().await;
}
