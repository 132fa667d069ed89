//! The writes of a StatefulSet: its pods and their claims, with the events about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::claims::{self, ClaimOwners};
use super::identity::{self, POD_INDEX_LABEL, POD_NAME_LABEL};
use super::rollout::Rollout;
use super::view::{ClaimTemplate, ClaimView, PodView};
use crate::api_requests;
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_control::{self, NewPod};
use runtime::informer::{NoSuchIndex, ObjectDecodeError};
use runtime::kube_client;
use runtime::recorder::EventType;

/// The error of a write.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetError {
    /// The server has refused a request.
    #[error("{}", api_requests::message(.0))]
    Api(kube_client::Error),
    /// The claims of a pod are not as they should be.
    #[error("{0}")]
    Claims(String),
    /// A cached object is not valid.
    #[error(transparent)]
    Decode(#[from] ObjectDecodeError),
    /// The cache has not the index in which the pods are looked up.
    #[error(transparent)]
    Index(#[from] NoSuchIndex),
    /// The spec of the set is not valid.
    #[error("{0}")]
    Spec(String),
}

impl From<kube_client::Error> for SetError {
    fn from(error: kube_client::Error) -> Self {
        Self::Api(error)
    }
}

/// What is done to an object, in the words of events.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    /// The verb in messages and in reasons.
    fn text(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }
}

impl Rollout<'_> {
    /// Creates the pod of an ordinal after its claims.
    pub(super) async fn create_pod(&self, ordinal: i32) -> Result<(), SetError> {
        #[derive(Deserialize)]
        struct Created {
            metadata: Metadata,
        }
        let name = identity::pod_name(&self.set.metadata.name, ordinal);
        if let Err(error) = self.create_claims(&name, ordinal).await {
            self.record_pod(Verb::Create, &name, Some(&error));
            return Err(error);
        }
        let (template, revision) = self.template_of(ordinal);
        let (metadata, spec) = identity::new_pod(self.set, &template, revision, ordinal);
        let prefix = format!("{}-", self.set.metadata.name);
        let pod = NewPod::new(&metadata, self.owner, &name, prefix, &spec);
        let path = pod_control::collection(&self.set.metadata.namespace);
        match api_requests::create::<Created>(&self.cx.client, &path, &pod).await {
            Ok(Created { metadata }) => {
                self.record_pod(Verb::Create, &name, None);
                self.update_claim_owners(&metadata, ordinal).await
            }
            // Another pod has the name: one that the cache does not show yet, or a foreign one.
            Err(error) if api_requests::has_reason(&error, "AlreadyExists") => Err(error.into()),
            Err(error) => {
                let is_event = !api_requests::is_namespace_terminating(&error);
                let error = SetError::Api(error);
                if is_event {
                    self.record_pod(Verb::Create, &name, Some(&error));
                }
                Err(error)
            }
        }
    }

    /// Deletes a pod, if it has not been replaced.
    pub(super) async fn delete_pod(&self, pod: &Metadata) -> Result<(), SetError> {
        match api_requests::delete(&self.cx.client, &pod_path(pod), &pod.uid).await {
            Ok(_) => {
                self.record_pod(Verb::Delete, &pod.name, None);
                Ok(())
            }
            // 409: another pod has the name.
            Err(error) if [404, 409].iter().any(|it| api_requests::has_code(&error, *it)) => Ok(()),
            Err(error) => {
                let error = error.into();
                self.record_pod(Verb::Delete, &pod.name, Some(&error));
                Err(error)
            }
        }
    }

    /// Makes the identity, the volumes and the owners of the claims of a pod match its ordinal.
    pub(super) async fn repair_pod(&self, pod: &PodView, ordinal: i32) -> Result<(), SetError> {
        let is_identical = identity::identity_matches(&pod.metadata);
        let is_stored = identity::storage_matches(self.set, pod, ordinal);
        let has_owners = self.claims_have_owners(&pod.metadata, ordinal)?;
        if is_identical && is_stored && has_owners {
            return Ok(());
        }
        let name = &pod.metadata.name;
        let repaired = async {
            let mut patch = Map::new();
            if !is_identical {
                let index = ordinal.to_string();
                let labels = json!({POD_NAME_LABEL: name, POD_INDEX_LABEL: index});
                patch.insert("metadata".to_owned(), json!({"labels": labels}));
            }
            if !is_stored {
                self.create_claims(name, ordinal).await?;
                // The server refuses this, since volumes cannot change; the event tells so.
                let volumes = identity::volumes(self.set, ordinal, &pod.spec.volumes);
                patch.insert("spec".to_owned(), json!({"volumes": volumes}));
            }
            self.update_claim_owners(&pod.metadata, ordinal).await?;
            if patch.is_empty() {
                return Ok(());
            }
            let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
            metadata["uid"] = pod.metadata.uid.as_str().into();
            let path = pod_path(&pod.metadata);
            api_requests::merge::<IgnoredAny>(&self.cx.client, &path, &patch).await?;
            Ok(())
        };
        let repaired = repaired.await;
        self.record_pod(Verb::Update, name, repaired.as_ref().err());
        repaired
    }

    /// Creates the missing claims of a pod.
    pub(super) async fn create_claims(&self, pod: &str, ordinal: i32) -> Result<(), SetError> {
        let mut errors = Vec::new();
        for template in &self.set.spec.volume_claim_templates {
            let name = identity::claim_name(template, &self.set.metadata.name, ordinal);
            match self.claim(&name)? {
                Some(claim) if claim.metadata.is_deleting() => {
                    errors.push(format!("pvc {name} is being deleted"));
                }
                Some(_) => {}
                None => {
                    if let Err(error) = self.create_claim(template, &name, pod).await {
                        let message = api_requests::message(&error);
                        errors.push(format!("failed to create PVC {name}: {message}"));
                    }
                }
            }
        }
        match errors.as_slice() {
            [] => Ok(()),
            [error] => Err(SetError::Claims(error.clone())),
            errors => Err(SetError::Claims(format!("[{}]", errors.join(", ")))),
        }
    }

    async fn create_claim(
        &self,
        template: &ClaimTemplate,
        name: &str,
        pod: &str,
    ) -> Result<(), kube_client::Error> {
        let namespace = &self.set.metadata.namespace;
        let mut labels: BTreeMap<String, String> = template.metadata.labels.clone();
        labels.extend(self.set.match_labels());
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": labels,
                "annotations": template.metadata.annotations,
            },
            "spec": template.spec,
        });
        let path = claims_path(namespace);
        let created = api_requests::create::<IgnoredAny>(&self.cx.client, &path, &claim).await;
        let set = &self.set.metadata.name;
        match &created {
            Ok(_) => {
                let message = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                self.record(EventType::Normal, "SuccessfulCreate", &message);
            }
            Err(error) if api_requests::has_reason(error, "AlreadyExists") => {}
            Err(error) if api_requests::is_namespace_terminating(error) => {}
            Err(error) => {
                let error = api_requests::message(error);
                let message = format!(
                    "Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {error}"
                );
                self.record(EventType::Warning, "FailedCreate", &message);
            }
        }
        created.map(drop)
    }

    /// Whether a claim of a missing pod still belongs to a former pod, with which it is deleted.
    pub(super) fn has_stale_claim(&self, ordinal: i32) -> Result<bool, SetError> {
        if !self.set.spec.persistent_volume_claim_retention_policy.deletes_with_pod() {
            return Ok(false);
        }
        let name = identity::pod_name(&self.set.metadata.name, ordinal);
        let pod = pod_reference(&Metadata { name, ..Metadata::default() });
        for claim in self.claims_of(ordinal)? {
            if claims::has_stale_owner(&claim.metadata, &pod) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the claims of a pod have the owners that the retention policy requires.
    pub(super) fn claims_have_owners(
        &self,
        pod: &Metadata,
        ordinal: i32,
    ) -> Result<bool, SetError> {
        let pod = pod_reference(pod);
        let owners = self.claim_owners(&pod, ordinal);
        let claims = self.claims_of(ordinal)?;
        Ok(claims.iter().all(|claim| owners.changed_owners(&claim.metadata).is_none()))
    }

    /// Gives the claims of a pod the owners that the retention policy requires.
    pub(super) async fn update_claim_owners(
        &self,
        pod: &Metadata,
        ordinal: i32,
    ) -> Result<(), SetError> {
        let reference = pod_reference(pod);
        let owners = self.claim_owners(&reference, ordinal);
        for claim in self.claims_of(ordinal)? {
            let Metadata { name, uid, resource_version, .. } = &claim.metadata;
            let Some(changed) = owners.changed_owners(&claim.metadata) else { continue };
            if owners.has_conflict(&claim.metadata) {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a \
                     manging controller, the retention policy is ignored for this claim"
                );
                self.record(EventType::Warning, "ConflictingController", &message);
            }
            let patch = json!({"metadata": {
                "uid": uid, "resourceVersion": resource_version, "ownerReferences": changed,
            }});
            let path = format!("{}/{name}", claims_path(&claim.metadata.namespace));
            let patched = api_requests::merge::<IgnoredAny>(&self.cx.client, &path, &patch).await;
            if let Err(error) = patched {
                let error = api_requests::message(&error);
                let message =
                    format!("could not update claim {name} for delete policy ownerRefs: {error}");
                let error = SetError::Claims(message);
                self.record_pod(Verb::Update, &pod.name, Some(&error));
                return Err(error);
            }
        }
        Ok(())
    }

    fn claim_owners<'a>(&'a self, pod: &'a OwnerReference, ordinal: i32) -> ClaimOwners<'a> {
        ClaimOwners {
            set: &self.owner.reference,
            pod,
            policy: &self.set.spec.persistent_volume_claim_retention_policy,
            is_condemned: !self.set.has_ordinal(ordinal),
        }
    }

    /// The existing claims of an ordinal.
    fn claims_of(&self, ordinal: i32) -> Result<Vec<Arc<ClaimView>>, SetError> {
        let mut claims = Vec::new();
        for template in &self.set.spec.volume_claim_templates {
            let name = identity::claim_name(template, &self.set.metadata.name, ordinal);
            claims.extend(self.claim(&name)?);
        }
        Ok(claims)
    }

    fn claim(&self, name: &str) -> Result<Option<Arc<ClaimView>>, SetError> {
        Ok(self.cx.claims.shared(&self.set.metadata.namespace, name)?)
    }

    /// The template of a new pod, and the name of its revision.
    fn template_of(&self, ordinal: i32) -> (Value, &str) {
        let revisions = self.revisions;
        let (set, strategy) = (self.set, &self.set.spec.update_strategy);
        let unchanged = match &strategy.rolling_update {
            Some(rolling) => rolling.partition,
            None if strategy.type_ == "RollingUpdate" => set.status.current_replicas,
            None => 0,
        };
        if ordinal < set.start().saturating_add(unchanged) {
            return (revisions.current.template(), &revisions.current.metadata.name);
        }
        (set.spec.template.clone(), &revisions.update.metadata.name)
    }

    fn record_pod(&self, verb: Verb, pod: &str, error: Option<&SetError>) {
        let set = &self.set.metadata.name;
        let verb = verb.text();
        match error {
            None => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                self.record(EventType::Normal, &format!("Successful{verb}"), &message);
            }
            Some(error) => {
                let message =
                    format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
                self.record(EventType::Warning, &format!("Failed{verb}"), &message);
            }
        }
    }

    fn record(&self, event_type: EventType, reason: &str, message: &str) {
        let set = self.owner.object_reference();
        self.cx.recorder.record_about(set, event_type, reason, message);
    }
}

fn pod_reference(pod: &Metadata) -> OwnerReference {
    OwnerReference::controller("v1", "Pod", pod)
}

fn pod_path(pod: &Metadata) -> String {
    format!("{}/{}", pod_control::collection(&pod.namespace), pod.name)
}

fn claims_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
}
