//! The autoscaler with custom and external metrics, which a function of the test serves.

use std::future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::plane::Plane;
use testenv::TestEnv;

pub(crate) const SET: &str = "/apis/apps/v1/namespaces/default/replicasets/web";
pub(crate) const AUTOSCALERS: &str =
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

/// The response of the metrics server of the test.
fn metrics(path: &str) -> Value {
    let value = |kind: &str, name: &str, value: &str| {
        json!({"describedObject": {"kind": kind, "name": name}, "metric": {"name": "m"},
            "timestamp": "2024-01-01T00:00:00Z", "value": value})
    };
    let items = match path {
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/requests" => {
            json!([value("Pod", "a", "30"), value("Pod", "b", "50")])
        }
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/web/hits" => {
            json!([value("Service", "web", "100")])
        }
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue" => {
            json!([{"metricName": "queue", "timestamp": "2024-01-01T00:00:00Z", "value": "20"},
                {"metricName": "queue", "timestamp": "2024-01-01T00:00:00Z", "value": "30"}])
        }
        _ => return json!({"kind": "APIResourceList", "resources": []}),
    };
    json!({"kind": "MetricValueList", "items": items})
}

async fn start() -> Plane {
    start_after(|_| future::ready(())).await
}

/// A plane whose metrics server responds when the future of the path has ended.
pub(crate) async fn start_after<F: Future<Output = ()> + Send + 'static>(
    before: impl Fn(String) -> F + Send + Sync + 'static,
) -> Plane {
    let builder = TestEnv::builder().config(|config| {
        let service =
            move |request: http::Request<bytes::Bytes>| -> Pin<Box<dyn Future<Output = _> + Send>> {
                let body = metrics(request.uri().path()).to_string();
                let before = before(request.uri().path().to_owned());
                Box::pin(async move {
                    before.await;
                    http::Response::new(bytes::Bytes::from(body))
                })
            };
        config.in_process_services.add("default", "metrics", Arc::new(service));
    });
    let plane = Plane::start_with(builder, &["horizontal-pod-autoscaler"]).await;
    for (version, group) in
        [("v1beta2", "custom.metrics.k8s.io"), ("v1beta1", "external.metrics.k8s.io")]
    {
        let services = "/apis/apiregistration.k8s.io/v1/apiservices";
        let name = format!("{version}.{group}");
        let object = json!({"metadata": {"name": name}, "spec": {
            "group": group, "version": version, "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "default", "name": "metrics"}}});
        plane.create(services, &object).await;
        let is_available = |_: u16, it: &Value| it["status"]["conditions"][0]["status"] == "True";
        plane.until(&format!("{services}/{name}"), is_available).await;
    }
    for name in ["a", "b"] {
        let pods = "/api/v1/namespaces/default/pods";
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        plane.create(pods, &pod).await;
        let status = json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"}]}});
        plane.merge(&format!("{pods}/{name}/status"), &status).await;
    }
    plane
}

/// Creates the ReplicaSet `web` of two pods.
pub(crate) async fn create_replica_set(plane: &Plane) {
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    plane.create("/apis/apps/v1/namespaces/default/replicasets", &set).await;
    plane.merge(&format!("{SET}/status"), &json!({"status": {"replicas": 2}})).await;
}

/// Creates an autoscaler of a ReplicaSet of the same name.
pub(crate) async fn create_autoscaler(
    plane: &Plane,
    namespace: &str,
    name: &str,
    metrics: &[Value],
) {
    let spec = json!({"maxReplicas": 9, "metrics": metrics,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}});
    let path = AUTOSCALERS.replace("default", namespace);
    plane.create(&path, &json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// Checks the replicas that an autoscaler with this metric sets, from 2, and the metric in its
/// status.
async fn check(metric: Value, replicas: i32, current: Value, reason: &str) {
    let plane = start().await;
    create_replica_set(&plane).await;
    create_autoscaler(&plane, "default", "web", &[metric]).await;
    plane.until(SET, |_, it| it["spec"]["replicas"] == replicas).await;
    let is_written = |_: u16, it: &Value| it["status"]["desiredReplicas"] == replicas;
    let autoscaler = plane.until(&format!("{AUTOSCALERS}/web"), is_written).await;
    let status = &autoscaler["status"]["currentMetrics"][0];
    let kind = status["type"].as_str().unwrap().to_lowercase();
    assert_eq!(status[kind.as_str()]["current"], current);
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason=SuccessfulRescale";
    let has_event =
        |_: u16, list: &Value| list["items"].as_array().is_some_and(|it| !it.is_empty());
    let events = plane.until(events, has_event).await;
    let message = format!("New size: {replicas}; reason: {reason} above target");
    assert_eq!(events["items"][0]["message"], message);
    plane.stop().await;
}

#[tokio::test]
async fn a_metric_of_pods_is_averaged() {
    let metric = json!({"type": "Pods", "pods": {"metric": {"name": "requests"},
        "target": {"type": "AverageValue", "averageValue": "20"}}});
    check(metric, 4, json!({"averageValue": "40"}), "pods metric requests").await;
}

#[tokio::test]
async fn a_metric_of_an_object_scales_with_its_value() {
    let object = json!({"apiVersion": "v1", "kind": "Service", "name": "web"});
    let metric = json!({"type": "Object", "object": {"metric": {"name": "hits"},
        "describedObject": object, "target": {"type": "Value", "value": "40"}}});
    // The limit of a step without a behavior is four.
    check(metric, 4, json!({"value": "100"}), "Service metric hits").await;
}

#[tokio::test]
async fn the_values_of_an_external_metric_are_added() {
    let metric = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "20"}}});
    check(metric, 3, json!({"averageValue": "25"}), "external metric queue(nil)").await;
}
