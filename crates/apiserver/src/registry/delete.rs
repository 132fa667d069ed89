//! The end of an object: preconditions, grace period, finalizers, and at last the removal.
//!
//! ```text
//! DELETE ─▶ grace period? ── yes ─▶ marked, stays until its node says it is gone
//!                 │ no
//!                 ▼
//!           finalizers? ──── yes ─▶ marked, stays until the last one is taken away
//!                 │ no
//!                 ▼
//!              removed
//! ```

use super::{Outcome, stored_bytes};
use crate::admission::{self, Attempt};
use crate::context::Cx;
use crate::options::{DeleteOptions, Propagation};
use crate::watch_cache::Entry;
use crate::{conversion, errors};
use machinery::{GroupResource, Object, Status, Value, timestamp};
use std::sync::Arc;
use store::{Error, Expect};
use types::resource::{Behavior, GarbageCollectionPolicy};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion came to.
pub(crate) enum Deleted {
    /// It is gone; this is what it was.
    Gone(Object),
    /// It is marked, and something holds it back.
    Held(Outcome),
}

/// Deletes the object with this name, if admission agrees.
pub(crate) async fn delete(
    cx: &Cx,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    // An eviction has been judged as such.
    let is_eviction = !cx.target.subresource.is_empty();
    let admission = if is_eviction { Admission::Skipped } else { Admission::Asked };
    remove(cx, namespace, name, options, admission).await
}

/// Deletes the object with this name, whatever admission says.
pub(crate) async fn delete_unadmitted(
    cx: &Cx,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    remove(cx, namespace, name, options, Admission::Skipped).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Admission {
    Asked,
    Skipped,
}

async fn remove(
    cx: &Cx,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
    asks: Admission,
) -> Result<Deleted, Status> {
    let key = cx.served.key(namespace, name);
    let of_store = |error: Error| errors::of_store(&cx.what(), name, &error);
    cx.plane.cache.catch_up().await.map_err(of_store)?;
    let mut current = cx.served.cache.get(&key);
    loop {
        let Some(entry) = current else { return Err(Status::not_found(&cx.what(), name)) };
        // What is in the cache has been read.
        if options.only_if_unreadable {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"
            );
            return Err(Status::conflict(&cx.what(), name, &why));
        }
        let old = conversion::working(cx, &entry).await?;
        check_preconditions(cx, &old, options)?;
        if asks == Admission::Asked {
            admission::judge(&Attempt::delete(cx, &old, options), None).await?;
        }
        let (mut new, remains) = mark(cx, &old, options);
        let outcome = if remains {
            new.remove_meta("resourceVersion");
            let new = conversion::to_storage(cx, new).await?;
            keep(cx, new, &entry, options).await.map(Deleted::Held)
        } else if options.dry_run {
            Ok(Deleted::Gone(new))
        } else {
            let _write = cx.writes.begin();
            let removed = cx.plane.store.delete(&key, Expect::At(entry.revision)).await;
            removed.map(|_| Deleted::Gone(new))
        };
        match outcome {
            Err(Error::Conflict { found, .. }) => {
                current = found.map(|it| Arc::new(Entry::of(&it, cx.resource().prefix.len())));
            }
            other => return other.map_err(of_store),
        }
    }
}

/// Stores the mark of an object that stays for now.
async fn keep(
    cx: &Cx,
    mut new: Object,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Result<Outcome, Error> {
    let bytes = stored_bytes(cx, &new);
    if entry.holds(&bytes) {
        return Ok(Outcome::Stored(Arc::clone(entry)));
    }
    if options.dry_run {
        new.set_meta("resourceVersion", entry.revision.to_string());
        return Ok(Outcome::Shown(new));
    }
    let expect = Expect::At(entry.revision);
    let _write = cx.writes.begin();
    let record = cx.plane.store.put(&entry.key, bytes.into(), expect, None).await?;
    Ok(Outcome::Stored(Arc::new(Entry::of(&record, cx.resource().prefix.len()))))
}

fn check_preconditions(cx: &Cx, old: &Object, options: &DeleteOptions) -> Result<(), Status> {
    // Upstream: these conflicts name the kind where others name the resource.
    let what = GroupResource::new(&cx.resource().group, &cx.resource().kind);
    if let Some(uid) = options.uid.as_deref().filter(|it| *it != old.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        );
        return Err(Status::conflict(&what, old.name(), &why));
    }
    let found = old.resource_version();
    if let Some(asked) = options.resource_version.as_deref().filter(|it| *it != found) {
        let why = format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        );
        return Err(Status::conflict(&what, old.name(), &why));
    }
    Ok(())
}

/// The object with the marks of its deletion, and whether it stays for now.
fn mark(cx: &Cx, old: &Object, options: &DeleteOptions) -> (Object, bool) {
    let behavior = cx.resource().behavior;
    let mut new = old.clone();
    let begins = old.deletion_timestamp().is_none();
    if let Some(own) = behavior.deletion {
        if begins {
            new.set_meta("deletionTimestamp", cx.plane.now());
            (own.begin)(&mut new, &cx.plane.now());
        }
        let held = (own.held)(&new) || new.finalizers().next().is_some();
        return (new, held);
    }
    let grace = grace_period(behavior.grace_period, old, options);
    if behavior.garbage_collection != GarbageCollectionPolicy::Unsupported {
        let propagation = options.propagation.or_else(|| by_default(behavior, old));
        finalizers_for_dependents(&mut new, propagation);
    }
    let held_by_finalizer = new.finalizers().next().is_some();
    if grace > 0 || held_by_finalizer || behavior.grace_period.is_some() {
        stamp(cx, &mut new, old, grace);
    }
    (new, grace > 0 || held_by_finalizer)
}

/// Seconds that the object still has. Negative ones mean the shortest there is.
fn grace_period(default: Option<fn(&Object) -> i64>, old: &Object, options: &DeleteOptions) -> i64 {
    let Some(default) = default else { return 0 };
    let asked = match (options.grace_period, default(old)) {
        // The kind may say that this object needs no time at all.
        (_, 0) => 0,
        (Some(asked), _) if asked < 0 => 1,
        (Some(asked), _) => asked,
        (None, default) => default.max(1),
    };
    let granted = old.metadata().and_then(|it| it.get("deletionGracePeriodSeconds"));
    match granted.and_then(Value::as_i64).filter(|_| old.deletion_timestamp().is_some()) {
        // It can be made shorter, never longer.
        Some(granted) => asked.min(granted),
        None => asked,
    }
}

fn stamp(cx: &Cx, new: &mut Object, old: &Object, grace: i64) {
    let granted = old.metadata().and_then(|it| it.get("deletionGracePeriodSeconds"));
    let marked = old.deletion_timestamp().is_some();
    if marked && granted.and_then(Value::as_i64) == Some(grace) {
        return;
    }
    let now = cx.plane.clock.now().seconds();
    new.set_meta("deletionTimestamp", timestamp::format_seconds(now.saturating_add(grace)));
    new.set_meta("deletionGracePeriodSeconds", grace);
    if !marked && old.generation() > 0 {
        new.set_meta("generation", old.generation() + 1);
    }
}

/// What the kind does when nobody says; what the object says by its finalizers comes first.
fn by_default(behavior: &Behavior, object: &Object) -> Option<Propagation> {
    let is_decided = object.finalizers().any(|it| matches!(it, ORPHAN | FOREGROUND));
    match behavior.garbage_collection {
        GarbageCollectionPolicy::OrphanDependents(_) if !is_decided => Some(Propagation::Orphan),
        GarbageCollectionPolicy::OrphanDependents(_)
        | GarbageCollectionPolicy::DeleteDependents
        | GarbageCollectionPolicy::Unsupported => None,
    }
}

fn finalizers_for_dependents(object: &mut Object, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let mut finalizers: Vec<Value> = object
        .finalizers()
        .filter(|it| *it != ORPHAN && *it != FOREGROUND)
        .map(Value::from)
        .collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        object.remove_meta("finalizers");
    } else {
        object.set_meta("finalizers", finalizers);
    }
}
