//! [`Metadata`]: the fields of an object's metadata that controllers read.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// See the [module documentation](self). It is cheaper to decode than `ObjectMeta`, and leaves out
/// managed fields.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    /// The name.
    pub name: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The uid.
    pub uid: String,
    /// The version of this state, for conditional writes.
    pub resource_version: String,
    /// Counts the changes of the spec; 0 for kinds without one.
    pub generation: i64,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The time of the creation.
    pub creation_timestamp: Option<Time>,
    /// The time at which the object is or will be deleted, if that was requested.
    pub deletion_timestamp: Option<Time>,
    /// The seconds between the request for the deletion and its time.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The owners.
    pub owner_references: Vec<OwnerReference>,
    /// The finalizers, which delay the deletion.
    pub finalizers: Vec<String>,
}

/// A reference to an owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    /// The group and version of the owner.
    pub api_version: String,
    /// The kind of the owner.
    pub kind: String,
    /// The name of the owner.
    pub name: String,
    /// The uid of the owner.
    pub uid: String,
    /// Whether the owner is the controller.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// A reference to the controller of an object.
    pub(crate) fn controller(api_version: &str, kind: &str, owner: &Metadata) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: true,
            block_owner_deletion: true,
        }
    }
}

impl Metadata {
    /// The controller of the object.
    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|reference| reference.controller)
    }

    /// The metadata for an update of the whole object, which fails if the object has changed.
    pub(crate) fn to_update(&self) -> Value {
        json!({
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
            "labels": self.labels,
            "annotations": self.annotations,
            "ownerReferences": self.owner_references,
            "finalizers": self.finalizers,
        })
    }

    /// The metadata of a patch that fails if the object has changed or was replaced.
    pub(crate) fn precondition(&self) -> Value {
        json!({"uid": self.uid, "resourceVersion": self.resource_version})
    }

    /// Makes this the metadata of a new state of an existing object.
    pub(crate) fn take_identity(&mut self, existing: &Self) {
        self.name.clone_from(&existing.name);
        self.namespace.clone_from(&existing.namespace);
        self.uid.clone_from(&existing.uid);
        self.resource_version.clone_from(&existing.resource_version);
    }

    /// Whether the deletion was requested.
    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}
