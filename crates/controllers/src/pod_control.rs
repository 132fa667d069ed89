//! [`PodControl`]: creates and deletes the pods of a workload, and records events about that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ObjectReference;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::api_requests::{self, is_namespace_terminating};
use crate::metadata::{Metadata, OwnerReference};
use crate::object_reference::object_reference;
use crate::slow_start::{self, MAX_CONCURRENT};
use runtime::Client;
use runtime::kube_client;
use runtime::recorder::{EventType, Recorder};

/// See the [module documentation](self).
pub(crate) struct PodControl {
    /// The client of the controller.
    pub client: Client,
    /// Records the events of the owners.
    pub recorder: Recorder,
}

/// The object that owns the pods.
pub(crate) struct PodOwner<'a> {
    /// The metadata of the owner.
    pub metadata: &'a Metadata,
    /// The reference in its pods.
    pub reference: OwnerReference,
}

/// The template of a workload's pods. The spec is not decoded, since it is only copied.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PodTemplate {
    /// The metadata of the pods.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// The spec of the pods.
    pub spec: Box<RawValue>,
}

/// The metadata of a template.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TemplateMetadata {
    /// The labels of the pods.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the pods.
    pub annotations: BTreeMap<String, String>,
    /// The finalizers of the pods.
    pub finalizers: Vec<String>,
}

/// A pod to create.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewPod<'a, S: ?Sized> {
    api_version: &'static str,
    kind: &'static str,
    /// The metadata.
    pub metadata: NewPodMetadata<'a>,
    /// The spec.
    pub spec: &'a S,
}

/// The metadata of a pod to create.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewPodMetadata<'a> {
    /// The name; empty if it is generated.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'a str,
    /// The prefix of a generated name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// The labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: &'a BTreeMap<String, String>,
    /// The annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: &'a BTreeMap<String, String>,
    /// The finalizers.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub finalizers: &'a [String],
    /// The controller.
    pub owner_references: [&'a OwnerReference; 1],
}

/// The part of a created pod that is read.
#[derive(Deserialize)]
struct CreatedPod {
    metadata: Metadata,
}

impl PodOwner<'_> {
    /// The owner as the subject of events.
    pub(crate) fn object_reference(&self) -> ObjectReference {
        object_reference(&self.reference.api_version, &self.reference.kind, self.metadata)
    }
}

impl PodTemplate {
    /// A pod with a generated name.
    pub(crate) fn pod<'a>(&'a self, owner: &'a PodOwner<'_>) -> NewPod<'a, RawValue> {
        NewPod::new(&self.metadata, owner, "", format!("{}-", owner.metadata.name), &self.spec)
    }
}

impl<'a, S: ?Sized> NewPod<'a, S> {
    /// A pod with a name, or with a prefix of its generated name.
    pub(crate) fn new(
        template: &'a TemplateMetadata,
        owner: &'a PodOwner<'_>,
        name: &'a str,
        generate_name: String,
        spec: &'a S,
    ) -> Self {
        let metadata = NewPodMetadata {
            name,
            generate_name,
            labels: &template.labels,
            annotations: &template.annotations,
            finalizers: &template.finalizers,
            owner_references: [&owner.reference],
        };
        Self { api_version: "v1", kind: "Pod", metadata, spec }
    }
}

impl PodControl {
    /// Creates a pod in the namespace of its owner, and returns its name.
    pub(crate) async fn create(
        &self,
        owner: &PodOwner<'_>,
        pod: &impl Serialize,
    ) -> Result<String, kube_client::Error> {
        let path = collection(&owner.metadata.namespace);
        match api_requests::create::<CreatedPod>(&self.client, &path, pod).await {
            Ok(CreatedPod { metadata }) => {
                let message = format!("Created pod: {}", metadata.name);
                self.record(owner, EventType::Normal, "SuccessfulCreate", &message);
                Ok(metadata.name)
            }
            Err(error) => {
                if !is_namespace_terminating(&error) {
                    let message = format!("Error creating: {}", api_requests::message(&error));
                    self.record(owner, EventType::Warning, "FailedCreate", &message);
                }
                Err(error)
            }
        }
    }

    /// Creates `count` equal pods with generated names; see [`create_each`](Self::create_each).
    pub(crate) async fn create_all(
        &self,
        owner: &PodOwner<'_>,
        template: &PodTemplate,
        count: usize,
    ) -> Result<(), kube_client::Error> {
        let (pod, size) = (template.pod(owner), template.spec.get().len());
        self.create_each(owner, count, size, |_| &pod).await.1.map_or(Ok(()), Err)
    }

    /// Creates the pods `make(0)` to `make(count - 1)`, each of about `size` bytes, in
    /// [growing batches](slow_start). Returns the number of created pods, and the error that ended the
    /// creation.
    pub(crate) async fn create_each<P: Serialize>(
        &self,
        owner: &PodOwner<'_>,
        count: usize,
        size: usize,
        make: impl Fn(usize) -> P,
    ) -> (usize, Option<kube_client::Error>) {
        let created = AtomicUsize::new(0);
        let result = slow_start::run(count, size, |number| {
            let (pod, created) = (make(number), &created);
            async move {
                self.create(owner, &pod).await?;
                created.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        })
        .await;
        // In a namespace that is being deleted nothing can be created any more, which is not an error
        // of the workload.
        let error = result.err().filter(|error| !is_namespace_terminating(error));
        (created.into_inner(), error)
    }

    /// Deletes a pod of the owner, if it has not been replaced. A pod that does not exist any more
    /// is not an error.
    pub(crate) async fn delete(
        &self,
        owner: &PodOwner<'_>,
        pod: &Metadata,
    ) -> Result<(), kube_client::Error> {
        let path = format!("{}/{}", collection(&pod.namespace), pod.name);
        match api_requests::delete(&self.client, &path, &pod.uid).await {
            Ok(_) => {
                let message = format!("Deleted pod: {}", pod.name);
                self.record(owner, EventType::Normal, "SuccessfulDelete", &message);
                Ok(())
            }
            // 409: another pod has the name.
            Err(error) if [404, 409].iter().any(|it| api_requests::has_code(&error, *it)) => Ok(()),
            Err(error) => {
                let message = format!("Error deleting: {}", api_requests::message(&error));
                self.record(owner, EventType::Warning, "FailedDelete", &message);
                Err(error)
            }
        }
    }

    /// Deletes pods; returns the first error after all were tried.
    pub(crate) async fn delete_all(
        &self,
        owner: &PodOwner<'_>,
        pods: impl IntoIterator<Item = &Metadata>,
    ) -> Result<(), kube_client::Error> {
        let requests: Vec<_> = pods.into_iter().map(|pod| self.delete(owner, pod)).collect();
        let mut deleted = stream::iter(requests).buffer_unordered(MAX_CONCURRENT);
        let mut failed = None;
        while let Some(result) = deleted.next().await {
            failed = failed.or(result.err());
        }
        failed.map_or(Ok(()), Err)
    }

    fn record(&self, owner: &PodOwner<'_>, event_type: EventType, reason: &str, message: &str) {
        self.recorder.record_about(owner.object_reference(), event_type, reason, message);
    }
}

/// The path of the pods of a namespace.
pub(crate) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}
