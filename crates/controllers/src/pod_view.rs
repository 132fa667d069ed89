//! [`PodView`]: the fields of a pod that the workload controllers read.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::adoption::HasMetadata;
use crate::metadata::Metadata;
use crate::time;
use keel::Clock;

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
    /// The host name; that of a pod of a `StatefulSet` is its name.
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
        self.status.is_finished()
    }

    /// A condition of the pod.
    pub(crate) fn condition(&self, type_: &str) -> Option<&PodConditionView> {
        self.status.condition(type_)
    }

    /// Whether the pod is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.status.is_ready()
    }

    /// The time since which the pod has been ready.
    pub(crate) fn ready_since(&self) -> Option<&Time> {
        self.status.ready_since()
    }

    /// The number of restarts of its containers.
    pub(crate) fn restarts(&self) -> i32 {
        let counts = self.status.container_statuses.iter().map(|status| status.restart_count);
        counts.fold(0, i32::saturating_add)
    }
}

impl PodStatusView {
    /// Whether the pod has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// A condition of the pod.
    pub(crate) fn condition(&self, type_: &str) -> Option<&PodConditionView> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
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

    /// The time until the pod is available, which it is after it was ready for `min_ready_seconds`;
    /// `None` if it is not ready.
    pub(crate) fn until_available(
        &self,
        min_ready_seconds: i32,
        clock: &Clock,
    ) -> Option<Duration> {
        if !self.is_ready() {
            return None;
        }
        let min_ready = u64::try_from(min_ready_seconds).unwrap_or(0);
        if min_ready == 0 {
            return Some(Duration::ZERO);
        }
        let ready_for = time::since(clock, self.ready_since()?);
        Some(Duration::from_secs(min_ready).saturating_sub(ready_for))
    }

    /// Whether the pod has been ready for `min_ready_seconds`.
    pub(crate) fn is_available(&self, min_ready_seconds: i32, clock: &Clock) -> bool {
        self.until_available(min_ready_seconds, clock) == Some(Duration::ZERO)
    }
}

impl HasMetadata for PodView {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
