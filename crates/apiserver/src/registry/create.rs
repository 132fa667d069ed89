//! Creates an object: sets its name, uid and creation time, validates it, and stores it.

use std::sync::Arc;
use std::time::Duration;

use super::admit::Admit;
use super::conversion;
use super::scope::RequestScope;
use super::validation;
use super::{
    ManagedFields, WriteOutcome, field_manager, remove_self_link, stored_bytes_within_limit,
};
use crate::cache::watch_cache::Entry;
use crate::registry::errors;
use machinery::meta::initializers;
use machinery::{ErrorList, Object, Status};
use store::{Error, Expect};

/// The maximum number of names that are generated if the generated name already exists.
const MAX_NAME_ATTEMPTS: usize = 8;

/// The maximum length of `generateName` that is used in a generated name, which has at most 63
/// characters, of which 5 are random.
const MAX_GENERATED_PREFIX: usize = 63 - 5;

/// The parameters of [`create`].
pub(crate) struct CreateRequest<'a> {
    /// The object in the memory version.
    pub object: Object,
    /// The admission of the request.
    pub admission: &'a dyn Admit,
    /// The treatment of the managed fields.
    pub managed_fields: ManagedFields,
    /// Whether the object is validated and not stored.
    pub dry_run: bool,
}

/// Stores a new object.
pub(crate) async fn create(
    scope: &RequestScope,
    request: CreateRequest<'_>,
) -> Result<WriteOutcome, Status> {
    let CreateRequest { object: mut sent, admission, managed_fields, dry_run } = request;
    if managed_fields == ManagedFields::Track {
        field_manager::track(scope, None, &mut sent).await;
    }
    // Admission reads other objects, which may have been written immediately before.
    scope.catch_up().await?;
    if !scope.namespace().is_empty() {
        sent.set_meta("namespace", scope.namespace());
    }
    admission.mutate(&mut sent, None).await?;
    let generated = sent.name().is_empty();
    for attempt in 1..=MAX_NAME_ATTEMPTS {
        let mut object =
            if generated { with_generated_name(scope, &sent) } else { std::mem::take(&mut sent) };
        let has_resource_version = !matches!(object.resource_version(), "" | "0");
        // The name must be set here, because some kinds derive labels from it.
        prepare(scope, &mut object);
        // Errors of the object are returned before errors of the allocation.
        let reservation = super::begin_write(scope, &mut object, None, dry_run);
        validate(scope, &object)?;
        let mut reservation = reservation?;
        reservation.add(admission.validate(Some(&object), None).await?);
        // Upstream: a create with a resourceVersion gets the storage's error, a 500 without a
        // reason.
        if has_resource_version && !dry_run {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::unclassified(why));
        }
        let object = conversion::to_storage(scope, object).await?;
        let bytes = stored_bytes_within_limit(scope, &object)?;
        let _write = scope.writes.begin();
        match insert(scope, &object, bytes, dry_run).await {
            Err(Error::Conflict { .. }) if generated && attempt < MAX_NAME_ATTEMPTS => {}
            Err(Error::Conflict { found, .. }) => {
                let deleting = found.is_some_and(|it| {
                    Entry::of(&it, scope.resource().prefix.len())
                        .object_as_stored()
                        .deletion_timestamp()
                        .is_some()
                });
                return Err(already_exists(scope, object.name(), generated, deleting));
            }
            Err(error) => {
                return Err(errors::of_store(&scope.group_resource(), object.name(), &error));
            }
            Ok(Some(entry)) => {
                reservation.release_when_readable(&scope.storage.cache, entry.revision).await;
                return Ok(WriteOutcome::Stored(entry));
            }
            Ok(None) => return Ok(WriteOutcome::NotStored(object)),
        }
    }
    unreachable!("the last attempt returns")
}

/// The object with a generated name, if it has a `generateName`.
fn with_generated_name(scope: &RequestScope, sent: &Object) -> Object {
    let mut object = sent.clone();
    let prefix = sent.meta_text("generateName");
    if !prefix.is_empty() {
        let truncated =
            prefix.char_indices().nth(MAX_GENERATED_PREFIX).map_or(prefix, |(at, _)| &prefix[..at]);
        object.set_meta("name", format!("{truncated}{}", scope.storage.entropy.suffix(5)));
        // Some defaults are derived from the name.
        (scope.resource().strategy.defaults)(&mut object);
    }
    object
}

/// Sets the fields that the server owns, and removes those that a client must not set.
fn prepare(scope: &RequestScope, object: &mut Object) {
    remove_self_link(object);
    super::dedup_owner_references(scope, object);
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        object.remove_meta(field);
    }
    let namespace = scope.namespace();
    if namespace.is_empty() {
        object.remove_meta("namespace");
    } else {
        object.set_meta("namespace", namespace);
    }
    object.set_meta("uid", scope.storage.entropy.uuid());
    object.set_meta("creationTimestamp", scope.storage.now());
    let strategy = scope.resource().strategy;
    // Upstream: kinds without generations keep the generation that was sent.
    if strategy.generation {
        object.set_meta("generation", 1);
    }
    if scope.resource().conventions.isolates_status && scope.version().status {
        object.map_mut().remove("status");
    }
    (strategy.prepare_create)(object);
    initializers::prepare_for_create(object);
}

fn validate(scope: &RequestScope, object: &Object) -> Result<(), Status> {
    let resource = scope.resource();
    let mut errors = ErrorList::new();
    validation::validate_metadata(resource, object, &mut errors);
    validation::validate_create(scope, object, &mut errors);
    if !errors.is_empty() {
        return Err(scope.invalid(object.name(), errors));
    }
    for warning in (resource.strategy.warnings)(object) {
        scope.warn(warning);
    }
    Ok(())
}

/// Stores the object. A dry run only checks that the key does not exist, and returns None.
async fn insert(
    scope: &RequestScope,
    object: &Object,
    bytes: Vec<u8>,
    dry_run: bool,
) -> Result<Option<Arc<Entry>>, Error> {
    let resource = scope.resource();
    let key = scope.served.key(scope.namespace(), object.name());
    if dry_run {
        scope.storage.cache.catch_up().await?;
        return match scope.storage.store.get(&key).await? {
            None => Ok(None),
            found => Err(Error::Conflict { key: key.into(), found }),
        };
    }
    let ttl = resource.ttl_seconds.map(Duration::from_secs);
    let record = scope.storage.store.put(&key, bytes.into(), Expect::Absent, ttl).await?;
    Ok(Some(Arc::new(Entry::of(&record, resource.prefix.len()))))
}

fn already_exists(scope: &RequestScope, name: &str, generated: bool, deleting: bool) -> Status {
    if generated {
        return Status::generate_name_conflict(&scope.group_resource(), name);
    }
    let mut status = Status::already_exists(&scope.group_resource(), name);
    if deleting {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
