//! Objects that many tests create, and their paths.

use machinery::{Value, json};

/// The path of config maps of the default namespace: the kind of most tests, since it has no rules
/// of its own.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The path of CRDs.
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The path of things of the default namespace.
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A config map.
pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

/// A config map with one label.
pub(crate) fn labeled(name: &str, label: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {label: value}}})
}

/// The CRD of `things.example.com`, kind Thing, with one version.
pub(crate) fn thing_crd(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A schema that accepts every object.
pub(crate) fn any_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A thing.
pub(crate) fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name},
        "spec": spec})
}
