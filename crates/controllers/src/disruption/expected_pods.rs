//! [`PodControllers`]: the number of pods that should exist, from the scales of their controllers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;

use super::scale_memory::{Order, ScaleMemory};
use crate::controller_context::ControllerContext;
use crate::int_or_string::{self, Rounding};
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_view::PodView;
use crate::scale_client::ScaleError;
use crate::slow_start::MAX_CONCURRENT;
use runtime::Lister;

/// The number of pods that should exist, and that should be healthy.
#[derive(Default)]
pub(super) struct ExpectedPods {
    pub(super) count: i32,
    pub(super) desired_healthy: i32,
    /// Whether some pods, which are not counted, have no controller.
    pub(super) has_unmanaged: bool,
    /// The number of controllers.
    pub(super) controllers: usize,
    /// The time after which the pods must be counted again, although nothing has changed.
    pub(super) recheck_in: Option<Duration>,
}

/// The reason why pods cannot be counted.
pub(super) struct CountError {
    /// The message for the user.
    pub(super) message: String,
    /// Whether a retry may succeed, although nothing has changed.
    pub(super) is_transient: bool,
    /// The time after which the reason must be checked again.
    pub(super) recheck_in: Option<Duration>,
}

impl From<String> for CountError {
    fn from(message: String) -> Self {
        Self { message, is_transient: false, recheck_in: None }
    }
}

impl From<ScaleError> for CountError {
    fn from(error: ScaleError) -> Self {
        let is_transient = matches!(error, ScaleError::Discovery(_) | ScaleError::Request(_));
        Self { message: error.to_string(), is_transient, recheck_in: None }
    }
}

/// Finds the scales of the controllers of pods.
pub(super) struct PodControllers {
    replication_controllers: Lister<ScaledView>,
    replica_sets: Lister<ScaledView>,
    deployments: Lister<ScaledView>,
    stateful_sets: Lister<ScaledView>,
    scales: ScaleMemory,
}

/// A part of a kind with replicas.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaledView {
    metadata: Metadata,
    spec: ScaledSpecView,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaledSpecView {
    replicas: Option<i32>,
}

/// The uid of a controller and its scale.
struct Scaled {
    uid: String,
    scale: i32,
    /// The time after which the scale must be read again.
    recheck_in: Option<Duration>,
}

impl PodControllers {
    pub(super) fn new(cx: &ControllerContext, order: Order) -> Self {
        Self {
            replication_controllers: cx.manager.informer::<ReplicationController>().lister(),
            replica_sets: cx.manager.informer::<ReplicaSet>().lister(),
            deployments: cx.manager.informer::<Deployment>().lister(),
            stateful_sets: cx.manager.informer::<StatefulSet>().lister(),
            scales: ScaleMemory::new(cx, order),
        }
    }

    /// The expected pods of a budget that selects `pods`, for a count after this change of them.
    pub(super) async fn expected_pods(
        &self,
        spec: Option<&PodDisruptionBudgetSpec>,
        pods: &[Arc<PodView>],
        change: u64,
    ) -> Result<ExpectedPods, CountError> {
        let Some(spec) = spec else { return Ok(ExpectedPods::default()) };
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(max_unavailable), _) => {
                let expected = self.total_scale(pods, change).await?;
                let desired = expected.count - scaled(max_unavailable, expected.count)?;
                Ok(ExpectedPods { desired_healthy: desired.max(0), ..expected })
            }
            (None, Some(IntOrString::Int(desired_healthy))) => {
                let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
                let desired_healthy = *desired_healthy;
                Ok(ExpectedPods { count, desired_healthy, ..ExpectedPods::default() })
            }
            (None, Some(min_available)) => {
                let expected = self.total_scale(pods, change).await?;
                let desired_healthy = scaled(min_available, expected.count)?;
                Ok(ExpectedPods { desired_healthy, ..expected })
            }
            (None, None) => Ok(ExpectedPods::default()),
        }
    }

    /// The sum of the scales of all controllers. No number of healthy pods is desired.
    async fn total_scale(
        &self,
        pods: &[Arc<PodView>],
        change: u64,
    ) -> Result<ExpectedPods, CountError> {
        let mut total = ExpectedPods::default();
        let (mut known_owners, mut requests) = (HashSet::new(), Vec::new());
        for pod in pods {
            match pod.metadata.controller() {
                None => total.has_unmanaged = true,
                Some(owner) if known_owners.insert(&owner.uid) => {
                    requests.push(self.scale_of_pod(owner, &pod.metadata, change));
                }
                Some(_) => {}
            }
        }
        total.controllers = requests.len();
        let mut found = stream::iter(requests).buffered(MAX_CONCURRENT);
        // Several ReplicaSets may belong to one Deployment.
        let mut scales = HashMap::new();
        while let Some(scaled) = found.next().await {
            let Scaled { uid, scale, recheck_in } = scaled?;
            scales.insert(uid, scale);
            // Those that were read later are still remembered at the end, as read after the change.
            total.recheck_in = total.recheck_in.max(recheck_in);
        }
        total.count = scales.into_values().fold(0, i32::saturating_add);
        Ok(total)
    }

    /// The scale of the controller of a pod, which must exist.
    async fn scale_of_pod(
        &self,
        owner: &OwnerReference,
        pod: &Metadata,
        change: u64,
    ) -> Result<Scaled, CountError> {
        let missing = |recheck_in| CountError {
            message: format!("found no controllers for pod {:?}", pod.name),
            is_transient: false,
            recheck_in,
        };
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let namespace = &pod.namespace;
        let cached = match (group, owner.kind.as_str()) {
            ("", "ReplicationController") => &self.replication_controllers,
            ("apps", "StatefulSet") => &self.stateful_sets,
            ("apps", "Deployment") => &self.deployments,
            ("apps" | "extensions", "ReplicaSet") => {
                let scaled = self.scale_of_replica_set(owner, namespace);
                return scaled.ok_or_else(|| missing(None));
            }
            _ => {
                let known = self.scales.get(owner, namespace, change).await?;
                let recheck_in = known.recheck_in;
                let same = known.scale.filter(|(uid, _)| uid.as_ref() == Some(&owner.uid));
                let scaled =
                    same.map(|(_, scale)| Scaled { uid: owner.uid.clone(), scale, recheck_in });
                return scaled.ok_or_else(|| missing(recheck_in));
            }
        };
        find(cached, owner, namespace).map(|found| found.scale()).ok_or_else(|| missing(None))
    }

    fn scale_of_replica_set(&self, owner: &OwnerReference, namespace: &str) -> Option<Scaled> {
        let replica_set = find(&self.replica_sets, owner, namespace)?;
        match replica_set.metadata.controller() {
            Some(owner) if owner.kind == "Deployment" => {
                find(&self.deployments, owner, namespace).map(|found| found.scale())
            }
            _ => Some(replica_set.scale()),
        }
    }
}

impl ScaledView {
    fn scale(&self) -> Scaled {
        let (uid, scale) = (self.metadata.uid.clone(), self.spec.replicas.unwrap_or(1));
        Scaled { uid, scale, recheck_in: None }
    }
}

/// The object that an owner reference names, if it still has the same uid.
fn find(
    objects: &Lister<ScaledView>,
    owner: &OwnerReference,
    namespace: &str,
) -> Option<Arc<ScaledView>> {
    let found = objects.shared(namespace, &owner.name).ok().flatten()?;
    (found.metadata.uid == owner.uid).then_some(found)
}

/// A number, or a percentage of `total` that is rounded up.
fn scaled(value: &IntOrString, total: i32) -> Result<i32, String> {
    let total = usize::try_from(total).unwrap_or(0);
    let scaled = int_or_string::scaled(value, total, Rounding::Up)?;
    Ok(i32::try_from(scaled).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up() {
        let scaled = |text: &str, total| scaled(&IntOrString::String(text.to_owned()), total);
        assert_eq!(scaled("50%", 5), Ok(3));
        assert_eq!(scaled("100%", 5), Ok(5));
        assert_eq!(scaled("0%", 5), Ok(0));
        assert!(scaled("many", 5).is_err());
    }
}
