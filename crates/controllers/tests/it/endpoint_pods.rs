//! Services, nodes and pods for the tests of endpoints. There is no kubelet, so the test writes the
//! status of pods.

use serde_json::{Value, json};

use crate::plane::Plane;

pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates a node in a zone.
pub(crate) async fn create_node(plane: &Plane, name: &str, zone: &str) {
    let labels = json!({"topology.kubernetes.io/zone": zone});
    plane.create("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}})).await;
}

/// Creates a service for the pods with the label `app: web`.
pub(crate) async fn create_service(plane: &Plane, name: &str, spec: &Value) -> Value {
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let mut service = json!({
        "metadata": {"name": name, "labels": {"team": "x"}},
        "spec": {"selector": {"app": "web"}, "ports": ports},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    plane.create(SERVICES, &service).await
}

/// Creates a pod with the label `app: web` on the node `n`, which has no address yet.
pub(crate) async fn create_pod(plane: &Plane, name: &str, spec: &Value) {
    let ports = json!([{"name": "web", "containerPort": 9090}]);
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "nodeName": "n",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "c", "image": "i", "ports": ports}],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    plane.create(PODS, &pod).await;
}

/// Sets the address and the readiness of a pod.
pub(crate) async fn set_status(plane: &Plane, name: &str, ips: &[&str], is_ready: bool) {
    let ready = if is_ready { "True" } else { "False" };
    let pod_ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let status = json!({"status": {
        "phase": "Running",
        "podIP": ips[0],
        "podIPs": pod_ips,
        "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2024-01-01T00:00:07Z"},
        ],
    }});
    plane.merge(&format!("{PODS}/{name}/status"), &status).await;
}

/// Creates a pod that runs.
pub(crate) async fn run_pod(plane: &Plane, name: &str, ip: &str, is_ready: bool) {
    create_pod(plane, name, &json!({})).await;
    set_status(plane, name, &[ip], is_ready).await;
}
