//! Conversion for a request, between three versions: the stored version, the version of the
//! request, and the memory version, in which verbs process objects. The memory version is the
//! storage version for built-in kinds, and the version of the request for custom kinds.
//!
//! ```text
//! stored in any version ── in_memory_version ─▶ memory version ── to_storage ─▶ storage version
//!                           (webhook, batched)
//! ```

use std::sync::Arc;

use super::scope::RequestScope;
use crate::cache::watch_cache::{Change, Entry};
use crate::storage::conversion;
use crate::storage::conversion::{convert_locally, needs_conversion};
use machinery::{Object, Status};
use types::resource::Shape;

/// The old and the new object of a change, in the version of the request.
pub(crate) type ConvertedChange = (Option<Arc<Entry>>, Option<Arc<Entry>>);

/// Converts one object to `version`.
pub(crate) async fn object(
    scope: &RequestScope,
    version: usize,
    object: Object,
) -> Result<Object, Status> {
    conversion::object(&scope.storage, &scope.served, version, object).await
}

/// The version in which verbs process objects.
pub(crate) fn memory_version(scope: &RequestScope) -> usize {
    if scope.resource().conventions.works_in_request_version {
        scope.version
    } else {
        scope.resource().storage_index
    }
}

/// Converts an object from the memory version to the version of the request.
pub(crate) fn in_request_version(scope: &RequestScope, object: Object) -> Object {
    convert_locally(&scope.served, scope.version, object)
}

/// A stored object in the memory version, with its resourceVersion.
pub(crate) async fn in_memory_version(
    scope: &RequestScope,
    entry: &Arc<Entry>,
) -> Result<Object, Status> {
    if scope.resource().conventions.works_in_request_version {
        return Ok(self::entry(scope, entry).await?.object());
    }
    Ok(convert_locally(&scope.served, scope.resource().storage_index, entry.object()))
}

/// Converts an object from the memory version to the storage version.
pub(crate) async fn to_storage(scope: &RequestScope, object: Object) -> Result<Object, Status> {
    let storage = scope.resource().storage_index;
    let mut object = self::object(scope, storage, object).await?;
    if let Shape::Structural(schema) = &scope.resource().storage_version().shape {
        // A status that was dropped may have a default value.
        schema.default(object.map_mut());
    }
    Ok(object)
}

/// A stored object in the version of the request.
pub(crate) async fn entry(scope: &RequestScope, entry: &Arc<Entry>) -> Result<Arc<Entry>, Status> {
    if !needs_conversion(&scope.served, scope.version, entry) {
        return Ok(Arc::clone(entry));
    }
    let mut converted = entries(scope, vec![Arc::clone(entry)]).await?;
    Ok(converted.pop().expect("a conversion returns as many entries as it gets"))
}

/// Removes a stored object from the cache of conversions to the version of the request, so that it
/// is converted again: the webhook may have been replaced by a newer one.
pub(crate) fn invalidate(scope: &RequestScope, entry: &Entry) {
    if needs_conversion(&scope.served, scope.version, entry) {
        scope.served.conversion.evict(scope.version, entry);
    }
}

/// Stored objects in the version of the request.
pub(crate) async fn entries(
    scope: &RequestScope,
    entries: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, Status> {
    conversion::entries(&scope.storage, &scope.served, scope.version, entries).await
}

/// The changes in the version of the request. `depends_on_version` says whether the watch selects by
/// more than the key of an object. Watchers that wake up at the same time cause one conversion, which
/// the first of them starts.
pub(crate) async fn changes(
    scope: &RequestScope,
    prefix: &str,
    depends_on_version: bool,
    changes: &[Arc<Change>],
) -> Result<Vec<ConvertedChange>, Status> {
    let has_prefix = |entry: &Arc<Entry>| entry.key.starts_with(prefix);
    // The old object is sent only for a deletion; otherwise it is needed only to evaluate a
    // selector.
    let old_of = |change: &Change| {
        let needs_old = depends_on_version || change.new.is_none();
        change.old.clone().filter(|it| needs_old && has_prefix(it))
    };
    let new_of = |change: &Change| change.new.clone().filter(has_prefix);
    let stored = changes.iter().flat_map(|it| old_of(it).into_iter().chain(new_of(it))).collect();
    let mut converted =
        conversion::entries_coalesced(&scope.storage, &scope.served, scope.version, stored)
            .await?
            .into_iter();
    let converted_change = |change: &Arc<Change>| -> ConvertedChange {
        let old = old_of(change).and_then(|_| converted.next()).or_else(|| change.old.clone());
        let new = new_of(change).and_then(|_| converted.next()).or_else(|| change.new.clone());
        (old, new)
    };
    Ok(changes.iter().map(converted_change).collect())
}
