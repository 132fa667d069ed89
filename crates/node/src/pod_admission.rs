//! Whether a node accepts a pod that is bound to it: it must have the resources, the ports and the
//! operating system that the pod wants, and the pod must select it.
//!
//! The scheduler sees to that; a pod whose `nodeName` is set by its creator comes without it.
//!
//! Upstream: `kubelet/lifecycle/predicate.go`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;

use crate::node_ledger::NodeLedger;
use crate::node_view::NodeView;
use crate::pod_resources::Amounts;
use crate::pod_view::{Container, ContainerPort, PodSpec, PodView};
use crate::simulated_nodes::NODE_INDEX;
use crate::time;
use keel::Timestamp;
use machinery::node_matching::{self, NodeLabels};
use runtime::ObjectKey;
use runtime::informer::{Indexer, NoSuchIndex};

/// The time for which a pod was bound that is rejected. Kubelets need about this time as well; without
/// it, a controller that replaces rejected pods at once would be kept busy. The cache of nodes, which
/// may lag behind that of the scheduler, has this time to follow.
const MIN_AGE: Duration = Duration::from_secs(1);

/// What a node says about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The pod may start.
    Accepted,
    /// The pod fails.
    Rejected(Rejection),
    /// The pod fails after this time.
    RejectedAfter(Duration),
}

/// Why a pod is rejected, in the words of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The reason in the status and of the event.
    pub reason: Cow<'static, str>,
    /// The message of the event.
    pub message: Cow<'static, str>,
}

const PORTS_IN_USE: Rejection = Rejection {
    reason: Cow::Borrowed("NodePorts"),
    message: Cow::Borrowed(
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    ),
};

const NOT_SELECTED: Rejection = Rejection {
    reason: Cow::Borrowed("NodeAffinity"),
    message: Cow::Borrowed(
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
};

const OTHER_OS: Rejection = Rejection {
    reason: Cow::Borrowed("PodOSNotSupported"),
    message: Cow::Borrowed("Failed to admit pod as the OS field doesn't match node OS"),
};

/// Another pod of the node.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Other {
    metadata: OtherMetadata,
    spec: OtherSpec,
    status: OtherStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtherMetadata {
    uid: String,
    creation_timestamp: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtherSpec {
    containers: Vec<PortsOfContainer>,
    init_containers: Vec<PortsOfContainer>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PortsOfContainer {
    restart_policy: String,
    ports: Vec<ContainerPort>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtherStatus {
    phase: String,
    start_time: Option<String>,
}

/// Whether the node selector and the required affinity of a pod select a node.
fn is_selected(pod: &PodSpec, node: &NodeView) -> bool {
    let required = pod.affinity.node_affinity.required.as_ref();
    node_matching::matches_node(&pod.node_selector, required, node)
}

/// Whether the node has the operating system that a pod needs.
fn has_its_os(pod: &PodSpec, node: &NodeView) -> bool {
    let own = node.label("kubernetes.io/os").unwrap_or("linux");
    pod.os.as_ref().is_none_or(|it| it.name == own)
}

/// Decides about a pod that has not started, and records in the ledger that it was accepted. Of two
/// pods that want the same port, the older one is accepted.
pub(crate) fn decide(
    key: &ObjectKey,
    pod: &PodView,
    node: &NodeView,
    pods: &Indexer,
    ledger: &NodeLedger,
    now: Timestamp,
) -> Result<Admission, NoSuchIndex> {
    let allocatable = Amounts::of(&node.status.allocatable);
    let rejection = match ledger.accept(key, pod, &allocatable, pods) {
        Err(insufficient) => {
            let reason = format!("OutOf{}", insufficient.resource).into();
            Rejection { reason, message: insufficient.message().into() }
        }
        Ok(()) if !has_its_os(&pod.spec, node) => OTHER_OS,
        Ok(()) if !is_selected(&pod.spec, node) => NOT_SELECTED,
        Ok(()) if is_port_in_use(pod, pods)? => PORTS_IN_USE,
        Ok(()) => return Ok(Admission::Accepted),
    };
    ledger.release(key);
    let scheduled = pod.status.condition("PodScheduled");
    let scheduled = scheduled.and_then(|it| it.last_transition_time.as_deref());
    let times = scheduled.into_iter().chain([pod.metadata.creation_timestamp.as_str()]);
    let bound = times.filter_map(time::parse).max().unwrap_or(now);
    let left = (bound + MIN_AGE).since(now);
    Ok(if left.is_zero() { Admission::Rejected(rejection) } else { Admission::RejectedAfter(left) })
}

/// Whether another pod of the node has a port that this one wants.
fn is_port_in_use(pod: &PodView, pods: &Indexer) -> Result<bool, NoSuchIndex> {
    // By number: a pod may want thousands of ports, and so may each other one.
    let mut wanted: HashMap<i32, Vec<&ContainerPort>> = HashMap::new();
    for port in ports_of_node(pod) {
        wanted.entry(port.host_port).or_default().push(port);
    }
    if wanted.is_empty() {
        return Ok(false);
    }
    let excludes = |port: &ContainerPort| {
        wanted.get(&port.host_port).is_some_and(|it| it.iter().any(|own| conflict(own, port)))
    };
    Ok(pods.by_index(NODE_INDEX, &pod.spec.node_name)?.iter().any(|item| {
        let other: Other = item.decode().unwrap_or_default();
        other.is_before(pod) && other.ports().any(excludes)
    }))
}

/// The ports of the node that a pod wants.
fn ports_of_node(pod: &PodView) -> impl Iterator<Item = &ContainerPort> {
    let sidecars = pod.spec.init_containers.iter().filter(|it| Container::is_sidecar(it));
    let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|it| &it.ports);
    ports.filter(|port| port.host_port > 0)
}

impl Other {
    /// Whether this pod keeps its ports when `pod` comes.
    fn is_before(&self, pod: &PodView) -> bool {
        let key = (self.metadata.creation_timestamp.as_str(), self.metadata.uid.as_str());
        let own = (pod.metadata.creation_timestamp.as_str(), pod.metadata.uid.as_str());
        let is_finished = matches!(self.status.phase.as_str(), "Succeeded" | "Failed");
        key.1 != own.1 && !is_finished && (self.status.start_time.is_some() || key < own)
    }

    fn ports(&self) -> impl Iterator<Item = &ContainerPort> {
        let sidecars = self.spec.init_containers.iter().filter(|it| it.restart_policy == "Always");
        self.spec.containers.iter().chain(sidecars).flat_map(|it| &it.ports)
    }
}

/// Whether two ports of a node with the same number exclude each other.
fn conflict(a: &ContainerPort, b: &ContainerPort) -> bool {
    let is_any = |port: &ContainerPort| port.host_ip.is_empty() || port.host_ip == "0.0.0.0";
    a.protocol == b.protocol && (is_any(a) || is_any(b) || a.host_ip == b.host_ip)
}
