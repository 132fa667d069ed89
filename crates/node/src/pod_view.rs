//! [`PodView`]: the fields of a pod that a simulated node reads and writes.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::pod_resources::{ResizePolicy, ResourceList, ResourceRequirements};
use machinery::node_matching::Affinity;

/// The kinds of the controllers that never use the name of a pod again.
const NAMES_PODS_ANEW: [&str; 4] = ["ReplicaSet", "ReplicationController", "DaemonSet", "Job"];

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodView {
    /// The metadata.
    pub metadata: PodMetadata,
    /// The specification.
    pub spec: PodSpec,
    /// The status.
    pub status: PodStatus,
}

/// A part of the metadata.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodMetadata {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The uid.
    pub uid: String,
    /// Counts the changes of the spec.
    pub generation: i64,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The time of its creation.
    pub creation_timestamp: String,
    /// The time at which the pod is to be gone, if its deletion was requested.
    pub deletion_timestamp: Option<String>,
    /// The time between the request and that time.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The owners.
    pub owner_references: Vec<OwnerReference>,
}

/// An owner.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OwnerReference {
    /// `Job`
    pub kind: String,
}

/// A part of the spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    /// The node to which the pod is bound, or empty.
    pub node_name: String,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: String,
    /// The labels of the nodes on which the pod may run.
    pub node_selector: BTreeMap<String, String>,
    /// The nodes on which the pod may run.
    pub affinity: Affinity,
    /// The operating system that the pod needs, if it says so.
    pub os: Option<PodOs>,
    /// Whether the pod has the address of its node.
    pub host_network: bool,
    /// The containers.
    pub containers: Vec<Container>,
    /// The containers that run before them, in order; those that restart always are sidecars.
    pub init_containers: Vec<Container>,
    /// The volumes.
    pub volumes: Vec<Volume>,
    /// The containers of `kubectl debug`.
    pub ephemeral_containers: Vec<Container>,
    /// The conditions that a ready pod must have.
    pub readiness_gates: Vec<ReadinessGate>,
    /// The resources of the pod as a whole, which replace those of its containers.
    pub resources: ResourceRequirements,
    /// What the pod needs beside its containers.
    pub overhead: ResourceList,
    /// The time after its start at which the pod fails.
    pub active_deadline_seconds: Option<u64>,
}

/// An operating system.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodOs {
    /// `linux` or `windows`
    pub name: String,
}

/// A part of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    /// The name.
    pub name: String,
    /// The image.
    pub image: String,
    /// `Always` for sidecars; may replace the policy of the pod for others.
    pub restart_policy: String,
    /// The program; empty for that of the image.
    pub command: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// The environment variables.
    pub env: Vec<EnvVar>,
    /// Objects whose entries are variables.
    pub env_from: Vec<EnvFromSource>,
    /// The resources.
    pub resources: ResourceRequirements,
    /// How the container gets other resources.
    pub resize_policy: Vec<ResizePolicy>,
    /// The ports.
    pub ports: Vec<ContainerPort>,
    /// The volumes in the file system of the container.
    pub volume_mounts: Vec<VolumeMount>,
    /// When the container is ready.
    pub readiness_probe: Probe,
}

/// A check of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Probe {
    /// The time between the start of the container and the first check.
    pub initial_delay_seconds: u32,
}

/// An environment variable.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvVar {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
    /// Where the value comes from otherwise.
    pub value_from: Option<EnvVarSource>,
}

/// Where the value of a variable comes from.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvVarSource {
    /// A field of the pod.
    #[serde(rename = "fieldRef")]
    pub field: Option<FieldRef>,
    /// An entry of a `ConfigMap`.
    #[serde(rename = "configMapKeyRef")]
    pub config_map_key: Option<KeyRef>,
    /// An entry of a Secret.
    #[serde(rename = "secretKeyRef")]
    pub secret_key: Option<KeyRef>,
}

/// An object whose entries are variables.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvFromSource {
    /// A `ConfigMap`.
    pub config_map_ref: Option<ObjectRef>,
    /// A Secret.
    pub secret_ref: Option<ObjectRef>,
}

/// An entry of a `ConfigMap` or Secret.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct KeyRef {
    /// The name of the object.
    pub name: String,
    /// The key of the entry.
    pub key: String,
    /// Whether the object and the entry may be absent.
    pub optional: bool,
}

/// A `ConfigMap` or Secret.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectRef {
    name: String,
    /// The name of the Secret of a volume.
    secret_name: String,
    /// The entries that are needed.
    pub items: Vec<ItemRef>,
    /// Whether the object and the entries may be absent.
    pub optional: bool,
}

/// An entry of a `ConfigMap` or Secret in a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ItemRef {
    /// Its key.
    pub key: String,
}

/// A field of the pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldRef {
    /// `metadata.name`
    pub field_path: String,
}

/// A port of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    /// The port of the node, or 0.
    pub host_port: i32,
    /// The address of the node; empty for all.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// `TCP`
    pub protocol: String,
}

/// A volume in the file system of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeMount {
    /// The name of the volume.
    pub name: String,
    /// Its directory.
    pub mount_path: String,
    /// Whether it cannot be changed.
    pub read_only: bool,
    /// The part of the volume; empty for the whole.
    pub sub_path: String,
    /// The part of the volume, with variables.
    pub sub_path_expr: String,
}

/// A volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    /// The name.
    pub name: String,
    /// A directory of the node.
    pub host_path: Option<HostPath>,
    /// A directory of the pod.
    pub empty_dir: Option<IgnoredAny>,
    /// The entries of a `ConfigMap`.
    pub config_map: Option<ObjectRef>,
    /// The entries of a Secret.
    pub secret: Option<ObjectRef>,
    /// Several sources.
    pub projected: Option<Projected>,
}

/// The sources of a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Projected {
    /// The sources.
    pub sources: Vec<ProjectedSource>,
}

/// A source of a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProjectedSource {
    /// The entries of a `ConfigMap`.
    pub config_map: Option<ObjectRef>,
    /// The entries of a Secret.
    pub secret: Option<ObjectRef>,
}

/// A directory of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HostPath {
    /// Its path.
    pub path: String,
    /// What must exist there: `DirectoryOrCreate`
    #[serde(rename = "type")]
    pub type_: String,
}

/// A condition that a ready pod must have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReadinessGate {
    /// The type of the condition.
    pub condition_type: String,
}

/// The part of the status that a node writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`
    pub phase: String,
    /// Why the pod has failed as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The sentence to the reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation of the spec for which this status was computed.
    pub observed_generation: i64,
    /// The address of the node.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// The address of the pod.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// The time at which the node has accepted the pod.
    pub start_time: Option<String>,
    /// The conditions.
    pub conditions: Vec<PodCondition>,
    /// The statuses of the containers, in their order.
    pub container_statuses: Vec<ContainerStatus>,
    /// The statuses of the init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The statuses of the ephemeral containers.
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

/// A condition of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodCondition {
    /// `Ready`
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False`, `Unknown`
    pub status: String,
    /// The reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The time of the last change of the status.
    pub last_transition_time: Option<String>,
    /// The generation of the spec for which the condition was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The status of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    /// The name of the container.
    pub name: String,
    /// The image.
    pub image: String,
    /// The id of the image.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// The id of the container; empty until it was created.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// Whether the container is ready.
    pub ready: bool,
    /// Whether the container has started.
    pub started: Option<bool>,
    /// The number of restarts.
    pub restart_count: u32,
    /// The present state.
    pub state: ContainerState,
    /// The state before the last restart.
    pub last_state: ContainerState,
    /// The requests that the node has accepted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated_resources: ResourceList,
    /// The resources of the container; `None` until it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
}

/// The state of a container: at most one of its fields is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    /// It does not run yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// It runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// It has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

/// A container that does not run yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Waiting {
    /// `ContainerCreating`
    pub reason: String,
    /// The message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A container that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    /// The time of its start.
    pub started_at: Option<String>,
}

/// A container that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    /// The exit code of its process.
    pub exit_code: i32,
    /// `Completed`, `Error`
    pub reason: String,
    /// The message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The time of its start.
    pub started_at: Option<String>,
    /// The time of its end.
    pub finished_at: Option<String>,
    /// The id of the container.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
}

impl PodView {
    /// The id of a container after this number of restarts.
    pub(crate) fn container_id(&self, container: &str, restarts: u32) -> String {
        format!("simulated://{}/{container}/{restarts}", self.metadata.uid)
    }

    /// Whether the pod has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether a controller may give the name of the pod to the next one.
    pub(crate) fn name_may_return(&self) -> bool {
        self.metadata.owner_references.iter().any(|owner| !NAMES_PODS_ANEW.contains(&&*owner.kind))
    }

    /// The path of the pod.
    pub(crate) fn path(&self) -> String {
        let PodMetadata { namespace, name, .. } = &self.metadata;
        format!("/api/v1/namespaces/{namespace}/pods/{name}")
    }
}

impl PodStatus {
    /// A condition.
    pub(crate) fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

impl Container {
    /// Whether an init container runs until the pod ends.
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy == "Always"
    }
}

impl ObjectRef {
    /// The name of the object.
    pub(crate) fn name(&self) -> &str {
        if self.name.is_empty() { &self.secret_name } else { &self.name }
    }
}

impl ContainerState {
    /// The state of a container that does not run yet.
    pub(crate) fn waiting(reason: &str, message: &str) -> Self {
        let waiting = Waiting { reason: reason.to_owned(), message: message.to_owned() };
        Self { waiting: Some(waiting), ..Self::default() }
    }

    /// The state of a container that was started now.
    pub(crate) fn running(now: &str) -> Self {
        let running = Running { started_at: Some(now.to_owned()) };
        Self { running: Some(running), ..Self::default() }
    }

    /// The state of a container that has ended.
    pub(crate) fn terminated(terminated: Terminated) -> Self {
        Self { terminated: Some(terminated), ..Self::default() }
    }
}
