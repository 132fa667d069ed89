//! [`ServedCrd`]: what a crd needs to be served, and [`CrdState`], what that depends on.

use crate::cache::catalog::Served;
use crate::cache::creations::Creations;
use kinds::apiextensions::is_terminating;
use machinery::{Object, Value};
use std::sync::Arc;
use types::Resource;
use types::apply::CustomSchema;

/// See the [module documentation](self).
pub(super) struct ServedCrd {
    /// The crd that it was made of.
    pub(super) state: CrdState,
    /// Shared by all that is made of one crd.
    pub(super) creations: Arc<Creations>,
    pub(super) served: Arc<Served>,
    /// What was served before for the same spec, with which some watches may have begun.
    pub(super) former: Vec<Arc<Served>>,
}

impl ServedCrd {
    /// All that ends with the crd.
    pub(super) fn into_served(self) -> impl Iterator<Item = Arc<Served>> {
        self.former.into_iter().chain([self.served])
    }
}

/// The parts of a crd that decide how it is served.
pub(super) struct CrdState {
    generation: i64,
    uid: String,
    deleted: bool,
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

    /// Whether it is the state of this object, whatever has become of it.
    pub(super) fn has_uid_of(&self, crd: &Object) -> bool {
        self.uid == crd.uid()
    }

    /// Whether it is the state of this object with this spec.
    pub(super) fn has_spec_of(&self, crd: &Object) -> bool {
        self.generation == crd.generation() && self.has_uid_of(crd)
    }

    /// Whether it is the state of this object as it is now.
    pub(super) fn is_state_of(&self, crd: &Object) -> bool {
        self.has_spec_of(crd)
            && self.deleted == crd.deletion_timestamp().is_some()
            && self.terminating == is_terminating(crd)
            && self.accepted_names.as_ref() == crd.get(&["status", "acceptedNames"])
    }
}

/// How each version of the resource merges when it is applied.
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
