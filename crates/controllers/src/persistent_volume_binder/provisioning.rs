//! New volumes for claims: simulated ones, or those of an external provisioner.
// Upstream: volume/persistentvolume/pv_controller.go provisionClaim

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::writes::claim_reference;
use super::{
    BOUND_BY_CONTROLLER, Binder, Claim, DEFAULT_CLASS, PROVISIONED_BY, SELECTED_NODE,
    SIMULATED_PROVISIONER, annotation, class_of_claim, matching,
};
use crate::api_requests;
use runtime::recorder::EventType;
use runtime::{Action, Failure, Request};

/// The name of the default class of a new plane.
pub(super) const STANDARD_CLASS: &str = "standard";

/// The annotations that name the provisioner of a claim.
const PROVISIONER_ANNOTATIONS: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// Creates the default class of a plane that has no class, and its driver. Volumes of the driver are not
/// attached to nodes, so there are no `VolumeAttachment`s to wait for.
pub(super) async fn create_standard_class(
    request: Request,
    cx: Arc<Binder>,
) -> Result<Action, Failure> {
    if !cx.classes.indexer().is_empty() {
        return Ok(Action::Done);
    }
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": request.name(), "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": SIMULATED_PROVISIONER, "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
    });
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": SIMULATED_PROVISIONER},
        "spec": {"attachRequired": false, "volumeLifecycleModes": ["Persistent"]},
    });
    for (resource, object) in [("csidrivers", driver), ("storageclasses", class)] {
        let path = format!("/apis/storage.k8s.io/v1/{resource}");
        match api_requests::create::<Value>(&cx.client, &path, &object).await {
            Err(error) if !api_requests::has_code(&error, 409) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(Action::Done)
}

impl Binder {
    /// Provisions a volume for a claim with a class.
    pub(super) async fn provision(
        &self,
        claim: Claim,
        class: Option<StorageClass>,
    ) -> Result<Action, Failure> {
        let Some(class) = class else {
            let name = class_of_claim(&claim);
            let message = format!("storageclass.storage.k8s.io {name:?} not found");
            self.record_claim(&claim, EventType::Warning, "ProvisioningFailed", &message);
            return Ok(Action::Done);
        };
        let provisioner = class.provisioner.as_str();
        if provisioner.starts_with("kubernetes.io/") {
            let message = format!("no volume plugin matched name: {provisioner}");
            self.record_claim(&claim, EventType::Warning, "ProvisioningFailed", &message);
            return Ok(Action::Done);
        }
        let claim = self.set_provisioner(claim, provisioner).await?;
        if provisioner != SIMULATED_PROVISIONER {
            let message = format!(
                "Waiting for a volume to be created either by the external provisioner \
                 '{provisioner}' or manually by the system administrator. If volume creation is \
                 delayed, please verify that the provisioner is running and correctly registered."
            );
            self.record_claim(&claim, EventType::Normal, "ExternalProvisioning", &message);
            return Ok(Action::Done);
        }
        if let Some(node) = annotation(claim.metadata.annotations.as_ref(), SELECTED_NODE)
            && self.nodes.indexer().get(&Request::new("", node)).is_none()
        {
            let message = format!("Failed to get target node: node {node:?} not found");
            self.record_claim(&claim, EventType::Warning, "ProvisioningFailed", &message);
            return Err(Failure::transient(message));
        }
        self.create_volume(&claim, &class).await
    }

    async fn create_volume(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
    ) -> Result<Action, Failure> {
        let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
        if self.volumes.indexer().get(&Request::new("", &name)).is_some() {
            return Ok(Action::Done);
        }
        let spec = claim.spec.as_ref();
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {
                BOUND_BY_CONTROLLER: "yes", PROVISIONED_BY: SIMULATED_PROVISIONER,
            }},
            "spec": {
                "capacity": {"storage": matching::requested(claim).to_string()},
                "accessModes": spec.and_then(|spec| spec.access_modes.as_ref()),
                "volumeMode": spec.and_then(|spec| spec.volume_mode.as_ref()),
                "volumeAttributesClassName":
                    spec.and_then(|spec| spec.volume_attributes_class_name.as_ref()),
                "storageClassName": class_of_claim(claim),
                "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
                "mountOptions": class.mount_options,
                "claimRef": claim_reference(claim),
                "csi": {"driver": SIMULATED_PROVISIONER, "volumeHandle": name,
                    "volumeAttributes": class.parameters},
            },
        });
        match api_requests::create::<Value>(&self.client, "/api/v1/persistentvolumes", &volume)
            .await
        {
            Ok(_) => {
                let message =
                    format!("Successfully provisioned volume {name} using {SIMULATED_PROVISIONER}");
                self.record_claim(claim, EventType::Normal, "ProvisioningSucceeded", &message);
                Ok(Action::Done)
            }
            Err(error) if api_requests::has_code(&error, 409) => Ok(Action::Done),
            Err(error) => {
                let why = api_requests::message(&error);
                let class = class.metadata.name.as_deref().unwrap_or_default();
                let message =
                    format!("Failed to provision volume with StorageClass {class:?}: {why}");
                self.record_claim(claim, EventType::Warning, "ProvisioningFailed", &message);
                Err(error.into())
            }
        }
    }

    /// Names the provisioner in the annotations of the claim.
    async fn set_provisioner(&self, claim: Claim, provisioner: &str) -> Result<Claim, Failure> {
        let annotations = claim.metadata.annotations.as_ref();
        if PROVISIONER_ANNOTATIONS.iter().all(|it| annotation(annotations, it) == Some(provisioner))
        {
            return Ok(claim);
        }
        let [name, beta_name] = PROVISIONER_ANNOTATIONS;
        let annotations = json!({name: provisioner, beta_name: provisioner});
        self.patch_claim(&claim, "", json!({"metadata": {"annotations": annotations}})).await
    }
}
