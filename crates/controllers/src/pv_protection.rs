//! `persistentvolume-protection-controller`: a deleted `PersistentVolume` keeps its finalizer
//! `kubernetes.io/pv-protection` until it is no longer bound to a claim.
//!
//! Reads volumes. Writes their finalizers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use serde::Deserialize;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::protection_finalizer::protect;
use machinery::PolicyRule;
use runtime::{Action, Client, Controller, Failure, Lister, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "persistentvolume-protection-controller",
    aliases: &["pv-protection"],
    user: ControllerUser::ServiceAccount("pv-protection-controller"),
    rules: &[PolicyRule::new(&[""], &["persistentvolumes"], &["patch"])],
    start,
};

const FINALIZER: &str = "kubernetes.io/pv-protection";

struct Protection {
    client: Client,
    volumes: Lister<Protected>,
}

#[derive(Deserialize)]
struct Protected {
    metadata: Metadata,
    #[serde(default)]
    status: ProtectedStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProtectedStatus {
    phase: String,
}

fn start(cx: &ControllerContext) {
    let volumes = cx.manager.informer::<PersistentVolume>().lister();
    let protection = Protection { client: cx.client.clone(), volumes };
    let controller = Controller::for_::<PersistentVolume>()
        .named(cx.name)
        .workers(1)
        .reconcile(reconcile, protection);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<Protection>) -> Result<Action, Failure> {
    let Some(volume) = cx.volumes.get_key(&request)? else { return Ok(Action::Done) };
    let metadata = &volume.metadata;
    let is_used = async { Ok(volume.status.phase == "Bound") };
    let path = format!("/api/v1/persistentvolumes/{}", request.name());
    protect(&cx.client, &path, metadata, FINALIZER, is_used).await?;
    Ok(Action::Done)
}
