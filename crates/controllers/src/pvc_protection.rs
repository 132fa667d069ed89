//! `persistentvolumeclaim-protection-controller`: a deleted `PersistentVolumeClaim` keeps its finalizer
//! `kubernetes.io/pvc-protection` until no scheduled pod uses it.
//!
//! Reads claims and the pods that use them, and lists the pods of the namespace before it removes the
//! finalizer. Writes the finalizers of claims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde::Deserialize;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::pod_claims::{self, ClaimingPod, PodClaims, claim_keys};
use crate::protection_finalizer::protect;
use machinery::PolicyRule;
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "persistentvolumeclaim-protection-controller",
    aliases: &["pvc-protection"],
    user: ControllerUser::ServiceAccount("pvc-protection-controller"),
    rules: &[
        PolicyRule::new(&[""], &["persistentvolumeclaims"], &["patch"]),
        PolicyRule::new(&[""], &["pods"], &["list"]),
    ],
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
    // The cache may not show a pod yet that was bound before the claim was deleted, and without its
    // claim that pod loses its data.
    let is_used = async {
        let uses = |pod: &ClaimingPod| uses(pod, metadata);
        let cached = cx.pods.pods_of(request.namespace(), request.name());
        Ok(cached.iter().any(uses)
            || pod_claims::read_pods(&cx.client, request.namespace()).await?.iter().any(uses))
    };
    let path = format!(
        "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
        request.namespace(),
        request.name()
    );
    protect(&cx.client, &path, metadata, FINALIZER, is_used).await?;
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
