//! Whether a node gives a running pod the other resources that its spec has now.
//!
//! The resources that a pod has are those in the statuses of its containers. A change that the node
//! accepts takes no time, so that there is no condition `PodResizeInProgress`.
//!
//! Upstream: `kubelet/allocation/allocation_manager.go`.

use std::time::Duration;

use serde::Serialize;

use crate::node_ledger::NodeLedger;
use crate::node_view::NodeView;
use crate::pod_resources::{self, Amounts, ResourceRequirements};
use crate::pod_view::{Container, ContainerStatus, PodView};
use runtime::ObjectKey;
use runtime::informer::Indexer;

/// The time after which a resize is tried again that needs what other pods have.
const RETRY: Duration = Duration::from_secs(10);

/// What becomes of the resources of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Resize {
    /// Its containers have those of the spec.
    #[default]
    NotNeeded,
    /// Its containers get those of the spec.
    Accepted,
    /// Its containers keep those that they have.
    Pending(PendingResize),
}

/// Why a pod keeps its resources, in the words of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingResize {
    /// `Infeasible`, `Deferred`
    pub reason: &'static str,
    /// The sentence to the reason.
    pub message: String,
}

/// Decides about the resources of a pod.
pub(crate) fn decide(
    key: &ObjectKey,
    pod: &PodView,
    node: &NodeView,
    pods: &Indexer,
    ledger: &NodeLedger,
) -> Resize {
    if !is_needed(pod) {
        return Resize::NotNeeded;
    }
    let (requested, allocatable) =
        (pod_resources::requested(pod), Amounts::of(&node.status.allocatable));
    for name in ["memory", "cpu"] {
        let (requested, capacity) = (requested.get(name), allocatable.get(name));
        if let (Some(requested), Some(capacity)) = (requested, capacity)
            && requested > capacity
        {
            let message = format!(
                "Node didn't have enough capacity: {name}, requested: {requested}, capacity: {capacity}"
            );
            return Resize::Pending(PendingResize { reason: "Infeasible", message });
        }
    }
    match ledger.accept(key, pod, &allocatable, pods) {
        Ok(()) => Resize::Accepted,
        Err(insufficient) => {
            let message = insufficient.message();
            Resize::Pending(PendingResize { reason: "Deferred", message })
        }
    }
}

impl Resize {
    /// The time after which it may have another result.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let is_deferred = matches!(self, Self::Pending(pending) if pending.reason == "Deferred");
        is_deferred.then_some(RETRY)
    }
}

/// Whether a container has other resources than its spec says.
fn is_needed(pod: &PodView) -> bool {
    let (spec, status) = (&pod.spec, &pod.status);
    let differs = |containers: &[Container], statuses: &[ContainerStatus]| {
        statuses.iter().any(|status| {
            let container = containers.iter().find(|it| it.name == status.name);
            let own = container.zip(status.resources.as_ref());
            own.is_some_and(|(container, resources)| container.resources != *resources)
        })
    };
    differs(&spec.containers, &status.container_statuses)
        || differs(&spec.init_containers, &status.init_container_statuses)
}

/// Whether a running container must restart to get the resources of its spec.
pub(crate) fn needs_restart(container: &Container, present: &ResourceRequirements) -> bool {
    let wanted = &container.resources;
    let mut policies = container.resize_policy.iter();
    policies.any(|policy| {
        let name = &policy.resource_name;
        policy.restart_policy == "RestartContainer"
            && (wanted.limits.get(name) != present.limits.get(name)
                || wanted.requests.get(name) != present.requests.get(name))
    })
}

/// The resources in the spec of a pod, as events tell them.
pub(crate) fn summary(pod: &PodView, error: &str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Summary<'a> {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        init_containers: Vec<Allocation<'a>>,
        containers: Vec<Allocation<'a>>,
        generation: i64,
        #[serde(skip_serializing_if = "str::is_empty")]
        error: &'a str,
    }
    #[derive(Serialize)]
    struct Allocation<'a> {
        name: &'a str,
        resources: &'a ResourceRequirements,
    }
    fn all(containers: &[Container]) -> Vec<Allocation<'_>> {
        let all = containers.iter();
        all.map(|it| Allocation { name: &it.name, resources: &it.resources }).collect()
    }
    let summary = Summary {
        init_containers: all(&pod.spec.init_containers),
        containers: all(&pod.spec.containers),
        generation: pod.metadata.generation,
        error,
    };
    serde_json::to_string(&summary).unwrap_or_default()
}
