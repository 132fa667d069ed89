//! [`PodWire`]: the fields of a pod's JSON that the scheduler reads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use super::label_set::LabelSet;
use super::resources::ResourceList;
use super::selectors::{PreferredNodes, Selector};
use crate::metadata::OwnerReference;
use crate::taints::Toleration;
use machinery::node_matching::NodeSelector;

/// See the [module documentation](self).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodWire {
    pub metadata: MetadataWire,
    pub spec: SpecWire,
    pub status: StatusWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetadataWire {
    pub name: String,
    pub labels: LabelSet,
    pub deletion_timestamp: Option<Time>,
    pub owner_references: Vec<OwnerReference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpecWire {
    pub node_name: String,
    pub scheduler_name: String,
    pub priority: i32,
    pub preemption_policy: String,
    pub scheduling_gates: Vec<serde::de::IgnoredAny>,
    pub node_selector: LabelSet,
    pub affinity: AffinityWire,
    pub tolerations: Vec<Toleration>,
    pub topology_spread_constraints: Vec<SpreadWire>,
    pub containers: Vec<ContainerWire>,
    pub init_containers: Vec<ContainerWire>,
    pub overhead: ResourceList,
    pub resources: ResourcesWire,
    pub volumes: Vec<VolumeWire>,
    pub resource_claims: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatusWire {
    pub phase: String,
    pub nominated_node_name: String,
    pub start_time: Option<Time>,
    pub conditions: Vec<ConditionWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConditionWire {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerWire {
    pub image: String,
    pub restart_policy: String,
    pub resources: ResourcesWire,
    pub ports: Vec<PortWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourcesWire {
    pub requests: ResourceList,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PortWire {
    pub host_port: i32,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    pub protocol: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeWire {
    pub name: String,
    pub persistent_volume_claim: Option<ClaimSourceWire>,
    pub ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSourceWire {
    pub claim_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AffinityWire {
    #[serde(rename = "nodeAffinity")]
    pub to_nodes: NodeAffinityWire,
    #[serde(rename = "podAffinity")]
    pub to_pods: PodAffinityWire,
    #[serde(rename = "podAntiAffinity")]
    pub against_pods: PodAffinityWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAffinityWire {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<PreferredNodes>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodAffinityWire {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<TermWire>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<WeightedTermWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WeightedTermWire {
    pub weight: i64,
    pub pod_affinity_term: TermWire,
}

/// A term of pod affinity. The API server has merged `matchLabelKeys` into the selector.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TermWire {
    pub label_selector: Option<Selector>,
    pub topology_key: String,
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<Selector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpreadWire {
    pub max_skew: i64,
    pub topology_key: String,
    pub when_unsatisfiable: String,
    pub label_selector: Option<Selector>,
    pub min_domains: Option<i64>,
    pub node_affinity_policy: String,
    pub node_taints_policy: String,
    pub match_label_keys: Vec<String>,
}
