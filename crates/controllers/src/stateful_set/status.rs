//! [`StatefulSetStatus`]: the status of a StatefulSet, computed from its pods.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::view::{PodView, StatefulSetView};
use super::{RevisionNames, identity};
use keel::Clock;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StatefulSetStatus {
    /// The generation of the spec that this status belongs to.
    observed_generation: i64,
    /// The number of pods.
    replicas: i32,
    /// The number of ready pods.
    ready_replicas: i32,
    /// The number of pods of the current revision.
    pub current_replicas: i32,
    /// The number of pods of the update revision.
    updated_replicas: i32,
    /// The number of pods that have been ready for `minReadySeconds`.
    available_replicas: i32,
    /// The name of the revision from which pods are updated.
    pub current_revision: String,
    /// The name of the revision to which pods are updated.
    update_revision: String,
    /// The number of collisions of the hashes of revisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The conditions, which the controller does not change.
    conditions: Vec<Value>,
}

impl StatefulSetStatus {
    /// The status of a set with these pods.
    pub(super) fn of(
        set: &StatefulSetView,
        pods: &[Arc<PodView>],
        revisions: &RevisionNames,
        clock: &Clock,
    ) -> Self {
        let count = |is_counted: &dyn Fn(&PodView) -> bool| {
            let counted = pods.iter().filter(|pod| is_counted(pod)).count();
            i32::try_from(counted).unwrap_or(i32::MAX)
        };
        let has_revision = |pod: &PodView, name: &str| {
            !pod.metadata.is_deleting() && identity::revision(pod) == name
        };
        let min_ready = set.spec.min_ready_seconds;
        let mut status = Self {
            observed_generation: set.metadata.generation,
            replicas: count(&|_| true),
            ready_replicas: count(&PodView::is_running_and_ready),
            current_replicas: count(&|pod| has_revision(pod, &revisions.current)),
            updated_replicas: count(&|pod| has_revision(pod, &revisions.update)),
            available_replicas: count(&|pod| {
                pod.is_running_and_ready() && pod.status.is_available(min_ready, clock)
            }),
            current_revision: revisions.current.clone(),
            update_revision: revisions.update.clone(),
            collision_count: revisions.collision_count,
            conditions: set.status.conditions.clone(),
        };
        let is_complete = [status.updated_replicas, status.ready_replicas, status.replicas]
            .iter()
            .all(|counted| *counted == set.replicas());
        if is_complete {
            status.current_replicas = status.updated_replicas;
            status.current_revision.clone_from(&status.update_revision);
        }
        status
    }

    /// The revisions in the status.
    pub(super) fn revisions(&self) -> RevisionNames {
        RevisionNames {
            current: self.current_revision.clone(),
            update: self.update_revision.clone(),
            collision_count: self.collision_count,
        }
    }
}

/// The time until the next ready pod becomes available.
pub(super) fn next_availability(
    set: &StatefulSetView,
    pods: &[Arc<PodView>],
    clock: &Clock,
) -> Option<Duration> {
    let min_ready = set.spec.min_ready_seconds;
    let delays = pods.iter().filter_map(|pod| pod.status.until_available(min_ready, clock));
    delays.filter(|delay| !delay.is_zero()).min()
}
