//! [`Constraints`]: what a pod demands of nodes and of other pods, the part of its traits that pods of
//! one template share even if their labels differ, as those of a `StatefulSet` do.
//!
//! A pod with more than [`MAX_CONDITIONS`] is not scheduled, and its constraints are not kept: an
//! object of a megabyte has room for twelve thousand terms, each of which every later decision would
//! consider.

use std::collections::HashSet;
use std::sync::Arc;

use super::label_set::{LabelSet, Labels};
use super::pod_info::PodTraits;
use super::pod_wire::{SpecWire, SpreadWire, TermWire, WeightedTermWire};
use super::selectors::{PreferredNodes, Selector};
use crate::taints::Toleration;
use machinery::node_matching::{NodeSelector, NodeSelectorTerm, Requirement};

/// The number of conditions up to which a pod is scheduled. Terms, tolerations, spread constraints,
/// and the labels, expressions, values and namespaces in them are conditions. Usual pods have fewer
/// than 50.
pub(crate) const MAX_CONDITIONS: usize = 1_000;
/// The text of a condition; a longer one counts several times.
const CONDITION_BYTES: usize = 256;

/// See the [module documentation](self).
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Constraints {
    pub node_selector: LabelSet,
    pub required_nodes: Option<NodeSelector>,
    pub preferred_nodes: Box<[PreferredNodes]>,
    pub affinity: Box<[AffinityTerm]>,
    pub anti_affinity: Box<[AffinityTerm]>,
    /// With weights.
    pub preferred_affinity: Box<[(i64, AffinityTerm)]>,
    /// With weights.
    pub preferred_anti_affinity: Box<[(i64, AffinityTerm)]>,
    pub tolerations: Box<[Toleration]>,
    pub spread: Box<[SpreadConstraint]>,
    /// The number of conditions. If it exceeds the limit, all lists are empty.
    pub conditions: usize,
}

impl Constraints {
    /// The constraints of a pod with these labels.
    pub(crate) fn of(spec: &mut SpecWire, namespace: &str, labels: &LabelSet) -> Self {
        let conditions = Count::of(spec);
        if conditions > MAX_CONDITIONS {
            return Self { conditions, ..Self::default() };
        }
        let affinity = std::mem::take(&mut spec.affinity);
        let mut texts = Texts::default();
        let mut term = |wire| AffinityTerm::of(wire, namespace, &mut texts);
        let (to_nodes, to_pods) = (affinity.to_nodes, affinity.to_pods);
        let against_pods = affinity.against_pods;
        let mut weighted = |it: WeightedTermWire| (it.weight, term(it.pod_affinity_term));
        let preferred_affinity = to_pods.preferred.into_iter().map(&mut weighted).collect();
        let preferred_anti_affinity = against_pods.preferred.into_iter().map(weighted).collect();
        let spread = std::mem::take(&mut spec.topology_spread_constraints).into_iter();
        Self {
            node_selector: std::mem::take(&mut spec.node_selector),
            required_nodes: to_nodes.required.map(shrunk_selector),
            preferred_nodes: to_nodes.preferred.into_iter().map(shrunk_preference).collect(),
            affinity: to_pods.required.into_iter().map(&mut term).collect(),
            anti_affinity: against_pods.required.into_iter().map(&mut term).collect(),
            preferred_affinity,
            preferred_anti_affinity,
            tolerations: std::mem::take(&mut spec.tolerations).into(),
            spread: spread.map(|wire| SpreadConstraint::of(wire, labels)).collect(),
            conditions,
        }
    }

    /// Whether the pod has more conditions than this scheduler considers.
    pub(crate) fn are_too_many(&self) -> bool {
        self.conditions > MAX_CONDITIONS
    }

    /// The number of terms about other pods.
    pub(crate) fn number_of_terms(&self) -> usize {
        let required = self.affinity.len() + self.anti_affinity.len();
        required + self.preferred_affinity.len() + self.preferred_anti_affinity.len()
    }

    /// About the memory of the constraints, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.conditions.min(MAX_CONDITIONS) * CONDITION_BYTES
    }
}

// Vectors from JSON have room for more elements.

fn shrink(requirements: &mut [Requirement]) {
    for requirement in requirements {
        requirement.values.shrink_to_fit();
    }
}

fn shrink_term(term: &mut NodeSelectorTerm) {
    for requirements in [&mut term.match_expressions, &mut term.match_fields] {
        shrink(requirements);
        requirements.shrink_to_fit();
    }
}

fn shrunk_selector(mut selector: NodeSelector) -> NodeSelector {
    selector.node_selector_terms.iter_mut().for_each(shrink_term);
    selector.node_selector_terms.shrink_to_fit();
    selector
}

fn shrunk_preference(mut preferred: PreferredNodes) -> PreferredNodes {
    shrink_term(&mut preferred.preference);
    preferred
}

/// Counts conditions.
#[derive(Debug, Default)]
struct Count(usize);

impl Count {
    fn of(spec: &SpecWire) -> usize {
        let mut count = Self::default();
        count.labels(&spec.node_selector);
        let to_nodes = &spec.affinity.to_nodes;
        let required = to_nodes.required.iter().flat_map(|it| &it.node_selector_terms);
        for term in required.chain(to_nodes.preferred.iter().map(|it| &it.preference)) {
            count.0 += 1;
            count.requirements(&term.match_expressions);
            count.requirements(&term.match_fields);
        }
        for terms in [&spec.affinity.to_pods, &spec.affinity.against_pods] {
            let preferred = terms.preferred.iter().map(|it| &it.pod_affinity_term);
            for term in terms.required.iter().chain(preferred) {
                count.text(&term.topology_key);
                term.namespaces.iter().for_each(|namespace| count.text(namespace));
                count.selector(term.namespace_selector.as_ref());
                count.selector(term.label_selector.as_ref());
            }
        }
        for it in &spec.tolerations {
            count.0 += 1 + (it.key.len() + it.value.len()) / CONDITION_BYTES;
        }
        for constraint in &spec.topology_spread_constraints {
            count.text(&constraint.topology_key);
            constraint.match_label_keys.iter().for_each(|key| count.text(key));
            count.selector(constraint.label_selector.as_ref());
        }
        count.0
    }

    fn text(&mut self, text: &str) {
        self.0 += 1 + text.len() / CONDITION_BYTES;
    }

    fn labels(&mut self, labels: &LabelSet) {
        self.0 += labels.len() + labels.bytes() / CONDITION_BYTES;
    }

    fn selector(&mut self, selector: Option<&Selector>) {
        if let Some(selector) = selector {
            self.labels(&selector.match_labels);
            self.requirements(&selector.match_expressions);
        }
    }

    fn requirements(&mut self, requirements: &[Requirement]) {
        for requirement in requirements {
            self.text(&requirement.key);
            requirement.values.iter().for_each(|value| self.text(value));
        }
    }
}

/// The texts that many terms of a pod have in common.
#[derive(Debug, Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = text.into();
        self.0.insert(Arc::clone(&shared));
        shared
    }
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AffinityTerm {
    /// Sorted.
    pub namespaces: Box<[Arc<str>]>,
    /// Without a selector, no namespace but those of the list. Few terms have one.
    pub namespace_selector: Option<Box<Selector>>,
    /// Without a selector, no pod.
    pub selector: Option<Selector>,
    pub topology_key: Arc<str>,
}

impl AffinityTerm {
    fn of(wire: TermWire, namespace: &str, texts: &mut Texts) -> Self {
        let mut namespaces: Vec<_> = wire.namespaces.iter().map(|it| texts.share(it)).collect();
        if namespaces.is_empty() && wire.namespace_selector.is_none() {
            namespaces.push(texts.share(namespace));
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        let (mut namespace_selector, mut selector) = (wire.namespace_selector, wire.label_selector);
        for selector in namespace_selector.iter_mut().chain(&mut selector) {
            shrink(&mut selector.match_expressions);
        }
        Self {
            namespaces: namespaces.into(),
            namespace_selector: namespace_selector.map(Box::new),
            selector,
            topology_key: texts.share(&wire.topology_key),
        }
    }

    /// Whether the term selects a pod, whose namespace has these labels.
    pub(crate) fn matches(&self, pod: &PodTraits, namespace: &impl Labels) -> bool {
        let is_in_namespace = self.has_namespace(&pod.namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| selector.matches(namespace));
        is_in_namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.binary_search_by(|known| (**known).cmp(namespace)).is_ok()
    }
}

/// A constraint on the spread of pods over topology domains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SpreadConstraint {
    pub max_skew: i64,
    pub topology_key: String,
    /// Whether a pod that violates it is not scheduled.
    pub is_hard: bool,
    /// All must match. Without a selector, no pod is counted.
    pub selectors: Option<Vec<Selector>>,
    pub min_domains: i64,
    pub honors_node_affinity: bool,
    pub honors_taints: bool,
}

impl SpreadConstraint {
    fn of(wire: SpreadWire, labels: &LabelSet) -> Self {
        let selectors = wire.label_selector.map(|mut selector| {
            let keys = wire.match_label_keys.iter();
            let matched: Vec<_> =
                keys.filter_map(|key| Some((key.as_str(), labels.get(key)?))).collect();
            if !matched.is_empty() {
                selector.match_labels = selector.match_labels.with(matched.into_iter());
            }
            shrink(&mut selector.match_expressions);
            vec![selector]
        });
        Self {
            max_skew: wire.max_skew,
            topology_key: wire.topology_key,
            is_hard: wire.when_unsatisfiable != "ScheduleAnyway",
            selectors,
            min_domains: wire.min_domains.unwrap_or(1),
            honors_node_affinity: wire.node_affinity_policy != "Ignore",
            honors_taints: wire.node_taints_policy == "Honor",
        }
    }

    /// Whether a pod of the same namespace with these labels is counted.
    pub(crate) fn selects(&self, labels: &LabelSet) -> bool {
        let selectors = self.selectors.as_deref();
        selectors.is_some_and(|all| all.iter().all(|selector| selector.matches(labels)))
    }

    /// Whether pods on nodes are counted at all. An empty selector counts none, as in Kubernetes.
    pub(crate) fn counts_pods(&self) -> bool {
        let selectors = self.selectors.as_deref();
        selectors.is_some_and(|all| !all.iter().all(Selector::is_empty))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> Constraints {
        let mut spec = serde_json::from_value(spec).unwrap();
        Constraints::of(&mut spec, "n", &LabelSet::default())
    }

    fn terms(count: usize) -> Value {
        let term = |index: usize| {
            json!({"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": format!("{index}")}}})
        };
        let terms: Vec<_> = (0..count).map(term).collect();
        json!({"affinity": {"podAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    }

    #[test]
    fn all_that_takes_memory_counts_as_a_condition() {
        let expression = json!({"key": "k", "operator": "In", "values": ["a", "b"]});
        let cases = [
            (json!({}), 0),
            (json!({"nodeSelector": {"a": "b", "c": "d"}}), 2),
            (json!({"tolerations": [{"key": "a"}, {"operator": "Exists"}]}), 2),
            (terms(3), 6),
            (
                json!({"affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [expression]}, {"matchFields": [expression]}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchExpressions": [expression]}}]}}}),
                12,
            ),
            (
                json!({"affinity": {"podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
                    "podAffinityTerm": {"topologyKey": "k", "namespaces": ["a", "b"],
                        "namespaceSelector": {"matchLabels": {"a": "b"}},
                        "labelSelector": {"matchExpressions": [expression]}}}]}}}),
                7,
            ),
            (
                json!({"topologySpreadConstraints": [{"topologyKey": "k", "matchLabelKeys": ["a"],
                    "labelSelector": {"matchLabels": {"a": "b"}}}]}),
                3,
            ),
            (json!({"tolerations": [{"key": "k".repeat(CONDITION_BYTES * 9)}]}), 10),
        ];
        for (spec, expected) in cases {
            assert_eq!(of(spec.clone()).conditions, expected, "{spec}");
        }
    }

    #[test]
    fn constraints_beyond_the_limit_are_not_kept() {
        let largest = of(terms(MAX_CONDITIONS / 2));
        assert!(!largest.are_too_many());
        assert_eq!(largest.affinity.len(), MAX_CONDITIONS / 2);
        let larger = of(terms(MAX_CONDITIONS / 2 + 1));
        assert!(larger.are_too_many() && larger.affinity.is_empty());
        assert!(larger.bytes() >= size_of::<Constraints>());
    }

    #[test]
    fn a_term_takes_little_memory() {
        // With sets and maps in it a term took about a thousand bytes, those of its parts included.
        assert!(size_of::<AffinityTerm>() <= 96, "{}", size_of::<AffinityTerm>());
        let terms = of(terms(100)).affinity;
        for term in &terms {
            assert!(Arc::ptr_eq(&term.topology_key, &terms[0].topology_key));
            assert!(Arc::ptr_eq(&term.namespaces[0], &terms[0].namespaces[0]));
        }
    }
}
