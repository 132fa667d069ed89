//! Rollouts: pods of old ReplicaSets are replaced by those of the new one, gradually or all at once.
//!
//! Upstream: `deployment/rolling.go`, `recreate.go`

use std::sync::Arc;

use super::Context;
use super::proportions;
use super::replica_sets::ReplicaSets;
use super::view::{DESIRED_REPLICAS, DeploymentView, OwnedReplicaSetView};
use crate::adoption;
use runtime::Failure;

/// Whether the Deployment was scaled since its sets were.
pub(super) fn was_scaled(deployment: &DeploymentView, sets: &ReplicaSets) -> bool {
    let replicas = i64::from(deployment.replicas());
    let is_other = |set: &OwnedReplicaSetView| {
        set.annotation(DESIRED_REPLICAS).is_some_and(|it| it != replicas)
    };
    sets.active().into_iter().any(|set| is_other(set))
}

impl Context {
    /// Scales the sets of a Deployment that was scaled or is paused, without a rollout.
    pub(super) async fn scale_all(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
    ) -> Result<(), Failure> {
        let active = sets.active();
        if active.len() <= 1 {
            let latest = sets.new_set().or_else(|| sets.old().next_back());
            let only = active.first().copied().or(latest);
            if let Some(set) = only {
                self.scale(deployment, set, deployment.replicas()).await?;
            }
            return Ok(());
        }
        if sets.new_set().is_some_and(|set| is_saturated(deployment, set)) {
            for set in sets.active_old() {
                self.scale(deployment, set, 0).await?;
            }
            return Ok(());
        }
        if deployment.is_rolling() {
            for (set, size) in proportions::scaled(deployment, &active) {
                self.scale(deployment, set, size).await?;
            }
        }
        Ok(())
    }

    /// Makes one step of a rolling update. Returns whether a set was scaled.
    pub(super) async fn roll(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
    ) -> Result<bool, Failure> {
        let Some(new) = sets.new_set() else { return Ok(false) };
        let wanted = deployment.replicas();
        if new.replicas() != wanted {
            let size = if new.replicas() > wanted { wanted } else { sets.size_of_new(deployment) };
            if size != new.replicas() {
                return self.scale(deployment, new, size).await;
            }
        }
        self.shrink_old_sets(deployment, sets, new).await
    }

    /// Removes pods of old sets: first those that are not available anyway, and then as many as the
    /// required availability allows.
    async fn shrink_old_sets(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
        new: &OwnedReplicaSetView,
    ) -> Result<bool, Failure> {
        let old = sets.active_old();
        let min_available = i64::from(deployment.replicas() - deployment.max_unavailable());
        let new_unavailable = i64::from(new.replicas() - new.status.available_replicas);
        let max_removed = sets.total() - min_available - new_unavailable;
        if old.is_empty() || max_removed <= 0 {
            return Ok(false);
        }
        let mut sizes: Vec<i64> = old.iter().map(|set| i64::from(set.replicas())).collect();
        let mut left = max_removed;
        for (set, size) in old.iter().zip(&mut sizes) {
            let unhealthy = (*size - i64::from(set.status.available_replicas)).max(0);
            let removed = unhealthy.min(left);
            *size -= removed;
            left -= removed;
        }
        // The status of a set that was just scaled down still counts the pods that it will delete.
        let remaining = |set: &Arc<OwnedReplicaSetView>| {
            i64::from(set.status.available_replicas.min(set.replicas()))
        };
        let available: i64 = sets.all.iter().map(remaining).sum();
        let mut surplus = (available - min_available).max(0);
        for size in &mut sizes {
            let removed = surplus.min(*size);
            *size -= removed;
            surplus -= removed;
        }
        let mut is_scaled = false;
        for (set, size) in old.into_iter().zip(sizes) {
            let size = i32::try_from(size).unwrap_or(i32::MAX);
            if size != set.replicas() {
                is_scaled |= self.scale(deployment, set, size).await?;
            }
        }
        Ok(is_scaled)
    }

    /// Makes one step of a recreation: all old pods end before the new set is created or grows.
    /// Returns whether the new set may have pods.
    pub(super) async fn end_old_pods(
        &self,
        deployment: &DeploymentView,
        sets: &ReplicaSets,
    ) -> Result<bool, Failure> {
        let mut is_scaled = false;
        for set in sets.active_old() {
            is_scaled |= self.scale(deployment, set, 0).await?;
        }
        Ok(!is_scaled && !self.has_old_pods(sets)?)
    }

    fn has_old_pods(&self, sets: &ReplicaSets) -> Result<bool, Failure> {
        for set in sets.old() {
            let pods = adoption::controlled_by(&self.pods, &set.metadata)?;
            if set.status.replicas > 0 || pods.iter().any(|pod| !pod.is_finished()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether the new set has all pods of the Deployment.
fn is_saturated(deployment: &DeploymentView, set: &OwnedReplicaSetView) -> bool {
    let wanted = deployment.replicas();
    set.replicas() == wanted
        && set.annotation(DESIRED_REPLICAS) == Some(i64::from(wanted))
        && set.status.available_replicas == wanted
}
