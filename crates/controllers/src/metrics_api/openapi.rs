//! The discovery and `OpenAPI` documents of the metrics API.

use serde_json::{Value, json};

/// The path of the `OpenAPI` document.
pub(super) const PATH: &str = "/openapi/v3/apis/metrics.k8s.io/v1beta1";

/// The prefix of the schemas' names.
const SCHEMA: &str = "io.k8s.metrics.pkg.apis.metrics.v1beta1";

/// The resources.
pub(super) fn resource_list() -> Value {
    let resource = |plural: &str, kind: &str, is_namespaced: bool| {
        json!({"name": plural, "singularName": "", "namespaced": is_namespaced, "kind": kind,
            "verbs": ["get", "list"]})
    };
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [
            resource("nodes", "NodeMetrics", false),
            resource("pods", "PodMetrics", true),
        ],
    })
}

/// The index of the documents.
pub(super) fn index() -> Value {
    json!({"paths": {"apis/metrics.k8s.io/v1beta1": {"serverRelativeURL": PATH}}})
}

/// The `OpenAPI` v3 document.
pub(super) fn document() -> Value {
    let root = "/apis/metrics.k8s.io/v1beta1";
    let pods = format!("{root}/namespaces/{{namespace}}/pods");
    let namespace =
        path_parameter("namespace", "object name and auth scope, such as for teams and projects");
    let node = path_parameter("name", "name of the NodeMetrics");
    let pod = path_parameter("name", "name of the PodMetrics");
    let namespace = std::slice::from_ref(&namespace);
    let both = [namespace[0].clone(), pod];
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Simulated metrics", "version": "v1beta1"},
        "paths": {
            format!("{root}/nodes"): path("list", "NodeMetrics", &[]),
            format!("{root}/nodes/{{name}}"): path("get", "NodeMetrics", &[node]),
            format!("{root}/pods"): path("list", "PodMetrics", &[]),
            &pods: path("list", "PodMetrics", namespace),
            format!("{pods}/{{name}}"): path("get", "PodMetrics", &both),
        },
        "components": {"schemas": schemas()},
    })
}

fn path_parameter(name: &str, description: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "description": description,
        "schema": {"type": "string", "uniqueItems": true}})
}

fn path(action: &str, kind: &str, parameters: &[Value]) -> Value {
    let schema = if action == "list" { format!("{kind}List") } else { kind.to_owned() };
    let mut operation = json!({
        "tags": ["metrics_v1beta1"],
        "responses": {"200": {"description": "OK", "content": {"application/json": {
            "schema": reference(&schema)}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind":
            {"group": "metrics.k8s.io", "version": "v1beta1", "kind": kind},
    });
    if action == "list" {
        operation["parameters"] = json!([{"name": "labelSelector", "in": "query",
            "description": "A selector to restrict the list of returned objects by their labels.",
            "schema": {"type": "string", "uniqueItems": true}}]);
    }
    let mut path = json!({"get": operation});
    if !parameters.is_empty() {
        path["parameters"] = json!(parameters);
    }
    path
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{SCHEMA}.{schema}")})
}

fn schemas() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let usage = json!({"type": "object", "additionalProperties": {"type": "string"},
        "description": "The used resources."});
    let object = |kind: &str, description: &str, name: &str, value: Value| {
        json!({
            "type": "object", "description": description,
            "required": ["timestamp", "window", name],
            "properties": {
                "apiVersion": text("The version of this representation."),
                "kind": text("The kind of this object."),
                "metadata": {"type": "object"},
                "timestamp": {"type": "string", "format": "date-time",
                    "description": "The end of the time over which usage was measured."},
                "window": text("The time over which usage was measured."),
                name: value,
            },
            "x-kubernetes-group-version-kind":
                [{"group": "metrics.k8s.io", "version": "v1beta1", "kind": kind}],
        })
    };
    let list = |kind: &str| {
        json!({
            "type": "object", "required": ["items"],
            "description": format!("{kind}List is a list of {kind}."),
            "properties": {
                "apiVersion": text("The version of this representation."),
                "kind": text("The kind of this object."),
                "metadata": {"type": "object"},
                "items": {"type": "array", "items": reference(kind)},
            },
            "x-kubernetes-group-version-kind":
                [{"group": "metrics.k8s.io", "version": "v1beta1", "kind": format!("{kind}List")}],
        })
    };
    let containers = json!({"type": "array", "items": reference("ContainerMetrics"),
        "description": "The metrics of all containers."});
    json!({
        format!("{SCHEMA}.NodeMetrics"):
            object("NodeMetrics", "NodeMetrics is the usage of a node.", "usage", usage.clone()),
        format!("{SCHEMA}.NodeMetricsList"): list("NodeMetrics"),
        format!("{SCHEMA}.PodMetrics"):
            object("PodMetrics", "PodMetrics is the usage of a pod.", "containers", containers),
        format!("{SCHEMA}.PodMetricsList"): list("PodMetrics"),
        format!("{SCHEMA}.ContainerMetrics"): {
            "type": "object", "required": ["name", "usage"],
            "description": "ContainerMetrics is the usage of a container.",
            "properties": {"name": text("The name of the container."), "usage": usage},
        },
    })
}
