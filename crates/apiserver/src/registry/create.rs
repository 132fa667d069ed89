//! The birth of an object: name, uid, time; validation; the first write.

use super::{Outcome, stored_form, wipe_server_metadata};
use crate::admission::{self, Attempt};
use crate::context::Cx;
use crate::watch_cache::Entry;
use crate::{conversion, errors, validation};
use machinery::meta::initializers;
use machinery::{ErrorList, Object, Status};
use std::sync::Arc;
use std::time::Duration;
use store::{Error, Expect};

/// How often another suffix is tried for a generated name that is taken.
const NAME_ATTEMPTS: usize = 8;

/// The longest part of a generated name that the user chooses.
const MAX_PREFIX: usize = 63 - 5;

/// Stores a new object, which has passed mutating admission.
pub(crate) async fn create(cx: &Cx, mut sent: Object, dry_run: bool) -> Result<Outcome, Status> {
    let generated = sent.name().is_empty();
    for attempt in 1..=NAME_ATTEMPTS {
        let mut object = if generated { named(cx, &sent) } else { std::mem::take(&mut sent) };
        let is_known = !matches!(object.resource_version(), "" | "0");
        // Some kinds make labels of the name, so it must be there by now.
        prepare(cx, &mut object);
        // What is wrong with the object itself is told before what could not be had for it.
        let claim = if dry_run {
            cx.plane.allocations.rehearse(cx, &mut object, None)
        } else {
            cx.plane.allocations.claim(cx, &mut object, None)
        };
        validate(cx, &object)?;
        let claim = claim?;
        let attempt_to_create = Attempt::create(cx, &object, dry_run);
        let charge = admission::judge(&attempt_to_create, Some(&object)).await?;
        // Upstream: a creator who sets a resourceVersion gets a bare 500, from the storage.
        if is_known && !dry_run {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::unclassified(why));
        }
        let object = conversion::to_storage(cx, object).await?;
        let bytes = stored_form(cx, &object)?;
        let _write = cx.writes.begin();
        match insert(cx, &object, bytes, dry_run).await {
            Err(Error::Conflict { .. }) if generated && attempt < NAME_ATTEMPTS => {}
            Err(Error::Conflict { found, .. }) => {
                let deleting = found.is_some_and(|it| {
                    Entry::of(&it, cx.resource().prefix.len())
                        .object_as_stored()
                        .deletion_timestamp()
                        .is_some()
                });
                return Err(exists(cx, object.name(), generated, deleting));
            }
            Err(error) => return Err(errors::of_store(&cx.what(), object.name(), &error)),
            Ok(Some(entry)) => {
                claim.settle(cx, entry.revision).await;
                charge.settle(cx, entry.revision).await;
                return Ok(Outcome::Stored(entry));
            }
            Ok(None) => return Ok(Outcome::Shown(object)),
        }
    }
    unreachable!("the last attempt returns")
}

/// The object with a name that begins as its sender wishes, if he does.
fn named(cx: &Cx, sent: &Object) -> Object {
    let mut object = sent.clone();
    let prefix = sent.meta_text("generateName");
    if !prefix.is_empty() {
        let kept = prefix.char_indices().nth(MAX_PREFIX).map_or(prefix, |(at, _)| &prefix[..at]);
        object.set_meta("name", format!("{kept}{}", cx.plane.entropy.suffix(5)));
        // Some defaults are made of the name.
        (cx.resource().behavior.defaults)(&mut object);
    }
    object
}

/// Sets what only the server knows, and wipes what a creator may not set.
fn prepare(cx: &Cx, object: &mut Object) {
    wipe_server_metadata(object);
    super::dedup_owners(cx, object);
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        object.remove_meta(field);
    }
    let namespace = cx.namespace();
    if namespace.is_empty() {
        object.remove_meta("namespace");
    } else {
        object.set_meta("namespace", namespace);
    }
    object.set_meta("uid", cx.plane.entropy.uuid());
    object.set_meta("creationTimestamp", cx.plane.now());
    let behavior = cx.resource().behavior;
    // Upstream: kinds that do not count generations keep the one that was sent.
    if behavior.generation {
        object.set_meta("generation", 1);
    }
    if cx.resource().conventions.isolates_status && cx.version().status {
        object.map_mut().remove("status");
    }
    (behavior.prepare_create)(object);
    initializers::begin(object);
}

fn validate(cx: &Cx, object: &Object) -> Result<(), Status> {
    let resource = cx.resource();
    let mut errors = ErrorList::new();
    validation::metadata(resource, object, &mut errors);
    validation::create(cx, object, &mut errors);
    if !errors.is_empty() {
        return Err(cx.invalid(object.name(), errors));
    }
    for warning in (resource.behavior.warnings)(object) {
        cx.warn(warning);
    }
    Ok(())
}

/// None for a dry run, which only looks whether the place is free.
async fn insert(
    cx: &Cx,
    object: &Object,
    bytes: Vec<u8>,
    dry_run: bool,
) -> Result<Option<Arc<Entry>>, Error> {
    let resource = cx.resource();
    let key = cx.served.key(cx.namespace(), object.name());
    if dry_run {
        cx.plane.cache.catch_up().await?;
        return match cx.plane.store.get(&key).await? {
            None => Ok(None),
            found => Err(Error::Conflict { key: key.into(), found }),
        };
    }
    let ttl = resource.ttl_seconds.map(Duration::from_secs);
    let record = cx.plane.store.put(&key, bytes.into(), Expect::Absent, ttl).await?;
    Ok(Some(Arc::new(Entry::of(&record, resource.prefix.len()))))
}

fn exists(cx: &Cx, name: &str, generated: bool, deleting: bool) -> Status {
    if generated {
        return Status::no_unique_name(&cx.what(), name);
    }
    let mut status = Status::already_exists(&cx.what(), name);
    if deleting {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
