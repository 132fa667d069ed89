//! [`NodeView`]: the fields of a Node that this crate reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::node_object::{NAME_PREFIX, SIMULATED_LABEL};
use machinery::node_matching::NodeLabels;

/// The label and annotation of nodes that KWOK manages, with the value `fake`.
const KWOK_KEY: &str = "kwok.x-k8s.io/node";

/// See the [module documentation](self).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeView {
    /// The metadata.
    pub metadata: NodeMetadata,
    /// The status.
    pub status: NodeStatusView,
}

impl NodeLabels for NodeView {
    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }

    fn node_name(&self) -> &str {
        &self.metadata.name
    }
}

/// A part of the metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeMetadata {
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A part of the status.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatusView {
    /// The deprecated phase, which stages of KWOK read.
    pub phase: String,
    /// The addresses.
    pub addresses: Vec<NodeAddress>,
    /// The conditions.
    pub conditions: Vec<NodeCondition>,
    /// The total resources.
    pub capacity: BTreeMap<String, String>,
    /// The resources for pods.
    pub allocatable: BTreeMap<String, String>,
    /// The versions of the node's software.
    pub node_info: NodeInfoView,
}

/// An address of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAddress {
    /// `InternalIP`, `Hostname`
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}

/// A condition of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeCondition {
    /// `Ready`
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False`, `Unknown`
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The time of the last heartbeat.
    pub last_heartbeat_time: Option<String>,
    /// The time of the last change of the status.
    pub last_transition_time: Option<String>,
}

/// A part of the node's information.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeInfoView {
    /// The version of the kubelet.
    pub kubelet_version: String,
}

impl NodeView {
    /// Whether this crate writes the status of the node and of its pods: it is one of the first
    /// `count` nodes of the plane, or a user has created it for KWOK.
    pub(crate) fn is_managed(&self, count: usize) -> bool {
        self.is_of_kwok() || self.own_index().is_some_and(|index| index < count)
    }

    /// Whether this is a node of a former run with more nodes.
    pub(crate) fn is_surplus(&self, count: usize) -> bool {
        !self.is_of_kwok() && self.own_index().is_some_and(|index| index >= count)
    }

    fn is_of_kwok(&self) -> bool {
        let NodeMetadata { labels, annotations, .. } = &self.metadata;
        [labels, annotations].iter().any(|map| map.get(KWOK_KEY).is_some_and(|it| it == "fake"))
    }

    /// The index of a node that this crate has registered.
    fn own_index(&self) -> Option<usize> {
        let is_simulated = self.metadata.labels.get(SIMULATED_LABEL).is_some_and(|it| it == "true");
        is_simulated.then(|| index_of(&self.metadata.name)).flatten()
    }

    /// The address that pods have as the address of their host.
    pub(crate) fn internal_ip(&self) -> Option<&str> {
        let found = self.status.addresses.iter().find(|address| address.type_ == "InternalIP");
        found.map(|address| address.address.as_str())
    }

    /// A condition.
    pub(crate) fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// The index in the name `sampan-7`.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    let digits = name.strip_prefix(NAME_PREFIX)?;
    let index = digits.parse::<usize>().ok()?;
    (index.to_string() == digits).then_some(index)
}
