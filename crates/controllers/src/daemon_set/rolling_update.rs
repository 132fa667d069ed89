//! The plan of a rolling update: outdated pods are deleted within `maxUnavailable`, or get a successor
//! on the same node within `maxSurge`.
//!
//! Upstream: pkg/controller/daemon/update.go `rollingUpdate`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::placement::Eligibility;
use super::plan::{Observed, Plan};
use super::view::PodView;

/// The pods of a node, at most one of each template.
#[derive(Clone, Copy)]
struct NodePods<'a> {
    new: Option<&'a Arc<PodView>>,
    old: Option<&'a Arc<PodView>>,
}

impl Observed<'_> {
    /// The next step of the update.
    pub(super) fn plan_update(&self) -> Result<Plan, String> {
        let desired = self.nodes.iter().map(|node| self.placement.eligibility(node));
        let desired = desired.filter(|it| *it == Eligibility::Run).count();
        let max_surge = self.set.max_surge(desired)?;
        let mut max_unavailable = self.set.max_unavailable(desired)?;
        if desired > 0 && max_unavailable == 0 && max_surge == 0 {
            max_unavailable = 1;
        }
        let nodes = self.pods_of_nodes();
        Ok(match max_surge {
            0 => self.plan_replacement(&nodes, max_unavailable),
            max_surge => self.plan_surge_update(&nodes, max_surge, desired),
        })
    }

    /// The pods of the nodes that have or should have one; `None` if there are several of a
    /// template.
    fn pods_of_nodes(&self) -> BTreeMap<&str, Option<NodePods<'_>>> {
        let none = Some(NodePods { new: None, old: None });
        let running =
            self.nodes.iter().filter(|it| self.placement.eligibility(it) == Eligibility::Run);
        let mut nodes: BTreeMap<&str, Option<NodePods<'_>>> =
            running.map(|node| (node.metadata.name.as_str(), none)).collect();
        for (node, pods) in &self.pods {
            nodes.insert(node, self.sort_pods(pods));
        }
        nodes
    }

    fn sort_pods<'p>(&self, pods: &'p [Arc<PodView>]) -> Option<NodePods<'p>> {
        let mut sorted = NodePods { new: None, old: None };
        for pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
            let is_updated = self.set.is_updated(pod, self.hash);
            let place = if is_updated { &mut sorted.new } else { &mut sorted.old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(sorted)
    }

    /// Deletes outdated pods: all that are unavailable, and others as long as no more than
    /// `max_unavailable` nodes have no available pod.
    fn plan_replacement(
        &self,
        nodes: &BTreeMap<&str, Option<NodePods<'_>>>,
        max_unavailable: usize,
    ) -> Plan {
        let (mut unavailable, mut candidates) = (0, Vec::new());
        let mut plan = Plan::default();
        for pods in nodes.values() {
            match pods {
                Some(NodePods { new: Some(new), old: None }) => {
                    unavailable += usize::from(!self.is_available(new));
                }
                Some(NodePods { new: None, old: Some(old) }) if self.is_available(old) => {
                    candidates.push(Arc::clone(old));
                }
                Some(NodePods { new: None, old: Some(old) }) => {
                    plan.delete.push(Arc::clone(old));
                    unavailable += 1;
                }
                _ => unavailable += 1,
            }
        }
        let budget = max_unavailable.saturating_sub(unavailable);
        plan.delete.extend(candidates.into_iter().take(budget));
        plan
    }

    /// Creates successors beside outdated pods, and deletes outdated pods whose successor is
    /// available.
    fn plan_surge_update(
        &self,
        nodes: &BTreeMap<&str, Option<NodePods<'_>>>,
        max_surge: usize,
        desired: usize,
    ) -> Plan {
        let mut plan = Plan::default();
        let (mut surge, mut available) = (0, 0);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for (node, pods) in nodes {
            let Some(NodePods { new, old }) = pods else {
                surge += 1;
                continue;
            };
            let counted = old.or(*new).is_some_and(|pod| self.is_available(pod));
            available += usize::from(counted);
            let Some(old) = old else { continue };
            match new {
                Some(new) if self.is_available(new) => plan.delete.push(Arc::clone(old)),
                Some(_) => surge += 1,
                None if self.should_run_on(node) && counted => candidates.push((*node).to_owned()),
                None if self.should_run_on(node) => plan.create_on.push((*node).to_owned()),
                None if counted => misplaced.push(Arc::clone(old)),
                None => plan.delete.push(Arc::clone(old)),
            }
        }
        // Pods on nodes that get no new pod are deleted when enough others are available.
        plan.delete.extend(misplaced.into_iter().take(available.saturating_sub(desired)));
        let budget = max_surge.saturating_sub(surge);
        plan.create_on.extend(candidates.into_iter().take(budget));
        plan
    }
}
