//! [`NodeView`]: the fields of a node that the controllers of nodes read, and changes of its taints.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_requests;
use crate::metadata::Metadata;
use crate::taints::Taint;
use runtime::Client;

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeView {
    /// The metadata.
    pub metadata: Metadata,
    /// The specification.
    pub spec: NodeSpec,
    /// The status.
    pub status: NodeStatus,
}

/// A part of the spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// The taints.
    pub taints: Vec<Taint>,
}

/// A part of the status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    /// The conditions.
    pub conditions: Vec<NodeCondition>,
}

/// A part of a condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeCondition {
    /// `Ready`
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False`, `Unknown`
    pub status: String,
    /// The time of the last heartbeat.
    pub last_heartbeat_time: Option<String>,
}

impl NodeView {
    /// A condition.
    pub(crate) fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the node is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Whether the node has a taint.
    pub(crate) fn has_taint(&self, key: &str, effect: &str) -> bool {
        self.spec.taints.iter().any(|taint| taint.is(key, effect))
    }

    /// The path of the node.
    pub(crate) fn path(&self) -> String {
        format!("/api/v1/nodes/{}", self.metadata.name)
    }

    /// Replaces the taints, unless the node has changed meanwhile.
    pub(crate) async fn set_taints(
        &self,
        client: &Client,
        taints: &[Taint],
    ) -> api_requests::Result<()> {
        let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
        let version = &self.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        api_requests::merge::<Value>(client, &self.path(), &patch).await.map(drop)
    }
}
