//! The score `PodTopologySpread`: constraints with `whenUnsatisfiable: ScheduleAnyway`, and for pods
//! without constraints those of the system, which spread the pods of a workload over hosts and zones.
//!
//! Upstream: plugins/podtopologyspread/scoring.go

use std::collections::{BTreeMap, HashMap};

use super::MAX_SCORE;
use crate::scheduler::cluster_cache::{ClusterCache, NodeId};
use crate::scheduler::constraints::SpreadConstraint;
use crate::scheduler::filter::pod_topology_spread::{includes_node, selected_pods};
use crate::scheduler::listers::Listers;
use crate::scheduler::node_info::{HOSTNAME, NodeInfo, ZONE};
use crate::scheduler::pod_info::PodTraits;
use crate::scheduler::selectors::Selector;

/// `None` if no constraint applies.
pub(super) fn score(
    cache: &ClusterCache,
    listers: &Listers,
    pod: &PodTraits,
    nodes: &[NodeId],
) -> Option<Vec<i64>> {
    let is_own = !pod.constraints.spread.is_empty();
    let constraints: Vec<SpreadConstraint> = if is_own {
        pod.constraints.spread.iter().filter(|constraint| !constraint.is_hard).cloned().collect()
    } else {
        system_constraints(cache, listers, pod)
    };
    if constraints.is_empty() {
        return None;
    }
    // A node that lacks a topology key scores 0, but not with the constraints of the system.
    let has_keys = |node: &NodeInfo| {
        constraints.iter().all(|constraint| node.label(&constraint.topology_key).is_some())
    };
    let is_ignored: Vec<bool> =
        nodes.iter().map(|id| is_own && !has_keys(cache.node(*id))).collect();
    let mut sums = vec![0.0; nodes.len()];
    // The constraints of the system have the same selector, so that pods are counted once.
    let mut selected = Vec::new();
    for (index, constraint) in constraints.iter().enumerate() {
        if index == 0 || is_own {
            selected = selected_pods(cache, pod, constraint);
        }
        let counted = Counted { cache, pod, constraint, selected: &selected, is_own };
        counted.add_to(&mut sums, nodes, &is_ignored, &has_keys);
    }
    Some(normalize(&sums, &is_ignored))
}

/// A constraint with the number of selected pods on each node.
struct Counted<'a> {
    cache: &'a ClusterCache,
    pod: &'a PodTraits,
    constraint: &'a SpreadConstraint,
    selected: &'a [i64],
    is_own: bool,
}

impl Counted<'_> {
    /// Adds the number of pods in the domain of each node, times a weight that grows with the number
    /// of domains.
    #[allow(clippy::cast_precision_loss, reason = "upstream computes with float64")]
    fn add_to(
        &self,
        sums: &mut [f64],
        nodes: &[NodeId],
        is_ignored: &[bool],
        has_keys: &impl Fn(&NodeInfo) -> bool,
    ) {
        let key = &self.constraint.topology_key;
        let base = (self.constraint.max_skew - 1) as f64;
        let considered = || nodes.iter().zip(is_ignored).filter(|(_, ignored)| !**ignored);
        if key == HOSTNAME {
            let weight = weight(considered().count());
            for (sum, id) in sums.iter_mut().zip(nodes) {
                if self.cache.node(*id).label(key).is_some() {
                    *sum += self.selected[*id] as f64 * weight + base;
                }
            }
            return;
        }
        if considered().all(|(id, _)| self.domain(*id).is_empty()) {
            return;
        }
        let mut domains = HashMap::<&str, i64>::new();
        for (id, _) in considered() {
            domains.entry(self.domain(*id)).or_default();
        }
        for id in self.cache.node_order() {
            let node = self.cache.node(*id);
            if self.selected[*id] > 0
                && (!self.is_own || has_keys(node))
                && includes_node(self.constraint, self.pod, &node.object)
                && let Some(count) = domains.get_mut(self.domain(*id))
            {
                *count += self.selected[*id];
            }
        }
        let weight = weight(domains.len());
        for (sum, id) in sums.iter_mut().zip(nodes) {
            if self.cache.node(*id).label(key).is_some() {
                let count = domains.get(self.domain(*id)).copied().unwrap_or_default();
                *sum += count as f64 * weight + base;
            }
        }
    }

    fn domain(&self, id: NodeId) -> &str {
        self.cache.node(id).label(&self.constraint.topology_key).map_or("", AsRef::as_ref)
    }
}

#[allow(clippy::cast_precision_loss, reason = "upstream computes with float64")]
fn weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

/// Fewer pods are better.
#[allow(clippy::cast_possible_truncation, reason = "sums of pods are far below the limits")]
fn normalize(sums: &[f64], is_ignored: &[bool]) -> Vec<i64> {
    let rounded: Vec<i64> = sums.iter().map(|sum| sum.round() as i64).collect();
    let considered = || rounded.iter().zip(is_ignored).filter(|(_, ignored)| !**ignored);
    let min = considered().map(|(sum, _)| *sum).min().unwrap_or_default();
    let max = considered().map(|(sum, _)| *sum).max().unwrap_or_default().max(0);
    let score = |(sum, ignored): (&i64, &bool)| match (ignored, max) {
        (true, _) => 0,
        (false, 0) => MAX_SCORE,
        (false, max) => MAX_SCORE * (max + min - sum) / max,
    };
    rounded.iter().zip(is_ignored).map(score).collect()
}

/// The constraints for a pod without any: its services' and its workload's pods are spread.
fn system_constraints(
    cache: &ClusterCache,
    listers: &Listers,
    pod: &PodTraits,
) -> Vec<SpreadConstraint> {
    let mut labels = BTreeMap::new();
    for service in cache.services.get(&pod.namespace).into_iter().flat_map(BTreeMap::values) {
        if service.iter().all(|(key, value)| pod.labels.get(key) == Some(value.as_str())) {
            labels.extend(service.clone());
        }
    }
    let mut selectors = vec![Selector::of_labels(labels.into())];
    selectors.extend(listers.selector_of_controller(pod));
    if selectors.iter().all(Selector::is_empty) {
        return Vec::new();
    }
    let constraint = |topology_key: &str, max_skew| SpreadConstraint {
        max_skew,
        topology_key: topology_key.to_owned(),
        is_hard: false,
        selectors: Some(selectors.clone()),
        min_domains: 1,
        honors_node_affinity: true,
        honors_taints: false,
    };
    vec![constraint(HOSTNAME, 3), constraint(ZONE, 5)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::pod_info::PodInfo;
    use crate::scheduler::testing::{cluster, labeled};

    const WEB: &str = r#"{"labels":{"app":"web"}}"#;

    fn scores(cache: &ClusterCache, pod: &PodInfo) -> Option<Vec<i64>> {
        let nodes: Vec<_> = ["a", "b", "c"].map(|name| cache.find_node(name).unwrap()).into();
        score(cache, &Listers::empty(), &pod.traits, &nodes)
    }

    #[test]
    fn domains_with_fewer_pods_score_higher() {
        let spec = r#"{"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone",
            "whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"web"}}}]}"#;
        let pod = labeled(r#"{"app":"web"}"#, spec);
        let pods = [("p1", WEB, "a"), ("p2", WEB, "a"), ("p3", WEB, "b")];
        let cache = cluster("a zone=1; b zone=2; c zone=3", &pods);
        // Weight ln(5): 2 pods are 3, 1 pod is 2.
        assert_eq!(scores(&cache, &pod), Some(vec![0, 33, 100]));
        let unlabeled = cluster("a zone=1; b zone=2; c", &pods);
        assert_eq!(scores(&unlabeled, &pod), Some(vec![33, 100, 0]));
    }

    #[test]
    fn the_pods_of_a_service_are_spread_by_default() {
        let pods = [("p1", WEB, "a"), ("p2", WEB, "b")];
        let hosts =
            "a kubernetes.io/hostname=a; b kubernetes.io/hostname=b; c kubernetes.io/hostname=c";
        let mut cache = cluster(hosts, &pods);
        let pod = labeled(r#"{"app":"web"}"#, "{}");
        assert_eq!(scores(&cache, &pod), None);
        let selector = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let services = BTreeMap::from([("web".to_owned(), selector)]);
        cache.services.insert("default".to_owned(), services);
        // Weight ln(5) and a base of 2: 4, 4 and 2.
        assert_eq!(scores(&cache, &pod), Some(vec![50, 50, 100]));
    }
}
