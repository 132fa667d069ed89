//! The filter `PodTopologySpread`: constraints with `whenUnsatisfiable: DoNotSchedule`.
//!
//! Upstream: plugins/podtopologyspread/filtering.go

use std::collections::HashMap;
use std::sync::Arc;

use super::node_local::{matches_node, tolerates_taints};
use crate::scheduler::cluster_cache::ClusterCache;
use crate::scheduler::constraints::SpreadConstraint;
use crate::scheduler::node_info::{NodeInfo, NodeObject};
use crate::scheduler::pod_info::{PodInfo, PodTraits};
use crate::scheduler::rejection::{Plugin, Rejection};

/// What the filter computes once per decision.
#[derive(Debug, Clone)]
pub(crate) struct SpreadState {
    pod: Arc<PodTraits>,
    constraints: Vec<DomainCounts>,
}

#[derive(Debug, Clone)]
struct DomainCounts {
    constraint: SpreadConstraint,
    /// The number of selected pods in each domain.
    pods: HashMap<Arc<str>, i64>,
    /// The smallest of these numbers.
    fewest: i64,
    selects_itself: bool,
}

impl DomainCounts {
    fn update_fewest(&mut self) {
        let fewest = self.pods.values().copied().min().unwrap_or_default();
        let has_enough_domains = i64::try_from(self.pods.len())
            .is_ok_and(|domains| domains >= self.constraint.min_domains);
        self.fewest = if has_enough_domains { fewest } else { 0 };
    }
}

impl SpreadState {
    /// `None` if the pod has no hard constraint.
    pub(super) fn prepare(cache: &ClusterCache, pod: &PodInfo) -> Option<Self> {
        let traits = &pod.traits;
        let hard = traits.constraints.spread.iter().filter(|constraint| constraint.is_hard);
        let mut constraints: Vec<DomainCounts> = hard
            .map(|constraint| DomainCounts {
                constraint: constraint.clone(),
                pods: HashMap::new(),
                fewest: 0,
                selects_itself: constraint.selects(&traits.labels),
            })
            .collect();
        if constraints.is_empty() {
            return None;
        }
        let selected: Vec<Vec<i64>> = constraints
            .iter()
            .map(|counts| selected_pods(cache, traits, &counts.constraint))
            .collect();
        for id in cache.node_order() {
            let node = cache.node(*id);
            let has_key = |it: &DomainCounts| node.label(&it.constraint.topology_key).is_some();
            if !constraints.iter().all(has_key) {
                continue;
            }
            for (counts, selected) in constraints.iter_mut().zip(&selected) {
                if let Some(domain) = node.label(&counts.constraint.topology_key)
                    && includes_node(&counts.constraint, traits, &node.object)
                {
                    *counts.pods.entry(Arc::clone(domain)).or_default() += selected[*id];
                }
            }
        }
        constraints.iter_mut().for_each(DomainCounts::update_fewest);
        Some(Self { pod: Arc::clone(traits), constraints })
    }

    pub(super) fn filter(&self, node: &NodeInfo) -> Result<(), Rejection> {
        let plugin = Plugin::PodTopologySpread;
        for counts in &self.constraints {
            let Some(domain) = node.label(&counts.constraint.topology_key) else {
                let reason = "node(s) didn't match pod topology spread constraints \
                              (missing required label)";
                return Err(Rejection::unresolvable(plugin, reason));
            };
            let pods = counts.pods.get(domain).copied().unwrap_or_default();
            let skew = pods + i64::from(counts.selects_itself) - counts.fewest;
            if skew > counts.constraint.max_skew {
                let reason = "node(s) didn't match pod topology spread constraints";
                return Err(Rejection::new(plugin, reason));
            }
        }
        Ok(())
    }

    pub(super) fn change(&mut self, other: &PodInfo, node: &NodeInfo, by: i64) {
        if other.traits.namespace != self.pod.namespace || other.is_deleting {
            return;
        }
        let has_key = |it: &DomainCounts| node.label(&it.constraint.topology_key).is_some();
        if !self.constraints.iter().all(has_key) {
            return;
        }
        for counts in &mut self.constraints {
            if let Some(domain) = node.label(&counts.constraint.topology_key)
                && counts.constraint.selects(&other.traits.labels)
                && includes_node(&counts.constraint, &self.pod, &node.object)
            {
                *counts.pods.entry(Arc::clone(domain)).or_default() += by;
                counts.update_fewest();
            }
        }
    }
}

/// The number of pods on each node, by index, that the constraint counts.
pub(crate) fn selected_pods(
    cache: &ClusterCache,
    pod: &PodTraits,
    constraint: &SpreadConstraint,
) -> Vec<i64> {
    match &constraint.selectors {
        Some(selectors) if constraint.counts_pods() => {
            cache.count_selected(&pod.namespace, selectors)
        }
        _ => vec![0; cache.node_bound()],
    }
}

/// Whether the node counts, by the inclusion policies of the constraint.
pub(crate) fn includes_node(
    constraint: &SpreadConstraint,
    pod: &PodTraits,
    node: &NodeObject,
) -> bool {
    (!constraint.honors_node_affinity || matches_node(pod, node))
        && (!constraint.honors_taints || tolerates_taints(pod, node))
}

#[cfg(test)]
mod tests {
    use crate::scheduler::pod_info::PodInfo;
    use crate::scheduler::testing::{cluster, labeled, reasons};

    const NODES: &str = "a zone=1; b zone=1; c zone=2; d";
    const MISSING: &str =
        "!node(s) didn't match pod topology spread constraints (missing required label)";
    const SKEWED: &str = "node(s) didn't match pod topology spread constraints";
    const WEB: &str = r#"{"labels":{"app":"web"}}"#;

    fn spread(more: &str) -> PodInfo {
        let spec = format!(
            r#"{{"topologySpreadConstraints":[{{"maxSkew":1,"topologyKey":"zone",
            "whenUnsatisfiable":"DoNotSchedule","labelSelector":{{"matchLabels":{{"app":"web"}}}}{more}}}]}}"#
        );
        labeled(r#"{"app":"web"}"#, &spec)
    }

    #[test]
    fn a_domain_does_not_exceed_the_emptiest_by_more_than_the_skew() {
        let empty = cluster(NODES, &[]);
        assert_eq!(reasons(&empty, &spread("")), ["fits", "fits", "fits", MISSING]);
        let one = cluster(NODES, &[("p1", WEB, "a")]);
        assert_eq!(reasons(&one, &spread("")), [SKEWED, SKEWED, "fits", MISSING]);
        let two = cluster(NODES, &[("p1", WEB, "a"), ("p2", WEB, "c")]);
        assert_eq!(reasons(&two, &spread("")), ["fits", "fits", "fits", MISSING]);
    }

    #[test]
    fn too_few_domains_count_as_an_empty_one() {
        let two = cluster(NODES, &[("p1", WEB, "a"), ("p2", WEB, "c")]);
        let pod = spread(r#","minDomains":3"#);
        assert_eq!(reasons(&two, &pod), [SKEWED, SKEWED, SKEWED, MISSING]);
    }

    #[test]
    fn tainted_nodes_count_unless_taints_are_honored() {
        let nodes = "a zone=1; b zone=2 taint=k:NoSchedule";
        let cache = cluster(nodes, &[("p1", WEB, "a")]);
        let taint = "!node(s) had untolerated taint(s)";
        assert_eq!(reasons(&cache, &spread("")), [SKEWED, taint]);
        let honoring = spread(r#","nodeTaintsPolicy":"Honor""#);
        assert_eq!(reasons(&cache, &honoring), ["fits", taint]);
    }

    #[test]
    fn pods_of_other_namespaces_are_not_counted() {
        let other = r#"{"namespace":"other","labels":{"app":"web"}}"#;
        let cache = cluster(NODES, &[("p1", other, "a")]);
        assert_eq!(reasons(&cache, &spread("")), ["fits", "fits", "fits", MISSING]);
    }
}
