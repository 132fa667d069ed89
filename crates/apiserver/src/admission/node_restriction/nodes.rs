//! The Node of a node. A node that could change its labels and taints could attract the pods of others.

use super::NodeWrite;
use crate::admission::Operation;
use machinery::field_path::quote;
use machinery::{Object, Status, Value};

/// The labels of Kubernetes' own namespaces that a kubelet sets.
///
/// Upstream: `k8s.io/kubelet/pkg/apis`
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// The namespaces of labels, with their subdomains, that a kubelet sets.
const KUBELET_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The namespace of labels that are reserved for administrators.
const RESTRICTED_NAMESPACE: &str = "node-restriction.kubernetes.io";

/// Checks a write of a Node, or of its status.
pub(super) fn check(write: &NodeWrite<'_>) -> Result<(), Status> {
    let node = quote(write.node);
    if write.name() != write.node {
        let name = quote(write.name());
        return write.forbid(&format!("node {node} is not allowed to modify node {name}"));
    }
    match (write.attributes.operation, write.object, write.attributes.old) {
        (Operation::Create, Some(object), _) => check_new(write, object),
        (Operation::Update, Some(object), Some(old)) => check_change(write, object, old),
        _ => Ok(()),
    }
}

fn check_new(write: &NodeWrite<'_>, object: &Object) -> Result<(), Status> {
    let node = quote(write.node);
    if is_set(object, &["spec", "configSource"]) {
        return write.forbid(&format!(
            "node {node} is not allowed to create pods with a non-nil configSource"
        ));
    }
    let forbidden = forbidden_labels(object, None);
    if forbidden.is_empty() {
        return Ok(());
    }
    let labels = forbidden.join(", ");
    write.forbid(&format!("node {node} is not allowed to set the following labels: {labels}"))
}

fn check_change(write: &NodeWrite<'_>, object: &Object, old: &Object) -> Result<(), Status> {
    let node = quote(write.node);
    let differs = |path: &[&str]| {
        let list = |it: &Object| it.get(path).and_then(Value::as_array).cloned();
        list(object).unwrap_or_default() != list(old).unwrap_or_default()
    };
    let source = ["spec", "configSource"];
    if is_set(object, &source) && object.get(&source) != old.get(&source) {
        return write.forbid(&format!(
            "node {node} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    if differs(&["spec", "taints"]) {
        return write.forbid(&format!("node {node} is not allowed to modify taints"));
    }
    if differs(&["metadata", "ownerReferences"]) {
        return write.forbid(&format!("node {node} is not allowed to modify ownerReferences"));
    }
    let forbidden = forbidden_labels(object, Some(old));
    if forbidden.is_empty() {
        return Ok(());
    }
    write.forbid(&format!("is not allowed to modify labels: {}", forbidden.join(", ")))
}

fn is_set(object: &Object, path: &[&str]) -> bool {
    object.get(path).is_some_and(|it| !it.is_null())
}

/// The labels that were added, removed or changed and that a node may not set, sorted.
fn forbidden_labels<'a>(object: &'a Object, old: Option<&'a Object>) -> Vec<&'a str> {
    let keys = |object: &'a Object| {
        let labels = object.get(&["metadata", "labels"]).and_then(Value::as_object);
        labels.into_iter().flat_map(|it| it.keys()).map(String::as_str)
    };
    let is_changed = |key: &&str| object.label(key) != old.and_then(|it| it.label(key));
    let all = keys(object).chain(old.into_iter().flat_map(keys));
    let mut found: Vec<&str> = all.filter(is_changed).filter(|it| is_forbidden(it)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a node may not set the label.
fn is_forbidden(label: &str) -> bool {
    let namespace = label.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_in = |domain: &str| {
        namespace.strip_suffix(domain).is_some_and(|it| it.is_empty() || it.ends_with('.'))
    };
    let is_of_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
    let is_of_kubelet =
        KUBELET_LABELS.contains(&label) || KUBELET_NAMESPACES.iter().any(|it| is_in(it));
    is_in(RESTRICTED_NAMESPACE) || (is_of_kubernetes && !is_of_kubelet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_sets_the_labels_of_kubelets_and_those_of_users() {
        for label in [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
            "node.kubernetes.io/anything",
            "sub.kubelet.kubernetes.io/anything",
            "example.com/x",
            "notkubernetes.io/x",
            "plain",
        ] {
            assert!(!is_forbidden(label), "{label}");
        }
        for label in [
            "kubernetes.io/role",
            "x.k8s.io/y",
            "node-role.kubernetes.io/control-plane",
            "node-restriction.kubernetes.io/secure",
            "example.node-restriction.kubernetes.io/secure",
            "topology.kubernetes.io/other",
        ] {
            assert!(is_forbidden(label), "{label}");
        }
    }
}
