//! The scores `NodeResourcesFit` (least allocated) and `NodeResourcesBalancedAllocation`.

use super::MAX_SCORE;
use crate::scheduler::cluster_cache::{ClusterCache, NodeId};
use crate::scheduler::node_info::NodeInfo;
use crate::scheduler::pod_info::PodTraits;

/// The sum of both scores, each with weight 1.
pub(super) fn score(cache: &ClusterCache, pod: &PodTraits, nodes: &[NodeId]) -> Vec<i64> {
    let score = |id: &NodeId| {
        let node = cache.node(*id);
        least_allocated(pod, node) + balanced_allocation(pod, node)
    };
    nodes.iter().map(score).collect()
}

/// Prefers nodes of which less cpu and memory is requested.
///
/// Upstream: `noderesources/least_allocated.go`
fn least_allocated(pod: &PodTraits, node: &NodeInfo) -> i64 {
    let allocatable = &node.object.allocatable;
    let (used, requests) = (node.non_zero_requested, pod.non_zero_requests);
    let (mut sum, mut resources) = (0, 0);
    for (requested, capacity) in [
        (used.0.saturating_add(requests.0), allocatable.milli_cpu),
        (used.1.saturating_add(requests.1), allocatable.memory),
    ] {
        if capacity > 0 {
            resources += 1;
            sum += if requested > capacity { 0 } else { free_part(capacity, requested) };
        }
    }
    if resources == 0 { 0 } else { sum / resources }
}

/// The free part of a capacity, in hundredths.
fn free_part(capacity: i64, requested: i64) -> i64 {
    let free = i128::from(capacity - requested) * i128::from(MAX_SCORE) / i128::from(capacity);
    i64::try_from(free).unwrap_or_default()
}

/// Prefers nodes on which equal parts of cpu and memory are requested, with the pod. A pod without
/// requests does not change the balance.
///
/// Upstream: `noderesources/balanced_allocation.go`, as of Kubernetes 1.35
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "upstream computes fractions as float64, and cuts off the fraction of the score"
)]
fn balanced_allocation(pod: &PodTraits, node: &NodeInfo) -> i64 {
    let (requests, used) = (&pod.requests, &node.requested);
    if requests.milli_cpu == 0 && requests.memory == 0 {
        return 0;
    }
    let allocatable = &node.object.allocatable;
    let fraction = |requested: i64, capacity: i64| {
        (capacity > 0).then(|| (requested as f64 / capacity as f64).min(1.0))
    };
    let cpu = used.milli_cpu.saturating_add(requests.milli_cpu);
    let cpu = fraction(cpu, allocatable.milli_cpu);
    let memory = fraction(used.memory.saturating_add(requests.memory), allocatable.memory);
    let deviation = cpu.zip(memory).map_or(0.0, |(cpu, memory)| ((cpu - memory) / 2.0).abs());
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scheduler::testing::{node, pod};

    fn with_pod(requests: &str) -> NodeInfo {
        let mut info = NodeInfo::of(node("a", "cpu=4 memory=8Gi"));
        if !requests.is_empty() {
            info.add_pod(Arc::new(pod("other", requests)));
        }
        info
    }

    #[test]
    fn an_emptier_node_scores_higher() {
        let pod = pod("p", "cpu=1 memory=2Gi");
        assert_eq!(least_allocated(&pod.traits, &with_pod("")), 75);
        assert_eq!(least_allocated(&pod.traits, &with_pod("cpu=2 memory=4Gi")), 25);
        assert_eq!(least_allocated(&pod.traits, &with_pod("cpu=4 memory=1Gi")), 31);
    }

    #[test]
    fn pods_without_requests_count_with_defaults() {
        let pod = pod("p", "");
        assert_eq!(least_allocated(&pod.traits, &with_pod("")), 97);
    }

    #[test]
    fn a_node_with_equal_fractions_is_balanced() {
        let pod = pod("p", "cpu=1 memory=2Gi");
        assert_eq!(balanced_allocation(&pod.traits, &with_pod("")), 100);
        assert_eq!(balanced_allocation(&pod.traits, &with_pod("cpu=2 memory=1Mi")), 75);
        assert_eq!(
            balanced_allocation(&crate::scheduler::testing::pod("p", "").traits, &with_pod("")),
            0
        );
    }
}
