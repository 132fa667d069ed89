//! [`Made`]: what a definition needs to be served, and [`DefinitionState`], what that depends on.

use crate::cache::catalog::Served;
use crate::cache::creations::Creations;
use kinds::apiextensions::is_terminating;
use machinery::{Object, Value};
use std::sync::Arc;
use types::Resource;
use types::apply::CustomSchema;

/// See the [module documentation](self).
pub(super) struct Made {
    /// The definition that it was made of.
    pub(super) state: DefinitionState,
    /// Shared by all that is made of one definition.
    pub(super) creations: Arc<Creations>,
    pub(super) served: Arc<Served>,
    /// What was served before for the same spec, with which some watches may have begun.
    pub(super) former: Vec<Arc<Served>>,
}

impl Made {
    /// All that ends with the definition.
    pub(super) fn all(self) -> impl Iterator<Item = Arc<Served>> {
        self.former.into_iter().chain([self.served])
    }
}

/// The parts of a definition that decide how it is served.
pub(super) struct DefinitionState {
    generation: i64,
    uid: String,
    deleted: bool,
    terminating: bool,
    accepted_names: Option<Value>,
}

impl DefinitionState {
    pub(super) fn of(definition: &Object) -> Self {
        Self {
            generation: definition.generation(),
            uid: definition.uid().to_owned(),
            deleted: definition.deletion_timestamp().is_some(),
            terminating: is_terminating(definition),
            accepted_names: definition.get(&["status", "acceptedNames"]).cloned(),
        }
    }

    /// Whether it is the state of this object, whatever has become of it.
    pub(super) fn has_uid_of(&self, definition: &Object) -> bool {
        self.uid == definition.uid()
    }

    /// Whether it is the state of this object with this spec.
    pub(super) fn has_spec_of(&self, definition: &Object) -> bool {
        self.generation == definition.generation() && self.has_uid_of(definition)
    }

    /// Whether it is the state of this object as it is now.
    pub(super) fn fits(&self, definition: &Object) -> bool {
        self.has_spec_of(definition)
            && self.deleted == definition.deletion_timestamp().is_some()
            && self.terminating == is_terminating(definition)
            && self.accepted_names.as_ref() == definition.get(&["status", "acceptedNames"])
    }
}

/// How each version of the resource merges when it is applied.
pub(super) fn apply_schemas(resource: &Resource, definition: &Object) -> Vec<Arc<CustomSchema>> {
    let keeps_unknown = definition.get(&["spec", "preserveUnknownFields"]) == Some(&true.into());
    let versions = definition.get(&["spec", "versions"]).and_then(Value::as_array);
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
