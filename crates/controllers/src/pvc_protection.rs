//! `persistentvolumeclaim-protection-controller`: a deleted `PersistentVolumeClaim` keeps its finalizer
//! `kubernetes.io/pvc-protection` until no scheduled pod uses it.
//!
//! Reads claims and the pods that use them, and lists the pods of the namespace before it removes the
//! finalizer: once for all claims of the namespace that are being deleted. Writes the finalizers of
//! claims.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde::Deserialize;

use crate::api_requests;
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
    let Some(claim) = cx.claims.shared_key(&request)? else { return Ok(Action::Done) };
    if claim.metadata.is_deleting() {
        cx.release_claims(&claim, request.namespace()).await?;
    } else {
        cx.protect(&claim.metadata, async { Ok(true) }).await?;
    }
    Ok(Action::Done)
}

impl Protection {
    /// Removes the finalizer from a claim that is being deleted and not used, and from the other such
    /// claims of its namespace.
    async fn release_claims(&self, claim: &Protected, namespace: &str) -> Result<(), Failure> {
        if !claim.is_protected() || self.is_used_in_cache(claim) {
            return Ok(());
        }
        let all = self.claims.list_namespace(namespace).objects;
        let deleted: Vec<_> = all.into_iter().filter(Protected::is_deleted_and_protected).collect();
        // The cache may not show a pod yet that was bound before the claim was deleted, and without its
        // claim that pod loses its data.
        let pods = pod_claims::read_pods(&self.client, namespace).await?;
        let mut used = HashMap::<String, Vec<&ClaimingPod>>::new();
        for pod in &pods {
            for name in pod.spec.volumes.iter().filter_map(|volume| pod.claim_name(volume)) {
                used.entry(name).or_default().push(pod);
            }
        }
        for claim in deleted {
            let pods = used.get(&claim.metadata.name).map_or(&[][..], Vec::as_slice);
            let is_used = pods.iter().any(|pod| uses(pod, &claim.metadata));
            if !is_used && !self.is_used_in_cache(&claim) {
                self.protect(&claim.metadata, async { Ok(false) }).await?;
            }
        }
        Ok(())
    }

    fn is_used_in_cache(&self, claim: &Protected) -> bool {
        let Metadata { namespace, name, .. } = &claim.metadata;
        self.pods.pods_of(namespace, name).iter().any(|pod| uses(pod, &claim.metadata))
    }

    async fn protect(
        &self,
        metadata: &Metadata,
        is_used: impl Future<Output = api_requests::Result<bool>>,
    ) -> api_requests::Result<()> {
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        protect(&self.client, &path, metadata, FINALIZER, is_used).await
    }
}

impl Protected {
    fn is_protected(&self) -> bool {
        self.metadata.finalizers.iter().any(|it| it == FINALIZER)
    }

    fn is_deleted_and_protected(&self) -> bool {
        self.metadata.is_deleting() && self.is_protected()
    }
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
