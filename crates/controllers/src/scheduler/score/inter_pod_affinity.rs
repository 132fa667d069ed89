//! The score `InterPodAffinity`: preferred terms of the pod, and terms of the pods that exist.
//!
//! Upstream: plugins/interpodaffinity/scoring.go

use super::MAX_SCORE;
use crate::scheduler::cluster_cache::{ClusterCache, NodeId, PodClass};
use crate::scheduler::filter::inter_pod_affinity::{TopologyCounts, for_each_class};
use crate::scheduler::pod_info::PodTraits;

/// The weight of the required affinity of pods that exist.
const HARD_POD_AFFINITY_WEIGHT: i64 = 1;

/// `None` if no term applies.
pub(super) fn score(cache: &ClusterCache, pod: &PodTraits, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let weights = weights(cache, pod);
    if weights.is_empty() {
        return None;
    }
    let sums: Vec<i64> = nodes.iter().map(|id| weights.sum_of_node(cache.node(*id))).collect();
    let (min, max) = (sums.iter().min()?, sums.iter().max()?);
    let range = max - min;
    let scale = |sum: &i64| if range == 0 { 0 } else { scaled(sum - min, range) };
    Some(sums.iter().map(scale).collect())
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "upstream computes with float64 and cuts off the fraction"
)]
fn scaled(part: i64, range: i64) -> i64 {
    (MAX_SCORE as f64 * (part as f64 / range as f64)) as i64
}

/// The sums of weights in each topology domain.
fn weights(cache: &ClusterCache, pod: &PodTraits) -> TopologyCounts {
    let mut weights = TopologyCounts::default();
    let mut add = |class: &PodClass, key: &str, weight: i64| {
        for (node, count) in &class.nodes {
            weights.add(cache.node(*node), key, weight * count.all);
        }
    };
    let preferred =
        pod.constraints.preferred_affinity.iter().chain(&pod.constraints.preferred_anti_affinity);
    for_each_class(cache, preferred.map(|(_, term)| term), |class| {
        let labels = cache.namespace_labels(&class.traits.namespace);
        for (weight, term) in &pod.constraints.preferred_affinity {
            if term.matches(&class.traits, labels) {
                add(class, &term.topology_key, *weight);
            }
        }
        for (weight, term) in &pod.constraints.preferred_anti_affinity {
            if term.matches(&class.traits, labels) {
                add(class, &term.topology_key, -weight);
            }
        }
    });
    let labels = cache.namespace_labels(&pod.namespace);
    for (constraints, classes) in cache.groups_with_affinity() {
        let required = constraints.affinity.iter().map(|term| (HARD_POD_AFFINITY_WEIGHT, term));
        let preferred = constraints.preferred_affinity.iter();
        let preferred = preferred.map(|(weight, term)| (*weight, term));
        let avoided = constraints.preferred_anti_affinity.iter();
        let avoided = avoided.map(|(weight, term)| (-weight, term));
        for (weight, term) in required.chain(preferred).chain(avoided) {
            if term.matches(pod, labels) {
                classes.clone().for_each(|class| add(class, &term.topology_key, weight));
            }
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::testing::{cluster, labeled};

    fn preferred(kind: &str, weight: i64, app: &str) -> String {
        format!(
            r#"{{"affinity":{{"{kind}":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":{weight},
            "podAffinityTerm":{{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"{app}"}}}}}}}}]}}}}}}"#
        )
    }

    fn scores(cache: &ClusterCache, pod: &crate::scheduler::pod_info::PodInfo) -> Option<Vec<i64>> {
        let nodes: Vec<_> = ["a", "b", "c"].map(|name| cache.find_node(name).unwrap()).into();
        score(cache, &pod.traits, &nodes)
    }

    const NODES: &str = "a zone=1; b zone=2; c zone=3";
    const DB: &str = r#"{"labels":{"app":"db"}}"#;

    #[test]
    fn preferred_terms_attract_and_repel() {
        let cache = cluster(NODES, &[("d1", DB, "a"), ("d2", DB, "a"), ("d3", DB, "b")]);
        let near = labeled("{}", &preferred("podAffinity", 5, "db"));
        assert_eq!(scores(&cache, &near), Some(vec![100, 50, 0]));
        let far = labeled("{}", &preferred("podAntiAffinity", 5, "db"));
        assert_eq!(scores(&cache, &far), Some(vec![0, 50, 100]));
        assert_eq!(scores(&cache, &labeled("{}", "{}")), None);
    }

    #[test]
    fn the_preferences_of_pods_that_exist_count() {
        let avoiding = format!(
            r#"{{"labels":{{"app":"db"}},"spec":{}}}"#,
            preferred("podAntiAffinity", 5, "web")
        );
        let cache = cluster(NODES, &[("d", &avoiding, "b")]);
        let web = labeled(r#"{"app":"web"}"#, "{}");
        assert_eq!(scores(&cache, &web), Some(vec![100, 0, 100]));
    }
}
