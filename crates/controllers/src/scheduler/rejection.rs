//! [`Rejection`]: why a plugin rejects a node, and [`Diagnosis`], why a pod fits on no node.
//!
//! Upstream: framework/types.go `FitError`

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::cluster_cache::NodeId;

/// A plugin that can reject a pod. Upstream names are used in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    /// Not of Kubernetes: the pod has too many [constraints](super::constraints).
    TooManyConditions,
}

/// A set of plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Plugins(u16);

impl Plugins {
    /// Adds a plugin.
    pub(crate) fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u16;
    }

    /// Whether a plugin is in the set.
    pub(crate) fn contains(self, plugin: Plugin) -> bool {
        self.0 & 1 << plugin as u16 != 0
    }

    /// Whether one of the plugins is in the set.
    pub(crate) fn contains_any(self, plugins: &[Plugin]) -> bool {
        plugins.iter().any(|plugin| self.contains(*plugin))
    }

    /// A number that identifies the set.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub plugin: Plugin,
    /// Whether the removal of pods from the node cannot help.
    pub is_unresolvable: bool,
    /// The first reason, in Kubernetes' words.
    pub reason: Cow<'static, str>,
    /// Further reasons.
    pub more_reasons: Vec<Cow<'static, str>>,
}

impl Rejection {
    /// A rejection that the removal of pods could resolve.
    pub(crate) fn new(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Self {
        let more_reasons = Vec::new();
        Self { plugin, is_unresolvable: false, reason: reason.into(), more_reasons }
    }

    /// A rejection that the removal of pods cannot resolve.
    pub(crate) fn unresolvable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { is_unresolvable: true, ..Self::new(plugin, reason) }
    }

    fn reasons(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.reason).chain(&self.more_reasons).map(AsRef::as_ref)
    }
}

/// Why a pod fits on no node.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// The nodes that were tested.
    pub nodes: Vec<(NodeId, Rejection)>,
    /// The rejection of all nodes before they were tested.
    pub all_nodes: Option<Rejection>,
    /// The plugin that has excluded the nodes that were not tested.
    pub excluded_by: Option<Plugin>,
}

impl Diagnosis {
    /// The plugins that have rejected the pod.
    pub(crate) fn plugins(&self) -> Plugins {
        let mut plugins = Plugins::default();
        for rejection in self.nodes.iter().map(|(_, it)| it).chain(&self.all_nodes) {
            plugins.insert(rejection.plugin);
        }
        if let Some(plugin) = self.excluded_by {
            plugins.insert(plugin);
        }
        plugins
    }

    /// The rejection of one node.
    pub(crate) fn of_node(&self, id: NodeId) -> Option<&Rejection> {
        self.nodes.iter().find(|(known, _)| *known == id).map(|(_, it)| it)
    }

    /// The message about `total` nodes.
    pub(crate) fn message(&self, total: usize) -> String {
        if let Some(rejection) = &self.all_nodes {
            return format!("0/{total} nodes are available: {}.", rejection.reason);
        }
        let reasons = self.nodes.iter().flat_map(|(_, rejection)| rejection.reasons());
        let mut counts = count(reasons);
        if let Some(plugin) = self.excluded_by
            && self.nodes.len() < total
        {
            let reason = format!("node(s) didn't satisfy plugin(s) [{plugin:?}]");
            *counts.entry(reason).or_default() += total - self.nodes.len();
        }
        available_message(total, counts)
    }
}

fn count<'a>(reasons: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for reason in reasons {
        match counts.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(counts.insert(reason.to_owned(), 1)),
        }
    }
    counts
}

/// The message that no node is available, with the number of nodes for each reason. The parts are in
/// the order of their text, which begins with the number.
fn available_message(total: usize, counts: BTreeMap<String, usize>) -> String {
    let mut parts: Vec<_> =
        counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort_unstable();
    if parts.is_empty() {
        return format!("0/{total} nodes are available:");
    }
    format!("0/{total} nodes are available: {}.", parts.join(", "))
}

/// The message that preemption does not help: the rejections of nodes after their victims were
/// removed, of `total` nodes.
pub(crate) fn preemption_message(total: usize, rejections: &[Result<(), Rejection>]) -> String {
    let reasons = rejections.iter().flat_map(|rejection| match rejection {
        Ok(()) => vec!["No preemption victims found for incoming pod"],
        Err(rejection) => rejection.reasons().collect(),
    });
    let mut counts = count(reasons);
    if rejections.len() < total {
        let reason = "Preemption is not helpful for scheduling".to_owned();
        *counts.entry(reason).or_default() += total - rejections.len();
    }
    available_message(total, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_by_their_text() {
        let mut diagnosis = Diagnosis::default();
        let taint =
            Rejection::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)");
        let mut cpu = Rejection::new(Plugin::NodeResourcesFit, "Insufficient cpu");
        cpu.more_reasons.push("Too many pods".into());
        diagnosis.nodes = vec![(0, taint), (1, cpu.clone()), (2, cpu)];
        assert_eq!(
            diagnosis.message(3),
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu, \
             2 Too many pods."
        );
        let plugins = diagnosis.plugins();
        assert!(plugins.contains(Plugin::NodeResourcesFit));
        assert!(!plugins.contains(Plugin::NodePorts));
    }

    #[test]
    fn nodes_that_were_not_tested_are_counted() {
        let diagnosis =
            Diagnosis { excluded_by: Some(Plugin::NodeAffinity), ..Diagnosis::default() };
        assert_eq!(
            diagnosis.message(2),
            "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
        );
        let cpu = Err(Rejection::new(Plugin::NodeResourcesFit, "Insufficient cpu"));
        assert_eq!(
            preemption_message(3, &[cpu, Ok(())]),
            "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for \
             incoming pod, 1 Preemption is not helpful for scheduling."
        );
    }
}
