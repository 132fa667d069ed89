//! `/binding`: binds a pod to a node.

use crate::validation::rules::{dns_subdomain, supported_only};
use machinery::field_path::quote;
use machinery::fields::{entries, list, list_mut, text, top};
use machinery::{ErrorList, GroupResource, Object, Path, Status, json};

/// Binds a pod to the node that `binding` names, at the time `now` (RFC 3339).
pub(super) fn post(pod: &mut Object, binding: &Object, now: &str) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    validate(binding, &mut errors);
    if !errors.is_empty() {
        // Upstream returns the list of errors itself here, which becomes a 500 without a reason.
        return Err(Status::unclassified(errors.summary()));
    }
    check_preconditions(pod, binding)?;
    if let Some(why) = binding_conflict(pod) {
        let what = GroupResource::new("", "pods/binding");
        return Err(Status::conflict(&what, pod.name(), &why));
    }
    let target = text(top(binding, "target"), "name");
    pod.map_at(&["spec"]).insert("nodeName".to_owned(), target.into());
    pod.map_at(&["status"]).remove("nominatedNodeName");
    for part in ["annotations", "labels"] {
        for (key, value) in entries(top(binding, "metadata"), part) {
            pod.map_at(&["metadata", part]).insert(key.to_owned(), value.clone());
        }
    }
    set_scheduled(pod, now);
    Ok(())
}

fn validate(binding: &Object, errors: &mut ErrorList) {
    let target = top(binding, "target");
    let path = Path::root("target");
    let (kind, name) = (text(target, "kind"), text(target, "name"));
    if !kind.is_empty() && kind != "Node" {
        supported_only(errors, &path.child("kind"), kind, &["Node", "<empty>"]);
    }
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else if matches!(kind, "" | "Node") {
        dns_subdomain(errors, &path.child("name"), name);
    }
}

/// Checks the uid and the resource version of the binding, if it has any: the scheduler may have
/// read another pod of the same name, or an older version of the pod.
fn check_preconditions(pod: &Object, binding: &Object) -> Result<(), Status> {
    for (what, expected, found) in [
        ("UID", binding.uid(), pod.uid()),
        ("ResourceVersion", binding.resource_version(), pod.resource_version()),
    ] {
        if expected.is_empty() || expected == found {
            continue;
        }
        let (namespace, name) = (pod.namespace(), pod.name());
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}"
        );
        return Err(Status::conflict(&GroupResource::new("", "pods"), name, &why));
    }
    Ok(())
}

/// The reason why a pod cannot be bound, if there is one.
fn binding_conflict(pod: &Object) -> Option<String> {
    let (name, spec) = (pod.name(), top(pod, "spec"));
    if pod.deletion_timestamp().is_some() {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(spec, "nodeName");
    if !node.is_empty() {
        return Some(format!("pod {name} is already assigned to node {}", quote(node)));
    }
    let is_gated = !list(spec, "schedulingGates").is_empty();
    is_gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}

fn set_scheduled(pod: &mut Object, now: &str) {
    let conditions = list_mut(pod.map_at(&["status"]), "conditions");
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    match conditions.iter_mut().find(|condition| text(condition, "type") == "PodScheduled") {
        Some(condition) if text(condition, "status") == "True" => {}
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    fn binding(node: &str) -> Object {
        object(json!({"metadata": {"name": "a", "labels": {"zone": "z"}},
            "target": {"kind": "Node", "name": node}}))
    }

    fn refusal(pod: &mut Object, binding: &Object) -> String {
        post(pod, binding, "").map_err(|status| status.message).unwrap_err()
    }

    #[test]
    fn a_pod_is_bound_once() {
        let mut pod = object(json!({"metadata": {"name": "a"}}));
        assert_eq!(post(&mut pod, &binding("n1"), "2024-01-01T00:00:00Z"), Ok(()));
        assert_eq!(pod.str_at(&["spec", "nodeName"]), "n1");
        assert_eq!(pod.label("zone"), Some("z"));
        assert_eq!(
            pod.get(&["status", "conditions"]),
            Some(&json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": "2024-01-01T00:00:00Z"}]))
        );
        assert_eq!(
            refusal(&mut pod, &binding("n2")),
            r#"Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1""#
        );
    }

    #[test]
    fn a_gated_pod_is_not_bound() {
        let mut pod = object(json!({"metadata": {"name": "a"},
            "spec": {"schedulingGates": [{"name": "g"}]}}));
        assert!(refusal(&mut pod, &binding("n1")).ends_with("has non-empty .spec.schedulingGates"));
    }

    #[test]
    fn a_binding_for_another_uid_is_a_conflict() {
        let mut pod = object(json!({"metadata": {"name": "a", "uid": "1"}}));
        let mut binding = binding("n1");
        binding.set_meta("uid", "2");
        assert!(
            refusal(&mut pod, &binding).contains("UID in precondition: 2, UID in object meta: 1")
        );
    }

    #[test]
    fn a_binding_requires_the_name_of_a_node() {
        let binding = object(json!({"target": {"kind": "Pod"}}));
        assert_eq!(
            refusal(&mut object(json!({})), &binding),
            r#"[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]"#
        );
    }
}
