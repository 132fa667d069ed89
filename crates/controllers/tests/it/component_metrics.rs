//! The metrics and the health of components that are not reconcile functions.

use std::time::Duration;

use crate::plane::Plane;
use machinery::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn add_pod(plane: &Plane, name: &str, spec: Value) {
    let mut pod = json!({"metadata": {"name": name}, "spec": spec});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "nginx"}]);
    plane.create(PODS, &pod).await;
}

/// Waits until the metrics have these lines.
async fn until_shown(plane: &Plane, lines: &[&str]) {
    let manager = plane.controllers().manager();
    let is_shown = async {
        loop {
            let text = manager.metrics_text();
            if lines.iter().all(|line| text.lines().any(|it| it == *line)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let shown = tokio::time::timeout(Duration::from_secs(30), is_shown).await;
    assert!(shown.is_ok(), "not all of {lines:#?} are in\n{}", manager.metrics_text());
}

#[tokio::test]
async fn the_scheduler_shows_its_queue_and_its_attempts() {
    let plane = Plane::start(&["kube-scheduler"]).await;
    let node = json!({"metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
    plane.create("/api/v1/nodes", &node).await;
    plane.merge("/api/v1/nodes/n", &json!({"spec": {"taints": null}})).await;
    add_pod(&plane, "fits", json!({})).await;
    add_pod(&plane, "elsewhere", json!({"nodeSelector": {"zone": "a"}})).await;
    add_pod(&plane, "gated", json!({"schedulingGates": [{"name": "example.com/later"}]})).await;
    until_shown(
        &plane,
        &[
            "# TYPE scheduler_pending_pods gauge",
            r#"scheduler_pending_pods{queue="active"} 0"#,
            r#"scheduler_pending_pods{queue="unschedulable"} 1"#,
            r#"scheduler_pending_pods{queue="gated"} 1"#,
            r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1"#,
            r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1"#,
            r#"scheduler_scheduling_attempt_duration_seconds_count{profile="default-scheduler",result="scheduled"} 1"#,
            r#"scheduler_pod_scheduling_attempts_bucket{le="1"} 1"#,
        ],
    )
    .await;
    plane.merge(&format!("{PODS}/gated"), &json!({"spec": {"schedulingGates": null}})).await;
    until_shown(&plane, &[r#"scheduler_pending_pods{queue="gated"} 0"#]).await;
    assert_eq!(plane.controllers().manager().health().check(), Ok(()));
    plane.stop().await;
}

#[tokio::test]
async fn the_queue_of_the_garbage_collector_is_shown_like_those_of_controllers() {
    let plane = Plane::start(&["garbage-collector-controller"]).await;
    let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "0-0"});
    let map = json!({"metadata": {"name": "orphan", "ownerReferences": [absent]}});
    plane.create(MAPS, &map).await;
    plane.until(&format!("{MAPS}/orphan"), |code, _| code == 404).await;
    let name = "garbage-collector-controller";
    until_shown(
        &plane,
        &[
            &format!(r#"workqueue_depth{{name="{name}",controller="{name}"}} 0"#),
            "garbagecollector_controller_resources_sync_error_total 0",
        ],
    )
    .await;
    let text = plane.controllers().manager().metrics_text();
    let added = format!(r#"workqueue_adds_total{{name="{name}",controller="{name}"}} 0"#);
    assert!(!text.contains(&added), "{text}");
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    assert_eq!(plane.controllers().manager().health().check(), Ok(()));
    plane.stop().await;
}
