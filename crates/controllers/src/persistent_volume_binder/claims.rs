//! The reconcile of claims.
// Upstream: volume/persistentvolume/pv_controller.go syncClaim

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;

use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, Binder, Claim, DEFAULT_CLASS, SELECTED_NODE, Volume,
    annotation, class_of_claim, has_class, matching,
};
use runtime::recorder::EventType;
use runtime::{Action, Failure, Request};

pub(super) async fn reconcile(request: Request, cx: Arc<Binder>) -> Result<Action, Failure> {
    let Some(claim) = cx.claims.get_key(&request)? else { return Ok(Action::Done) };
    if annotation(claim.metadata.annotations.as_ref(), BIND_COMPLETED).is_some() {
        cx.sync_bound(claim).await
    } else {
        cx.sync_unbound(claim).await
    }
}

/// The volume that a claim names; empty if there is none.
fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

impl Binder {
    async fn sync_unbound(&self, claim: Claim) -> Result<Action, Failure> {
        let name = volume_name(&claim);
        if name.is_empty() {
            return self.sync_without_volume(claim).await;
        }
        let Some(volume) = self.volumes.get("", name)? else {
            self.set_claim_phase(&claim, "Pending", None).await?;
            return Ok(Action::Done);
        };
        if matching::is_bound_to(&volume, &claim) {
            self.bind(volume, claim).await?;
            return Ok(Action::Done);
        }
        let is_free = volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none());
        if is_free {
            match matching::mismatch(&volume, &claim) {
                None => self.bind(volume, claim).await?,
                Some(why) => {
                    let message = format!("Cannot bind to requested volume {name:?}: {why}");
                    self.record_claim(&claim, EventType::Warning, "VolumeMismatch", &message);
                    self.set_claim_phase(&claim, "Pending", None).await?;
                }
            }
            return Ok(Action::Done);
        }
        let message = format!("volume {name:?} already bound to a different claim.");
        self.record_claim(&claim, EventType::Warning, "FailedBinding", &message);
        let is_ours =
            annotation(claim.metadata.annotations.as_ref(), BOUND_BY_CONTROLLER).is_some();
        if is_ours {
            return Err(Failure::permanent(format!(
                "invalid binding of a claim to volume {name:?}"
            )));
        }
        self.set_claim_phase(&claim, "Pending", None).await?;
        Ok(Action::Done)
    }

    async fn sync_without_volume(&self, claim: Claim) -> Result<Action, Failure> {
        let class = self.class_named(class_of_claim(&claim))?;
        let is_delayed = class.as_ref().is_some_and(|class| {
            class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
        });
        if let Some(volume) = matching::best_match(&self.volumes, &claim, is_delayed)? {
            self.bind(volume, claim).await?;
            return Ok(Action::Done);
        }
        if !has_class(&claim)
            && let Some(default) = self.default_class()
        {
            let patch = json!({"spec": {"storageClassName": default}});
            self.patch_claim(&claim, "", patch).await?;
            return Ok(Action::Done);
        }
        let has_node = annotation(claim.metadata.annotations.as_ref(), SELECTED_NODE).is_some();
        if is_delayed && !has_node {
            self.record_waiting(&claim);
        } else if !class_of_claim(&claim).is_empty() {
            return self.provision(claim, class).await;
        } else {
            let message =
                "no persistent volumes available for this claim and no storage class is set";
            self.record_claim(&claim, EventType::Normal, "FailedBinding", message);
        }
        self.set_claim_phase(&claim, "Pending", None).await?;
        Ok(Action::Done)
    }

    async fn sync_bound(&self, claim: Claim) -> Result<Action, Failure> {
        let name = volume_name(&claim);
        if name.is_empty() {
            let message =
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
            return self.lose(&claim, "ClaimLost", message).await;
        }
        let Some(volume) = self.volumes.get("", name)? else {
            let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            return self.lose(&claim, "ClaimLost", message).await;
        };
        let owner = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        if owner.is_none_or(|owner| owner.uid == claim.metadata.uid) {
            self.bind(volume, claim).await?;
            return Ok(Action::Done);
        }
        let message = "Two claims are bound to the same volume, this one is bound incorrectly";
        self.lose(&claim, "ClaimMisbound", message).await
    }

    async fn lose(
        &self,
        claim: &PersistentVolumeClaim,
        reason: &str,
        message: &str,
    ) -> Result<Action, Failure> {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Lost") {
            self.set_claim_phase(claim, "Lost", None).await?;
            self.record_claim(claim, EventType::Warning, reason, message);
        }
        Ok(Action::Done)
    }

    /// Binds both sides. Each step is skipped if it is done, so that an interrupted binding
    /// continues.
    async fn bind(&self, volume: Volume, claim: Claim) -> Result<(), Failure> {
        let volume = self.bind_volume(volume, &claim).await?;
        let volume = self.set_volume_phase(volume, "Bound", "").await?;
        let claim = self.bind_claim(claim, &volume).await?;
        self.set_claim_phase(&claim, "Bound", Some(&volume)).await?;
        Ok(())
    }

    /// Says for what a claim waits whose class binds late.
    fn record_waiting(&self, claim: &PersistentVolumeClaim) {
        let metadata = &claim.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let pods = self.pods.pods_of(namespace, metadata.name.as_deref().unwrap_or_default());
        let waiting = pods.iter().filter(|pod| !pod.is_finished() && pod.spec.node_name.is_empty());
        let names: Vec<&str> = waiting.map(|pod| pod.metadata.name.as_str()).collect();
        let (reason, message) = match names.as_slice() {
            [] => (
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding".to_owned(),
            ),
            [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => {
                let message = format!("waiting for pods {} to be scheduled", pods.join(","));
                ("WaitForPodScheduled", message)
            }
        };
        self.record_claim(claim, EventType::Normal, reason, &message);
    }

    fn class_named(&self, name: &str) -> Result<Option<StorageClass>, Failure> {
        if name.is_empty() {
            return Ok(None);
        }
        Ok(self.classes.get("", name)?)
    }

    /// The name of the default class; of the newest, if there are several.
    fn default_class(&self) -> Option<String> {
        let is_default = |class: &StorageClass| {
            annotation(class.metadata.annotations.as_ref(), DEFAULT_CLASS) == Some("true")
        };
        let defaults = self.classes.list().objects.into_iter().filter(is_default);
        let newest = defaults.max_by(|one, other| {
            let created = |class: &StorageClass| {
                class.metadata.creation_timestamp.as_ref().map(|time| time.0)
            };
            created(one)
                .cmp(&created(other))
                .then_with(|| other.metadata.name.cmp(&one.metadata.name))
        });
        newest.and_then(|class| class.metadata.name)
    }
}
