//! Creates, updates and deletes stored objects. The registry is the same for every kind, verb and
//! subresource.

mod errors;
pub(crate) mod scope;
pub(crate) mod large_objects;
pub(crate) mod admit;
pub(crate) mod conversion;
pub(crate) mod shape;
pub(crate) mod scale;
pub(crate) mod field_manager;
pub(crate) mod pending_writes;
mod validation;
pub(crate) mod service_address;
mod create;
mod delete;
mod update;
mod outcome;
mod initialization;

use std::collections::HashSet;

use crate::storage::hooks::Reservation;
use machinery::{Object, Status, Value};
use scope::RequestScope;

pub(crate) use create::{CreateRequest, create};
pub(crate) use delete::{Deleted, check_delete_preconditions, delete};
pub(crate) use initialization::InitializationWait;
pub(crate) use outcome::WriteOutcome;
pub(crate) use update::{
    Transform, TransformFuture, UpdateRequest, UpdateStrategy, check_uid, update,
};

/// The treatment of `metadata.managedFields` by a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    /// The registry updates the managed fields.
    Track,
    /// The object has its final managed fields already.
    Keep,
}

/// The maximum size of a stored object, 1.5 MiB. The value is etcd's limit, so that a store can be
/// moved to etcd. Without a limit, patches could make an object grow indefinitely.
const MAX_OBJECT: usize = 3 << 19;

/// The bytes of an object that are stored: those that are served in the storage version, without
/// the resourceVersion.
fn stored_bytes(scope: &RequestScope, object: &Object) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    scope.resource().storage_version().shape.write(object, &mut bytes);
    // Up to a million of these values stay in memory, so none has spare capacity.
    bytes.shrink_to_fit();
    bytes
}

/// The bytes of an object that are stored, or the Status 413 if the object is too large.
fn stored_bytes_within_limit(scope: &RequestScope, object: &Object) -> Result<Vec<u8>, Status> {
    let bytes = stored_bytes(scope, object);
    if bytes.len() > MAX_OBJECT {
        let found = bytes.len();
        return Err(Status::too_large(&format!(
            "the object has {found} bytes, limit is {MAX_OBJECT}"
        )));
    }
    Ok(bytes)
}

/// Removes `selfLink`, which is deprecated and never stored.
fn remove_self_link(object: &mut Object) {
    object.remove_meta("selfLink");
}

/// Removes duplicate owner references, and warns the client about them.
fn dedup_owner_references(scope: &RequestScope, object: &mut Object) {
    let Some(owners) = object.get_mut(&["metadata", "ownerReferences"]) else { return };
    let Some(owners) = owners.as_array_mut() else { return };
    if owners.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity(owners.len());
    let first_occurrences: Vec<bool> = owners.iter().map(|owner| seen.insert(owner)).collect();
    let mut repeated: Vec<String> = Vec::new();
    let mut first_occurrences = first_occurrences.into_iter();
    owners.retain(|owner| {
        let is_first = first_occurrences.next() == Some(true);
        if !is_first {
            let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
            repeated.push(uid.to_owned());
        }
        is_first
    });
    if !repeated.is_empty() {
        repeated.sort_unstable();
        repeated.dedup();
        scope.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        ));
    }
}

/// Whether fields other than metadata differ.
fn spec_differs(new: &Object, old: &Object, ignores_status: bool) -> bool {
    let counts = |(key, _): &(&String, &Value)| match key.as_str() {
        "apiVersion" | "kind" | "metadata" => false,
        "status" => !ignores_status,
        _ => true,
    };
    !new.map().iter().filter(counts).eq(old.map().iter().filter(counts))
}

/// Runs the resource's `begin_write` hook, which reserves what the object needs.
fn begin_write(
    scope: &RequestScope,
    object: &mut Object,
    old: Option<&Object>,
    dry_run: bool,
) -> Result<Reservation, Status> {
    match &scope.served.hooks.begin_write {
        Some(hook) => hook.begin(object, old, dry_run),
        None => Ok(Reservation::default()),
    }
}
