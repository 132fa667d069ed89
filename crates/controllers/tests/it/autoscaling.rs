//! The horizontal pod autoscaler, and the metrics of simulated pods.

use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::until_event;
use crate::plane::Plane;

const PODS: &str = "/api/v1/namespaces/default/pods";
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const AUTOSCALER: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web";

/// A plane whose metrics are served.
async fn start() -> Plane {
    let plane = Plane::start(&["horizontal-pod-autoscaler", "resource-metrics"]).await;
    let is_available = |_: u16, it: &Value| it["status"]["conditions"][0]["status"] == "True";
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io";
    plane.until(path, is_available).await;
    plane
}

/// Creates a running pod of the deployment that requests one CPU and uses so much of it.
async fn create_pod(plane: &Plane, name: &str, cpu: &str) {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"},
            "annotations": {"kwok.x-k8s.io/usage-cpu": cpu}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]},
    });
    plane.create(PODS, &pod).await;
    let long_ago = "2023-12-31T00:00:00Z";
    let status = json!({"status": {"phase": "Running", "startTime": long_ago, "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": long_ago}]}});
    plane.merge(&format!("{PODS}/{name}/status"), &status).await;
}

async fn use_cpu(plane: &Plane, name: &str, cpu: &str) {
    let patch = json!({"metadata": {"annotations": {"kwok.x-k8s.io/usage-cpu": cpu}}});
    plane.merge(&format!("{PODS}/{name}"), &patch).await;
}

async fn create_deployment(plane: &Plane, replicas: i32) {
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    plane.create(DEPLOYMENTS, &deployment).await;
}

async fn create_autoscaler(plane: &Plane, metric: Value, behavior: Value) {
    let mut spec = json!({"minReplicas": 1, "maxReplicas": 5, "metrics": [metric],
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    if !behavior.is_null() {
        spec["behavior"] = behavior;
    }
    plane.create(AUTOSCALERS, &json!({"metadata": {"name": "web"}, "spec": spec})).await;
}

fn cpu_metric(percent: i32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

async fn until_replicas(plane: &Plane, replicas: i64) -> Value {
    plane.until(WEB, |_, it| it["spec"]["replicas"] == replicas).await
}

fn condition(object: &Value, type_: &str) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|it| it["type"] == type_);
    let text = |field: &str| found.and_then(|it| it[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

async fn until_condition(plane: &Plane, type_: &str, reason: &str) -> Value {
    plane.until(AUTOSCALER, |_, it| condition(it, type_).1 == reason).await
}

#[tokio::test]
async fn a_deployment_is_scaled_up_and_after_five_minutes_down() {
    let plane = start().await;
    create_deployment(&plane, 2).await;
    for name in ["a", "b"] {
        create_pod(&plane, name, "750m").await;
    }
    create_autoscaler(&plane, cpu_metric(50), Value::Null).await;
    until_replicas(&plane, 3).await;
    let message =
        "New size: 3; reason: cpu resource utilization (percentage of request) above target";
    assert_eq!(until_event(&plane, "SuccessfulRescale").await["message"], message);
    let autoscaler = until_condition(&plane, "AbleToScale", "SucceededRescale").await;
    let status = &autoscaler["status"];
    assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(2), &json!(3)));
    let current = json!({"averageUtilization": 75, "averageValue": "750m"});
    assert_eq!(status["currentMetrics"][0]["resource"]["current"], current);
    let active = condition(&autoscaler, "ScalingActive");
    assert_eq!((active.0.as_str(), active.1.as_str()), ("True", "ValidMetricFound"));

    create_pod(&plane, "c", "100m").await;
    for name in ["a", "b"] {
        use_cpu(&plane, name, "100m").await;
    }
    plane.advance(Duration::from_secs(15));
    let autoscaler = until_condition(&plane, "AbleToScale", "ScaleDownStabilized").await;
    assert_eq!(autoscaler["status"]["desiredReplicas"], 3);
    plane.advance(Duration::from_secs(301));
    until_replicas(&plane, 1).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_autoscaler_without_a_change_writes_nothing() {
    let plane = start().await;
    create_deployment(&plane, 1).await;
    create_pod(&plane, "a", "500m").await;
    create_autoscaler(&plane, cpu_metric(50), Value::Null).await;
    let before = until_condition(&plane, "ScalingActive", "ValidMetricFound").await;
    let manager = plane.controllers().manager();
    let reconciles = || manager.records("horizontal-pod-autoscaler-controller").len();
    for _ in 0..5 {
        let before = reconciles();
        plane.advance(Duration::from_secs(15));
        while reconciles() == before {
            tokio::task::yield_now().await;
        }
    }
    let after = plane.read(AUTOSCALER).await;
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    plane.stop().await;
}

#[tokio::test]
async fn a_behavior_limits_the_rate() {
    let plane = start().await;
    create_deployment(&plane, 1).await;
    create_pod(&plane, "a", "4").await;
    let behavior = json!({"scaleUp": {"stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}});
    create_autoscaler(&plane, cpu_metric(50), behavior).await;
    until_replicas(&plane, 2).await;
    let autoscaler = until_condition(&plane, "ScalingLimited", "ScaleUpLimit").await;
    let limited = condition(&autoscaler, "ScalingLimited");
    let message = "the desired replica count is increasing faster than the maximum scale rate";
    assert_eq!((limited.0.as_str(), limited.2.as_str()), ("True", message));
    plane.stop().await;
}

#[tokio::test]
async fn the_usage_of_one_container_decides() {
    let plane = start().await;
    create_deployment(&plane, 1).await;
    create_pod(&plane, "a", "900m").await;
    let metric = json!({"type": "ContainerResource", "containerResource": {"name": "cpu",
        "container": "c", "target": {"type": "Utilization", "averageUtilization": 30}}});
    create_autoscaler(&plane, metric, Value::Null).await;
    until_replicas(&plane, 3).await;
    let message = "New size: 3; reason: cpu container resource utilization (percentage of request) \
        above target";
    assert_eq!(until_event(&plane, "SuccessfulRescale").await["message"], message);
    plane.stop().await;
}

#[tokio::test]
async fn replicas_outside_of_the_limits_are_corrected_without_metrics() {
    let plane = start().await;
    create_deployment(&plane, 9).await;
    create_autoscaler(&plane, cpu_metric(50), Value::Null).await;
    until_replicas(&plane, 5).await;
    let message = "New size: 5; reason: Current number of replicas above Spec.MaxReplicas";
    assert_eq!(until_event(&plane, "SuccessfulRescale").await["message"], message);
    plane.stop().await;
}

#[tokio::test]
async fn a_metric_without_a_source_is_reported() {
    let plane = start().await;
    create_deployment(&plane, 2).await;
    create_pod(&plane, "a", "1").await;
    let metric = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "Value", "value": "30"}}});
    create_autoscaler(&plane, metric, Value::Null).await;
    let autoscaler = until_condition(&plane, "ScalingActive", "FailedGetExternalMetric").await;
    let message = "the HPA was unable to compute the replica count: failed to get external metric \
        queue: unable to get external metric default/queue/nil: unable to fetch metrics from \
        external metrics API: the server could not find the requested resource \
        (get queue.external.metrics.k8s.io)";
    assert_eq!(condition(&autoscaler, "ScalingActive").2, message);
    until_event(&plane, "FailedComputeMetricsReplicas").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_missing_target_is_reported() {
    let plane = start().await;
    create_autoscaler(&plane, cpu_metric(50), Value::Null).await;
    let autoscaler = until_condition(&plane, "AbleToScale", "FailedGetScale").await;
    let message = "the HPA controller was unable to get the target's current scale: \
        deployments.apps \"web\" not found";
    assert_eq!(condition(&autoscaler, "AbleToScale").2, message);
    plane.stop().await;
}

#[tokio::test]
async fn a_cluster_scoped_object_is_not_scaled_from_a_namespace() {
    let plane = start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scale =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let crd = json!({
        "metadata": {"name": "fleets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Fleet", "plural": "fleets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"scale": scale}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.create(definitions, &crd).await;
    let fleets = "/apis/example.com/v1/fleets";
    plane.until(fleets, |code, _| code == 200).await;
    let fleet = json!({"apiVersion": "example.com/v1", "kind": "Fleet",
        "metadata": {"name": "web"}, "spec": {"replicas": 7}});
    plane.create(fleets, &fleet).await;
    let target = json!({"apiVersion": "example.com/v1", "kind": "Fleet", "name": "web"});
    let spec = json!({"maxReplicas": 3, "metrics": [cpu_metric(50)], "scaleTargetRef": target});
    plane.create(AUTOSCALERS, &json!({"metadata": {"name": "web"}, "spec": spec})).await;
    until_condition(&plane, "AbleToScale", "FailedGetScale").await;
    assert_eq!(plane.read(&format!("{fleets}/web")).await["spec"]["replicas"], 7);
    plane.stop().await;
}

#[tokio::test]
async fn metrics_are_served_as_by_metrics_server() {
    let plane = start().await;
    create_pod(&plane, "a", "250m").await;
    create_pod(&plane, "b", "1").await;
    for (name, is_ready) in [("unmeasured", "False"), ("n", "True")] {
        plane.create("/api/v1/nodes", &json!({"metadata": {"name": name}})).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": is_ready}]}});
        plane.merge(&format!("/api/v1/nodes/{name}/status"), &ready).await;
    }
    let path = format!("{METRICS}/namespaces/default/pods/a");
    let pod = plane.until(&path, |code, _| code == 200).await;
    assert_eq!(
        pod["containers"],
        json!([{"name": "c", "usage": {"cpu": "250m", "memory": "32768Ki"}}])
    );
    let both = |_: u16, list: &Value| list["items"].as_array().is_some_and(|it| it.len() == 2);
    plane.until(&format!("{METRICS}/pods?labelSelector=app%3Dweb"), both).await;
    let none = plane.read(&format!("{METRICS}/pods?labelSelector=app%3Dother")).await;
    assert_eq!(none["items"], json!([]));
    let path = format!("{METRICS}/nodes/n");
    let node = plane.until(&path, |code, _| code == 200).await;
    assert_eq!(node["usage"], json!({"cpu": "1250m", "memory": "65536Ki"}));
    let (code, status) = plane.get(&format!("{METRICS}/nodes/x")).await;
    assert_eq!((code, &status["message"]), (404, &json!("nodes.metrics.k8s.io \"x\" not found")));

    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = plane.get_as(&format!("{METRICS}/nodes"), table).await.value();
    assert_eq!(table["rows"][0]["cells"], json!(["n", "1250m", "64Mi", "15s"]));

    // As with metrics-server, there is no entry for a node that nobody measures.
    assert_eq!(table["rows"].as_array().unwrap().len(), 1);
    assert_eq!(plane.get(&format!("{METRICS}/nodes/unmeasured")).await.0, 404);
    plane.stop().await;
}

#[tokio::test]
async fn metrics_are_those_of_the_controllers_that_run() {
    let mut plane = start().await;
    plane.restart_controllers().await;
    create_pod(&plane, "a", "250m").await;
    let path = format!("{METRICS}/namespaces/default/pods/a");
    let pod = plane.until(&path, |code, _| code == 200).await;
    assert_eq!(pod["containers"][0]["usage"]["cpu"], "250m");
    plane.stop().await;
}

#[tokio::test]
async fn metrics_are_discovered_and_need_a_permission() {
    let plane = start().await;
    let group = plane.read("/apis/metrics.k8s.io").await;
    assert_eq!(group["preferredVersion"]["version"], "v1beta1");
    let list = plane.read(METRICS).await;
    assert_eq!(list["resources"][1]["kind"], "PodMetrics");
    let indexed = |_: u16, it: &Value| it["paths"].get("apis/metrics.k8s.io/v1beta1").is_some();
    plane.until("/openapi/v3", indexed).await;
    let document = plane.read("/openapi/v3/apis/metrics.k8s.io/v1beta1").await;
    assert!(document["paths"].get("/apis/metrics.k8s.io/v1beta1/nodes").is_some());
    let bob = plane.with_header("impersonate-user", "bob");
    assert_eq!(bob.get(&format!("{METRICS}/nodes")).await.0, 403);
    plane.stop().await;
}

#[tokio::test]
async fn an_api_service_of_the_user_replaces_the_simulated_metrics() {
    let plane = start().await;
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io";
    let service =
        json!({"spec": {"service": {"namespace": "kube-system", "name": "metrics-server"}}});
    plane.merge(path, &service).await;
    plane.advance(Duration::from_secs(2));
    let is_missing =
        |_: u16, it: &Value| it["status"]["conditions"][0]["reason"] == "ServiceNotFound";
    plane.until(path, is_missing).await;
    plane.until(&format!("{METRICS}/nodes"), |code, _| code == 503).await;

    // After it was deleted, the simulated metrics come back, with time to create another one before.
    plane.delete(path).await;
    plane.advance(Duration::from_secs(4));
    plane.until(path, |code, _| code == 404).await;
    let is_restored = |code: u16, it: &Value| {
        plane.advance(Duration::from_secs(1));
        code == 200 && it["spec"]["service"]["name"] == "simulated-metrics"
    };
    plane.until(path, is_restored).await;
    plane.stop().await;
}
