//! The claims that pods use: an index of pods, and the part of pods that names them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::metadata::Metadata;
use runtime::informer::Item;
use runtime::{Client, Lister};

/// The index of pods by the `namespace/name` of the claims that they use.
const POD_CLAIM_INDEX: &str = "claim";

/// The parts of a pod that say which claims it uses, and whether it still does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimingPod {
    /// The metadata.
    pub metadata: Metadata,
    /// The specification.
    pub spec: ClaimingSpec,
    /// The status.
    pub status: ClaimingStatus,
}

/// A part of a pod's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimingSpec {
    /// The node to which the pod is bound, or empty.
    pub node_name: String,
    /// The volumes.
    pub volumes: Vec<PodVolume>,
}

/// A part of a pod's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimingStatus {
    /// The phase.
    pub phase: String,
}

/// A volume of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodVolume {
    /// The name of the volume.
    pub name: String,
    /// The claim of the volume.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// The template of a claim that is created for the pod.
    pub ephemeral: Option<EphemeralSource>,
}

/// A claim of a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSource {
    /// The name of the claim.
    pub claim_name: String,
}

/// A volume whose claim is created for the pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EphemeralSource {
    /// Metadata and spec of the claim.
    pub volume_claim_template: Value,
}

impl ClaimingPod {
    /// The name of the claim of a volume.
    pub(crate) fn claim_name(&self, volume: &PodVolume) -> Option<String> {
        if let Some(source) = &volume.persistent_volume_claim {
            return Some(source.claim_name.clone());
        }
        volume.ephemeral.as_ref().map(|_| format!("{}-{}", self.metadata.name, volume.name))
    }

    /// Whether the pod has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// The pods with the index of their claims.
pub(crate) struct PodClaims(Lister<ClaimingPod>);

impl PodClaims {
    /// Adds the index.
    pub(crate) fn new(cx: &ControllerContext) -> Self {
        let pods = cx.manager.informer::<Pod>();
        pods.indexer().add_index(POD_CLAIM_INDEX, claim_keys);
        Self(pods.lister())
    }

    /// The pods that use a claim. A pod that cannot be decoded is not in the index, either.
    pub(crate) fn pods_of(&self, namespace: &str, claim: &str) -> Vec<Arc<ClaimingPod>> {
        let found = self.0.shared_by_index(POD_CLAIM_INDEX, &format!("{namespace}/{claim}"));
        found.expect("the index is added with the lister").objects
    }
}

/// Reads the pods of a namespace from the server.
pub(crate) async fn read_pods(
    client: &Client,
    namespace: &str,
) -> api_requests::Result<Vec<ClaimingPod>> {
    #[derive(Deserialize)]
    struct PodList {
        items: Vec<ClaimingPod>,
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let list: Option<PodList> = api_requests::get(client, &path).await?;
    Ok(list.map(|list| list.items).unwrap_or_default())
}

/// The claims that a pod uses. Most pods use none, which is seen without decoding.
pub(crate) fn claim_keys(item: &Item) -> Vec<String> {
    let json = item.json();
    let text = std::str::from_utf8(&json).unwrap_or_default();
    if !text.contains("\"persistentVolumeClaim\"") && !text.contains("\"ephemeral\"") {
        return Vec::new();
    }
    let Ok(pod) = item.decode::<ClaimingPod>() else { return Vec::new() };
    let names = pod.spec.volumes.iter().filter_map(|volume| pod.claim_name(volume));
    names.map(|name| format!("{}/{name}", item.namespace())).collect()
}
