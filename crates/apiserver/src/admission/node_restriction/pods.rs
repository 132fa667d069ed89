//! The pods of a node. A node creates mirror pods for its static pods; all others are assigned to it.

use super::NodeWrite;
use crate::admission::Operation;
use kinds::core::pod::object_references::referenced_resource;
use kinds::core::pod::service_account::is_mirror;
use machinery::field_path::quote;
use machinery::{GroupResource, Object, Status, Value};

/// How a lister names pods.
pub(super) const PODS: (&str, &str, &str) = ("", "pods", "pod");
const NODES: (&str, &str, &str) = ("", "nodes", "node");

/// Checks a write of a pod or of one of its subresources.
pub(super) fn check(write: &NodeWrite<'_>) -> Result<(), Status> {
    let subresource = write.subresource();
    match subresource {
        "" => check_pod(write),
        "status" => check_status(write),
        "eviction" => check_eviction(write),
        _ => {
            let subresource = quote(subresource);
            write.forbid(&format!(
                "unexpected pod subresource {subresource}, only 'status' and 'eviction' are allowed"
            ))
        }
    }
}

fn node_of(pod: &Object) -> &str {
    pod.str_at(&["spec", "nodeName"])
}

fn check_pod(write: &NodeWrite<'_>) -> Result<(), Status> {
    let node = quote(write.node);
    match (write.attributes.operation, write.object, write.attributes.old) {
        (Operation::Create, Some(pod), _) => check_new(write, pod),
        (Operation::Delete, _, _) if write.name().is_empty() => {
            // Upstream: the deletion of a collection has no name, and there is no such pod.
            Err(Status::not_found(&GroupResource::new("", "pod"), ""))
        }
        (Operation::Delete, _, Some(pod)) if node_of(pod) == write.node => Ok(()),
        (Operation::Delete, _, _) => write
            .forbid(&format!("node {node} can only delete pods with spec.nodeName set to itself")),
        (operation, _, _) => {
            let operation = quote(operation.as_str());
            write.forbid(&format!(
                "unexpected operation {operation}, node {node} can only create and delete mirror pods"
            ))
        }
    }
}

fn check_new(write: &NodeWrite<'_>, pod: &Object) -> Result<(), Status> {
    let node = quote(write.node);
    if !is_mirror(pod) {
        return write.forbid(&format!(
            r#"pod does not have "kubernetes.io/config.mirror" annotation, node {node} can only create mirror pods"#
        ));
    }
    if node_of(pod) != write.node {
        return write
            .forbid(&format!("node {node} can only create pods with spec.nodeName set to itself"));
    }
    check_owner(write, pod)?;
    match referenced_resource(pod) {
        Ok(None) => Ok(()),
        Ok(Some(resource)) => {
            write.forbid(&format!("node {node} can not create pods that reference {resource}"))
        }
        Err(error) => {
            write.forbid(&format!("error checking mirror pod for API references: {error}"))
        }
    }
}

/// The only owner of a mirror pod is its node.
fn check_owner(write: &NodeWrite<'_>, pod: &Object) -> Result<(), Status> {
    let node = quote(write.node);
    let owners = pod.get(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let no_owner =
        format!("node {node} can only create pods with an owner reference set to itself");
    let owner = match owners.map_or(&[][..], Vec::as_slice) {
        [] => return write.forbid(&no_owner),
        [owner] => owner,
        _ => {
            return write.forbid(&format!(
                "node {node} can only create pods with a single owner reference set to itself"
            ));
        }
    };
    let text = |key: &str| owner[key].as_str().unwrap_or_default();
    if text("apiVersion") != "v1" || text("kind") != "Node" || text("name") != write.node {
        return write.forbid(&no_owner);
    }
    if owner["controller"] != true {
        return write.forbid(&format!(
            "node {node} can only create pods with a controller owner reference set to itself"
        ));
    }
    if owner["blockOwnerDeletion"] == true {
        return write
            .forbid(&format!("node {node} must not set blockOwnerDeletion on an owner reference"));
    }
    let stored = write.find(NODES, "", write.node)?;
    let (expected, found, node) = (text("uid"), stored.uid(), write.node);
    if expected != found {
        return write.forbid(&format!("node {node} UID mismatch: expected {expected} got {found}"));
    }
    Ok(())
}

fn check_status(write: &NodeWrite<'_>) -> Result<(), Status> {
    let (Some(new), Some(old)) = (write.object, write.attributes.old) else {
        let operation = quote(write.attributes.operation.as_str());
        return write.forbid(&format!("unexpected operation {operation}"));
    };
    let node = quote(write.node);
    if node_of(old) != write.node {
        return write.forbid(&format!(
            "node {node} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    let labels = |pod: &Object| {
        let labels = pod.get(&["metadata", "labels"]).and_then(Value::as_object);
        labels.cloned().unwrap_or_default()
    };
    if labels(old) != labels(new) {
        return write.forbid(&format!("node {node} cannot update labels through pod status"));
    }
    if claim_statuses(old) != claim_statuses(new) {
        // Upstream has this spelling.
        return write.forbid(&format!("node {node} cannot update resource claim statues"));
    }
    let extended = |pod: &Object| {
        let status = pod.get(&["status", "extendedResourceClaimStatus"]);
        status.filter(|it| !it.is_null()).cloned()
    };
    if extended(old) != extended(new) {
        return write.forbid(&format!("node {node} cannot update extended resource claim status"));
    }
    Ok(())
}

/// The names of the claims for devices, and those of the objects, in order.
fn claim_statuses(pod: &Object) -> Vec<(&Value, &Value)> {
    let statuses = pod.get(&["status", "resourceClaimStatuses"]).and_then(Value::as_array);
    let statuses = statuses.into_iter().flatten();
    statuses.map(|it| (&it["name"], &it["resourceClaimName"])).collect()
}

fn check_eviction(write: &NodeWrite<'_>) -> Result<(), Status> {
    let operation = write.attributes.operation;
    let Some(eviction) = write.object.filter(|_| operation == Operation::Create) else {
        return write.forbid(&format!("unexpected operation {}", operation.as_str()));
    };
    let name = if write.name().is_empty() { eviction.name() } else { write.name() };
    if name.is_empty() {
        return write.forbid("could not determine pod from request data");
    }
    let pod = write.find(PODS, write.attributes.namespace, name)?;
    if node_of(&pod) == write.node {
        return Ok(());
    }
    let node = write.node;
    write.forbid(&format!("node {node} can only evict pods with spec.nodeName set to itself"))
}
