//! [`Rollout`]: one step of a StatefulSet towards its spec.
//!
//! ```text
//! 1. each desired ordinal, upwards:   delete an ended pod, create a missing one
//! 2. each pod beyond, downwards:      delete
//! 3. each outdated pod, downwards:    delete, at most maxUnavailable at a time
//! ```
//!
//! An ordered set ends the step when a pod was created or deleted, or is not available. The next step
//! follows the next change of a pod. The work of a step depends on the pods that exist and not on the
//! desired number, which may be two billion: at most a burst of pods is created.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pod_writer::SetError;
use super::view::{PodView, StatefulSetView};
use super::{Context, Revisions, identity};
use crate::adoption;
use crate::pod_control::PodOwner;
use crate::slow_start;

/// See the [module documentation](self).
pub(super) struct Rollout<'a> {
    /// The context of the controller.
    pub cx: &'a Context,
    /// The set.
    pub set: &'a StatefulSetView,
    /// The set as the owner of its pods.
    pub owner: &'a PodOwner<'a>,
    /// The revisions of its pods.
    pub revisions: &'a Revisions,
}

/// The largest number of pods that one step creates.
const BURST: usize = 500;

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
        let replicas = self.replicas(pods)?;
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
            let are_complete = replicas.iter().all(|(_, pod)| pod.is_some());
            let size = if are_complete { 0 } else { self.set.spec.template.to_string().len() };
            slow_start::run(replicas.len(), size, |at| self.sync_replica(&replicas[at])).await?;
            slow_start::run(condemned.len(), 0, |at| self.delete_condemned(&condemned[at])).await?;
        }
        if self.set.spec.update_strategy.type_ != "RollingUpdate" {
            return Ok(());
        }
        self.update_pods().await
    }

    /// The desired ordinals with their pods: those that exist, and the first that can be created.
    fn replicas(&self, pods: &[Arc<PodView>]) -> Result<Vec<Replica>, SetError> {
        let present = self.present(pods);
        let mut missing = self.set.ordinals().filter(|it| !present.contains_key(it));
        let mut replicas = Vec::with_capacity(present.len());
        if self.set.is_ordered() {
            // An ordered set waits at the first one.
            replicas.extend(missing.next().map(|ordinal| (ordinal, None)));
        } else {
            while replicas.len() < BURST
                && let Some(ordinal) = missing.next()
            {
                // There are at most as many as claims exist.
                if !self.has_stale_claim(ordinal)? {
                    replicas.push((ordinal, None));
                }
            }
        }
        replicas.extend(present.into_iter().map(|(ordinal, pod)| (ordinal, Some(pod))));
        replicas.sort_by_key(|(ordinal, _)| *ordinal);
        Ok(replicas)
    }

    /// The pods with a desired ordinal.
    fn present(&self, pods: &[Arc<PodView>]) -> BTreeMap<i32, Arc<PodView>> {
        let ordinals =
            pods.iter().filter_map(|pod| Some((identity::ordinal(pod)?, Arc::clone(pod))));
        ordinals.filter(|(ordinal, _)| self.set.has_ordinal(*ordinal)).collect()
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
        let present = self.present(&adoption::controlled_by(&self.cx.pods, &self.set.metadata)?);
        let missing = self.set.ordinals().len().saturating_sub(present.len());
        let unavailable = present.values().filter(|pod| self.is_unavailable(pod)).count();
        let mut budget = max_unavailable.saturating_sub(missing).saturating_sub(unavailable);
        let first_updated = self.set.start().saturating_add(self.set.partition().max(0));
        for (_, pod) in present.range(first_updated..).rev() {
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
