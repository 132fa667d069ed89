//! The `NoSchedule` taints of a node's conditions, and its deprecated labels.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::node_view::NodeView;
use crate::api_requests;
use crate::taints::Taint;
use runtime::{Action, Client, Failure, Lister, Request};

/// The conditions, the statuses that lead to a taint, and the keys of the taints.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The labels, and the deprecated labels with the same value.
const LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// The context of [`reconcile`].
pub(super) struct TaintContext {
    pub client: Client,
    pub nodes: Lister<NodeView>,
}

/// Sets the taints and labels of one node.
pub(super) async fn reconcile(request: Request, cx: Arc<TaintContext>) -> Result<Action, Failure> {
    let Some(node) = cx.nodes.shared_key(&request)? else { return Ok(Action::Done) };
    let mut patch = Map::new();
    if let Some(taints) = changed_taints(&node) {
        let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
        patch.insert("spec".to_owned(), json!({"taints": taints}));
    }
    let mut metadata = Map::new();
    let labels = missing_labels(&node);
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    if patch.is_empty() && metadata.is_empty() {
        return Ok(Action::Done);
    }
    metadata.insert("resourceVersion".to_owned(), json!(node.metadata.resource_version));
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    match api_requests::merge::<Value>(&cx.client, &node.path(), &patch).await {
        // The event of the other change leads to another reconcile.
        Err(error)
            if api_requests::has_code(&error, 409) || api_requests::has_code(&error, 404) =>
        {
            Ok(Action::Done)
        }
        patched => patched.map(|_| Action::Done).map_err(Failure::from),
    }
}

/// All taints of the node with those of its conditions; `None` if it has them.
fn changed_taints(node: &NodeView) -> Option<Vec<Taint>> {
    let mut wanted: Vec<&str> = Vec::new();
    for (type_, status, key) in CONDITION_TAINTS {
        if node.condition(type_).is_some_and(|condition| condition.status == status) {
            wanted.push(key);
        }
    }
    if node.spec.unschedulable {
        wanted.push(UNSCHEDULABLE);
    }
    let is_known = |key: &str| {
        key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(.., known)| *known == key)
    };
    let is_kept = |taint: &&Taint| {
        taint.effect != "NoSchedule"
            || !is_known(&taint.key)
            || wanted.contains(&taint.key.as_str())
    };
    let mut taints: Vec<Taint> = node.spec.taints.iter().filter(is_kept).cloned().collect();
    let count = taints.len();
    for key in wanted {
        if !node.has_taint(key, "NoSchedule") {
            taints.push(Taint::new(key, "NoSchedule", None));
        }
    }
    (count != node.spec.taints.len() || count != taints.len()).then_some(taints)
}

fn missing_labels(node: &NodeView) -> Map<String, Value> {
    let labels = &node.metadata.labels;
    let missing = LABELS.iter().filter_map(|(label, deprecated)| {
        let value = labels.get(*label)?;
        (labels.get(*deprecated) != Some(value)).then(|| ((*deprecated).to_owned(), json!(value)))
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(node: Value, expect: Option<&[&str]>) {
        let node: NodeView = serde_json::from_value(node).unwrap();
        let taints = changed_taints(&node);
        let taints = taints.map(|taints| {
            taints.iter().map(|it| format!("{}:{}", it.key, it.effect)).collect::<Vec<_>>()
        });
        assert_eq!(
            taints.as_deref(),
            expect.map(|it| it.iter().map(|&it| it.to_owned()).collect::<Vec<_>>()).as_deref()
        );
    }

    #[test]
    fn a_condition_adds_its_taint_and_removes_those_of_others() {
        let unknown = json!([{"type": "Ready", "status": "Unknown"}]);
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        let other = json!({"key": "example.com/gpu", "effect": "NoSchedule"});
        check(
            json!({"spec": {"taints": [not_ready, other]}, "status": {"conditions": unknown}}),
            Some(&["example.com/gpu:NoSchedule", "node.kubernetes.io/unreachable:NoSchedule"]),
        );
        check(json!({"spec": {"taints": [not_ready]}, "status": {"conditions": ready}}), Some(&[]));
        check(json!({"spec": {"taints": [other]}, "status": {"conditions": ready}}), None);
        check(
            json!({"spec": {"unschedulable": true}}),
            Some(&["node.kubernetes.io/unschedulable:NoSchedule"]),
        );
    }
}
