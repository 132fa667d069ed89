//! [`PodView`]: the fields of a pod that the workload controllers read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::adoption::HasMetadata;
use crate::metadata::Metadata;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodView {
    /// The metadata.
    pub metadata: Metadata,
    /// The specification.
    pub spec: PodSpecView,
    /// The status.
    pub status: PodStatusView,
}

/// A part of a pod's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpecView {
    /// The node to which the pod is bound, or empty.
    pub node_name: String,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: String,
    /// The host name; that of a pod of a StatefulSet is its name.
    pub hostname: String,
}

/// A part of a pod's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatusView {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`; empty for a new pod.
    pub phase: String,
    /// The reason of the phase, such as `Evicted`.
    pub reason: String,
    /// The conditions.
    pub conditions: Vec<PodConditionView>,
    /// The status of each container.
    pub container_statuses: Vec<ContainerStatusView>,
}

/// A condition of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodConditionView {
    /// The type: `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason of the status.
    pub reason: String,
    /// The time of the last change of the status.
    pub last_transition_time: Option<Time>,
}

/// A part of a container's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatusView {
    /// The number of restarts.
    pub restart_count: i32,
}

impl PodView {
    /// Whether the pod has not ended and is not being deleted.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.metadata.is_deleting()
    }

    /// Whether the pod has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// A condition of the pod.
    pub(crate) fn condition(&self, type_: &str) -> Option<&PodConditionView> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the pod is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// The time since which the pod has been ready.
    pub(crate) fn ready_since(&self) -> Option<&Time> {
        let ready = self.condition("Ready").filter(|condition| condition.status == "True")?;
        ready.last_transition_time.as_ref()
    }

    /// The number of restarts of its containers.
    pub(crate) fn restarts(&self) -> i32 {
        self.status.container_statuses.iter().map(|status| status.restart_count).sum()
    }
}

impl HasMetadata for PodView {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
