//! [`Placement`]: the nodes on which the pods of a DaemonSet run, and the changes of the template by
//! which a pod gets to its node.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::view::{DaemonSetView, GENERATION_LABEL, NodeView};
use crate::controller_history::REVISION_LABEL;
use crate::pod_control::TemplateMetadata;
use crate::raw_fields::RawFields;
use crate::taints::{self, Toleration};
use machinery::node_matching::{self, Affinity};

/// The taints that pods of DaemonSets tolerate.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The taint that pods in the network of the host tolerate as well.
const NETWORK_UNAVAILABLE: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// See the [module documentation](self).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Placement {
    node_name: String,
    node_selector: BTreeMap<String, String>,
    affinity: Affinity,
    tolerations: Vec<Toleration>,
    host_network: bool,
}

/// Whether a pod may be on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eligibility {
    /// A pod should run there.
    Run,
    /// A pod that is there may stay, but none is created.
    Stay,
    /// No pod may be there.
    Leave,
}

impl Placement {
    /// The placement of pods with this spec.
    pub(super) fn of(spec: &Value) -> Result<Self, serde_json::Error> {
        let mut placement = Self::deserialize(spec)?;
        for (key, effect) in tolerated(placement.host_network) {
            placement.tolerations.push(Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: effect.to_owned(),
                ..Toleration::default()
            });
        }
        Ok(placement)
    }

    /// Whether a pod may be on a node.
    pub(super) fn eligibility(&self, node: &NodeView) -> Eligibility {
        let is_other_node = !self.node_name.is_empty() && self.node_name != node.metadata.name;
        let required = self.affinity.node_affinity.required.as_ref();
        if is_other_node || !node_matching::matches_node(&self.node_selector, required, node) {
            return Eligibility::Leave;
        }
        let is_repelled = |effects: &[&str]| {
            let taints = &node.spec.taints;
            taints::untolerated_taint(taints, &self.tolerations, effects).is_some()
        };
        if is_repelled(&["NoExecute"]) {
            Eligibility::Leave
        } else if is_repelled(&["NoSchedule"]) {
            Eligibility::Stay
        } else {
            Eligibility::Run
        }
    }
}

fn tolerated(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATED.iter().copied().chain(host_network.then_some(NETWORK_UNAVAILABLE))
}

/// The metadata and the spec of new pods, without the affinity to a node.
pub(super) fn pod_template(set: &DaemonSetView, hash: &str) -> (TemplateMetadata, RawFields) {
    let template = &set.spec.template;
    let mut metadata = TemplateMetadata::deserialize(&template["metadata"]).unwrap_or_default();
    metadata.labels.insert(REVISION_LABEL.to_owned(), hash.to_owned());
    if let Some(generation) = set.template_generation() {
        metadata.labels.insert(GENERATION_LABEL.to_owned(), generation.to_owned());
    }
    let mut spec = template["spec"].as_object().cloned().unwrap_or_default();
    let host_network = spec.get("hostNetwork").is_some_and(|it| *it == true);
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if let Some(tolerations) = tolerations.as_array_mut() {
        for (key, effect) in tolerated(host_network) {
            add_toleration(tolerations, key, effect);
        }
    }
    (metadata, RawFields::encode(&spec))
}

/// Adds a toleration without a time limit, also in place of one with a limit.
fn add_toleration(tolerations: &mut Vec<Value>, key: &str, effect: &str) {
    let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
    let is_same = |it: &Value| {
        ["key", "operator", "effect", "value"].iter().all(|field| it[*field] == toleration[*field])
    };
    match tolerations.iter_mut().find(|it| is_same(it)) {
        Some(present) => *present = toleration,
        None => tolerations.push(toleration),
    }
}

/// A spec whose affinity requires one node, instead of other required nodes.
pub(super) fn on_node(spec: &RawFields, node: &str) -> RawFields {
    let mut affinity = spec.get("affinity").filter(Value::is_object).unwrap_or_else(|| json!({}));
    if !affinity["nodeAffinity"].is_object() {
        affinity["nodeAffinity"] = json!({});
    }
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let mut spec = spec.clone();
    spec.set("affinity", &affinity);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &Value, taints: &Value) -> NodeView {
        let metadata = json!({"name": "n1", "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"taints": taints}})).unwrap()
    }

    fn taint(key: &str, effect: &str) -> Value {
        json!([{"key": key, "effect": effect}])
    }

    #[test]
    fn labels_and_taints_decide_whether_a_pod_runs_stays_or_leaves() {
        use Eligibility::{Leave, Run, Stay};
        let none = json!({});
        for (spec, labels, taints, expected) in [
            (json!({}), none.clone(), json!([]), Run),
            (json!({"nodeName": "n1"}), none.clone(), json!([]), Run),
            (json!({"nodeName": "n2"}), none.clone(), json!([]), Leave),
            (json!({"nodeSelector": {"a": "b"}}), json!({"a": "b"}), json!([]), Run),
            (json!({"nodeSelector": {"a": "b"}}), none.clone(), json!([]), Leave),
            (json!({}), none.clone(), taint("gpu", "NoSchedule"), Stay),
            (json!({}), none.clone(), taint("gpu", "NoExecute"), Leave),
            (json!({}), none.clone(), taint("gpu", "PreferNoSchedule"), Run),
            (
                json!({"tolerations": [{"operator": "Exists"}]}),
                none.clone(),
                taint("gpu", "NoExecute"),
                Run,
            ),
            (json!({}), none.clone(), taint("node.kubernetes.io/unschedulable", "NoSchedule"), Run),
            (json!({}), none.clone(), taint("node.kubernetes.io/unreachable", "NoExecute"), Run),
            (
                json!({}),
                none.clone(),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                Stay,
            ),
            (
                json!({"hostNetwork": true}),
                none.clone(),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                Run,
            ),
        ] {
            let found = Placement::of(&spec).unwrap().eligibility(&node(&labels, &taints));
            assert_eq!(found, expected, "{spec} {labels} {taints}");
        }
    }

    #[test]
    fn a_pod_requires_its_node_and_keeps_other_affinities() {
        let spec = json!({"affinity": {
            "podAffinity": {"a": 1},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
            },
        }});
        let name = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
        let placed = |spec: &Value| {
            let spec = on_node(&RawFields::encode(spec.as_object().unwrap()), "n1");
            serde_json::to_value(&spec).unwrap()
        };
        let kept = placed(&spec);
        let affinity = &kept["affinity"]["nodeAffinity"];
        assert_eq!(affinity["requiredDuringSchedulingIgnoredDuringExecution"], required);
        assert_eq!(affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"], 1);
        assert_eq!(kept["affinity"]["podAffinity"]["a"], 1);
        let new = placed(&json!({}));
        let affinity = &new["affinity"]["nodeAffinity"];
        assert_eq!(affinity["requiredDuringSchedulingIgnoredDuringExecution"], required);
    }

    #[test]
    fn a_toleration_with_a_time_limit_is_replaced() {
        let key = "node.kubernetes.io/not-ready";
        let limited = json!({"key": key, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 5});
        let mut tolerations = vec![limited];
        add_toleration(&mut tolerations, key, "NoExecute");
        add_toleration(&mut tolerations, key, "NoSchedule");
        assert_eq!(
            tolerations,
            [
                json!({"key": key, "operator": "Exists", "effect": "NoExecute"}),
                json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}),
            ]
        );
    }
}
