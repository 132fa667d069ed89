//! Protects claims that pods use: a deleted `PersistentVolumeClaim` keeps its finalizer
//! `kubernetes.io/pvc-protection` until no scheduled pod uses it.
//!
//! Reads claims and the pods that use them. Writes the finalizers of claims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::ControllerDescriptor;
use crate::metadata::Metadata;
use crate::pod_claims::{ClaimingPod, PodClaims, claim_keys};
use machinery::PolicyRule;
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "persistentvolumeclaim-protection-controller",
    aliases: &["pvc-protection"],
    rules: &[PolicyRule::new(&[""], &["persistentvolumeclaims"], &["patch"])],
    start,
};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

struct Protection {
    client: Client,
    claims: Lister<Protected>,
    pods: PodClaims,
}

#[derive(Deserialize)]
struct Protected {
    metadata: Metadata,
}

fn start(cx: &ControllerContext) {
    let protection = Protection {
        client: cx.client.clone(),
        claims: cx.manager.informer::<PersistentVolumeClaim>().lister(),
        pods: PodClaims::new(cx),
    };
    let controller = Controller::for_::<PersistentVolumeClaim>()
        .named(cx.name)
        .watches::<Pod>(Mapper::custom(|pod| {
            let keys = claim_keys(pod).into_iter();
            let keys = keys.filter_map(|key| {
                key.split_once('/').map(|(namespace, name)| Request::new(namespace, name))
            });
            keys.collect()
        }))
        .reconcile(reconcile, protection);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<Protection>) -> Result<Action, Failure> {
    let Some(claim) = cx.claims.get_key(&request)? else { return Ok(Action::Done) };
    let metadata = &claim.metadata;
    let has_finalizer = metadata.finalizers.iter().any(|it| it == FINALIZER);
    let is_used = || {
        let pods = cx.pods.pods_of(request.namespace(), request.name());
        pods.iter().any(|pod| uses(pod, metadata))
    };
    let finalizers: Vec<&str> = if metadata.is_deleting() && has_finalizer && !is_used() {
        let others = metadata.finalizers.iter().map(String::as_str);
        others.filter(|it| *it != FINALIZER).collect()
    } else if !metadata.is_deleting() && !has_finalizer {
        metadata.finalizers.iter().map(String::as_str).chain([FINALIZER]).collect()
    } else {
        return Ok(Action::Done);
    };
    let path = format!(
        "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
        request.namespace(),
        request.name()
    );
    let patch = json!({"metadata": {"uid": metadata.uid,
        "resourceVersion": metadata.resource_version, "finalizers": finalizers}});
    let patched = api_requests::merge::<Value>(&cx.client, &path, &patch).await;
    api_requests::none_if_missing(patched)?;
    Ok(Action::Done)
}

/// Whether a pod uses the claim. A pod that is not scheduled does not: it will not start with a claim
/// that is being deleted.
// Upstream: volume/pvcprotection/pvc_protection_controller.go podUsesPVC
fn uses(pod: &ClaimingPod, claim: &Metadata) -> bool {
    if pod.spec.node_name.is_empty() {
        return false;
    }
    pod.spec.volumes.iter().any(|volume| {
        let is_named = pod.claim_name(volume).as_deref() == Some(claim.name.as_str());
        let is_ephemeral = volume.ephemeral.is_some();
        let is_owner = || claim.controller().is_some_and(|owner| owner.uid == pod.metadata.uid);
        is_named && (!is_ephemeral || !pod.is_finished() && is_owner())
    })
}
