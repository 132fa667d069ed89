//! Deletes an object: preconditions, grace period, finalizers, and finally the removal.
//!
//! ```text
//! DELETE ─▶ grace period? ── yes ─▶ marked, stays until the kubelet deletes it with grace period 0
//!                 │ no
//!                 ▼
//!           finalizers? ──── yes ─▶ marked, stays until the last finalizer is removed
//!                 │ no
//!                 ▼
//!              removed
//! ```

use std::sync::Arc;

use super::admit::Admit;
use super::conversion;
use super::scope::RequestScope;
use super::{WriteOutcome, stored_bytes};
use crate::cache::watch_cache::Entry;
use crate::registry::errors;
use crate::request::options::{DeleteOptions, DeletionPropagation};
use machinery::{GroupResource, Object, Status, Value, timestamp};
use store::{Error, Expect};
use types::resource::{GarbageCollectionPolicy, Strategy};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The latest deletion timestamp: 9999-12-29T23:59:59Z. The times of many clients, jiff's in Rust for
/// example, end before the last day of that year.
const LATEST_DELETION: i64 = 253_402_127_999;

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object is removed. The value is its last state.
    Removed(Object),
    /// The object has a deletion timestamp, and a grace period or a finalizer delays its removal.
    Terminating(WriteOutcome),
}

/// Deletes the named object if `admission` allows it.
pub(crate) async fn delete(
    scope: &RequestScope,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
    admission: &dyn Admit,
) -> Result<Deleted, Status> {
    let key = scope.served.key(namespace, name);
    let of_store = |error: Error| errors::of_store(&scope.group_resource(), name, &error);
    scope.storage.cache.catch_up().await.map_err(of_store)?;
    let mut current = scope.find(&key)?;
    loop {
        let Some(entry) = current else {
            return Err(Status::not_found(&scope.group_resource(), name));
        };
        // Every object in the cache can be decoded, and the option is only for objects that cannot.
        if options.ignore_store_read_error {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"
            );
            return Err(Status::conflict(&scope.group_resource(), name, &why));
        }
        let old = conversion::in_memory_version(scope, &entry).await?;
        check_delete_preconditions(scope, &old, options)?;
        admission.validate(None, Some(&old)).await?;
        let (mut new, remains) = mark_for_deletion(scope, &old, options);
        let outcome = if remains {
            new.remove_meta("resourceVersion");
            let new = conversion::to_storage(scope, new).await?;
            store_terminating(scope, new, &entry, options).await.map(Deleted::Terminating)
        } else if options.dry_run {
            Ok(Deleted::Removed(new))
        } else {
            let _write = scope.writes.begin();
            let removed = scope.storage.store.delete(&key, Expect::At(entry.revision)).await;
            removed.map(|_| Deleted::Removed(new))
        };
        match outcome {
            Err(Error::Conflict { found, .. }) => {
                current = found.map(|it| Arc::new(Entry::of(&it, scope.resource().prefix.len())));
            }
            other => return other.map_err(of_store),
        }
    }
}

/// Stores an object with a deletion timestamp, whose removal is delayed.
async fn store_terminating(
    scope: &RequestScope,
    mut new: Object,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Result<WriteOutcome, Error> {
    let bytes = stored_bytes(scope, &new);
    if entry.has_bytes(&bytes) {
        return Ok(WriteOutcome::Stored(Arc::clone(entry)));
    }
    if options.dry_run {
        new.set_meta("resourceVersion", entry.revision.to_string());
        return Ok(WriteOutcome::NotStored(new));
    }
    let expect = Expect::At(entry.revision);
    let _write = scope.writes.begin();
    let record = scope.storage.store.put(&entry.key, bytes.into(), expect, None).await?;
    Ok(WriteOutcome::Stored(Arc::new(Entry::of(&record, scope.resource().prefix.len()))))
}

/// Returns a conflict if the object is not the one that the options require.
pub(crate) fn check_delete_preconditions(
    scope: &RequestScope,
    old: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    // Upstream: these conflicts name the kind, where others name the resource.
    let group_kind = GroupResource::new(&scope.resource().group, &scope.resource().kind);
    if let Some(uid) = options.uid.as_deref().filter(|it| *it != old.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        );
        return Err(Status::conflict(&group_kind, old.name(), &why));
    }
    let found = old.resource_version();
    if let Some(requested) = options.resource_version.as_deref().filter(|it| *it != found) {
        let why = format!(
            "the ResourceVersion in the precondition ({requested}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        );
        return Err(Status::conflict(&group_kind, old.name(), &why));
    }
    Ok(())
}

/// The object with its deletion timestamp and finalizers, and whether its removal is delayed.
fn mark_for_deletion(
    scope: &RequestScope,
    old: &Object,
    options: &DeleteOptions,
) -> (Object, bool) {
    let strategy = scope.resource().strategy;
    let mut new = old.clone();
    let is_first = old.deletion_timestamp().is_none();
    if let Some(deletion) = strategy.deletion {
        if is_first {
            new.set_meta("deletionTimestamp", scope.storage.now());
            (deletion.begin)(&mut new, &scope.storage.now());
        }
        let held = (deletion.held)(&new) || new.finalizers().next().is_some();
        return (new, held);
    }
    let grace = grace_period(strategy.grace_period, old, options);
    if strategy.garbage_collection != GarbageCollectionPolicy::Unsupported {
        let propagation = options.propagation.or_else(|| default_propagation(strategy, old));
        set_propagation_finalizer(&mut new, propagation);
    }
    let held_by_finalizer = new.finalizers().next().is_some();
    if grace > 0 || held_by_finalizer || strategy.grace_period.is_some() {
        set_deletion_timestamp(scope, &mut new, old, grace);
    }
    (new, grace > 0 || held_by_finalizer)
}

/// The grace period in seconds. A negative option means one second.
fn grace_period(default: Option<fn(&Object) -> i64>, old: &Object, options: &DeleteOptions) -> i64 {
    let Some(default) = default else { return 0 };
    let requested = match (options.grace_period, default(old)) {
        // The kind can require that this object is removed immediately.
        (_, 0) => 0,
        (Some(requested), _) if requested < 0 => 1,
        (Some(requested), _) => requested,
        (None, default) => default.max(1),
    };
    let granted = old.metadata().and_then(|it| it.get("deletionGracePeriodSeconds"));
    match granted.and_then(Value::as_i64).filter(|_| old.deletion_timestamp().is_some()) {
        // A second deletion can shorten the grace period and cannot extend it.
        Some(granted) => requested.min(granted),
        None => requested,
    }
}

fn set_deletion_timestamp(scope: &RequestScope, new: &mut Object, old: &Object, grace: i64) {
    let granted = old.metadata().and_then(|it| it.get("deletionGracePeriodSeconds"));
    let marked = old.deletion_timestamp().is_some();
    if marked && granted.and_then(Value::as_i64) == Some(grace) {
        return;
    }
    let at = scope.storage.clock.now().seconds().saturating_add(grace).min(LATEST_DELETION);
    new.set_meta("deletionTimestamp", timestamp::format_seconds(at));
    new.set_meta("deletionGracePeriodSeconds", grace);
    if !marked && old.generation() > 0 {
        new.set_meta("generation", old.generation() + 1);
    }
}

/// The propagation of a deletion without a policy: the finalizers of the object take precedence
/// over the default of its kind.
fn default_propagation(strategy: &Strategy, object: &Object) -> Option<DeletionPropagation> {
    let is_decided = object.finalizers().any(|it| matches!(it, ORPHAN | FOREGROUND));
    match strategy.garbage_collection {
        GarbageCollectionPolicy::OrphanDependents(_) if !is_decided => {
            Some(DeletionPropagation::Orphan)
        }
        GarbageCollectionPolicy::OrphanDependents(_)
        | GarbageCollectionPolicy::DeleteDependents
        | GarbageCollectionPolicy::Unsupported => None,
    }
}

fn set_propagation_finalizer(object: &mut Object, propagation: Option<DeletionPropagation>) {
    let Some(propagation) = propagation else { return };
    let mut finalizers: Vec<Value> = object
        .finalizers()
        .filter(|it| *it != ORPHAN && *it != FOREGROUND)
        .map(Value::from)
        .collect();
    match propagation {
        DeletionPropagation::Background => {}
        DeletionPropagation::Foreground => finalizers.push(FOREGROUND.into()),
        DeletionPropagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        object.remove_meta("finalizers");
    } else {
        object.set_meta("finalizers", finalizers);
    }
}
