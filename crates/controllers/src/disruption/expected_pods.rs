//! [`PodControllers`]: the number of pods that should exist, from the scales of their controllers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;

use crate::controller_context::ControllerContext;
use crate::int_or_string::{self, Rounding};
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_view::PodView;
use crate::scale_client::{ScaleClient, ScaleError};
use crate::slow_start::MAX_CONCURRENT;
use runtime::Lister;

/// The number of pods that should exist, and that should be healthy.
pub(super) struct ExpectedPods {
    pub(super) count: i32,
    pub(super) desired_healthy: i32,
    /// Whether some pods, which are not counted, have no controller.
    pub(super) has_unmanaged: bool,
}

/// The reason why pods cannot be counted.
pub(super) struct CountError {
    /// The message for the user.
    pub(super) message: String,
    /// Whether a retry may succeed, although nothing has changed.
    pub(super) is_transient: bool,
}

impl From<String> for CountError {
    fn from(message: String) -> Self {
        Self { message, is_transient: false }
    }
}

impl From<ScaleError> for CountError {
    fn from(error: ScaleError) -> Self {
        let is_transient = matches!(error, ScaleError::Discovery(_) | ScaleError::Request(_));
        Self { message: error.to_string(), is_transient }
    }
}

/// Finds the scales of the controllers of pods.
pub(super) struct PodControllers {
    replication_controllers: Lister<ScaledView>,
    replica_sets: Lister<ScaledView>,
    deployments: Lister<ScaledView>,
    stateful_sets: Lister<ScaledView>,
    scales: ScaleClient,
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
type Scaled = (String, i32);

impl PodControllers {
    pub(super) fn new(cx: &ControllerContext) -> Self {
        Self {
            replication_controllers: cx.manager.informer::<ReplicationController>().lister(),
            replica_sets: cx.manager.informer::<ReplicaSet>().lister(),
            deployments: cx.manager.informer::<Deployment>().lister(),
            stateful_sets: cx.manager.informer::<StatefulSet>().lister(),
            scales: ScaleClient::new(cx.client.clone(), cx.reader.clone(), cx.clock()),
        }
    }

    /// The expected pods of a budget that selects `pods`.
    pub(super) async fn expected_pods(
        &self,
        spec: Option<&PodDisruptionBudgetSpec>,
        pods: &[Arc<PodView>],
    ) -> Result<ExpectedPods, CountError> {
        let none = ExpectedPods { count: 0, desired_healthy: 0, has_unmanaged: false };
        let Some(spec) = spec else { return Ok(none) };
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(max_unavailable), _) => {
                let (count, has_unmanaged) = self.total_scale(pods).await?;
                let desired_healthy = (count - scaled(max_unavailable, count)?).max(0);
                Ok(ExpectedPods { count, desired_healthy, has_unmanaged })
            }
            (None, Some(IntOrString::Int(desired_healthy))) => {
                let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
                Ok(ExpectedPods { count, desired_healthy: *desired_healthy, ..none })
            }
            (None, Some(min_available)) => {
                let (count, has_unmanaged) = self.total_scale(pods).await?;
                let desired_healthy = scaled(min_available, count)?;
                Ok(ExpectedPods { count, desired_healthy, has_unmanaged })
            }
            (None, None) => Ok(none),
        }
    }

    /// The sum of the scales of all controllers, and whether some pods have none.
    async fn total_scale(&self, pods: &[Arc<PodView>]) -> Result<(i32, bool), CountError> {
        let mut has_unmanaged = false;
        let (mut known_owners, mut requests) = (HashSet::new(), Vec::new());
        for pod in pods {
            match pod.metadata.controller() {
                None => has_unmanaged = true,
                Some(owner) if known_owners.insert(&owner.uid) => {
                    requests.push(self.scale_of_pod(owner, &pod.metadata));
                }
                Some(_) => {}
            }
        }
        let mut found = stream::iter(requests).buffered(MAX_CONCURRENT);
        // Several ReplicaSets may belong to one Deployment.
        let mut scales = HashMap::new();
        while let Some(scaled) = found.next().await {
            let (uid, scale) = scaled?;
            scales.insert(uid, scale);
        }
        Ok((scales.into_values().fold(0, i32::saturating_add), has_unmanaged))
    }

    /// The scale of the controller of a pod, which must exist.
    async fn scale_of_pod(
        &self,
        owner: &OwnerReference,
        pod: &Metadata,
    ) -> Result<Scaled, CountError> {
        let scaled = self.scale_of(owner, &pod.namespace).await?;
        scaled.ok_or_else(|| format!("found no controllers for pod {:?}", pod.name).into())
    }

    /// The scale of the controller of a pod, or of the controller of that.
    async fn scale_of(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Scaled>, CountError> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let cached = match (group, owner.kind.as_str()) {
            ("", "ReplicationController") => &self.replication_controllers,
            ("apps", "StatefulSet") => &self.stateful_sets,
            ("apps" | "extensions", "ReplicaSet") => {
                return Ok(self.scale_of_replica_set(owner, namespace));
            }
            _ => return self.scale_of_other(owner, namespace).await,
        };
        Ok(find(cached, owner, namespace).map(|found| found.scale()))
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

    async fn scale_of_other(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Scaled>, CountError> {
        let found = self.scales.get(&owner.api_version, &owner.kind, namespace, &owner.name).await;
        let Some(found) = found? else { return Ok(None) };
        let uid = found.scale.metadata.uid.filter(|uid| *uid == owner.uid);
        let replicas = found.scale.spec.and_then(|spec| spec.replicas).unwrap_or_default();
        Ok(uid.map(|uid| (uid, replicas)))
    }
}

impl ScaledView {
    fn scale(&self) -> Scaled {
        (self.metadata.uid.clone(), self.spec.replicas.unwrap_or(1))
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
