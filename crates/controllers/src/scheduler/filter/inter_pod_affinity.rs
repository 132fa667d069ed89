//! The filter `InterPodAffinity`: required affinity and anti-affinity of the pod, and required
//! anti-affinity of the pods that exist.
//!
//! Upstream: plugins/interpodaffinity/filtering.go

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::scheduler::cluster_cache::{ClusterCache, PodClass};
use crate::scheduler::constraints::AffinityTerm;
use crate::scheduler::node_info::NodeInfo;
use crate::scheduler::pod_info::{PodInfo, PodTraits};
use crate::scheduler::rejection::{Plugin, Rejection};

/// Counts by topology key and value.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopologyCounts(BTreeMap<String, HashMap<Arc<str>, i64>>);

impl TopologyCounts {
    /// Adds to the domain of a node, if the node has the topology key.
    pub(crate) fn add(&mut self, node: &NodeInfo, key: &str, by: i64) {
        let Some(value) = node.label(key).filter(|_| by != 0) else { return };
        if !self.0.contains_key(key) {
            self.0.insert(key.to_owned(), HashMap::new());
        }
        let Some(values) = self.0.get_mut(key) else { return };
        let count = values.entry(Arc::clone(value)).or_default();
        *count += by;
        if *count == 0 {
            values.remove(value);
        }
        if values.is_empty() {
            self.0.remove(key);
        }
    }

    /// Whether there is no count.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The count of the node's domain.
    pub(crate) fn of_node(&self, node: &NodeInfo, key: &str) -> i64 {
        let value = node.label(key).and_then(|value| self.0.get(key)?.get(value));
        value.copied().unwrap_or_default()
    }

    /// The sum over all topology keys.
    pub(crate) fn sum_of_node(&self, node: &NodeInfo) -> i64 {
        self.0.keys().map(|key| self.of_node(node, key)).sum()
    }

    fn has_any_of_node(&self, node: &NodeInfo) -> bool {
        self.0.keys().any(|key| self.of_node(node, key) > 0)
    }
}

/// What the filter computes once per decision.
#[derive(Debug, Clone)]
pub(crate) struct AffinityState {
    pod: Arc<PodTraits>,
    /// The domains in which pods exist that the affinity of the pod selects, all terms together.
    affinity: TopologyCounts,
    /// The domains in which pods exist that the anti-affinity of the pod selects.
    anti_affinity: TopologyCounts,
    /// The domains in which pods exist whose anti-affinity selects the pod.
    existing_anti_affinity: TopologyCounts,
    /// Whether the pod satisfies its own affinity, so that the first of a group can be scheduled.
    selects_itself: bool,
}

impl AffinityState {
    /// `None` if there is no affinity to consider.
    pub(super) fn prepare(cache: &ClusterCache, pod: &PodInfo) -> Option<Self> {
        let (traits, own) = (&pod.traits, &pod.traits.constraints);
        let labels = cache.namespace_labels(&traits.namespace);
        let mut state = Self {
            pod: Arc::clone(traits),
            affinity: TopologyCounts::default(),
            anti_affinity: TopologyCounts::default(),
            existing_anti_affinity: TopologyCounts::default(),
            selects_itself: matches_all(&own.affinity, traits, labels),
        };
        for (constraints, classes) in cache.groups_with_anti_affinity() {
            let terms = constraints.anti_affinity.iter();
            for term in terms.filter(|term| term.matches(traits, labels)) {
                let counts = &mut state.existing_anti_affinity;
                classes.clone().for_each(|it| add_class(counts, cache, it, &term.topology_key));
            }
        }
        if own.affinity.is_empty() && own.anti_affinity.is_empty() {
            return (!state.existing_anti_affinity.is_empty()).then_some(state);
        }
        let terms = own.affinity.iter().chain(&own.anti_affinity);
        for_each_class(cache, terms, |class| {
            let labels = cache.namespace_labels(&class.traits.namespace);
            if matches_all(&own.affinity, &class.traits, labels) {
                for term in &own.affinity {
                    add_class(&mut state.affinity, cache, class, &term.topology_key);
                }
            }
            let terms = own.anti_affinity.iter();
            for term in terms.filter(|term| term.matches(&class.traits, labels)) {
                add_class(&mut state.anti_affinity, cache, class, &term.topology_key);
            }
        });
        Some(state)
    }

    pub(super) fn filter(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let plugin = Plugin::InterPodAffinity;
        let terms = &pod.traits.constraints.affinity;
        if !self.satisfies_affinity(terms, node) {
            let reason = "node(s) didn't match pod affinity rules";
            return Err(Rejection::unresolvable(plugin, reason));
        }
        let mut terms = pod.traits.constraints.anti_affinity.iter();
        if terms.any(|term| self.anti_affinity.of_node(node, &term.topology_key) > 0) {
            return Err(Rejection::new(plugin, "node(s) didn't match pod anti-affinity rules"));
        }
        if self.existing_anti_affinity.has_any_of_node(node) {
            let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Err(Rejection::new(plugin, reason));
        }
        Ok(())
    }

    fn satisfies_affinity(&self, terms: &[AffinityTerm], node: &NodeInfo) -> bool {
        if terms.iter().any(|term| node.label(&term.topology_key).is_none()) {
            return false;
        }
        terms.iter().all(|term| self.affinity.of_node(node, &term.topology_key) > 0)
            || self.affinity.is_empty() && self.selects_itself
    }

    pub(super) fn change(
        &mut self,
        cache: &ClusterCache,
        other: &PodInfo,
        node: &NodeInfo,
        by: i64,
    ) {
        let own_labels = cache.namespace_labels(&self.pod.namespace);
        for term in &other.traits.constraints.anti_affinity {
            if term.matches(&self.pod, own_labels) {
                self.existing_anti_affinity.add(node, &term.topology_key, by);
            }
        }
        let labels = cache.namespace_labels(&other.traits.namespace);
        if matches_all(&self.pod.constraints.affinity, &other.traits, labels) {
            for term in &self.pod.constraints.affinity {
                self.affinity.add(node, &term.topology_key, by);
            }
        }
        for term in &self.pod.constraints.anti_affinity {
            if term.matches(&other.traits, labels) {
                self.anti_affinity.add(node, &term.topology_key, by);
            }
        }
    }
}

/// Whether there are terms, and all select a pod.
fn matches_all(
    terms: &[AffinityTerm],
    pod: &PodTraits,
    namespace: &BTreeMap<String, String>,
) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.matches(pod, namespace))
}

/// Counts the pods of a class in the domains of their nodes.
fn add_class(counts: &mut TopologyCounts, cache: &ClusterCache, class: &PodClass, key: &str) {
    for (node, count) in &class.nodes {
        counts.add(cache.node(*node), key, count.all);
    }
}

/// Calls `visit` for the classes in the namespaces that the terms can select.
pub(crate) fn for_each_class<'a>(
    cache: &'a ClusterCache,
    terms: impl Iterator<Item = &'a AffinityTerm> + Clone,
    mut visit: impl FnMut(&'a PodClass),
) {
    if terms.clone().any(|term| term.namespace_selector.is_some()) {
        return cache.classes().for_each(visit);
    }
    let mut namespaces: Vec<&Arc<str>> = terms.flat_map(|term| &term.namespaces).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    for namespace in namespaces {
        cache.classes_in(namespace).for_each(&mut visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::testing::{cluster, labeled, pod_json, reasons};

    const NODES: &str = "a zone=1; b zone=1; c zone=2; d";

    fn affinity(kind: &str, labels: &str, key: &str) -> String {
        format!(
            r#"{{"affinity":{{"{kind}":{{"requiredDuringSchedulingIgnoredDuringExecution":[
            {{"topologyKey":"{key}","labelSelector":{{"matchLabels":{{"app":"{labels}"}}}}}}]}}}}}}"#
        )
    }

    #[test]
    fn affinity_requires_a_pod_in_the_same_domain() {
        let cache = cluster(NODES, &[("db", r#"{"labels":{"app":"db"}}"#, "a")]);
        let web = pod_json(&affinity("podAffinity", "db", "zone"));
        let mismatch = "!node(s) didn't match pod affinity rules";
        assert_eq!(reasons(&cache, &web), ["fits", "fits", mismatch, mismatch]);
    }

    #[test]
    fn the_first_pod_of_a_group_needs_no_other() {
        let cache = cluster(NODES, &[]);
        let first = labeled(r#"{"app":"db"}"#, &affinity("podAffinity", "db", "zone"));
        let mismatch = "!node(s) didn't match pod affinity rules";
        assert_eq!(reasons(&cache, &first), ["fits", "fits", "fits", mismatch]);
        let other = labeled(r#"{"app":"web"}"#, &affinity("podAffinity", "db", "zone"));
        assert_eq!(reasons(&cache, &other), [mismatch; 4]);
    }

    #[test]
    fn anti_affinity_excludes_the_domains_of_selected_pods() {
        let cache = cluster(NODES, &[("db", r#"{"labels":{"app":"db"}}"#, "a")]);
        let web = pod_json(&affinity("podAntiAffinity", "db", "zone"));
        let conflict = "node(s) didn't match pod anti-affinity rules";
        assert_eq!(reasons(&cache, &web), [conflict, conflict, "fits", "fits"]);
    }

    #[test]
    fn the_anti_affinity_of_pods_that_exist_counts() {
        let spec = affinity("podAntiAffinity", "web", "zone");
        let lonely = format!(r#"{{"labels":{{"app":"db"}},"spec":{spec}}}"#);
        let cache = cluster(NODES, &[("db", &lonely, "c")]);
        let web = labeled(r#"{"app":"web"}"#, "{}");
        let conflict = "node(s) didn't satisfy existing pods anti-affinity rules";
        assert_eq!(reasons(&cache, &web), ["fits", "fits", conflict, "fits"]);
        let other = labeled(r#"{"app":"other"}"#, "{}");
        assert_eq!(reasons(&cache, &other), ["fits"; 4]);
    }

    #[test]
    fn a_namespace_selector_extends_the_namespaces() {
        let term = |namespaces: &str| {
            format!(
                r#"{{"affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[
                {{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"db"}}}},
                "namespaceSelector":{namespaces}}}]}}}}}}"#
            )
        };
        let pods = [("db", r#"{"namespace":"far","labels":{"app":"db"}}"#, "c")];
        let mut cache = cluster(NODES, &pods);
        let far = BTreeMap::from([("team".to_owned(), "x".to_owned())]);
        cache.namespaces.insert("far".to_owned(), far);
        let mismatch = "!node(s) didn't match pod affinity rules";
        let selected = pod_json(&term(r#"{"matchLabels":{"team":"x"}}"#));
        assert_eq!(reasons(&cache, &selected), [mismatch, mismatch, "fits", mismatch]);
        let unselected = pod_json(&term(r#"{"matchLabels":{"team":"y"}}"#));
        assert_eq!(reasons(&cache, &unselected), [mismatch; 4]);
    }
}
