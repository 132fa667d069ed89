//! The fields of DaemonSets, of their pods and of nodes that the controller reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::Value;

use super::status::DaemonSetStatus;
use crate::adoption::HasMetadata;
use crate::controller_history::REVISION_LABEL;
use crate::int_or_string::{self, Rounding};
use crate::metadata::Metadata;
use crate::pod_view::PodStatusView;
use crate::taints::Taint;
use crate::workload::Workload;
use machinery::node_matching::{Affinity, NodeLabels};
use machinery::selector::LabelSelector;

/// The annotation of a set with the number of its template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The label of a pod with the number of its template.
pub(super) const GENERATION_LABEL: &str = "pod-template-generation";

/// A DaemonSet.
pub(super) type DaemonSetView = Workload<DaemonSetSpec, DaemonSetStatus>;

/// The spec of a set.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DaemonSetSpec {
    #[serde(default)]
    selector: Value,
    /// The template of the pods.
    #[serde(default)]
    pub template: Value,
    /// The time for which a pod must be ready to be available.
    #[serde(default)]
    pub min_ready_seconds: i32,
    /// How pods are updated.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// The number of unused revisions that are kept.
    #[serde(default)]
    pub revision_history_limit: Option<i32>,
}

/// How pods are updated.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UpdateStrategy {
    /// `RollingUpdate` or `OnDelete`.
    #[serde(rename = "type")]
    pub type_: String,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_unavailable: Option<IntOrString>,
    max_surge: Option<IntOrString>,
}

/// A pod of a set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodView {
    /// The metadata.
    pub metadata: Metadata,
    /// The spec.
    pub spec: PodSpec,
    /// The status.
    pub status: PodStatusView,
}

/// A part of a pod's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    /// The node to which the pod is bound, or empty.
    pub node_name: String,
    affinity: Affinity,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct NodeView {
    /// The metadata.
    pub metadata: NodeMetadata,
    /// The spec.
    pub spec: NodeSpec,
}

/// A part of a node's metadata.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct NodeMetadata {
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// A part of a node's spec.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    /// The taints. A node that is unschedulable has one.
    pub taints: Vec<Taint>,
}

impl DaemonSetView {
    /// The selector of its pods.
    pub(super) fn selector(&self) -> Result<LabelSelector, String> {
        LabelSelector::from_value(&self.spec.selector)
    }

    /// Whether the selector has no conditions.
    pub(super) fn selects_everything(&self) -> bool {
        self.spec.selector.as_object().is_some_and(serde_json::Map::is_empty)
    }

    /// The number of the template.
    pub(super) fn template_generation(&self) -> Option<&str> {
        let generation = self.metadata.annotations.get(TEMPLATE_GENERATION)?;
        generation.parse::<i64>().is_ok().then_some(generation)
    }

    /// The number of additional pods during an update of `nodes` nodes.
    pub(super) fn max_surge(&self, nodes: usize) -> Result<usize, String> {
        self.rolling(|rolling| rolling.max_surge.as_ref(), nodes)
    }

    /// The number of nodes that may have no available pod during an update of `nodes` nodes.
    pub(super) fn max_unavailable(&self, nodes: usize) -> Result<usize, String> {
        self.rolling(|rolling| rolling.max_unavailable.as_ref(), nodes)
    }

    fn rolling(
        &self,
        field: impl Fn(&RollingUpdate) -> Option<&IntOrString>,
        nodes: usize,
    ) -> Result<usize, String> {
        let strategy = &self.spec.update_strategy;
        let rolling = strategy.rolling_update.as_ref();
        let value = rolling.filter(|_| strategy.type_ == "RollingUpdate").and_then(field);
        value.map_or(Ok(0), |value| int_or_string::scaled(value, nodes, Rounding::Up))
    }

    /// Whether a new pod may run beside an old one.
    pub(super) fn allows_surge(&self) -> bool {
        self.max_surge(1).is_ok_and(|surge| surge > 0)
    }

    /// Whether a pod has the present template, whose revision has this hash.
    pub(super) fn is_updated(&self, pod: &PodView, hash: &str) -> bool {
        let label = |key: &str| pod.metadata.labels.get(key).map(String::as_str);
        let generation = self.template_generation();
        label(REVISION_LABEL) == Some(hash)
            || generation.is_some() && label(GENERATION_LABEL) == generation
    }
}

impl PodView {
    /// The node on which the pod is or will be.
    pub(super) fn node(&self) -> Option<&str> {
        if !self.spec.node_name.is_empty() {
            return Some(&self.spec.node_name);
        }
        self.spec.affinity.node_affinity.required.as_ref()?.only_node()
    }
}

impl HasMetadata for PodView {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl NodeLabels for NodeView {
    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }

    fn node_name(&self) -> &str {
        &self.metadata.name
    }
}
