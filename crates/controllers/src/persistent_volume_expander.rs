//! `persistentvolume-expander-controller`: when a bound `PersistentVolumeClaim` requests more than its
//! volume has, expands the volume of simulated storage at once. For other storage, the claim waits for
//! its resizer.
//!
//! ```text
//! request grows ─▶ condition Resizing ─▶ capacity of the volume ─▶ capacity of the claim
//! ```
//!
//! Reads claims and volumes. Writes the capacity of volumes and the status of claims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::persistent_volume_binder::SIMULATED_PROVISIONER;
use crate::time;
use keel::Clock;
use machinery::PolicyRule;
use machinery::quantity::Quantity;
use runtime::recorder::{EventType, Recorder};
use runtime::{Action, Client, Controller, Failure, Lister, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "persistentvolume-expander-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("expand-controller"),
    rules: &[PolicyRule::new(
        &[""],
        &["persistentvolumes", "persistentvolumeclaims/status"],
        &["patch"],
    )],
    start,
};

struct Expander {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
}

fn start(cx: &ControllerContext) {
    let expander = Expander {
        client: cx.client.clone(),
        clock: cx.clock().clone(),
        recorder: cx.manager.recorder_with(cx.client.clone(), "volume_expand"),
        claims: cx.manager.lister(),
        volumes: cx.manager.lister(),
    };
    let controller = Controller::for_::<PersistentVolumeClaim>()
        .named(cx.name)
        .workers(1)
        .reconcile(reconcile, expander);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<Expander>) -> Result<Action, Failure> {
    let Some(claim) = cx.claims.get_key(&request)? else { return Ok(Action::Done) };
    let (Some(spec), Some(status)) = (&claim.spec, &claim.status) else { return Ok(Action::Done) };
    let amount = |amounts: Option<&std::collections::BTreeMap<String, _>>| {
        let text: &k8s_openapi::apimachinery::pkg::api::resource::Quantity =
            amounts?.get("storage")?;
        Quantity::parse(&text.0).ok()
    };
    let requested = spec.resources.as_ref().and_then(|it| amount(it.requests.as_ref()));
    let (Some(requested), Some(present)) = (requested, amount(status.capacity.as_ref())) else {
        return Ok(Action::Done);
    };
    if status.phase.as_deref() != Some("Bound") || requested <= present {
        return Ok(Action::Done);
    }
    let name = spec.volume_name.as_deref().unwrap_or_default();
    let Some(volume) = cx.volumes.get("", name)? else { return Ok(Action::Done) };
    if !belongs_to(&volume, &claim) {
        return Ok(Action::Done);
    }
    let driver = volume.spec.as_ref().and_then(|it| it.csi.as_ref()).map(|it| it.driver.as_str());
    if driver != Some(SIMULATED_PROVISIONER) {
        let message = match driver {
            Some(_) => "waiting for an external controller to expand this PVC",
            None => {
                "didn't find a plugin capable of expanding the volume; waiting for an external controller to process this PVC"
            }
        };
        cx.recorder.record(&claim, EventType::Normal, "ExternalExpanding", message);
        return Ok(Action::Done);
    }
    cx.expand(&request, &claim, &volume, &requested).await?;
    Ok(Action::Done)
}

/// Whether the volume belongs to the claim, and not to another that the claim merely names.
fn belongs_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (owner, claim) =
        (volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref()), &claim.metadata);
    owner.is_some_and(|owner| {
        owner.name == claim.name
            && owner.namespace == claim.namespace
            && owner.uid == claim.uid
            && claim.uid.is_some()
    })
}

impl Expander {
    async fn expand(
        &self,
        request: &Request,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        size: &Quantity,
    ) -> Result<(), Failure> {
        let volume_name = volume.metadata.name.as_deref().unwrap_or_default();
        let path = format!(
            "/api/v1/namespaces/{}/persistentvolumeclaims/{}/status",
            request.namespace(),
            request.name()
        );
        let now = time::now(&self.clock);
        let resizing = json!([{"type": "Resizing", "status": "True", "lastTransitionTime": now}]);
        let size = size.to_string();
        let message = format!("External resizer is resizing volume {volume_name}");
        self.recorder.record(claim, EventType::Normal, "Resizing", &message);
        let patch = json!({
            "metadata": {"resourceVersion": claim.metadata.resource_version},
            "status": {
                "conditions": resizing,
                "allocatedResources": {"storage": size},
                "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
            },
        });
        // A strategic merge leaves the conditions of other types alone.
        let claim: PersistentVolumeClaim =
            api_requests::strategic_merge(&self.client, &path, &patch).await?;
        let patch = json!({
            "metadata": {"resourceVersion": volume.metadata.resource_version},
            "spec": {"capacity": {"storage": size}},
        });
        let volume_path = format!("/api/v1/persistentvolumes/{volume_name}");
        let _: Value = api_requests::merge(&self.client, &volume_path, &patch).await?;
        let patch = json!({
            "metadata": {"resourceVersion": claim.metadata.resource_version},
            "status": {
                "capacity": {"storage": size},
                "conditions": [{"$patch": "delete", "type": "Resizing"}],
                "allocatedResourceStatuses": null,
            },
        });
        let _: Value = api_requests::strategic_merge(&self.client, &path, &patch).await?;
        let message = "Resize volume succeeded";
        self.recorder.record(&claim, EventType::Normal, "VolumeResizeSuccessful", message);
        Ok(())
    }
}
