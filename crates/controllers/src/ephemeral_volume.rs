//! `ephemeral-volume-controller`: creates a `PersistentVolumeClaim` for each volume of a pod with a
//! claim template, which the pod owns.
//!
//! Reads pods and claims. Creates claims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::{Metadata, OwnerReference};
use crate::object_reference::object_reference;
use crate::pod_claims::{ClaimingPod, EphemeralSource};
use machinery::PolicyRule;
use runtime::informer::{Item, ObjectEvent};
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Predicate, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "ephemeral-volume-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("ephemeral-volume-controller"),
    rules: &[
        PolicyRule::new(&[""], &["persistentvolumeclaims"], &["create"]),
        PolicyRule::new(&[""], &["pods/finalizers"], &["update"]),
    ],
    start,
};

struct EphemeralVolumes {
    client: Client,
    recorder: Recorder,
    pods: Lister<ClaimingPod>,
    claims: Lister<OwnedClaim>,
}

#[derive(Deserialize)]
struct OwnedClaim {
    metadata: Metadata,
}

fn start(cx: &ControllerContext) {
    let ephemeral_volumes = EphemeralVolumes {
        client: cx.client.clone(),
        recorder: cx.recorder(),
        pods: cx.pods(),
        claims: cx.manager.informer::<PersistentVolumeClaim>().lister(),
    };
    let controller = Controller::for_::<Pod>()
        .named(cx.name)
        .when(Predicate::custom(has_template))
        // A claim that was deleted is created again.
        .watches::<PersistentVolumeClaim>(Mapper::owner::<Pod>())
        .when(Predicate::custom(|event| matches!(event, ObjectEvent::Deleted { .. })))
        .reconcile(reconcile, ephemeral_volumes);
    cx.manager.add(controller);
}

/// Whether the event is about a pod with such a volume; the volumes of a pod do not change.
fn has_template(event: &ObjectEvent) -> bool {
    let contains = |item: &Item| {
        let json = item.json();
        std::str::from_utf8(&json).is_ok_and(|json| json.contains("\"ephemeral\""))
    };
    matches!(event, ObjectEvent::Added { item, .. } if contains(item))
}

async fn reconcile(request: Request, cx: Arc<EphemeralVolumes>) -> Result<Action, Failure> {
    let Some(pod) = cx.pods.get_key(&request)? else { return Ok(Action::Done) };
    if pod.metadata.is_deleting() || pod.is_finished() {
        return Ok(Action::Done);
    }
    for volume in &pod.spec.volumes {
        let (Some(source), Some(claim)) = (&volume.ephemeral, pod.claim_name(volume)) else {
            continue;
        };
        if let Err(failure) = cx.ensure_claim(&pod, source, &claim).await {
            let message = format!("ephemeral volume {}: {failure}", volume.name);
            let pod = object_reference("v1", "Pod", &pod.metadata);
            cx.recorder.record_about(pod, EventType::Warning, "FailedBinding", &message);
            return Err(failure);
        }
    }
    Ok(Action::Done)
}

impl EphemeralVolumes {
    async fn ensure_claim(
        &self,
        pod: &ClaimingPod,
        source: &EphemeralSource,
        name: &str,
    ) -> Result<(), Failure> {
        let namespace = &pod.metadata.namespace;
        if let Some(claim) = self.claims.get(namespace, name)? {
            let owner = claim.metadata.controller();
            if owner.is_some_and(|owner| owner.uid == pod.metadata.uid) {
                return Ok(());
            }
            return Err(Failure::transient(format!(
                "PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)",
                pod.metadata.name
            )));
        }
        let template = &source.volume_claim_template;
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "labels": template["metadata"]["labels"],
                "annotations": template["metadata"]["annotations"],
                "ownerReferences": [OwnerReference::controller("v1", "Pod", &pod.metadata)],
            },
            "spec": template["spec"],
        });
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        let created: api_requests::Result<Value> =
            api_requests::create(&self.client, &path, &claim).await;
        created.map(drop).map_err(|error| {
            Failure::transient(format!("create PVC {name}: {}", api_requests::message(&error)))
        })
    }
}
