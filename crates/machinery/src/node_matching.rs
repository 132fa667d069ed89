//! Whether a pod selects a node, by its node selector and its required node affinity.
//!
//! Upstream: component-helpers/scheduling/corev1/nodeaffinity

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::selector;

/// How the value of a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Operator {
    /// The value is one of those of the condition.
    In,
    /// It is none of them, or there is no value.
    NotIn,
    /// There is a value.
    Exists,
    /// There is none.
    DoesNotExist,
    /// The value is a greater number.
    Gt,
    /// The value is a smaller number.
    Lt,
}

/// A condition on one label or field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct Requirement {
    /// The key of the label, or the path of the field.
    pub key: String,
    /// How the value is compared.
    pub operator: Operator,
    /// The values that it is compared with.
    #[serde(default)]
    pub values: Vec<String>,
}

/// Gives the labels of a node.
pub trait NodeLabels {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
    /// The name of the node.
    fn node_name(&self) -> &str;
}

/// A term of a node selector: all of its conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// The conditions on labels.
    pub match_expressions: Vec<Requirement>,
    /// The conditions on fields; the only one is `metadata.name`.
    pub match_fields: Vec<Requirement>,
}

/// A node selector: one of its terms must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// The affinity of a pod, as far as it concerns nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// The affinity to nodes.
    pub node_affinity: NodeAffinity,
}

/// The affinity to nodes, without preferences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// The nodes on which the pod may run.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

/// Whether a pod with this node selector and this required affinity may run on a node.
pub fn matches_node(
    node_selector: &BTreeMap<String, String>,
    required: Option<&NodeSelector>,
    node: &impl NodeLabels,
) -> bool {
    node_selector.iter().all(|(key, value)| node.label(key) == Some(value))
        && required.is_none_or(|selector| selector.matches(node))
}

impl Requirement {
    /// Whether the value of the label satisfies the requirement; `None` if there is no such label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let operator = match self.operator {
            Operator::In => selector::Operator::In,
            Operator::NotIn => selector::Operator::NotIn,
            Operator::Exists => selector::Operator::Exists,
            Operator::DoesNotExist => selector::Operator::DoesNotExist,
            Operator::Gt => selector::Operator::GreaterThan,
            Operator::Lt => selector::Operator::LessThan,
        };
        let is_listed = |value: &str| self.values.iter().any(|it| it == value);
        operator.holds(value, is_listed, self.values.first().map(String::as_str))
    }
}

impl NodeSelectorTerm {
    /// Whether the term selects a node. An empty term selects none.
    pub fn matches(&self, node: &impl NodeLabels) -> bool {
        let is_empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let field = |key: &str| (key == "metadata.name").then(|| node.node_name());
        !is_empty
            && self.match_expressions.iter().all(|known| known.matches(node.label(&known.key)))
            && self.match_fields.iter().all(|known| known.matches(field(&known.key)))
    }

    /// The names of the nodes to which the term is restricted by `metadata.name`.
    pub fn node_names(&self) -> Option<Vec<&str>> {
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

impl NodeSelector {
    /// Whether a term selects the node.
    pub fn matches(&self, node: &impl NodeLabels) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(node))
    }

    /// The only node that the first term about names selects, as in pods of DaemonSets.
    pub fn only_node(&self) -> Option<&str> {
        let fields = self.node_selector_terms.iter().flat_map(|term| &term.match_fields);
        let mut names =
            fields.filter(|it| it.key == "metadata.name" && it.operator == Operator::In);
        match names.next()?.values.as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    struct Node(&'static [(&'static str, &'static str)]);

    impl NodeLabels for Node {
        fn label(&self, key: &str) -> Option<&str> {
            self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
        }

        fn node_name(&self) -> &'static str {
            "n1"
        }
    }

    fn selects(terms: &Value) -> bool {
        let selector = json!({"nodeSelectorTerms": terms});
        let selector: NodeSelector = serde_json::from_value(selector).unwrap();
        selector.matches(&Node(&[("zone", "a"), ("cores", "8")]))
    }

    #[test]
    fn one_term_with_all_of_its_conditions_selects_a_node() {
        let label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let name = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        for (terms, expected) in [
            (json!([]), false),
            (json!([{}]), false),
            (json!([label("zone", "In", &["a", "b"])]), true),
            (json!([label("zone", "NotIn", &["a"])]), false),
            (json!([label("disk", "NotIn", &["a"])]), true),
            (json!([label("disk", "DoesNotExist", &[])]), true),
            (json!([label("cores", "Gt", &["4"])]), true),
            (json!([label("cores", "Lt", &["8"])]), false),
            (json!([label("zone", "Gt", &["4"])]), false),
            (json!([name("n2"), name("n1")]), true),
            (json!([name("n2")]), false),
        ] {
            assert_eq!(selects(&terms), expected, "{terms}");
        }
    }

    #[test]
    fn the_labels_of_a_node_selector_and_the_affinity_must_both_match() {
        let node = Node(&[("zone", "a")]);
        let zone = |zone: &str| BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
        assert!(matches_node(&zone("a"), None, &node));
        assert!(!matches_node(&zone("b"), None, &node));
        assert!(!matches_node(&zone("a"), Some(&NodeSelector::default()), &node));
    }

    fn term(json: &str) -> NodeSelectorTerm {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_term_with_names_restricts_the_nodes() {
        let json = r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]},
            {"key":"metadata.name","operator":"In","values":["b"]}]}"#;
        assert_eq!(term(json).node_names(), Some(vec!["b"]));
        assert_eq!(term("{}").node_names(), None);
    }
}
