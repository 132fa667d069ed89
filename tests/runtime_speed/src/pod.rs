//! Realistic pods: of deployments with many replicas, scheduled and running, with the fields that
//! the controller manager and the kubelet write.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::widget::hex;
use keel::Entropy;

/// The number of pods of one deployment.
const REPLICAS: usize = 50;
const NODES: usize = 500;

/// The pod with this number, as the controller manager creates it.
pub(crate) fn sample(number: usize, entropy: &Entropy) -> Result<Pod> {
    let deployment = number / REPLICAS;
    let (app, template) = (format!("service-{deployment}"), format!("{:010x}", deployment * 7919));
    let set = format!("{app}-{template}");
    let environment = [
        json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
        json!({"name": "LOG_LEVEL", "value": "info"}),
        json!({"name": "DATABASE_URL", "value": format!("postgres://{app}.db.internal:5432/main")}),
        json!({"name": "DATABASE_PASSWORD", "valueFrom": {"secretKeyRef": {"name": app, "key": "password"}}}),
        json!({"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.observability:4317"}),
    ];
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("{set}-{}", entropy.suffix(5)),
            "labels": {
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": template,
            },
            "annotations": {"checksum/config": format!("{:064x}", deployment * 104_729)},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set,
                "uid": format!("00000000-0000-4000-8000-{deployment:012x}"),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "serviceAccountName": app,
            "nodeName": node(number),
            "containers": [
                {
                    "name": "app",
                    "image": format!("registry.example.com/shop/{app}:v1.{}.0", deployment % 40),
                    "env": environment,
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
                    "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "initialDelaySeconds": 10},
                    "volumeMounts": [
                        {"name": "config", "mountPath": "/etc/app"},
                        {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
                    ],
                },
                {
                    "name": "proxy",
                    "image": "registry.example.com/mesh/proxy:v2.4.1",
                    "args": ["--concurrency", "2", "--log-level", "warning"],
                    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
                },
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": app}},
                {"name": "token", "projected": {"sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
    }))?)
}

/// The same pod with the status of the kubelet.
pub(crate) fn running(pod: &Pod, number: usize, entropy: &Entropy) -> Result<Pod> {
    let started =
        format!("2026-11-{:02}T{:02}:{:02}:07Z", number % 28 + 1, number % 24, number % 60);
    let condition = |name| json!({"type": name, "status": "True", "lastTransitionTime": started});
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let container = |name: &str, image: &str| {
        json!({
            "name": name, "image": image, "ready": true, "started": true, "restartCount": number % 3,
            "imageID": format!("{image}@sha256:{:064x}", image.len() * 15_485_863),
            "containerID": format!("containerd://{}", hex(32, entropy)),
            "state": {"running": {"startedAt": started}},
            "lastState": {},
        })
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers: Vec<Value> =
        containers.map(|it| container(&it.name, it.image.as_deref().unwrap_or_default())).collect();
    let address = format!("10.{}.{}.{}", 64 + number / 65_536, number / 256 % 256, number % 256);
    let mut pod = pod.clone();
    pod.status = Some(serde_json::from_value(json!({
        "phase": "Running",
        "conditions": conditions.map(condition),
        "containerStatuses": containers,
        "hostIP": format!("10.0.{}.{}", number % NODES / 256, number % 256),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": started,
        "qosClass": "Burstable",
    }))?);
    Ok(pod)
}

fn node(number: usize) -> String {
    format!("node-{:03}.eu-west-1.compute.internal", number % NODES)
}
