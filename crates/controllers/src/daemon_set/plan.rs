//! [`Plan`]: the pods to create and to delete, so that each eligible node has one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::PodsByNode;
use super::failed_pod_backoff::FailedPodBackoff;
use super::placement::{Eligibility, Placement};
use super::view::{DaemonSetView, NodeView, PodView};
use keel::Clock;
use runtime::recorder::EventType;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The nodes that get a pod.
    pub create_on: Vec<String>,
    /// The pods to delete.
    pub delete: Vec<Arc<PodView>>,
    /// The events about these pods.
    pub events: Vec<PlannedEvent>,
    /// The time after which another failed pod can be deleted.
    pub retry_after: Option<Duration>,
}

/// An event about a pod.
#[derive(Debug)]
pub(super) struct PlannedEvent {
    /// Normal or Warning.
    pub event_type: EventType,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// A set, its nodes and its pods.
pub(super) struct Observed<'a> {
    /// The set.
    pub set: &'a DaemonSetView,
    /// The hash of the revision that pods should have.
    pub hash: &'a str,
    /// The placement of the pods.
    pub placement: &'a Placement,
    /// All nodes.
    pub nodes: &'a [Arc<NodeView>],
    /// The pods of the set.
    pub pods: PodsByNode,
    /// The plane's clock.
    pub clock: &'a Clock,
}

/// The pods of a set by their nodes, without those that have ended and are being deleted.
pub(super) fn pods_by_node(pods: &[Arc<PodView>]) -> PodsByNode {
    let mut by_node = PodsByNode::new();
    for pod in pods {
        if pod.status.is_finished() && pod.metadata.is_deleting() {
            continue;
        }
        if let Some(node) = pod.node() {
            by_node.entry(node.to_owned()).or_default().push(Arc::clone(pod));
        }
    }
    for pods in by_node.values_mut() {
        // Bound pods first, then the oldest.
        pods.sort_by_cached_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|it| it.0);
            (pod.spec.node_name.is_empty(), created, pod.metadata.name.clone())
        });
    }
    by_node
}

impl Observed<'_> {
    /// The plan for all nodes, without regard to updates.
    ///
    /// Upstream: `manage`
    pub(super) fn plan_nodes(&self, backoff: &FailedPodBackoff) -> Plan {
        let mut plan = Plan::default();
        for node in self.nodes {
            self.plan_node(node, backoff, &mut plan);
        }
        // Pods that wait for a node that was deleted.
        let nodes: BTreeSet<&str> = self.nodes.iter().map(|it| it.metadata.name.as_str()).collect();
        let gone = self.pods.iter().filter(|(node, _)| !nodes.contains(node.as_str()));
        let waiting = gone.flat_map(|(_, pods)| pods).filter(|it| it.spec.node_name.is_empty());
        plan.delete.extend(waiting.filter(|it| !it.metadata.is_deleting()).cloned());
        plan
    }

    fn plan_node(&self, node: &NodeView, backoff: &FailedPodBackoff, plan: &mut Plan) {
        let name = &node.metadata.name;
        let eligibility = self.placement.eligibility(node);
        let Some(pods) = self.pods.get(name) else {
            if eligibility == Eligibility::Run {
                plan.create_on.push(name.clone());
            }
            return;
        };
        let alive = pods.iter().filter(|pod| !pod.metadata.is_deleting());
        if eligibility == Eligibility::Leave {
            plan.delete.extend(alive.cloned());
            return;
        }
        let mut running = Vec::new();
        for pod in alive {
            if pod.status.is_finished() {
                self.plan_finished(pod, name, backoff, plan);
            } else {
                running.push(pod);
            }
        }
        if !self.set.allows_surge() {
            plan.delete.extend(running.into_iter().skip(1).cloned());
        } else if running.is_empty() && eligibility == Eligibility::Run {
            // A pod that is being deleted does not count.
            plan.create_on.push(name.clone());
        } else if running.len() > 1 {
            self.plan_surge(&running, plan);
        }
    }

    /// Deletes a pod that has ended, a failed one after its back-off.
    fn plan_finished(
        &self,
        pod: &Arc<PodView>,
        node: &str,
        backoff: &FailedPodBackoff,
        plan: &mut Plan,
    ) {
        let has_failed = pod.status.phase == "Failed";
        if has_failed {
            let generation = self.set.status.observed_generation;
            if let Some(delay) = backoff.delay(&self.set.metadata.uid, generation, node) {
                plan.retry_after = Some(plan.retry_after.map_or(delay, |it| it.min(delay)));
                return;
            }
        }
        let (event_type, reason, state, action) = if has_failed {
            (EventType::Warning, "FailedDaemonPod", "failed", "kill")
        } else {
            (EventType::Normal, "SucceededDaemonPod", "succeeded", "delete")
        };
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let message = format!(
            "Found {state} daemon pod {namespace}/{name} on node {node}, will try to {action} it"
        );
        plan.events.push(PlannedEvent { event_type, reason, message });
        plan.delete.push(Arc::clone(pod));
    }

    /// Keeps the oldest pod of the old template and that of the new one, until the new one is
    /// available or the old one is not ready.
    fn plan_surge(&self, running: &[&Arc<PodView>], plan: &mut Plan) {
        let (mut new, mut old) = (None, None);
        for pod in running {
            let kept = if self.set.is_updated(pod, self.hash) { &mut new } else { &mut old };
            match kept {
                None => *kept = Some(*pod),
                Some(_) => plan.delete.push(Arc::clone(pod)),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!old.status.is_ready() || self.is_available(new))
        {
            plan.delete.push(Arc::clone(old));
        }
    }

    /// Whether a pod has been ready for `minReadySeconds`.
    pub(super) fn is_available(&self, pod: &PodView) -> bool {
        pod.status.is_available(self.set.spec.min_ready_seconds, self.clock)
    }

    /// Whether a pod should run on the node of this name.
    pub(super) fn should_run_on(&self, name: &str) -> bool {
        let node = self.nodes.binary_search_by(|node| node.metadata.name.as_str().cmp(name));
        node.is_ok_and(|at| self.placement.eligibility(&self.nodes[at]) == Eligibility::Run)
    }
}
