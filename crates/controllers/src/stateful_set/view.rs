//! The fields of StatefulSets, of their pods and of their claims that the controller reads.

use std::collections::BTreeMap;
use std::ops::Range;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::Value;

use super::status::StatefulSetStatus;
use crate::adoption::HasMetadata;
use crate::int_or_string::{self, Rounding};
use crate::metadata::Metadata;
use crate::pod_view::PodStatusView;
use crate::workload::Workload;
use machinery::selector::LabelSelector;

/// A StatefulSet.
pub(super) type StatefulSetView = Workload<StatefulSetSpec, StatefulSetStatus>;

/// The spec of a set.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatefulSetSpec {
    #[serde(default)]
    replicas: Option<i32>,
    /// The time for which a pod must be ready to be available.
    #[serde(default)]
    pub min_ready_seconds: i32,
    #[serde(default)]
    selector: Value,
    /// The template of the pods.
    #[serde(default)]
    pub template: Value,
    /// The templates of the claims of each pod.
    #[serde(default)]
    pub volume_claim_templates: Vec<ClaimTemplate>,
    /// The service that gives the pods their host names.
    #[serde(default)]
    pub service_name: String,
    #[serde(default)]
    pod_management_policy: String,
    /// How pods are updated.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// The number of unused revisions that are kept.
    #[serde(default)]
    pub revision_history_limit: Option<i32>,
    /// What happens to claims that are no longer needed.
    #[serde(default)]
    pub persistent_volume_claim_retention_policy: RetentionPolicy,
    #[serde(default)]
    ordinals: Ordinals,
}

/// The template of a claim.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ClaimTemplate {
    /// The metadata.
    #[serde(default)]
    pub metadata: ClaimMetadata,
    /// The spec.
    #[serde(default)]
    pub spec: Value,
}

/// The metadata of the template of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimMetadata {
    /// The name of the volume, with which the names of the claims begin.
    pub name: String,
    /// The labels of the claims.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the claims.
    pub annotations: BTreeMap<String, String>,
}

/// How pods are updated.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UpdateStrategy {
    /// `RollingUpdate` or `OnDelete`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The parameters of a rolling update.
    pub rolling_update: Option<RollingUpdate>,
}

/// The parameters of a rolling update.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RollingUpdate {
    /// The number of the first replicas that are not updated.
    pub partition: i32,
    max_unavailable: Option<IntOrString>,
}

/// What happens to claims: `Retain` or `Delete`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RetentionPolicy {
    when_deleted: String,
    when_scaled: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Ordinals {
    start: i32,
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
#[serde(default)]
pub(super) struct PodSpec {
    /// The volumes.
    pub volumes: Vec<Value>,
}

/// A claim of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimView {
    /// The metadata.
    pub metadata: Metadata,
}

impl StatefulSetView {
    /// The desired number of pods.
    pub(super) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    /// The first ordinal.
    pub(super) fn start(&self) -> i32 {
        self.spec.ordinals.start
    }

    /// Whether a pod with this ordinal is desired.
    pub(super) fn has_ordinal(&self, ordinal: i32) -> bool {
        self.ordinals().contains(&ordinal)
    }

    /// The desired ordinals, which may be too many to look at each.
    pub(super) fn ordinals(&self) -> Range<i32> {
        self.start()..self.start().saturating_add(self.replicas())
    }

    /// Whether pods are created and deleted one after the other.
    pub(super) fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy != "Parallel"
    }

    /// The selector of its pods.
    pub(super) fn selector(&self) -> Result<LabelSelector, String> {
        LabelSelector::from_value(&self.spec.selector)
    }

    /// The labels that the selector requires, which its claims get.
    pub(super) fn match_labels(&self) -> BTreeMap<String, String> {
        BTreeMap::deserialize(&self.spec.selector["matchLabels"]).unwrap_or_default()
    }

    /// The number of pods that may be unavailable during a rolling update; at least one.
    pub(super) fn max_unavailable(&self) -> Result<usize, String> {
        let rolling = self.spec.update_strategy.rolling_update.as_ref();
        let Some(value) = rolling.and_then(|it| it.max_unavailable.as_ref()) else { return Ok(1) };
        let replicas = usize::try_from(self.replicas()).unwrap_or(0);
        Ok(int_or_string::scaled(value, replicas, Rounding::Down)?.max(1))
    }

    /// The number of the first replicas that are not updated.
    pub(super) fn partition(&self) -> i32 {
        self.spec.update_strategy.rolling_update.as_ref().map_or(0, |it| it.partition)
    }
}

impl RetentionPolicy {
    /// Whether claims are deleted with the set.
    pub(super) fn deletes_with_set(&self) -> bool {
        self.when_deleted == "Delete"
    }

    /// Whether claims are deleted with the pods of a set that is scaled down.
    pub(super) fn deletes_with_pod(&self) -> bool {
        self.when_scaled == "Delete"
    }
}

impl PodView {
    /// Whether the pod runs and is ready.
    pub(super) fn is_running_and_ready(&self) -> bool {
        self.status.phase == "Running" && self.status.is_ready()
    }
}

impl HasMetadata for PodView {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
