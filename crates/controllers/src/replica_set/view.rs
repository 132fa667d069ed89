//! [`ReplicaSetView`]: the fields of a set that its controller reads.

use serde::Deserialize;
use serde_json::Value;

use super::status::ReplicaSetStatus;
use crate::pod_control::PodTemplate;
use crate::workload::Workload;
use machinery::json;
use machinery::selector::LabelSelector;

/// See the [module documentation](self).
pub(super) type ReplicaSetView = Workload<ReplicaSetSpec, ReplicaSetStatus>;

/// The spec of a set.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplicaSetSpec {
    #[serde(default)]
    replicas: Option<i32>,
    /// The time for which a pod must be ready to be available.
    #[serde(default)]
    pub min_ready_seconds: i32,
    /// A label selector, or the labels of a ReplicationController.
    #[serde(default)]
    selector: Value,
    /// The template of the pods.
    pub template: PodTemplate,
}

impl ReplicaSetView {
    /// The desired number of pods.
    pub(super) fn replicas(&self) -> usize {
        usize::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// The selector of its pods.
    pub(super) fn selector(&self) -> Result<LabelSelector, String> {
        read_selector(&self.spec.selector)
    }
}

/// Reads the selector of a ReplicaSet, or the labels of a ReplicationController.
pub(super) fn read_selector(selector: &Value) -> Result<LabelSelector, String> {
    let is_label_selector = ["matchLabels", "matchExpressions"]
        .iter()
        .any(|key| !selector[*key].is_null() && !selector[*key].is_string());
    if is_label_selector {
        return LabelSelector::from_value(selector);
    }
    LabelSelector::from_value(&json!({"matchLabels": selector}))
}
