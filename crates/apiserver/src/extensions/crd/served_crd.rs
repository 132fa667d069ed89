//! [`ServedCrd`]: a CRD and the resource built from it, and [`CrdState`], the fields of the CRD that
//! the resource depends on.

use std::sync::Arc;

use crate::storage::catalog::ServedResource;
use crate::storage::creations::Creations;
use kinds::apiextensions::is_terminating;
use machinery::{Object, Value};
use types::Resource;
use types::apply::CustomSchema;

/// See the [module documentation](self).
pub(super) struct ServedCrd {
    /// The state of the CRD that it was built from.
    pub(super) state: CrdState,
    /// Counts the creations in progress. Shared by all resources built from one CRD.
    pub(super) creations: Arc<Creations>,
    pub(super) served: Arc<ServedResource>,
    /// The resources built earlier from the same spec, on which watches may still run.
    pub(super) former: Vec<Arc<ServedResource>>,
}

impl ServedCrd {
    /// All resources, whose watches end with the CRD.
    pub(super) fn into_served(self) -> impl Iterator<Item = Arc<ServedResource>> {
        self.former.into_iter().chain([self.served])
    }
}

/// The parts of a CRD that its resource depends on.
pub(super) struct CrdState {
    generation: i64,
    uid: String,
    /// Whether it has a deletion timestamp.
    deleted: bool,
    /// Whether its condition `Terminating` is true.
    terminating: bool,
    accepted_names: Option<Value>,
}

impl CrdState {
    pub(super) fn of(crd: &Object) -> Self {
        Self {
            generation: crd.generation(),
            uid: crd.uid().to_owned(),
            deleted: crd.deletion_timestamp().is_some(),
            terminating: is_terminating(crd),
            accepted_names: crd.get(&["status", "acceptedNames"]).cloned(),
        }
    }

    /// Whether it is a state of this object, before or after changes.
    pub(super) fn has_uid_of(&self, crd: &Object) -> bool {
        self.uid == crd.uid()
    }

    /// Whether it is a state of this object with the same spec.
    pub(super) fn has_spec_of(&self, crd: &Object) -> bool {
        self.generation == crd.generation() && self.has_uid_of(crd)
    }

    /// Whether it is the current state of this object.
    pub(super) fn is_state_of(&self, crd: &Object) -> bool {
        self.has_spec_of(crd)
            && self.deleted == crd.deletion_timestamp().is_some()
            && self.terminating == is_terminating(crd)
            && self.accepted_names.as_ref() == crd.get(&["status", "acceptedNames"])
    }
}

/// The merge schema for server-side apply of each version.
pub(super) fn apply_schemas(resource: &Resource, crd: &Object) -> Vec<Arc<CustomSchema>> {
    let keeps_unknown = crd.get(&["spec", "preserveUnknownFields"]) == Some(&true.into());
    let versions = crd.get(&["spec", "versions"]).and_then(Value::as_array);
    let schema_of = |name: &str| {
        let found = versions.into_iter().flatten().find(|it| it["name"] == name)?;
        found.pointer("/schema/openAPIV3Schema")
    };
    let compiled = resource
        .versions
        .iter()
        .map(|it| CustomSchema::compile(schema_of(&it.name), keeps_unknown));
    compiled.map(Arc::new).collect()
}
