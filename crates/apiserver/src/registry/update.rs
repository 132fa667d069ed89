//! Updates a stored object: reads it, transforms it, validates it, and writes it unless another
//! write came first.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::admit::Admit;
use super::conversion;
use super::scope::RequestScope;
use super::{
    ManagedFields, WriteOutcome, initialization, remove_self_link, spec_differs,
    stored_bytes_within_limit,
};
use crate::cache::watch_cache::Entry;
use crate::registry::errors;
use crate::registry::{field_manager, validation};
use crate::request::Verb;
use crate::request::options::parse_revision;
use crate::storage::hooks::Reservation;
use machinery::meta::initializers;
use machinery::{ErrorList, GroupKind, Object, Path, Status};
use store::{Error, Expect, Record};

/// The rules for the fields that an update can change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UpdateStrategy {
    /// Updates everything except a status that is a subresource.
    Main,
    /// Updates the status only.
    Status,
    /// Updates through another subresource.
    Subresource {
        /// Restores the fields of the first object, the new one, that the subresource must not change.
        prepare: fn(&mut Object, &Object),
        /// Validates the first object, the new one, against the old one.
        validate: fn(&Object, &Object, &mut ErrorList),
    },
    /// The server updates the object because of an object that was posted to a subresource. The
    /// generation does not change.
    Posted,
}

/// Transforms the stored object into the new object. Both are in the memory version.
pub(crate) trait Transform: Send + Sync {
    /// The new object for `old`. It is called again after a conflict.
    fn apply<'a>(&'a self, old: &'a Object) -> TransformFuture<'a>;
}

/// The result of a transformation, which may wait for a conversion webhook.
pub(crate) type TransformFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Object, Status>> + Send + 'a>>;

/// A function transforms an object without waiting.
impl<F: Fn(&Object) -> Result<Object, Status> + Send + Sync> Transform for F {
    fn apply<'a>(&'a self, old: &'a Object) -> TransformFuture<'a> {
        Box::pin(std::future::ready(self(old)))
    }
}

/// The parameters of [`update`].
pub(crate) struct UpdateRequest<'a> {
    /// Transforms the stored object into the new object.
    pub transform: &'a dyn Transform,
    /// The rules of the update.
    pub strategy: UpdateStrategy,
    /// Whether the object is validated and not stored.
    pub dry_run: bool,
    /// The admission of the request.
    pub admission: &'a dyn Admit,
    /// The treatment of the managed fields.
    pub managed_fields: ManagedFields,
}

/// The maximum number of attempts before a conflict is returned to the client.
const MAX_ATTEMPTS: usize = 64;

/// Updates the object that the request names.
pub(crate) async fn update(
    scope: &RequestScope,
    request: UpdateRequest<'_>,
) -> Result<WriteOutcome, Status> {
    let key = scope.key();
    let name = &scope.path.name;
    let of_store = |error: Error| errors::of_store(&scope.group_resource(), name, &error);
    scope.storage.cache.catch_up().await.map_err(of_store)?;
    let mut current = scope.find(&key)?;
    for _ in 0..MAX_ATTEMPTS {
        let Some(entry) = current else { return Err(scope.not_found()) };
        let (new, reservation) = updated_object(scope, &entry, &request).await?;
        if should_delete_during_update(scope, &new) {
            let _write = scope.writes.begin();
            match delete_without_finalizers(scope, new, &entry, request.dry_run).await {
                Err(Error::Conflict { found, .. }) => {
                    current = found.map(|it| entry_of(scope, &it));
                    continue;
                }
                finished => return finished.map_err(of_store),
            }
        }
        let has_failed = initializers::failure(&new).is_some();
        let new = conversion::to_storage(scope, new).await?;
        let bytes = stored_bytes_within_limit(scope, &new)?;
        // Upstream: an object that would be encrypted in another way now is written again.
        if entry.has_bytes(&bytes)
            && (request.dry_run
                || !scope.storage.encryption.is_stale(&key).await.map_err(of_store)?)
        {
            return Ok(WriteOutcome::Stored(entry));
        }
        if request.dry_run {
            let mut new = new;
            new.set_meta("resourceVersion", entry.revision.to_string());
            return Ok(WriteOutcome::NotStored(new));
        }
        let ttl = match scope.resource().ttl_seconds {
            _ if has_failed => Some(initialization::FAILED_OBJECT_TTL),
            seconds => seconds.map(Duration::from_secs),
        };
        let _write = scope.writes.begin();
        match scope.storage.store.put(&key, bytes.into(), Expect::At(entry.revision), ttl).await {
            Ok(record) => {
                reservation.release_when_readable(&scope.storage.cache, record.modified).await;
                if has_failed {
                    initialization::remove_failed(scope, &record).await;
                }
                return Ok(WriteOutcome::Stored(entry_of(scope, &record)));
            }
            // The next attempt uses the current object. It returns a conflict if the request has a
            // resourceVersion.
            Err(Error::Conflict { found, .. }) => {
                current = found.map(|it| entry_of(scope, &it));
            }
            Err(error) => return Err(of_store(error)),
        }
    }
    Err(Status::modified(&scope.group_resource(), name))
}

fn entry_of(scope: &RequestScope, record: &Record) -> Arc<Entry> {
    Arc::new(Entry::of(record, scope.resource().prefix.len()))
}

/// The new object and its reservation.
async fn updated_object(
    scope: &RequestScope,
    entry: &Arc<Entry>,
    request: &UpdateRequest<'_>,
) -> Result<(Object, Reservation), Status> {
    let resource = scope.resource();
    let old = conversion::in_memory_version(scope, entry).await?;
    let mut new = request.transform.apply(&old).await?;
    check_preconditions(scope, &new, &old, request.dry_run)?;
    if request.managed_fields == ManagedFields::Track {
        field_manager::track(scope, Some(&old), &mut new).await;
    }
    request.admission.mutate(&mut new, Some(&old)).await?;
    prepare(scope, &mut new, &old, request.strategy);
    let reservation = super::begin_write(scope, &mut new, Some(&old), request.dry_run);
    let mut errors = ErrorList::new();
    validation::validate_metadata_update(resource, &new, &old, &mut errors);
    validation::validate_update(scope, &new, &old, request.strategy, &mut errors);
    if !errors.is_empty() {
        return Err(scope.invalid(old.name(), errors));
    }
    if matches!(request.strategy, UpdateStrategy::Main) {
        let warnings = match resource.strategy.update_warnings {
            Some(warnings) => warnings(&new, &old),
            None => (resource.strategy.warnings)(&new),
        };
        for warning in warnings {
            scope.warn(warning);
        }
    }
    let mut reservation = reservation?;
    reservation.add(request.admission.validate(Some(&new), Some(&old)).await?);
    new.remove_meta("resourceVersion");
    Ok((new, reservation))
}

/// Returns a conflict if the request has a resourceVersion or a uid that differs from the stored
/// one.
fn check_preconditions(
    scope: &RequestScope,
    new: &Object,
    old: &Object,
    dry_run: bool,
) -> Result<(), Status> {
    check_uid(scope, new, Some(old), dry_run)?;
    let resource = scope.resource();
    let resource_version = new.resource_version();
    let revision = match resource_version {
        "" => 0,
        text => parse_revision(text).map_err(Status::unclassified)?,
    };
    if revision == 0 && !resource.strategy.unconditional_update {
        let mut errors = ErrorList::new();
        let path = Path::root("metadata");
        errors.invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
        let kind = GroupKind::new(&resource.group, &resource.plural);
        return Err(Status::invalid(&kind, old.name(), &errors));
    }
    if revision != 0 && resource_version != old.resource_version() {
        return Err(Status::modified(&scope.group_resource(), old.name()));
    }
    Ok(())
}

/// Returns a conflict if an update has a uid that differs from the stored object's, or if no object
/// is stored. A patch that changes the uid fails later, because the field is immutable.
pub(crate) fn check_uid(
    scope: &RequestScope,
    sent: &Object,
    stored: Option<&Object>,
    dry_run: bool,
) -> Result<(), Status> {
    let found = stored.map_or("", Object::uid);
    if scope.verb != Verb::Update || sent.uid().is_empty() || sent.uid() == found {
        return Ok(());
    }
    let key = scope.key();
    // Upstream: the key of a dry run has no prefix.
    let shown_key = if dry_run { key.trim_start_matches("/registry") } else { &key };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {shown_key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {found}",
        sent.uid(),
    );
    Err(Status::conflict(&scope.group_resource(), &scope.path.name, &why))
}

/// Restores the fields that a client cannot change or has not sent.
fn prepare(scope: &RequestScope, new: &mut Object, old: &Object, strategy: UpdateStrategy) {
    remove_self_link(new);
    super::dedup_owner_references(scope, new);
    for field in
        ["uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace"]
    {
        if new.metadata().is_none_or(|it| !it.contains_key(field)) {
            copy_metadata(new, old, field);
        }
    }
    copy_metadata(new, old, "creationTimestamp");
    copy_metadata(new, old, "generation");
    initializers::remove_if_done(new);
    let resource = scope.resource();
    let has_status_subresource = scope.version().status;
    match strategy {
        UpdateStrategy::Main => {
            if resource.conventions.isolates_status && has_status_subresource {
                match old.map().get("status") {
                    Some(status) => new.map_mut().insert("status".to_owned(), status.clone()),
                    None => new.map_mut().remove("status"),
                };
            }
            (resource.strategy.prepare_update)(new, old);
        }
        UpdateStrategy::Status => (resource.strategy.prepare_status)(new, old),
        UpdateStrategy::Subresource { prepare, .. } => prepare(new, old),
        UpdateStrategy::Posted => {}
    }
    if matches!(strategy, UpdateStrategy::Status | UpdateStrategy::Subresource { .. }) {
        (resource.strategy.set_status_times)(new, old, &scope.storage.now());
    }
    let counts_generation =
        resource.strategy.generation && !matches!(strategy, UpdateStrategy::Posted);
    let ignores_status = has_status_subresource || !resource.conventions.generation_counts_status;
    if counts_generation && spec_differs(new, old, ignores_status) {
        new.set_meta("generation", old.generation() + 1);
    }
}

fn copy_metadata(new: &mut Object, old: &Object, field: &str) {
    match old.metadata().and_then(|it| it.get(field)) {
        Some(value) => new.set_meta(field, value.clone()),
        None => {
            new.remove_meta(field);
        }
    }
}

/// Whether the deletion of an object can be completed: it has a deletion timestamp, and neither a
/// grace period nor a finalizer delays its removal.
fn should_delete_during_update(scope: &RequestScope, object: &Object) -> bool {
    let held = scope.resource().strategy.deletion.is_some_and(|it| (it.held)(object));
    let grace = object.metadata().and_then(|it| it.get("deletionGracePeriodSeconds"));
    object.deletion_timestamp().is_some()
        && object.finalizers().next().is_none()
        && grace.is_none_or(|it| it.as_i64() == Some(0))
        && !held
}

/// Removes an object whose last finalizer this update removed.
async fn delete_without_finalizers(
    scope: &RequestScope,
    mut new: Object,
    entry: &Entry,
    dry_run: bool,
) -> Result<WriteOutcome, Error> {
    if !dry_run {
        scope.storage.store.delete(&entry.key, Expect::At(entry.revision)).await?;
    }
    new.set_meta("resourceVersion", entry.revision.to_string());
    Ok(WriteOutcome::NotStored(new))
}
