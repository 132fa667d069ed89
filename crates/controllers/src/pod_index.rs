//! The index of pods by their node and by the states that the controllers of nodes look for.

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

use crate::controller_context::ControllerContext;
use runtime::informer::{Indexer, Item};

const INDEX: &str = "pods-of-node";

/// The pods that have succeeded or failed.
pub(crate) const TERMINATED: &str = "terminated";
/// The pods that are being deleted and have no node.
pub(crate) const UNSCHEDULED_TERMINATING: &str = "unscheduled-terminating";

/// The values of nodes begin with this, which no name contains.
const NODE_PREFIX: &str = "node/";

#[derive(Default, Deserialize)]
#[serde(default)]
struct IndexedPod {
    metadata: IndexedMetadata,
    spec: IndexedSpec,
    status: IndexedStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IndexedMetadata {
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IndexedSpec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IndexedStatus {
    phase: String,
}

/// Adds the index to the shared informer of pods.
pub(crate) fn add(cx: &ControllerContext) {
    cx.manager.informer::<Pod>().indexer().add_index(INDEX, values);
}

/// A pod that cannot be decoded has no values: no controller of nodes could do anything with it.
fn values(item: &Item) -> Vec<String> {
    let pod: IndexedPod = item.decode().unwrap_or_default();
    let mut values = Vec::with_capacity(2);
    if !pod.spec.node_name.is_empty() {
        values.push(format!("{NODE_PREFIX}{}", pod.spec.node_name));
    } else if pod.metadata.deletion_timestamp.is_some() {
        values.push(UNSCHEDULED_TERMINATING.to_owned());
    }
    if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
        values.push(TERMINATED.to_owned());
    }
    values
}

/// The pods that are bound to a node.
pub(crate) fn of_node(pods: &Indexer, node: &str) -> Vec<Item> {
    of_state(pods, &format!("{NODE_PREFIX}{node}"))
}

/// The pods in a state.
pub(crate) fn of_state(pods: &Indexer, state: &str) -> Vec<Item> {
    pods.by_index(INDEX, state).expect("the index was added when the controller started")
}

/// The names of the nodes that have pods.
pub(crate) fn node_names(pods: &Indexer) -> Vec<String> {
    let values = pods.index_values(INDEX).expect("the index was added when the controller started");
    values.iter().filter_map(|value| value.strip_prefix(NODE_PREFIX)).map(str::to_owned).collect()
}
