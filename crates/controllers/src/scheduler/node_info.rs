//! [`NodeInfo`]: a node with the pods that are bound to it, and the sums of what they use.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::host_ports::{HostPort, UsedPorts};
use super::pod_info::PodInfo;
use super::resources::{ResourceList, Resources};
use crate::taints::Taint;
use machinery::node_matching::NodeLabels;
use machinery::quantity::Quantity;

/// The label with the name of the host.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label with the zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// The part of a node that its object determines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeObject {
    pub name: Arc<str>,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Resources,
    pub allowed_pods: i64,
    /// The sizes of images on the node, by name.
    pub images: BTreeMap<String, i64>,
}

/// The labels of a node. Those that nearly every decision reads are stored apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    hostname: Option<Arc<str>>,
    zone: Option<Arc<str>>,
    others: BTreeMap<String, Arc<str>>,
}

impl Labels {
    /// The value of a label.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<str>> {
        match key {
            HOSTNAME => self.hostname.as_ref(),
            ZONE => self.zone.as_ref(),
            _ => self.others.get(key),
        }
    }

    /// Adds a label.
    pub(crate) fn insert(&mut self, key: String, value: Arc<str>) {
        match key.as_str() {
            HOSTNAME => self.hostname = Some(value),
            ZONE => self.zone = Some(value),
            _ => {
                self.others.insert(key, value);
            }
        }
    }
}

impl FromIterator<(String, Arc<str>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, Arc<str>)>>(labels: I) -> Self {
        let mut all = Self::default();
        for (key, value) in labels {
            all.insert(key, value);
        }
        all
    }
}

impl NodeLabels for NodeObject {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(AsRef::as_ref)
    }

    fn node_name(&self) -> &str {
        &self.name
    }
}

/// The fields of a node's JSON that the scheduler reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeWire {
    metadata: MetadataWire,
    spec: SpecWire,
    status: StatusWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetadataWire {
    name: String,
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SpecWire {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusWire {
    allocatable: ResourceList,
    images: Vec<ImageWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageWire {
    names: Vec<String>,
    size_bytes: i64,
}

impl From<NodeWire> for NodeObject {
    fn from(node: NodeWire) -> Self {
        let pods = node.status.allocatable.get("pods").and_then(|it| Quantity::parse(it).ok());
        let labels = node.metadata.labels.into_iter();
        let mut images = BTreeMap::new();
        for image in node.status.images {
            images.extend(image.names.into_iter().map(|name| (name, image.size_bytes)));
        }
        Self {
            name: node.metadata.name.into(),
            labels: labels.map(|(key, value)| (key, value.into())).collect(),
            taints: node.spec.taints,
            is_unschedulable: node.spec.unschedulable,
            allocatable: Resources::parse(&node.status.allocatable),
            allowed_pods: pods.map_or(0, |pods| pods.value()),
            images,
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeInfo {
    pub object: Arc<NodeObject>,
    /// Whether the object exists. Pods may be known earlier or longer than their node.
    pub exists: bool,
    /// The requests of all pods.
    pub requested: Resources,
    /// Cpu and memory as scores count them.
    pub non_zero_requested: (i64, i64),
    pub pods: Vec<Arc<PodInfo>>,
    ports: UsedPorts,
}

impl NodeInfo {
    /// A node of which only the name is known.
    pub(crate) fn absent(name: &str) -> Self {
        let object = NodeObject { name: name.into(), ..NodeObject::default() };
        Self { object: Arc::new(object), ..Self::default() }
    }

    /// A node without pods.
    #[cfg(test)]
    pub(crate) fn of(object: NodeObject) -> Self {
        Self { object: Arc::new(object), exists: true, ..Self::default() }
    }

    /// The name of the node.
    pub(crate) fn name(&self) -> &str {
        &self.object.name
    }

    /// A label of the node.
    pub(crate) fn label(&self, key: &str) -> Option<&Arc<str>> {
        self.object.labels.get(key)
    }

    /// Adds a pod to the sums.
    pub(crate) fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.add_requests(&pod);
        self.ports.add(&pod.traits.host_ports);
        self.pods.push(pod);
    }

    fn add_requests(&mut self, pod: &PodInfo) {
        self.requested.add(&pod.traits.requests);
        let (sum, added) = (self.non_zero_requested, pod.traits.non_zero_requests);
        self.non_zero_requested = (sum.0.saturating_add(added.0), sum.1.saturating_add(added.1));
    }

    fn subtract_requests(&mut self, pod: &PodInfo) {
        let sum = self.non_zero_requested;
        if self.requested.is_saturated() || sum.0 == i64::MAX || sum.1 == i64::MAX {
            // The sums are too small to be subtracted from.
            (self.requested, self.non_zero_requested) = (Resources::default(), (0, 0));
            for pod in self.pods.clone() {
                self.add_requests(&pod);
            }
            return;
        }
        self.requested.subtract(&pod.traits.requests);
        let removed = pod.traits.non_zero_requests;
        self.non_zero_requested = (sum.0 - removed.0, sum.1 - removed.1);
    }

    /// Replaces a pod that is counted by its present state, in which it uses the same.
    pub(crate) fn replace_pod(&mut self, pod: &Arc<PodInfo>) {
        // The last pods are those that are being bound.
        if let Some(known) = self.pods.iter_mut().rfind(|known| known.uid == pod.uid) {
            *known = Arc::clone(pod);
        }
    }

    /// Removes a pod from the sums. Returns false if it is not there.
    pub(crate) fn remove_pod(&mut self, uid: &str) -> bool {
        let Some(index) = self.pods.iter().position(|pod| *pod.uid == *uid) else { return false };
        let pod = self.pods.swap_remove(index);
        self.subtract_requests(&pod);
        self.ports.remove(&pod.traits.host_ports);
        true
    }

    /// Whether one of the ports is used on the node.
    pub(crate) fn uses_any_port(&self, ports: &[HostPort]) -> bool {
        self.ports.conflict_with(ports)
    }
}
