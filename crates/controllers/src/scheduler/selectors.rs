//! Selectors of labels, and preferences of nodes, as they are in a pod. Those of nodes are in
//! [`node_matching`](machinery::node_matching).

use serde::Deserialize;

use super::label_set::{LabelSet, Labels};
use machinery::node_matching::{NodeSelectorTerm, Requirement};

/// A `metav1.LabelSelector`. An empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    pub match_labels: LabelSet,
    pub match_expressions: Box<[Requirement]>,
}

impl Selector {
    /// A selector of all these labels.
    pub(crate) fn of_labels(match_labels: LabelSet) -> Self {
        Self { match_labels, match_expressions: Box::default() }
    }

    /// Whether it has no condition.
    pub(crate) fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether it selects an object with these labels.
    pub(crate) fn matches(&self, labels: &impl Labels) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.value_of(key) == Some(value))
            && self.match_expressions.iter().all(|known| known.matches(labels.value_of(&known.key)))
    }
}

/// A node selector term that raises the score of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PreferredNodes {
    pub weight: i64,
    pub preference: NodeSelectorTerm,
}
