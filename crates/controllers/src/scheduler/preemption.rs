//! [`Preemption`]: finds the node on which the removal of pods of lower priority makes place for a
//! pod, at the least cost.
//!
//! Upstream: framework/preemption and plugins/defaultpreemption

use std::cmp::Reverse;
use std::sync::Arc;

use super::cluster_cache::NodeId;
use super::decision::DecisionContext;
use super::filter::CycleState;
use super::listers::BudgetView;
use super::pod_info::PodInfo;
use super::rejection::{Diagnosis, Rejection, preemption_message};
use super::selectors::Selector;
use keel::Timestamp;

/// The part of the nodes that are tried, in percent.
const MIN_CANDIDATE_PERCENTAGE: usize = 10;
/// The number of nodes that are tried at least.
const MIN_CANDIDATES: usize = 100;

/// See the [module documentation](self).
pub(crate) struct Preemption<'a> {
    pub cx: &'a DecisionContext<'a>,
    pub pod: &'a PodInfo,
    /// `None` if all nodes were rejected before they were tested.
    pub state: Option<&'a CycleState>,
    pub diagnosis: &'a Diagnosis,
}

/// The result of a [`Preemption`].
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The pod will fit on the node without the victims.
    Nominated { node: Arc<str>, victims: Vec<Arc<PodInfo>> },
    /// The pod may not preempt others, or waits for those that it has preempted.
    NotEligible(&'static str),
    /// There is no such node.
    NotHelpful(String),
}

/// The victims on a node, the most important first.
struct Candidate {
    node: NodeId,
    victims: Vec<Arc<PodInfo>>,
    violations: usize,
}

impl Preemption<'_> {
    pub(crate) fn run(&self) -> Outcome {
        if !self.pod.can_preempt {
            return Outcome::NotEligible("not eligible due to preemptionPolicy=Never.");
        }
        if self.waits_for_victims() {
            let why = "not eligible due to a terminating pod on the nominated node.";
            return Outcome::NotEligible(why);
        }
        let (candidates, rejections) = self.candidates();
        let best = candidates.into_iter().min_by_key(Candidate::cost);
        let total = self.cx.cache.node_order().len();
        match best {
            None => Outcome::NotHelpful(preemption_message(total, &rejections)),
            Some(Candidate { node, victims, .. }) => {
                let node = Arc::clone(&self.cx.cache.node(node).object.name);
                Outcome::Nominated { node, victims }
            }
        }
    }

    /// Whether pods that were preempted for this one are still being deleted.
    fn waits_for_victims(&self) -> bool {
        let nominated = self.cx.nominator.node_of(&self.pod.uid);
        let nominated = nominated.or(self.pod.nominated_node.as_ref());
        let Some(id) = nominated.and_then(|name| self.cx.cache.find_node(name)) else {
            return false;
        };
        if self.diagnosis.of_node(id).is_some_and(|rejection| rejection.is_unresolvable) {
            return false;
        }
        let mut pods = self.cx.cache.node(id).pods.iter();
        pods.any(|other| other.priority < self.pod.priority && other.is_preempted)
    }

    /// The nodes on which the pod fits without victims, and the rejections of the others that were
    /// tried; `Ok` for those without possible victims.
    fn candidates(&self) -> (Vec<Candidate>, Vec<Result<(), Rejection>>) {
        let (mut candidates, mut rejections) = (Vec::new(), Vec::new());
        let potential = self.diagnosis.nodes.iter().filter(|(_, it)| !it.is_unresolvable);
        let potential: Vec<NodeId> = potential.map(|(id, _)| *id).collect();
        let (Some(state), false) = (self.state, potential.is_empty()) else {
            return (candidates, rejections);
        };
        let mut budgets = None;
        let length = u64::try_from(potential.len()).unwrap_or_default();
        let offset = usize::try_from(self.cx.entropy.below(length)).unwrap_or_default();
        let wanted = potential.len() * MIN_CANDIDATE_PERCENTAGE / 100;
        let wanted = wanted.max(MIN_CANDIDATES).min(potential.len());
        let (before, after) = potential.split_at(offset);
        for id in after.iter().chain(before) {
            match self.victims_on(*id, state, &mut budgets) {
                Ok(candidate) => candidates.push(candidate),
                Err(rejection) => rejections.push(rejection),
            }
            let has_harmless = candidates.iter().any(|candidate| candidate.violations == 0);
            if has_harmless && candidates.len() >= wanted {
                break;
            }
        }
        (candidates, rejections)
    }

    /// The least important pods whose removal makes place on a node. First all pods of lower priority
    /// are removed, and then those that can stay are added again: first those whose removal violates a
    /// disruption budget, and the more important ones before the others.
    fn victims_on(
        &self,
        id: NodeId,
        state: &CycleState,
        budgets: &mut Option<Vec<Budget>>,
    ) -> Result<Candidate, Result<(), Rejection>> {
        let node = self.cx.cache.node(id);
        let lower = node.pods.iter().filter(|other| other.priority < self.pod.priority);
        let mut potential: Vec<Arc<PodInfo>> = lower.cloned().collect();
        if potential.is_empty() {
            return Err(Ok(()));
        }
        let (mut state, mut node) = (state.clone(), node.clone());
        for victim in &potential {
            node.remove_pod(&victim.uid);
            state.remove_pod(self.cx.cache, victim, &node);
        }
        self.cx.filter(self.pod, &state, &node).map_err(Err)?;
        potential.sort_by_key(importance);
        let budgets = budgets.get_or_insert_with(|| {
            let budgets = self.cx.listers.budgets.list().objects.into_iter();
            budgets.filter_map(Budget::of).collect()
        });
        let (violating, harmless) = split_by_budgets(potential, budgets);
        let violating_count = violating.len();
        let mut candidate = Candidate { node: id, victims: Vec::new(), violations: 0 };
        for (index, pod) in violating.into_iter().chain(harmless).enumerate() {
            state.add_pod(self.cx.cache, &pod, &node);
            node.add_pod(Arc::clone(&pod));
            if self.cx.filter(self.pod, &state, &node).is_err() {
                node.remove_pod(&pod.uid);
                state.remove_pod(self.cx.cache, &pod, &node);
                candidate.violations += usize::from(index < violating_count);
                candidate.victims.push(pod);
            }
        }
        candidate.victims.sort_by_key(importance);
        // Without a victim the pod would have fit before.
        if candidate.victims.is_empty() { Err(Ok(())) } else { Ok(candidate) }
    }
}

/// Sorts the more important pods first: those of higher priority, then those that run longer.
fn importance(pod: &Arc<PodInfo>) -> (Reverse<i32>, bool, Option<Timestamp>) {
    (Reverse(pod.priority), pod.start_time.is_none(), pod.start_time)
}

impl Candidate {
    /// The candidate with the least cost is chosen.
    fn cost(&self) -> (usize, i32, i64, usize, Reverse<Option<Timestamp>>) {
        let highest = self.victims.first().map_or(i32::MIN, |victim| victim.priority);
        // Upstream shifts priorities so that more victims never cost less.
        let sum = self.victims.iter().map(|it| i64::from(it.priority) + (1 << 31)).sum();
        let most_important = self.victims.iter().filter(|it| it.priority == highest);
        let earliest = most_important.filter_map(|it| it.start_time).min();
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest))
    }
}

/// A disruption budget.
struct Budget {
    namespace: String,
    selector: Selector,
    allowed: i32,
    disrupted: Vec<String>,
}

impl Budget {
    fn of(view: BudgetView) -> Option<Self> {
        let selector = view.spec.selector.filter(|selector| !selector.is_empty())?;
        Some(Self {
            namespace: view.metadata.namespace,
            selector,
            allowed: view.status.disruptions_allowed,
            disrupted: view.status.disrupted_pods.into_keys().collect(),
        })
    }
}

/// Splits pods into those whose removal violates a budget, and the others, if they are removed in
/// their order.
fn split_by_budgets(
    pods: Vec<Arc<PodInfo>>,
    budgets: &[Budget],
) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.into_iter().partition(|pod| {
        let labels = &pod.traits.labels;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let is_counted = !labels.is_empty()
                && budget.namespace == pod.traits.namespace
                && budget.selector.matches(labels)
                && !budget.disrupted.iter().any(|name| name == pod.key.name());
            if is_counted {
                *allowed -= 1;
                if *allowed < 0 {
                    return true;
                }
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use runtime::informer::Item;

    use super::*;
    use crate::scheduler::cluster_cache::ClusterCache;
    use crate::scheduler::filter::volumes::AssumedVolumes;
    use crate::scheduler::listers::Listers;
    use crate::scheduler::nominator::Nominator;
    use crate::scheduler::testing::{cluster, observe, prioritized};
    use keel::Entropy;
    use serde_json::json;

    /// Adds pods with priority, cpu and node.
    fn with_pods(nodes: &str, pods: &[(&str, i32, &str, &str)]) -> ClusterCache {
        let mut cache = cluster(nodes, &[]);
        for (name, priority, cpu, node) in pods {
            cache.set_pod(Arc::new(prioritized(name, *priority, &format!("cpu={cpu}"))), node);
        }
        cache
    }

    fn preempt(cache: &ClusterCache, listers: &Listers, pod: &PodInfo) -> String {
        let (assumed, nominator) = (AssumedVolumes::default(), Nominator::default());
        let entropy = Entropy::seeded(1);
        let cx = DecisionContext {
            cache,
            listers,
            nominator: &nominator,
            assumed: &assumed,
            entropy: &entropy,
        };
        match cx.decide(pod, &mut 0) {
            crate::scheduler::decision::Decision::Unschedulable {
                nomination: crate::scheduler::decision::Nomination::Preempt { node, victims },
                ..
            } => {
                let names: Vec<_> = victims.iter().map(|pod| pod.key.name()).collect();
                format!("{node}: {}", names.join(" "))
            }
            crate::scheduler::decision::Decision::Unschedulable { message, .. } => message,
            crate::scheduler::decision::Decision::Bind { node, .. } => format!("bound to {node}"),
        }
    }

    #[test]
    fn the_least_important_pods_are_the_victims() {
        let pods = [("low", 1, "2", "a"), ("lower", 0, "1", "a"), ("high", 50, "1", "a")];
        let cache = with_pods("a", &pods);
        let listers = Listers::empty();
        assert_eq!(preempt(&cache, &listers, &prioritized("p", 10, "cpu=1")), "a: lower");
        assert_eq!(preempt(&cache, &listers, &prioritized("p", 10, "cpu=3")), "a: low lower");
        assert!(
            preempt(&cache, &listers, &prioritized("p", 10, "cpu=4"))
                .ends_with("preemption: 0/1 nodes are available: 1 Insufficient cpu.")
        );
        assert!(preempt(&cache, &listers, &prioritized("p", 0, "cpu=1")).ends_with(
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        ));
    }

    #[test]
    fn the_node_with_the_cheapest_victims_is_chosen() {
        let listers = Listers::empty();
        let pod = prioritized("p", 10, "cpu=4");
        let pods = [("a1", 5, "4", "a"), ("b1", 3, "2", "b"), ("b2", 3, "2", "b")];
        assert_eq!(preempt(&with_pods("a; b", &pods), &listers, &pod), "b: b1 b2");
        let pods = [("a1", 3, "4", "a"), ("b1", 3, "2", "b"), ("b2", 3, "2", "b")];
        assert_eq!(preempt(&with_pods("a; b", &pods), &listers, &pod), "a: a1");
    }

    #[test]
    fn a_budget_is_violated_only_if_there_is_no_other_way() {
        let listers = Listers::empty();
        let budget = json!({"metadata": {"namespace": "default", "name": "b"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0}});
        let item = Item::parse(budget.to_string().into_bytes()).unwrap();
        listers.budgets.indexer().insert(item);
        let spec = json!({"containers": [{"resources": {"requests": {"cpu": "4"}}}]});
        let db = observe("db", &json!({"labels": {"app": "db"}}), &spec);
        let mut cache = with_pods("a; b", &[("b1", 5, "4", "b")]);
        cache.set_pod(Arc::new(db), "a");
        let pod = prioritized("p", 10, "cpu=4");
        assert_eq!(preempt(&cache, &listers, &pod), "b: b1");
        assert_eq!(preempt(&cache, &Listers::empty(), &pod), "a: db");
        cache.remove_node("b");
        cache.refresh_order();
        assert_eq!(preempt(&cache, &listers, &pod), "a: db");
    }

    #[test]
    fn a_pod_that_never_preempts_says_so() {
        let cache = with_pods("a", &[("low", 0, "4", "a")]);
        let pod = PodInfo { can_preempt: false, ..prioritized("p", 10, "cpu=4") };
        assert_eq!(
            preempt(&cache, &Listers::empty(), &pod),
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, \
             preemption: not eligible due to preemptionPolicy=Never."
        );
    }
}
