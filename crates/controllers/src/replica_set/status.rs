//! [`ReplicaSetStatus`]: the status of a set, computed from its pods.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::view::ReplicaSetView;
use crate::api_requests;
use crate::pod_view::PodView;
use crate::time;
use keel::Clock;
use runtime::kube_client;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReplicaSetStatus {
    /// The number of active pods.
    replicas: usize,
    /// The number of active pods with all labels of the template.
    fully_labeled_replicas: usize,
    /// The number of ready pods.
    ready_replicas: usize,
    /// The number of pods that have been ready for `minReadySeconds`.
    available_replicas: usize,
    /// The number of pods that are being deleted; only of ReplicaSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    terminating_replicas: Option<usize>,
    /// The generation of the spec that this status belongs to.
    observed_generation: i64,
    /// The conditions.
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
    reason: String,
    message: String,
}

const REPLICA_FAILURE: &str = "ReplicaFailure";

impl ReplicaSetStatus {
    /// Whether it belongs to the present spec of the set.
    pub(super) fn is_current(&self, set: &ReplicaSetView) -> bool {
        self.observed_generation == set.metadata.generation
    }

    /// The status of a set with these pods. `failed` is the error of their creation or deletion.
    pub(super) fn of(
        set: &ReplicaSetView,
        pods: &[Arc<PodView>],
        counts_terminating: bool,
        failed: Option<&kube_client::Error>,
        clock: &Clock,
    ) -> Self {
        let active: Vec<&PodView> =
            pods.iter().map(Arc::as_ref).filter(|pod| pod.is_active()).collect();
        let count = |is_counted: &dyn Fn(&PodView) -> bool| {
            active.iter().filter(|pod| is_counted(pod)).count()
        };
        let template = &set.spec.template.metadata.labels;
        let terminating =
            pods.iter().filter(|pod| pod.metadata.is_deleting() && !pod.is_finished()).count();
        Self {
            replicas: active.len(),
            fully_labeled_replicas: count(&|pod| {
                template.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
            }),
            ready_replicas: count(&PodView::is_ready),
            available_replicas: count(&|pod| {
                pod.status.is_available(set.spec.min_ready_seconds, clock)
            }),
            terminating_replicas: counts_terminating.then_some(terminating),
            observed_generation: set.metadata.generation,
            conditions: conditions(set, active.len(), failed, clock),
        }
    }
}

/// The previous conditions, with `ReplicaFailure` if there is an error.
fn conditions(
    set: &ReplicaSetView,
    active: usize,
    failed: Option<&kube_client::Error>,
    clock: &Clock,
) -> Vec<Condition> {
    let mut conditions = set.status.conditions.clone();
    let known = conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failed {
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        Some(_) if known => {}
        Some(error) => conditions.push(Condition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(time::now(clock)),
            reason: if active < set.replicas() { "FailedCreate" } else { "FailedDelete" }
                .to_owned(),
            message: api_requests::message(error),
        }),
    }
    conditions
}

/// The time until the next ready pod becomes available.
pub(super) fn next_availability(
    set: &ReplicaSetView,
    pods: &[Arc<PodView>],
    clock: &Clock,
) -> Option<Duration> {
    let active = pods.iter().filter(|pod| pod.is_active());
    let min_ready = set.spec.min_ready_seconds;
    let delays = active.filter_map(|pod| pod.status.until_available(min_ready, clock));
    delays.filter(|delay| !delay.is_zero()).min()
}
