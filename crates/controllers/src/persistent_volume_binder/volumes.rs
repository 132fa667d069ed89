//! The reconcile of volumes: phases, and the reclaiming of released volumes.
// Upstream: volume/persistentvolume/pv_controller.go syncVolume

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

use super::{Binder, Claim, PROVISIONED_BY, SIMULATED_PROVISIONER, Volume, annotation, matching};
use crate::api_requests;
use machinery::names;
use runtime::recorder::EventType;
use runtime::{Action, Failure, Request};

pub(super) async fn reconcile(request: Request, cx: Arc<Binder>) -> Result<Action, Failure> {
    let Some(volume) = cx.volumes.get_key(&request)? else { return Ok(Action::Done) };
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
    let uid = reference.as_ref().and_then(|it| it.uid.as_deref()).unwrap_or_default();
    let Some(reference) = reference.as_ref().filter(|_| !uid.is_empty()) else {
        cx.set_volume_phase(volume, "Available", "").await?;
        return Ok(Action::Done);
    };
    let Some(claim) = cx.claim_of(reference, &volume).await? else {
        return cx.release(volume).await;
    };
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    let named = named.unwrap_or_default();
    if named.is_empty() {
        // The reconcile of the claim completes the binding.
        if matching::has_other_mode(&volume, &claim) {
            cx.warn_of_mode(&volume, &claim);
        }
    } else if Some(named) == volume.metadata.name.as_deref() {
        cx.set_volume_phase(volume, "Bound", "").await?;
    } else if is_provisioned(&volume) && reclaim_policy(&volume) == "Delete" {
        // The claim has found another volume.
        return cx.release(volume).await;
    } else {
        cx.unbind_volume(volume).await?;
    }
    Ok(Action::Done)
}

fn is_provisioned(volume: &PersistentVolume) -> bool {
    annotation(volume.metadata.annotations.as_ref(), PROVISIONED_BY).is_some()
}

fn reclaim_policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    spec.and_then(|it| it.persistent_volume_reclaim_policy.as_deref()).unwrap_or("Retain")
}

impl Binder {
    /// The claim with the uid of a reference. One that is not in the cache is read from the server,
    /// since the data of a released volume may be deleted.
    async fn claim_of(
        &self,
        reference: &ObjectReference,
        volume: &PersistentVolume,
    ) -> Result<Option<Claim>, Failure> {
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let name = reference.name.as_deref().unwrap_or_default();
        let is_same = |claim: &Claim| claim.metadata.uid == reference.uid;
        if let Some(claim) = self.claims.get(namespace, name)?.filter(is_same) {
            return Ok(Some(claim));
        }
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        // A reference may have any text as namespace and name, also a path.
        let is_valid = [namespace, name].iter().all(|it| names::dns1123_subdomain(it).is_empty());
        if matches!(phase, Some("Released" | "Failed")) || !is_valid {
            return Ok(None);
        }
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        let claim: Option<Claim> = api_requests::get(&self.reader, &path).await?;
        Ok(claim.filter(is_same))
    }

    fn warn_of_mode(&self, volume: &PersistentVolume, claim: &PersistentVolumeClaim) {
        let of_volume = volume.metadata.name.as_deref().unwrap_or_default();
        let of_claim = claim.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim {of_claim:?} due to \
             incompatible volumeMode."
        );
        self.recorder.record(volume, EventType::Warning, "VolumeMismatch", &message);
        let message = format!(
            "Cannot bind PersistentVolume {of_volume:?} to requested PersistentVolumeClaim due to \
             incompatible volumeMode."
        );
        self.record_claim(claim, EventType::Warning, "VolumeMismatch", &message);
    }

    /// Reclaims a volume whose claim is gone.
    async fn release(&self, mut volume: Volume) -> Result<Action, Failure> {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if !matches!(phase, Some("Released" | "Failed")) {
            volume = self.set_volume_phase(volume, "Released", "").await?;
        }
        match reclaim_policy(&volume) {
            "Retain" => {}
            "Delete" => self.delete_volume(volume).await?,
            "Recycle" => self.recycle_volume(volume).await?,
            _ => {
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                self.fail(volume, "VolumeUnknownReclaimPolicy", message).await?;
            }
        }
        Ok(Action::Done)
    }

    /// Deletes a volume, unless an external provisioner does.
    async fn delete_volume(&self, volume: Volume) -> Result<(), Failure> {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let provisioner = annotation(volume.metadata.annotations.as_ref(), PROVISIONED_BY);
        let is_external = provisioner
            .is_some_and(|it| it != SIMULATED_PROVISIONER && !it.starts_with("kubernetes.io/"));
        if is_external || volume.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let spec = volume.spec.as_ref();
        let host_path = spec.and_then(|spec| spec.host_path.as_ref()).map(|it| it.path.as_str());
        let is_simulated = spec.and_then(|spec| spec.csi.as_ref());
        let is_simulated = is_simulated.is_some_and(|csi| csi.driver == SIMULATED_PROVISIONER);
        let refusal = match host_path {
            Some(path) if !path.starts_with("/tmp/") => Some(format!(
                "host_path deleter only supports /tmp/.+ but received provided {path}"
            )),
            None if !is_simulated => Some(format!(
                "error getting deleter volume plugin for volume {name:?}: no deletable volume \
                 plugin matched"
            )),
            _ => None,
        };
        if let Some(message) = refusal {
            return self.fail(volume, "VolumeFailedDelete", &message).await;
        }
        let uid = volume.metadata.uid.as_deref().unwrap_or_default();
        let path = format!("/api/v1/persistentvolumes/{name}");
        let deleted = api_requests::delete(&self.client, &path, uid).await;
        api_requests::none_if_missing(deleted)?;
        Ok(())
    }

    /// Makes a volume available again; simulated volumes have no data to delete.
    async fn recycle_volume(&self, volume: Volume) -> Result<(), Failure> {
        let spec = volume.spec.as_ref();
        if !spec.is_some_and(|spec| spec.host_path.is_some() || spec.nfs.is_some()) {
            let message = "No recycler plugin found for the volume!";
            return self.fail(volume, "VolumeFailedRecycle", message).await;
        }
        self.recorder.record(&*volume, EventType::Normal, "VolumeRecycled", "Volume recycled");
        self.unbind_volume(volume).await
    }

    async fn fail(&self, volume: Volume, reason: &str, message: &str) -> Result<(), Failure> {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Failed") {
            return Ok(());
        }
        let volume = self.set_volume_phase(volume, "Failed", message).await?;
        self.recorder.record(&*volume, EventType::Warning, reason, message);
        Ok(())
    }
}
