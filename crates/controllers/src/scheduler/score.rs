//! Scores: which of the feasible nodes is best. Each plugin gives a node 0 to 100, times the weight
//! of the plugin.
//!
//! Upstream: `apis/config/v1/default_plugins.go` for the weights

pub(crate) mod image_locality;
pub(crate) mod inter_pod_affinity;
pub(crate) mod node_resources;
pub(crate) mod pod_topology_spread;

use super::cluster_cache::{ClusterCache, NodeId};
use super::listers::Listers;
use super::pod_info::{PodInfo, PodTraits};
use crate::taints::Toleration;

/// The highest score of one plugin.
pub(crate) const MAX_SCORE: i64 = 100;

/// The sums of the weighted scores of all plugins, in the order of `nodes`.
pub(crate) fn score(
    cache: &ClusterCache,
    listers: &Listers,
    pod: &PodInfo,
    nodes: &[NodeId],
) -> Vec<i64> {
    let traits = &pod.traits;
    let mut totals = node_resources::score(cache, traits, nodes);
    let mut add = |weight: i64, scores: Option<Vec<i64>>| {
        for (total, score) in totals.iter_mut().zip(scores.into_iter().flatten()) {
            *total += weight * score;
        }
    };
    add(3, taint_toleration(cache, traits, nodes));
    add(2, node_affinity(cache, traits, nodes));
    add(2, pod_topology_spread::score(cache, listers, traits, nodes));
    add(2, inter_pod_affinity::score(cache, traits, nodes));
    add(1, image_locality::score(cache, traits, nodes));
    totals
}

/// Prefers nodes with fewer taints `PreferNoSchedule` that the pod does not tolerate.
fn taint_toleration(cache: &ClusterCache, pod: &PodTraits, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let effect = "PreferNoSchedule";
    let is_soft =
        |toleration: &&Toleration| toleration.effect.is_empty() || toleration.effect == effect;
    let count = |id: &NodeId| {
        let taints = cache.node(*id).object.taints.iter().filter(|taint| taint.effect == effect);
        let intolerable = taints.filter(|taint| {
            !pod.constraints
                .tolerations
                .iter()
                .filter(is_soft)
                .any(|toleration| toleration.tolerates(taint))
        });
        i64::try_from(intolerable.count()).unwrap_or(i64::MAX)
    };
    let mut scores: Vec<i64> = nodes.iter().map(count).collect();
    // Without such a taint all nodes have the same score.
    scores.iter().any(|score| *score > 0).then(|| {
        normalize(&mut scores, Direction::Fewer);
        scores
    })
}

/// Prefers nodes that the preferred node affinity selects.
fn node_affinity(cache: &ClusterCache, pod: &PodTraits, nodes: &[NodeId]) -> Option<Vec<i64>> {
    if pod.constraints.preferred_nodes.is_empty() {
        return None;
    }
    let sum = |id: &NodeId| {
        let node = &*cache.node(*id).object;
        let terms =
            pod.constraints.preferred_nodes.iter().filter(|term| term.preference.matches(node));
        terms.map(|term| term.weight).sum()
    };
    let mut scores: Vec<i64> = nodes.iter().map(sum).collect();
    normalize(&mut scores, Direction::More);
    Some(scores)
}

/// Whether a larger or a smaller number is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    More,
    Fewer,
}

/// Scales numbers to the range of scores, by the largest.
///
/// Upstream: `plugins/helper/normalize_score.go` `DefaultNormalizeScore`
fn normalize(scores: &mut [i64], direction: Direction) {
    let max = scores.iter().copied().max().unwrap_or_default();
    for score in scores {
        let scaled = if max == 0 { 0 } else { MAX_SCORE * *score / max };
        *score = match direction {
            Direction::More => scaled,
            Direction::Fewer => MAX_SCORE - scaled,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::testing::{cluster, pod_json};

    fn ids(cache: &ClusterCache) -> Vec<NodeId> {
        ["a", "b", "c"].iter().filter_map(|name| cache.find_node(name)).collect()
    }

    #[test]
    fn fewer_soft_taints_are_better() {
        let cache = cluster(
            "a taint=x:PreferNoSchedule taint=y:PreferNoSchedule; b taint=x:PreferNoSchedule; c",
            &[],
        );
        let score = |pod: &str| taint_toleration(&cache, &pod_json(pod).traits, &ids(&cache));
        assert_eq!(score("{}"), Some(vec![0, 50, 100]));
        let tolerant = r#"{"tolerations":[{"key":"x","operator":"Exists"}]}"#;
        assert_eq!(score(tolerant), Some(vec![0, 100, 100]));
        assert_eq!(score(r#"{"tolerations":[{"operator":"Exists"}]}"#), None);
    }

    #[test]
    fn preferred_nodes_score_by_the_sum_of_weights() {
        let cache = cluster("a zone=1; b zone=1 disk=ssd; c", &[]);
        let term = |weight: i64, key: &str| {
            format!(
                r#"{{"weight":{weight},"preference":{{"matchExpressions":[{{"key":"{key}","operator":"Exists"}}]}}}}"#
            )
        };
        let spec = format!(
            r#"{{"affinity":{{"nodeAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":[{},{}]}}}}}}"#,
            term(10, "zone"),
            term(30, "disk")
        );
        let scores = node_affinity(&cache, &pod_json(&spec).traits, &ids(&cache));
        assert_eq!(scores, Some(vec![25, 100, 0]));
    }
}
