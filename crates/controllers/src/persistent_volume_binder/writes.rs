//! The writes of the binder. Each is conditional on the state that was read.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, Binder, Claim, Volume, annotation, matching};
use crate::api_requests;
use runtime::Failure;

/// A reference to a claim in a volume.
pub(super) fn claim_reference(claim: &PersistentVolumeClaim) -> Value {
    let metadata = &claim.metadata;
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": metadata.namespace,
        "name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version,
    })
}

impl Binder {
    /// Patches a claim, or with `/status` its status.
    pub(super) async fn patch_claim(
        &self,
        claim: &PersistentVolumeClaim,
        subresource: &str,
        mut patch: Value,
    ) -> Result<Claim, Failure> {
        let metadata = &claim.metadata;
        patch["metadata"]["resourceVersion"] = json!(metadata.resource_version);
        let path = format!(
            "/api/v1/namespaces/{}/persistentvolumeclaims/{}{subresource}",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        );
        Ok(api_requests::merge(&self.client, &path, &patch).await?)
    }

    /// Patches a volume, or with `/status` its status.
    pub(super) async fn patch_volume(
        &self,
        volume: &PersistentVolume,
        subresource: &str,
        mut patch: Value,
    ) -> Result<Volume, Failure> {
        let metadata = &volume.metadata;
        patch["metadata"]["resourceVersion"] = json!(metadata.resource_version);
        let name = metadata.name.as_deref().unwrap_or_default();
        let path = format!("/api/v1/persistentvolumes/{name}{subresource}");
        Ok(api_requests::merge(&self.client, &path, &patch).await?)
    }

    /// Makes a volume name a claim.
    pub(super) async fn bind_volume(
        &self,
        volume: Volume,
        claim: &PersistentVolumeClaim,
    ) -> Result<Volume, Failure> {
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let is_complete = reference.is_some_and(|reference| reference.uid == claim.metadata.uid);
        if is_complete && matching::is_bound_to(&volume, claim) {
            return Ok(volume);
        }
        let mut patch = json!({"spec": {"claimRef": claim_reference(claim)}});
        if !matching::is_bound_to(&volume, claim) {
            patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
        }
        self.patch_volume(&volume, "", patch).await
    }

    /// Makes a claim name a volume.
    pub(super) async fn bind_claim(
        &self,
        claim: Claim,
        volume: &PersistentVolume,
    ) -> Result<Claim, Failure> {
        let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref());
        let is_named = named == volume.metadata.name.as_ref();
        let is_complete = annotation(claim.metadata.annotations.as_ref(), BIND_COMPLETED).is_some();
        if is_named && is_complete {
            return Ok(claim);
        }
        let mut patch = json!({"metadata": {"annotations": {BIND_COMPLETED: "yes"}}});
        if !is_named {
            patch["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
            patch["spec"] = json!({"volumeName": volume.metadata.name});
        }
        self.patch_claim(&claim, "", patch).await
    }

    /// Sets the phase of a claim, and what its volume offers. The capacity of a bound claim follows
    /// its resizing.
    pub(super) async fn set_claim_phase(
        &self,
        claim: &PersistentVolumeClaim,
        phase: &str,
        volume: Option<&PersistentVolume>,
    ) -> Result<(), Failure> {
        let before = claim.status.clone().unwrap_or_default();
        let mut status = before.clone();
        status.phase = Some(phase.to_owned());
        let Some(spec) = volume.and_then(|volume| volume.spec.as_ref()) else {
            (status.access_modes, status.capacity) = (None, None);
            status.current_volume_attributes_class_name = None;
            return self.write_claim_status(claim, &before, &status).await;
        };
        status.access_modes.clone_from(&spec.access_modes);
        if before.phase != status.phase {
            status.capacity.clone_from(&spec.capacity);
            status
                .current_volume_attributes_class_name
                .clone_from(&spec.volume_attributes_class_name);
        }
        self.write_claim_status(claim, &before, &status).await
    }

    async fn write_claim_status(
        &self,
        claim: &PersistentVolumeClaim,
        before: &k8s_openapi::api::core::v1::PersistentVolumeClaimStatus,
        status: &k8s_openapi::api::core::v1::PersistentVolumeClaimStatus,
    ) -> Result<(), Failure> {
        if before == status {
            return Ok(());
        }
        // Null removes a field.
        let patch = json!({"status": {
            "phase": status.phase, "accessModes": status.access_modes, "capacity": status.capacity,
            "currentVolumeAttributesClassName": status.current_volume_attributes_class_name,
        }});
        self.patch_claim(claim, "/status", patch).await.map(drop)
    }

    /// Sets the phase of a volume.
    pub(super) async fn set_volume_phase(
        &self,
        volume: Volume,
        phase: &str,
        message: &str,
    ) -> Result<Volume, Failure> {
        let present = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if present == Some(phase) {
            return Ok(volume);
        }
        let message = Some(message).filter(|message| !message.is_empty());
        let patch = json!({"status": {"phase": phase, "message": message}});
        self.patch_volume(&volume, "/status", patch).await
    }

    /// Removes the claim of a volume; one that a user has chosen keeps its name.
    pub(super) async fn unbind_volume(&self, volume: Volume) -> Result<(), Failure> {
        let annotations = volume.metadata.annotations.as_ref();
        let patch = if annotation(annotations, BOUND_BY_CONTROLLER).is_some() {
            json!({"spec": {"claimRef": null},
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}})
        } else {
            json!({"spec": {"claimRef": {"uid": null}}})
        };
        let volume = self.patch_volume(&volume, "", patch).await?;
        self.set_volume_phase(volume, "Available", "").await.map(drop)
    }
}
