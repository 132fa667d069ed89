//! The Node object of a simulated node: its name, labels, capacity, conditions and addresses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::node_view::{NodeAddress, NodeCondition, NodeMetadata, NodeView, index_of};
use crate::time;
use keel::Timestamp;

/// The label of simulated nodes, with the value `true`. The API server reads it.
pub const SIMULATED_LABEL: &str = "sampan.dev/simulated";

/// The names of the nodes are `sampan-0`, `sampan-1` and so on. The name of a node does not depend on
/// the number of nodes.
pub(crate) const NAME_PREFIX: &str = "sampan-";

const DESCRIPTION_ANNOTATION: &str = "sampan.dev/description";
const DESCRIPTION: &str = "This node is simulated: its pods have a status, but no containers run.";
const KUBELET_VERSION: &str = concat!("v1.35.0-sampan-", env!("CARGO_PKG_VERSION"), "-simulated");

/// The addresses of nodes that have none: 10.64.0.0/10.
const FIRST_NODE_IP: u32 = 0x0a40_0001;
const NODE_IP_COUNT: u32 = (1 << 22) - 2;

/// The resources of a simulated node, as quantities. The defaults are those of KWOK, so that pods
/// wait for a node only if a test sets less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// `1k`
    pub cpu: String,
    /// `1Ti`
    pub memory: String,
    /// `1M`
    pub pods: String,
    /// `1Ti`
    pub ephemeral_storage: String,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            cpu: "1k".to_owned(),
            memory: "1Ti".to_owned(),
            pods: "1M".to_owned(),
            ephemeral_storage: "1Ti".to_owned(),
        }
    }
}

impl Capacity {
    fn to_json(&self) -> Value {
        json!({
            "cpu": self.cpu, "memory": self.memory, "pods": self.pods,
            "ephemeral-storage": self.ephemeral_storage,
        })
    }
}

/// The name of the node with this index.
pub(crate) fn name(index: usize) -> String {
    format!("{NAME_PREFIX}{index}")
}

/// The object with which a node registers, with its whole status.
pub(crate) fn registration(name: &str, capacity: &Capacity, now: Timestamp) -> Value {
    let mut labels = BTreeMap::from(kubelet_labels(name));
    labels.insert(SIMULATED_LABEL, "true");
    let mut status = status_patch(&NodeView::default(), name, capacity, now);
    status["conditions"] = json!(conditions(&NodeView::default(), now));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {DESCRIPTION_ANNOTATION: DESCRIPTION},
        },
        "status": status,
    })
}

/// The labels that a kubelet gives to its node.
fn kubelet_labels(name: &str) -> [(&'static str, &str); 5] {
    [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
    ]
}

/// The labels of kubelets that a node does not have. Without them, selectors do not find the node, and
/// the scheduler does not spread pods over it and others.
pub(crate) fn missing_labels(node: &NodeView) -> BTreeMap<&'static str, &str> {
    let NodeMetadata { name, labels, .. } = &node.metadata;
    kubelet_labels(name).into_iter().filter(|(key, _)| !labels.contains_key(*key)).collect()
}

/// The changes of a node's status that are due: a part is missing, or another client has changed a
/// condition. Empty if there are none.
pub(crate) fn status_patch(
    node: &NodeView,
    name: &str,
    capacity: &Capacity,
    now: Timestamp,
) -> Value {
    let status = &node.status;
    let mut patch = Map::new();
    if status.phase.is_empty() {
        // Stages of KWOK select nodes by this phase.
        patch.insert("phase".to_owned(), "Running".into());
    }
    let conditions = conditions(node, now);
    let has = |condition: &NodeCondition| {
        node.condition(&condition.type_).is_some_and(|it| it.status == condition.status)
    };
    if !conditions.iter().all(has) {
        patch.insert("conditions".to_owned(), json!(conditions));
    }
    let missing = missing_addresses(node, name);
    if !missing.is_empty() {
        let all: Vec<&NodeAddress> = status.addresses.iter().chain(&missing).collect();
        patch.insert("addresses".to_owned(), json!(all));
    }
    if status.capacity.is_empty() {
        patch.insert("capacity".to_owned(), capacity.to_json());
    }
    if status.allocatable.is_empty() {
        let allocatable =
            if status.capacity.is_empty() { capacity.to_json() } else { json!(status.capacity) };
        patch.insert("allocatable".to_owned(), allocatable);
    }
    if status.node_info.kubelet_version.is_empty() {
        patch.insert("nodeInfo".to_owned(), node_info());
    }
    Value::Object(patch)
}

fn node_info() -> Value {
    json!({
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "simulated://1",
        "kernelVersion": "simulated",
        "kubeProxyVersion": KUBELET_VERSION,
        "kubeletVersion": KUBELET_VERSION,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "Sampan (simulated)",
        "systemUUID": "",
    })
}

/// All conditions of a healthy node at this time; `Ready` is the last one, as on a kubelet.
fn conditions(node: &NodeView, now: Timestamp) -> Vec<NodeCondition> {
    let now = time::seconds(now);
    let [ready, others @ ..] = &HEALTHY;
    let all = others.iter().chain([&SIMULATED, ready]);
    let all = all.map(|[type_, status, reason, message]| {
        let known = node.condition(type_).filter(|known| known.status == *status);
        let since = known.and_then(|known| known.last_transition_time.clone());
        NodeCondition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: (*reason).to_owned(),
            message: (*message).to_owned(),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        }
    });
    all.collect()
}

/// The types, statuses, reasons and messages of the conditions of a healthy node.
pub(crate) const HEALTHY: [[&str; 4]; 5] = [
    ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
    [
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ],
    ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
    ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
    ["NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"],
];

const SIMULATED: [&str; 4] = ["Simulated", "True", "SimulatedNode", DESCRIPTION];

fn missing_addresses(node: &NodeView, name: &str) -> Vec<NodeAddress> {
    let wanted = [("InternalIP", node_ip(name)), ("Hostname", name.to_owned())];
    let has = |type_: &str| node.status.addresses.iter().any(|address| address.type_ == type_);
    let missing = wanted.into_iter().filter(|(type_, _)| !has(type_));
    missing.map(|(type_, address)| NodeAddress { type_: type_.to_owned(), address }).collect()
}

/// The address of a node: by its index, or by a hash of its name.
pub(crate) fn node_ip(name: &str) -> String {
    let hash = || {
        // FNV-1a: the same address in each run.
        name.bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    };
    let index = index_of(name).and_then(|index| u32::try_from(index).ok()).unwrap_or_else(hash);
    std::net::Ipv4Addr::from(FIRST_NODE_IP + index % NODE_IP_COUNT).to_string()
}

/// The lease of a node, which belongs to the Node object.
pub(crate) fn lease(name: &str, uid: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": "kube-node-lease",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": time::micros(now),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_node_is_that_of_its_index() {
        assert_eq!(node_ip("sampan-0"), "10.64.0.1");
        assert_eq!(node_ip("sampan-255"), "10.64.1.0");
        assert_eq!(node_ip("other"), node_ip("other"));
        assert_eq!(index_of("sampan-007"), None);
    }

    #[test]
    fn a_registered_node_needs_no_change_of_its_status() {
        let now = Timestamp::from_seconds(1_000);
        let node = registration("sampan-3", &Capacity::default(), now);
        let node: NodeView = serde_json::from_value(node).unwrap();
        assert_eq!(status_patch(&node, "sampan-3", &Capacity::default(), now), json!({}));
        assert!(node.is_managed(4) && node.is_surplus(3));
    }
}
