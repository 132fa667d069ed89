//! [`Rollout`]: one step of a StatefulSet towards its spec.
//!
//! ```text
//! 1. each desired ordinal, upwards:   delete an ended pod, create a missing one
//! 2. each pod beyond, downwards:      delete
//! 3. each outdated pod, downwards:    delete, at most maxUnavailable at a time
//! ```
//!
//! An ordered set ends the step when a pod was created or deleted, or is not available. The next step
//! follows the next change of a pod.

use std::sync::Arc;

use super::pod_writer::SetError;
use super::view::{PodView, SetView};
use super::{Context, Revisions, identity};
use crate::pod_control::PodOwner;
use crate::slow_start;
use runtime::CONTROLLER_INDEX;

/// See the [module documentation](self).
pub(super) struct Rollout<'a> {
    /// The context of the controller.
    pub cx: &'a Context,
    /// The set.
    pub set: &'a SetView,
    /// The set as the owner of its pods.
    pub owner: &'a PodOwner<'a>,
    /// The revisions of its pods.
    pub revisions: &'a Revisions,
}

/// What an ordered set does after a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Wait,
}

/// A desired ordinal, and its pod.
type Replica = (i32, Option<Arc<PodView>>);

impl Rollout<'_> {
    /// Creates, deletes and repairs pods.
    pub(super) async fn run(&self, pods: &[Arc<PodView>]) -> Result<(), SetError> {
        let replicas = self.replicas(pods);
        let condemned = self.condemned(pods);
        if self.set.is_ordered() {
            for replica in &replicas {
                if self.sync_replica(replica).await? == Next::Wait {
                    return Ok(());
                }
            }
            for (ordinal, pod) in &condemned {
                self.update_claim_owners(&pod.metadata, *ordinal).await?;
            }
            if let Some((_, pod)) = condemned.first() {
                return self.delete_last(pod, &condemned).await;
            }
        } else {
            slow_start::run(replicas.len(), |at| self.sync_replica(&replicas[at])).await?;
            slow_start::run(condemned.len(), |at| self.delete_condemned(&condemned[at])).await?;
        }
        if self.set.spec.update_strategy.type_ != "RollingUpdate" {
            return Ok(());
        }
        self.update_pods().await
    }

    /// The desired ordinals with their pods.
    fn replicas(&self, pods: &[Arc<PodView>]) -> Vec<Replica> {
        let start = self.set.start();
        let end = start.saturating_add(self.set.replicas());
        let mut replicas: Vec<Replica> = (start..end).map(|ordinal| (ordinal, None)).collect();
        for pod in pods {
            let ordinal = identity::ordinal(pod).filter(|it| self.set.has_ordinal(*it));
            let index = ordinal.and_then(|it| usize::try_from(it - start).ok());
            if let Some(replica) = index.and_then(|it| replicas.get_mut(it)) {
                replica.1 = Some(Arc::clone(pod));
            }
        }
        replicas
    }

    /// The pods that are not desired, the last ordinal first.
    fn condemned(&self, pods: &[Arc<PodView>]) -> Vec<(i32, Arc<PodView>)> {
        let ordinals =
            pods.iter().filter_map(|pod| Some((identity::ordinal(pod)?, Arc::clone(pod))));
        let mut condemned: Vec<_> =
            ordinals.filter(|(ordinal, _)| !self.set.has_ordinal(*ordinal)).collect();
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        condemned
    }

    /// Creates the pod of an ordinal, or deletes it if it has ended, or repairs it.
    async fn sync_replica(&self, (ordinal, pod): &Replica) -> Result<Next, SetError> {
        let Some(pod) = pod else {
            if !self.has_stale_claim(*ordinal)? {
                self.create_pod(*ordinal).await?;
            }
            return Ok(Next::Wait);
        };
        let is_deleting = pod.metadata.is_deleting();
        if pod.status.is_finished() {
            // Its successor is created after it is gone.
            if !is_deleting {
                self.delete_pod(&pod.metadata).await?;
            }
            return Ok(Next::Wait);
        }
        if pod.status.phase == "Pending" && !is_deleting {
            self.create_claims(&pod.metadata.name, *ordinal).await?;
            self.update_claim_owners(&pod.metadata, *ordinal).await?;
        }
        let is_waiting = is_deleting || !pod.is_running_and_ready() || !self.is_available(pod);
        if self.set.is_ordered() && is_waiting {
            return Ok(Next::Wait);
        }
        self.repair_pod(pod, *ordinal).await?;
        Ok(Next::Continue)
    }

    /// Deletes the last pod of an ordered set, all of whose desired pods are available.
    async fn delete_last(
        &self,
        pod: &PodView,
        condemned: &[(i32, Arc<PodView>)],
    ) -> Result<(), SetError> {
        if pod.metadata.is_deleting() {
            return Ok(());
        }
        // An unavailable pod is deleted only if it is the only one: the pods before it must be
        // available first.
        let first_unavailable = condemned.iter().rev().find(|(_, pod)| self.is_unavailable(pod));
        let is_first =
            first_unavailable.is_some_and(|(_, first)| first.metadata.uid == pod.metadata.uid);
        let is_healthy = pod.is_running_and_ready() && self.is_available(pod);
        if !is_healthy && !is_first {
            return Ok(());
        }
        self.delete_pod(&pod.metadata).await
    }

    async fn delete_condemned(&self, (ordinal, pod): &(i32, Arc<PodView>)) -> Result<(), SetError> {
        self.update_claim_owners(&pod.metadata, *ordinal).await?;
        if pod.metadata.is_deleting() {
            return Ok(());
        }
        self.delete_pod(&pod.metadata).await
    }

    /// Deletes outdated pods, as many as may be unavailable.
    ///
    /// Upstream: `updateStatefulSetAfterInvariantEstablished`
    async fn update_pods(&self) -> Result<(), SetError> {
        let max_unavailable = self.set.max_unavailable().map_err(SetError::Spec)?;
        // The cache shows what this step has created and deleted.
        let uid = &self.set.metadata.uid;
        let pods = self.cx.pods.shared_by_index(CONTROLLER_INDEX, uid)?;
        let replicas = self.replicas(&pods.objects);
        let unavailable = replicas
            .iter()
            .filter(|(_, pod)| pod.as_ref().is_none_or(|pod| self.is_unavailable(pod)))
            .count();
        let mut budget = max_unavailable.saturating_sub(unavailable);
        let partition = usize::try_from(self.set.partition()).unwrap_or(0);
        for (_, pod) in replicas.iter().skip(partition).rev() {
            let Some(pod) = pod else { continue };
            if identity::revision(pod) == self.revisions.update.metadata.name
                || pod.metadata.is_deleting()
            {
                continue;
            }
            // A parallel set replaces unavailable pods at once, which does no harm.
            let is_free = !self.set.is_ordered() && self.is_unavailable(pod);
            if !is_free {
                if budget == 0 {
                    continue;
                }
                budget -= 1;
            }
            self.delete_pod(&pod.metadata).await?;
        }
        Ok(())
    }

    fn is_available(&self, pod: &PodView) -> bool {
        pod.status.is_available(self.set.spec.min_ready_seconds, &self.cx.clock)
    }

    fn is_unavailable(&self, pod: &PodView) -> bool {
        !self.is_available(pod) || pod.metadata.is_deleting()
    }
}
