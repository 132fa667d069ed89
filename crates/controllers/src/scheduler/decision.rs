//! [`Decision`]: the node for a pod, or why there is none. One decision reads the cache as it is, and
//! changes nothing.

use std::sync::Arc;

use super::cluster_cache::{ClusterCache, NodeId};
use super::filter::volumes::{AssumedVolumes, VolumePlan};
use super::filter::{CycleState, named_nodes};
use super::listers::Listers;
use super::node_info::NodeInfo;
use super::nominator::Nominator;
use super::pod_info::{PodInfo, PodTraits};
use super::preemption::{Outcome, Preemption};
use super::rejection::{Diagnosis, Plugin, Plugins, Rejection};
use super::score::score;
use keel::Entropy;

/// With fewer nodes, all are tested. With more, a part of them, but at least this number of feasible
/// ones.
const MIN_FEASIBLE_NODES: usize = 100;
/// The smallest part of the nodes that are searched for, in percent.
const MIN_FEASIBLE_PERCENTAGE: usize = 5;

/// The number of comparisons above which a decision is long.
const LONG_DECISION: usize = 20_000;
/// The number of conditions on one node that take as long as one term about other pods.
const CONDITIONS_PER_TERM: usize = 16;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) enum Decision {
    /// The pod is bound to this node.
    Bind {
        node: Arc<str>,
        /// What is done before that.
        volumes: VolumePlan,
    },
    /// The pod fits on no node.
    Unschedulable {
        /// The message for the user.
        message: String,
        /// The plugins that have rejected nodes.
        plugins: Plugins,
        nomination: Nomination,
    },
}

/// What becomes of `status.nominatedNodeName`.
#[derive(Debug)]
pub(crate) enum Nomination {
    Keep,
    Clear,
    /// Pods are preempted on this node.
    Preempt {
        node: Arc<str>,
        victims: Vec<Arc<PodInfo>>,
    },
}

/// What a decision reads.
#[derive(Clone, Copy)]
pub(crate) struct DecisionContext<'a> {
    pub cache: &'a ClusterCache,
    pub listers: &'a Listers,
    pub nominator: &'a Nominator,
    pub assumed: &'a AssumedVolumes,
    pub entropy: &'a Entropy,
}

impl DecisionContext<'_> {
    /// Whether the decision about a pod takes so long that other tasks must not wait for it.
    pub(crate) fn is_long(&self, pod: &PodInfo) -> bool {
        self.work(&pod.traits) > LONG_DECISION
    }

    /// About the number of comparisons: of the pod's ports, claims, terms and conditions with each node,
    /// of its terms with the pods of each template, and of the terms of pods that exist with the pod.
    fn work(&self, pod: &PodTraits) -> usize {
        let constraints = &pod.constraints;
        let terms = constraints.number_of_terms() + constraints.spread.len();
        let on_node = terms
            + pod.host_ports.len()
            + pod.claims.len()
            + constraints.conditions / CONDITIONS_PER_TERM;
        let on_nodes = on_node.saturating_mul(self.cache.node_order().len());
        let with_pods = terms.saturating_mul(self.cache.number_of_classes());
        on_nodes.saturating_add(with_pods).saturating_add(self.cache.number_of_terms())
    }

    /// Decides about a pod. The search for nodes begins at `start` in their order, and moves it on.
    pub(crate) fn decide(&self, pod: &PodInfo, start: &mut usize) -> Decision {
        let total = self.cache.node_order().len();
        if total == 0 {
            return Decision::Unschedulable {
                message: "no nodes available to schedule pods".to_owned(),
                plugins: Plugins::default(),
                nomination: Nomination::Keep,
            };
        }
        let prepared = CycleState::prepare(self.cache, self.listers, self.assumed, pod);
        let found = match &prepared {
            Ok(state) => self.find_feasible(pod, state, start),
            Err(rejection) => {
                Err(Diagnosis { all_nodes: Some(rejection.clone()), ..Diagnosis::default() })
            }
        };
        match (found, prepared) {
            (Ok(nodes), Ok(state)) => {
                let node = self.cache.node(self.best(pod, &nodes));
                let plan = state.volumes.map(|volumes| volumes.plan(&node.object));
                let volumes = plan.and_then(Result::ok).unwrap_or_default();
                Decision::Bind { node: Arc::clone(&node.object.name), volumes }
            }
            (Err(diagnosis), state) => self.preempt(pod, state.ok().as_ref(), &diagnosis),
            (Ok(_), Err(_)) => unreachable!("nodes are found with a state"),
        }
    }

    fn preempt(
        &self,
        pod: &PodInfo,
        state: Option<&CycleState>,
        diagnosis: &Diagnosis,
    ) -> Decision {
        let total = self.cache.node_order().len();
        let mut message = diagnosis.message(total);
        let preemption = Preemption { cx: self, pod, state, diagnosis };
        // The first part is that of the plugin DynamicResources for pods without resource claims.
        let mut refuse = |why: &str| {
            message += &format!(" no new claims to deallocate, preemption: {why}");
        };
        let nomination = match preemption.run() {
            Outcome::Nominated { node, victims } => Nomination::Preempt { node, victims },
            Outcome::NotEligible(why) => {
                refuse(why);
                Nomination::Keep
            }
            Outcome::NotHelpful(why) => {
                refuse(&why);
                Nomination::Clear
            }
        };
        Decision::Unschedulable { message, plugins: diagnosis.plugins(), nomination }
    }

    /// Nodes that can run the pod; not all of them if there are many.
    fn find_feasible(
        &self,
        pod: &PodInfo,
        state: &CycleState,
        start: &mut usize,
    ) -> Result<Vec<NodeId>, Diagnosis> {
        let rejected = |rejection| Diagnosis { all_nodes: Some(rejection), ..Diagnosis::default() };
        let named = named_nodes(pod).map_err(rejected)?;
        let nominated = self.nominator.node_of(&pod.uid).or(pod.nominated_node.as_ref());
        if let Some(node) = nominated
            && let Some(id) = self.cache.find_node(node)
            && self.filter(pod, state, self.cache.node(id)).is_ok()
        {
            return Ok(vec![id]);
        }
        let mut diagnosis = Diagnosis::default();
        let mut feasible = Vec::new();
        if let Some(names) = named {
            diagnosis.excluded_by = Some(Plugin::NodeAffinity);
            for id in names.into_iter().filter_map(|name| self.cache.find_node(name)) {
                match self.filter(pod, state, self.cache.node(id)) {
                    Ok(()) => feasible.push(id),
                    Err(rejection) => diagnosis.nodes.push((id, rejection)),
                }
            }
        } else {
            let order = self.cache.node_order();
            let wanted = feasible_nodes_to_find(order.len());
            *start %= order.len();
            let (before, after) = order.split_at(*start);
            for id in after.iter().chain(before) {
                *start += 1;
                match self.filter(pod, state, self.cache.node(*id)) {
                    Ok(()) => feasible.push(*id),
                    Err(rejection) => diagnosis.nodes.push((*id, rejection)),
                }
                if feasible.len() == wanted {
                    break;
                }
            }
            *start %= order.len();
        }
        if feasible.is_empty() { Err(diagnosis) } else { Ok(feasible) }
    }

    /// Whether a node can run the pod, both with and without the pods of at least its priority for
    /// which the node is nominated: they may come, or not.
    pub(crate) fn filter(
        &self,
        pod: &PodInfo,
        state: &CycleState,
        node: &NodeInfo,
    ) -> Result<(), Rejection> {
        let nominated = self.nominator.pods_of(node.name()).iter();
        let mut nominated =
            nominated.filter(|it| it.priority >= pod.priority && it.uid != pod.uid).peekable();
        if nominated.peek().is_some() {
            let (mut state, mut node) = (state.clone(), node.clone());
            for other in nominated {
                state.add_pod(self.cache, other, &node);
                node.add_pod(Arc::clone(other));
            }
            state.filter(pod, &node)?;
        }
        state.filter(pod, node)
    }

    /// One of the nodes with the highest score.
    fn best(&self, pod: &PodInfo, nodes: &[NodeId]) -> NodeId {
        if let [only] = nodes {
            return *only;
        }
        let scores = score(self.cache, self.listers, pod, nodes);
        let max = scores.iter().copied().max().unwrap_or_default();
        let best = || nodes.iter().zip(&scores).filter(|(_, score)| **score == max);
        let count = u64::try_from(best().count()).unwrap_or_default();
        let chosen = usize::try_from(self.entropy.below(count)).unwrap_or_default();
        best().nth(chosen).map_or(nodes[0], |(id, _)| *id)
    }
}

/// The number of feasible nodes after which the search ends.
///
/// Upstream: `schedule_one.go` numFeasibleNodesToFind
fn feasible_nodes_to_find(total: usize) -> usize {
    if total < MIN_FEASIBLE_NODES {
        return total;
    }
    let percentage = 50_usize.saturating_sub(total / 125).max(MIN_FEASIBLE_PERCENTAGE);
    (total * percentage / 100).max(MIN_FEASIBLE_NODES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::testing::{cluster, observe, pod, pod_json, prioritized};
    use serde_json::{Value, json};

    fn decide(cache: &ClusterCache, nominator: &Nominator, pod: &PodInfo) -> String {
        let listers = Listers::empty();
        let (assumed, entropy) = (AssumedVolumes::default(), Entropy::seeded(1));
        let cx = DecisionContext {
            cache,
            listers: &listers,
            nominator,
            assumed: &assumed,
            entropy: &entropy,
        };
        match cx.decide(pod, &mut 0) {
            Decision::Bind { node, .. } => node.to_string(),
            Decision::Unschedulable { message, .. } => message,
        }
    }

    #[test]
    fn the_number_of_searched_nodes_adapts() {
        let cases = [(10, 10), (100, 100), (200, 100), (1000, 420), (5000, 500), (10_000, 500)];
        for (total, expected) in cases {
            assert_eq!(feasible_nodes_to_find(total), expected, "{total}");
        }
    }

    /// The work of a decision about a pod with this spec.
    fn work(cache: &ClusterCache, spec: &Value) -> usize {
        let listers = Listers::empty();
        let (assumed, entropy) = (AssumedVolumes::default(), Entropy::seeded(1));
        let nominator = &Nominator::default();
        let cx = DecisionContext {
            cache,
            listers: &listers,
            nominator,
            assumed: &assumed,
            entropy: &entropy,
        };
        let pod = observe("p", &json!({}), spec);
        assert_eq!(cx.is_long(&pod), cx.work(&pod.traits) > LONG_DECISION);
        cx.work(&pod.traits)
    }

    fn anti_affinity(terms: usize) -> Value {
        let term = |index| json!({"topologyKey": format!("{index}"), "labelSelector": {}});
        let terms: Vec<_> = (0..terms).map(term).collect();
        json!({"affinity": {"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    }

    #[test]
    fn ports_and_terms_of_the_pod_and_of_others_make_a_decision_long() {
        let mut cache = cluster("a; b", &[]);
        let port = |index: i32| json!({"hostPort": index});
        let ports =
            |count| json!({"containers": [{"ports": (1..=count).map(port).collect::<Vec<_>>()}]});
        assert_eq!(work(&cache, &json!({})), 0);
        assert_eq!(work(&cache, &ports(10_001)), 20_002);
        assert_eq!(work(&cache, &anti_affinity(160)), 2 * (160 + 160 / 16));
        let usual =
            json!({"tolerations": [{"key": "a"}, {"key": "b"}], "nodeSelector": {"a": "b"}});
        assert_eq!(work(&cache, &usual), 0);
        for (index, name) in ["x", "y"].into_iter().enumerate() {
            let info = observe(name, &json!({}), &anti_affinity(100 + index));
            cache.set_pod(Arc::new(info), "a");
        }
        assert_eq!(work(&cache, &json!({})), 201);
        assert_eq!(work(&cache, &anti_affinity(1)), 2 + 2 + 201);
    }

    #[test]
    fn the_emptier_node_is_chosen() {
        let busy =
            r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"2","memory":"4Gi"}}}]}}"#;
        let cache = cluster("a; b", &[("p1", busy, "a")]);
        let pod = pod("p", "cpu=1 memory=2Gi");
        assert_eq!(decide(&cache, &Nominator::default(), &pod), "b");
    }

    #[test]
    fn the_message_names_all_reasons() {
        let cache = cluster("a; b taint=k:NoSchedule; c taint=k:NoSchedule", &[]);
        assert_eq!(
            decide(&cache, &Nominator::default(), &pod("p", "cpu=9")),
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
             no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        );
        let none = ClusterCache::default();
        let message = "no nodes available to schedule pods";
        assert_eq!(decide(&none, &Nominator::default(), &pod("p", "")), message);
    }

    #[test]
    fn a_named_node_is_the_only_one_that_is_tested() {
        let cache = cluster("a; b", &[]);
        let spec = |name: &str| {
            format!(
                r#"{{"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":
                {{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"In",
                "values":["{name}"]}}]}}]}}}}}}}}"#
            )
        };
        let nominator = Nominator::default();
        assert_eq!(decide(&cache, &nominator, &pod_json(&spec("b"))), "b");
        assert_eq!(
            decide(&cache, &nominator, &pod_json(&spec("gone"))),
            "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. \
             no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn a_nominated_pod_keeps_its_place_against_lower_priorities() {
        let cache = cluster("a", &[]);
        let mut nominator = Nominator::default();
        nominator.nominate(&Arc::new(prioritized("vip", 10, "cpu=4")), &"a".into());
        assert!(decide(&cache, &nominator, &pod("p", "cpu=1")).contains("1 Insufficient cpu"));
        assert_eq!(decide(&cache, &nominator, &prioritized("p", 11, "cpu=1")), "a");
        assert_eq!(decide(&cache, &nominator, &prioritized("vip", 10, "cpu=4")), "a");
    }
}
