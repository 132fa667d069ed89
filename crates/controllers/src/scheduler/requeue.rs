//! [`ClusterEvents`]: changes of the cluster since the last decision, and which unschedulable pods
//! they may help.
//!
//! Upstream: the queueing hints of each plugin

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::cluster_cache::{ClusterCache, NodeId};
use super::filter::node_local;
use super::pod_info::PodTraits;
use super::queue::{QueuedPod, SchedulingQueue};
use super::rejection::Plugin;

/// See the [module documentation](self). Its size is bounded by the numbers of nodes and of traits.
#[derive(Debug, Default)]
pub(crate) struct ClusterEvents {
    /// Nodes that were added or changed.
    pub changed_nodes: BTreeSet<NodeId>,
    /// Nodes from which a pod was removed.
    pub freed_nodes: BTreeSet<NodeId>,
    pub is_node_removed: bool,
    /// The traits of pods that were bound or changed.
    assigned: HashMap<usize, Arc<PodTraits>>,
    /// The traits of pods that were removed or changed.
    removed: HashMap<usize, Arc<PodTraits>>,
    /// Claims, volumes or storage classes have changed.
    pub are_volumes_changed: bool,
    /// The labels of namespaces have changed.
    pub are_namespaces_changed: bool,
}

impl ClusterEvents {
    /// A pod was bound or has other traits.
    pub(crate) fn add_assigned(&mut self, traits: &Arc<PodTraits>) {
        self.assigned.entry(Arc::as_ptr(traits).addr()).or_insert_with(|| Arc::clone(traits));
    }

    /// A pod was removed from a node, or has other traits.
    pub(crate) fn add_removed(&mut self, traits: &Arc<PodTraits>, node: NodeId) {
        self.freed_nodes.insert(node);
        self.removed.entry(Arc::as_ptr(traits).addr()).or_insert_with(|| Arc::clone(traits));
    }

    fn is_empty(&self) -> bool {
        self.changed_nodes.is_empty()
            && self.freed_nodes.is_empty()
            && self.assigned.is_empty()
            && self.removed.is_empty()
            && !self.is_node_removed
            && !self.are_volumes_changed
            && !self.are_namespaces_changed
    }

    /// The uids of the unschedulable pods that may fit on a node now. Pods of one template are
    /// tested once.
    pub(crate) fn helped_pods(
        &self,
        cache: &ClusterCache,
        queue: &SchedulingQueue,
    ) -> Vec<Arc<str>> {
        if self.is_empty() {
            return Vec::new();
        }
        let classes = queue.unschedulable().classes();
        let helped = classes.filter(|(pod, _)| self.may_help(cache, pod));
        helped.flat_map(|(_, uids)| uids.iter().cloned()).collect()
    }

    fn may_help(&self, cache: &ClusterCache, pod: &QueuedPod) -> bool {
        let (traits, by) = (&*pod.info.traits, pod.rejected_by);
        if by.is_empty() {
            return true;
        }
        if by.contains(Plugin::TooManyConditions) {
            return false;
        }
        let is_spread = by.contains(Plugin::PodTopologySpread);
        let is_affine = by.contains(Plugin::InterPodAffinity);
        let mut changed = self.changed_nodes.iter().map(|id| cache.node(*id));
        if changed.any(|node| {
            is_spread || node.exists && node_local::fits_empty_node(traits, &node.object)
        }) {
            return true;
        }
        let lacks_room = by.contains_any(&[Plugin::NodeResourcesFit, Plugin::NodePorts]);
        let mut freed = self.freed_nodes.iter().map(|id| cache.node(*id));
        if lacks_room && freed.any(|it| it.exists && node_local::filter(traits, it).is_ok()) {
            return true;
        }
        if self.is_node_removed && is_spread || self.are_namespaces_changed && is_affine {
            return true;
        }
        let volumes = [Plugin::VolumeBinding, Plugin::VolumeZone, Plugin::VolumeRestrictions];
        if self.are_volumes_changed && by.contains_any(&volumes) {
            return true;
        }
        self.removed.values().any(|other| {
            is_spread && other.namespace == traits.namespace
                || is_affine
                    && (!traits.constraints.anti_affinity.is_empty()
                        || !other.constraints.anti_affinity.is_empty())
                || by.contains(Plugin::VolumeRestrictions) && shares_claim(traits, other)
        }) || self.assigned.values().any(|other| {
            let labels = cache.namespace_labels(&other.namespace);
            is_spread && other.namespace == traits.namespace
                || is_affine
                    && traits.constraints.affinity.iter().any(|term| term.matches(other, labels))
        })
    }
}

fn shares_claim(pod: &PodTraits, other: &PodTraits) -> bool {
    if pod.namespace != other.namespace || other.claims.is_empty() {
        return false;
    }
    let of_other: HashSet<&str> = other.claims.iter().map(|it| it.name.as_str()).collect();
    pod.claims.iter().any(|claim| of_other.contains(claim.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::rejection::Plugins;
    use crate::scheduler::testing::{cluster, pod, pod_json};
    use keel::Timestamp;

    fn may_help(events: &ClusterEvents, spec: &str, plugin: Plugin) -> bool {
        let mut rejected_by = Plugins::default();
        rejected_by.insert(plugin);
        let since = Timestamp::from_seconds(0);
        let info = Arc::new(pod_json(spec));
        let cache = cluster("a; b taint=k:NoSchedule", &[]);
        events.may_help(&cache, &QueuedPod { info, attempts: 1, since, rejected_by })
    }

    const BIG: &str = r#"{"containers":[{"resources":{"requests":{"cpu":"99"}}}]}"#;

    #[test]
    fn a_changed_node_helps_pods_that_could_run_on_it() {
        let on = |node| ClusterEvents { changed_nodes: [node].into(), ..ClusterEvents::default() };
        assert!(may_help(&on(0), "{}", Plugin::NodeResourcesFit));
        assert!(!may_help(&on(0), BIG, Plugin::NodeResourcesFit));
        assert!(!may_help(&on(1), "{}", Plugin::TaintToleration));
    }

    #[test]
    fn a_removed_pod_helps_pods_that_fit_in_its_place() {
        let mut events = ClusterEvents::default();
        events.add_removed(&pod("other", "cpu=1").traits, 0);
        assert!(may_help(&events, "{}", Plugin::NodeResourcesFit));
        assert!(!may_help(&events, BIG, Plugin::NodeResourcesFit));
        assert!(!may_help(&events, "{}", Plugin::TaintToleration));
        assert!(may_help(&events, "{}", Plugin::PodTopologySpread));
    }

    #[test]
    fn nothing_helps_a_pod_with_too_many_conditions() {
        let events = ClusterEvents { changed_nodes: [0].into(), ..ClusterEvents::default() };
        assert!(!may_help(&events, "{}", Plugin::TooManyConditions));
    }

    #[test]
    fn changed_volumes_help_pods_that_wait_for_them() {
        let events = ClusterEvents { are_volumes_changed: true, ..ClusterEvents::default() };
        assert!(may_help(&events, "{}", Plugin::VolumeBinding));
        assert!(!may_help(&events, "{}", Plugin::NodeResourcesFit));
    }
}
