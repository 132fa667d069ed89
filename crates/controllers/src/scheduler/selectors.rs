//! Selectors of labels and of nodes, as they are in a pod.

use std::collections::BTreeMap;
use std::hash::Hash;

use serde::Deserialize;

/// How the value of a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub(crate) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// A condition on one label or field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Requirement {
    pub key: String,
    pub operator: Operator,
    #[serde(default)]
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether the value of the label satisfies the requirement; `None` if there is no such label.
    pub(crate) fn matches(&self, value: Option<&str>) -> bool {
        let is_listed = |value: &str| self.values.iter().any(|known| known == value);
        let compared = |order: std::cmp::Ordering| {
            let limit = self.values.first().and_then(|limit| limit.parse::<i64>().ok());
            let value = value.and_then(|value| value.parse::<i64>().ok());
            value.zip(limit).is_some_and(|(value, limit)| value.cmp(&limit) == order)
        };
        match self.operator {
            Operator::In => value.is_some_and(is_listed),
            Operator::NotIn => !value.is_some_and(is_listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared(std::cmp::Ordering::Greater),
            Operator::Lt => compared(std::cmp::Ordering::Less),
        }
    }
}

/// A `metav1.LabelSelector`. An empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<Requirement>,
}

impl Selector {
    /// A selector of all these labels.
    pub(crate) fn of_labels(match_labels: BTreeMap<String, String>) -> Self {
        Self { match_labels, match_expressions: Vec::new() }
    }

    /// Whether it has no condition.
    pub(crate) fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether it selects an object with these labels.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|known| known.matches(labels.get(&known.key).map(String::as_str)))
    }
}

/// Gives the labels of a node.
pub(crate) trait NodeLabels {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
    /// The name of the node.
    fn node_name(&self) -> &str;
}

/// A term of a node selector: all of its conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelectorTerm {
    pub match_expressions: Vec<Requirement>,
    pub match_fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    /// Whether the term selects a node. An empty term selects none.
    pub(crate) fn matches(&self, node: &impl NodeLabels) -> bool {
        let is_empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let field = |key: &str| (key == "metadata.name").then(|| node.node_name());
        !is_empty
            && self.match_expressions.iter().all(|known| known.matches(node.label(&known.key)))
            && self.match_fields.iter().all(|known| known.matches(field(&known.key)))
    }

    /// The names of the nodes to which the term is restricted by `metadata.name`.
    pub(crate) fn node_names(&self) -> Option<Vec<&str>> {
        let is_name =
            |known: &&Requirement| known.key == "metadata.name" && known.operator == Operator::In;
        let mut requirements = self.match_fields.iter().filter(is_name);
        let mut names: Vec<&str> = requirements.next()?.values.iter().map(String::as_str).collect();
        for requirement in requirements {
            names.retain(|name| requirement.values.iter().any(|value| value == name));
        }
        Some(names)
    }
}

/// A node selector: one of its terms must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelector {
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

impl NodeSelector {
    /// Whether a term selects the node.
    pub(crate) fn matches(&self, node: &impl NodeLabels) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(node))
    }
}

/// A node selector term that raises the score of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PreferredNodes {
    pub weight: i64,
    pub preference: NodeSelectorTerm,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, &'static [(&'static str, &'static str)]);

    impl NodeLabels for Named {
        fn label(&self, key: &str) -> Option<&str> {
            self.1.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
        }

        fn node_name(&self) -> &str {
            self.0
        }
    }

    fn term(json: &str) -> NodeSelectorTerm {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_term_compares_labels_and_the_name() {
        let node = Named("n1", &[("zone", "a"), ("cores", "8")]);
        let cases = [
            (r#"{}"#, false),
            (r#"{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"disk","operator":"DoesNotExist"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"cores","operator":"Gt","values":["4"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"cores","operator":"Lt","values":["8"]}]}"#, false),
            (r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}"#, true),
            (r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}"#, false),
        ];
        for (json, expected) in cases {
            assert_eq!(term(json).matches(&node), expected, "{json}");
        }
    }

    #[test]
    fn a_term_with_names_restricts_the_nodes() {
        let json = r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]},
            {"key":"metadata.name","operator":"In","values":["b"]}]}"#;
        assert_eq!(term(json).node_names(), Some(vec!["b"]));
        assert_eq!(term("{}").node_names(), None);
    }
}
