//! Filters: which nodes can run a pod. Each plugin of Kubernetes has a function in this folder.
//!
//! [`CycleState`] has what the plugins compute once per decision, for all nodes (upstream:
//! `PreFilter`). A copy of it can be changed as if pods were added to nodes or removed from them.

pub(crate) mod inter_pod_affinity;
pub(crate) mod node_local;
pub(crate) mod pod_topology_spread;
pub(crate) mod volumes;
mod waiting_claims;

use super::cluster_cache::ClusterCache;
use super::constraints::MAX_CONDITIONS;
use super::listers::Listers;
use super::node_info::NodeInfo;
use super::pod_info::PodInfo;
use super::rejection::{Plugin, Rejection};
use inter_pod_affinity::AffinityState;
use pod_topology_spread::SpreadState;
use volumes::{AssumedVolumes, VolumeState};

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct CycleState {
    pub volumes: Option<VolumeState>,
    spread: Option<SpreadState>,
    affinity: Option<AffinityState>,
}

impl CycleState {
    /// Computes the state, or rejects all nodes.
    pub(crate) fn prepare(
        cache: &ClusterCache,
        listers: &Listers,
        assumed: &AssumedVolumes,
        pod: &PodInfo,
    ) -> Result<Self, Rejection> {
        if pod.traits.has_resource_claims {
            let why = "resource claims are not allocated by this scheduler";
            return Err(Rejection::unresolvable(Plugin::DynamicResources, why));
        }
        let constraints = &pod.traits.constraints;
        if constraints.are_too_many() {
            let why = format!(
                "the affinity, node selector, tolerations and topology spread constraints of the pod \
                 have {} conditions, and this scheduler considers at most {MAX_CONDITIONS}",
                constraints.conditions
            );
            return Err(Rejection::unresolvable(Plugin::TooManyConditions, why));
        }
        Ok(Self {
            volumes: VolumeState::prepare(cache, listers, assumed, pod)?,
            spread: SpreadState::prepare(cache, pod),
            affinity: AffinityState::prepare(cache, pod),
        })
    }

    /// Whether a node can run the pod.
    pub(crate) fn filter(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        node_local::filter(&pod.traits, node)?;
        if let Some(volumes) = &self.volumes {
            volumes.filter(node)?;
        }
        if let Some(spread) = &self.spread {
            spread.filter(node)?;
        }
        self.affinity.as_ref().map_or(Ok(()), |affinity| affinity.filter(pod, node))
    }

    /// Counts another pod as if it were on a node.
    pub(crate) fn add_pod(&mut self, cache: &ClusterCache, other: &PodInfo, node: &NodeInfo) {
        self.change(cache, other, node, 1);
    }

    /// Counts without another pod, which is on a node.
    pub(crate) fn remove_pod(&mut self, cache: &ClusterCache, other: &PodInfo, node: &NodeInfo) {
        self.change(cache, other, node, -1);
    }

    fn change(&mut self, cache: &ClusterCache, other: &PodInfo, node: &NodeInfo, by: i64) {
        if let Some(volumes) = &mut self.volumes {
            volumes.change(other, by);
        }
        if let Some(spread) = &mut self.spread {
            spread.change(other, node, by);
        }
        if let Some(affinity) = &mut self.affinity {
            affinity.change(cache, other, node, by);
        }
    }
}

/// The names of the only nodes that the required node affinity allows, if it names nodes, as that of
/// the pods of a `DaemonSet` does.
///
/// Upstream: `nodeaffinity/node_affinity.go` `PreFilter`
pub(crate) fn named_nodes(pod: &PodInfo) -> Result<Option<Vec<&str>>, Rejection> {
    let Some(required) = &pod.traits.constraints.required_nodes else { return Ok(None) };
    let mut names = Vec::new();
    for term in &required.node_selector_terms {
        match term.node_names() {
            Some(named) => names.extend(named),
            None => return Ok(None),
        }
    }
    if required.node_selector_terms.is_empty() {
        return Ok(None);
    }
    if names.is_empty() {
        return Err(Rejection::unresolvable(Plugin::NodeAffinity, "pod affinity terms conflict"));
    }
    names.sort_unstable();
    names.dedup();
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::scheduler::testing::{cluster, observe, reasons};

    #[test]
    fn a_pod_with_too_many_conditions_fits_on_no_node_and_is_told_the_limit() {
        let cache = cluster("a; b", &[]);
        let pod = |count: usize| {
            let tolerations: Vec<_> =
                (0..count).map(|index| json!({"key": format!("{index}")})).collect();
            observe("p", &json!({}), &json!({"tolerations": tolerations}))
        };
        assert_eq!(reasons(&cache, &pod(1_000)), ["fits", "fits"]);
        let too_many = pod(1_001);
        assert!(too_many.traits.constraints.tolerations.is_empty());
        assert_eq!(
            reasons(&cache, &too_many),
            ["all: the affinity, node selector, tolerations and topology spread constraints of the \
              pod have 1001 conditions, and this scheduler considers at most 1000"; 2]
        );
    }
}
