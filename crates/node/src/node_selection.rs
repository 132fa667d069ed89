//! Whether a pod selects a node, by its node selector and its required node affinity.
//!
//! Upstream: component-helpers/scheduling/corev1/nodeaffinity

use serde::Deserialize;

use crate::node_view::NodeView;
use crate::pod_view::PodSpec;
use machinery::selector;

/// The affinity of a pod, as far as it concerns nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

/// One of its terms must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<Term>,
}

/// All of its conditions must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

#[derive(Debug, Clone, Deserialize)]
struct Requirement {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// Whether a pod may run on a node.
pub(crate) fn selects(pod: &PodSpec, node: &NodeView) -> bool {
    let labels = &node.metadata.labels;
    let required = pod.affinity.node_affinity.required.as_ref();
    pod.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && required.is_none_or(|it| it.node_selector_terms.iter().any(|term| term.matches(node)))
}

impl Term {
    /// An empty term matches no node.
    fn matches(&self, node: &NodeView) -> bool {
        let label = |key: &str| node.metadata.labels.get(key).map(String::as_str);
        let field = |key: &str| (key == "metadata.name").then_some(node.metadata.name.as_str());
        let is_empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        !is_empty
            && self.match_expressions.iter().all(|it| it.holds(label(&it.key)))
            && self.match_fields.iter().all(|it| it.holds(field(&it.key)))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(terms: &Value, expect: bool) {
        let required = json!({"nodeSelectorTerms": terms});
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required}});
        let pod: PodSpec = serde_json::from_value(json!({"affinity": affinity})).unwrap();
        let metadata = json!({"name": "n1", "labels": {"zone": "a", "cores": "8"}});
        let node: NodeView = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        assert_eq!(selects(&pod, &node), expect, "{terms}");
    }

    #[test]
    fn one_term_with_all_of_its_conditions_selects_a_node() {
        let label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let name = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        check(&json!([]), false);
        check(&json!([{}]), false);
        check(&json!([label("zone", "In", &["a", "b"])]), true);
        check(&json!([label("zone", "NotIn", &["a"])]), false);
        check(&json!([label("disk", "DoesNotExist", &[])]), true);
        check(&json!([label("disk", "Exists", &[])]), false);
        check(&json!([label("cores", "Gt", &["4"])]), true);
        check(&json!([label("cores", "Lt", &["8"])]), false);
        check(&json!([name("n2"), name("n1")]), true);
        check(&json!([name("n2")]), false);
    }

    #[test]
    fn all_labels_of_the_node_selector_must_be_those_of_the_node() {
        let node: NodeView =
            serde_json::from_value(json!({"metadata": {"labels": {"zone": "a"}}})).unwrap();
        for (zone, expect) in [("a", true), ("b", false)] {
            let pod = json!({"nodeSelector": {"zone": zone}});
            assert_eq!(selects(&serde_json::from_value(pod).unwrap(), &node), expect);
        }
    }
}
