//! The fields of Deployments and their ReplicaSets that the controller reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::int_or_string::{self, Rounding};
use crate::workload::Workload;

/// The label that distinguishes the pods of a Deployment's ReplicaSets.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";

/// The number of the rollout to which a ReplicaSet belongs.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";

/// The replicas of the Deployment when the ReplicaSet was scaled.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";

/// The largest number of pods during a rollout when the ReplicaSet was scaled.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// A Deployment.
pub(super) type DeploymentView = Workload<DeploymentSpec, DeploymentStatus>;

/// The spec of a Deployment.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct DeploymentSpec {
    replicas: Option<i32>,
    /// A label selector.
    pub selector: Value,
    /// The pod template.
    pub template: Value,
    /// How pods are replaced.
    pub strategy: Strategy,
    /// The time for which a pod must be ready to be available.
    pub min_ready_seconds: i32,
    /// The number of old ReplicaSets that are kept.
    pub revision_history_limit: Option<i32>,
    /// Whether rollouts are paused.
    pub paused: bool,
    /// The time in which a rollout must progress.
    pub progress_deadline_seconds: Option<i32>,
}

/// The strategy of a Deployment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Strategy {
    #[serde(rename = "type")]
    type_: String,
    rolling_update: RollingUpdate,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_unavailable: Option<IntOrString>,
    max_surge: Option<IntOrString>,
}

/// The status of a Deployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeploymentStatus {
    /// The generation of the spec that this status belongs to.
    pub observed_generation: i64,
    /// The number of pods.
    pub replicas: i32,
    /// The number of pods of the new ReplicaSet.
    pub updated_replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of available pods.
    pub available_replicas: i32,
    /// The number of pods that are missing or not available.
    pub unavailable_replicas: i32,
    /// The number of pods that are being deleted, if all ReplicaSets know theirs. In a merge patch, a
    /// missing value removes the field.
    pub terminating_replicas: Option<i32>,
    /// The number of collisions of template hashes.
    pub collision_count: Option<i32>,
    /// The conditions.
    pub conditions: Vec<DeploymentCondition>,
}

/// A condition of a Deployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeploymentCondition {
    /// `Available`, `Progressing` or `ReplicaFailure`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The time of the last update.
    pub last_update_time: Option<Time>,
    /// The time of the last change of the status.
    pub last_transition_time: Option<Time>,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// A ReplicaSet.
pub(super) type OwnedReplicaSetView = Workload<OwnedReplicaSetSpec, OwnedReplicaSetStatus>;

/// The spec of a ReplicaSet.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnedReplicaSetSpec {
    #[serde(default)]
    replicas: Option<i32>,
    /// The time for which a pod must be ready to be available.
    #[serde(default)]
    pub min_ready_seconds: i32,
    /// The pod template without the label of its hash.
    #[serde(deserialize_with = "template_without_hash")]
    pub template: Value,
}

/// The status of a ReplicaSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnedReplicaSetStatus {
    /// The generation of the spec that this status belongs to.
    pub observed_generation: i64,
    /// The number of pods.
    pub replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of available pods.
    pub available_replicas: i32,
    /// The number of pods that are being deleted.
    pub terminating_replicas: Option<i32>,
    /// The conditions, in the form of a Deployment's.
    pub conditions: Vec<DeploymentCondition>,
}

fn template_without_hash<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    let mut template = Value::deserialize(from)?;
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(TEMPLATE_HASH);
    }
    Ok(template)
}

impl DeploymentView {
    /// The desired number of pods.
    pub(super) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Whether pods are replaced gradually.
    pub(super) fn is_rolling(&self) -> bool {
        self.spec.strategy.type_ != "Recreate"
    }

    /// The number of pods that may exist beyond the desired number.
    pub(super) fn max_surge(&self) -> i32 {
        if !self.is_rolling() {
            return 0;
        }
        let rolling = &self.spec.strategy.rolling_update;
        self.share(rolling.max_surge.as_ref(), Rounding::Up)
    }

    /// The number of desired pods that may be unavailable.
    pub(super) fn max_unavailable(&self) -> i32 {
        if !self.is_rolling() || self.replicas() == 0 {
            return 0;
        }
        let rolling = &self.spec.strategy.rolling_update;
        let unavailable = self.share(rolling.max_unavailable.as_ref(), Rounding::Down);
        // A percentage may be rounded down to zero, and the rollout could do nothing then.
        let unavailable = if unavailable == 0 && self.max_surge() == 0 { 1 } else { unavailable };
        unavailable.min(self.replicas())
    }

    /// A number of its pods, or a percentage of them. The server accepts no other value.
    fn share(&self, value: Option<&IntOrString>, rounding: Rounding) -> i32 {
        let replicas = usize::try_from(self.replicas()).unwrap_or(0);
        let share = value.and_then(|value| int_or_string::scaled(value, replicas, rounding).ok());
        share.map_or(0, |share| i32::try_from(share).unwrap_or(i32::MAX))
    }

    /// The time in which a rollout must progress, if it is limited.
    pub(super) fn progress_deadline(&self) -> Option<u64> {
        let seconds = self.spec.progress_deadline_seconds.filter(|it| *it != i32::MAX)?;
        u64::try_from(seconds).ok()
    }

    /// The labels of the template.
    pub(super) fn template_labels(&self) -> BTreeMap<String, String> {
        let labels = self.spec.template["metadata"]["labels"].clone();
        serde_json::from_value(labels).unwrap_or_default()
    }

    /// The annotations that its ReplicaSets have when they are scaled.
    pub(super) fn replicas_annotations(&self) -> [(&'static str, String); 2] {
        let max = self.max_total().min(i64::from(i32::MAX));
        [(DESIRED_REPLICAS, self.replicas().to_string()), (MAX_REPLICAS, max.to_string())]
    }

    /// The number of pods that may exist during a rollout. Sums of replicas may exceed 32 bits.
    pub(super) fn max_total(&self) -> i64 {
        i64::from(self.replicas()) + i64::from(self.max_surge())
    }
}

impl OwnedReplicaSetView {
    /// The desired number of pods.
    pub(super) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// The revision; 0 if it has none.
    pub(super) fn revision(&self) -> i64 {
        self.annotation(REVISION).unwrap_or(0)
    }

    /// The number in an annotation.
    pub(super) fn annotation(&self, key: &str) -> Option<i64> {
        self.metadata.annotations.get(key)?.parse().ok()
    }
}
