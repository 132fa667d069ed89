//! [`DaemonSetStatus`]: the status of a DaemonSet, computed from its nodes and pods.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::placement::Eligibility;
use super::plan::Observed;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DaemonSetStatus {
    /// The number of nodes that should have a pod.
    desired_number_scheduled: usize,
    /// The number of those that have one.
    current_number_scheduled: usize,
    /// The number of nodes that should not have a pod, but have one.
    number_misscheduled: usize,
    /// The number of nodes that should have a pod and have a ready one.
    number_ready: usize,
    /// The number of nodes that should have a pod and have one of the present template.
    updated_number_scheduled: usize,
    /// The number of nodes that should have a pod and have an available one.
    number_available: usize,
    /// The number of nodes that should have a pod, but have no available one.
    number_unavailable: usize,
    /// The generation of the spec that this status belongs to.
    pub observed_generation: i64,
    /// The number of collisions of the hashes of revisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The conditions, which the controller does not change.
    conditions: Vec<Value>,
}

impl DaemonSetStatus {
    /// The status of a set with these nodes and pods.
    pub(super) fn of(observed: &Observed<'_>, collision_count: Option<i32>) -> Self {
        let set = observed.set;
        let mut status = Self {
            observed_generation: set.metadata.generation,
            collision_count,
            conditions: set.status.conditions.clone(),
            ..Self::default()
        };
        for node in observed.nodes {
            let pod = observed.pods.get(&node.metadata.name).and_then(|pods| pods.first());
            if observed.placement.eligibility(node) != Eligibility::Run {
                status.number_misscheduled += usize::from(pod.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = pod else { continue };
            status.current_number_scheduled += 1;
            status.number_ready += usize::from(pod.status.is_ready());
            status.number_available += usize::from(observed.is_available(pod));
            let is_updated = set.is_updated(pod, observed.hash);
            status.updated_number_scheduled += usize::from(is_updated);
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        status
    }
}

/// The time until the next ready pod becomes available.
pub(super) fn next_availability(observed: &Observed<'_>) -> Option<Duration> {
    let min_ready = observed.set.spec.min_ready_seconds;
    let pods = observed.pods.values().flatten();
    let delays = pods.filter_map(|pod| pod.status.until_available(min_ready, observed.clock));
    delays.filter(|delay| !delay.is_zero()).min()
}
