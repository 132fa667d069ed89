//! Conversion as a request needs it: between the version that is stored, the version that the
//! request names, and the version in which verbs work on objects.
//!
//! ```text
//! stored in any version ── entry, working ─▶ version of the request ── to_storage ─▶ storage version
//!                                             (webhook, batched)
//! ```

use super::scope::RequestScope;
use crate::cache::conversion;
use crate::cache::conversion::{convert_locally, needs_conversion};
use crate::cache::watch_cache::{Change, Entry};
use machinery::{Object, Status};
use std::sync::Arc;
use types::resource::Shape;

/// Before and after a change, in the version of the request.
pub(crate) type Sight = (Option<Arc<Entry>>, Option<Arc<Entry>>);

/// One object in `version`.
pub(crate) async fn object(
    scope: &RequestScope,
    version: usize,
    object: Object,
) -> Result<Object, Status> {
    conversion::object(&scope.storage, &scope.served, version, object).await
}

/// The version in which verbs work on objects.
pub(crate) fn working_version(scope: &RequestScope) -> usize {
    if scope.resource().conventions.works_in_request_version {
        scope.version
    } else {
        scope.resource().storage
    }
}

/// An object that a verb works on, in the version of the request.
pub(crate) fn requested(scope: &RequestScope, object: Object) -> Object {
    convert_locally(&scope.served, scope.version, object)
}

/// A stored object as verbs work on it, with its resourceVersion.
pub(crate) async fn working(scope: &RequestScope, entry: &Arc<Entry>) -> Result<Object, Status> {
    if scope.resource().conventions.works_in_request_version {
        return Ok(self::entry(scope, entry).await?.object());
    }
    Ok(convert_locally(&scope.served, scope.resource().storage, entry.object()))
}

/// What is stored of an object that a verb has worked on.
pub(crate) async fn to_storage(scope: &RequestScope, object: Object) -> Result<Object, Status> {
    let storage = scope.resource().storage;
    let mut object = self::object(scope, storage, object).await?;
    if let Shape::Structural(schema) = &scope.resource().hub().shape {
        // A status that was dropped may have a default.
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
    Ok(converted.pop().expect("there are as many as there were"))
}

/// Forgets what a stored object was converted to for the version of the request, so that it is
/// converted again: the webhook may have been replaced by a newer one.
pub(crate) fn forget(scope: &RequestScope, entry: &Entry) {
    if needs_conversion(&scope.served, scope.version, entry) {
        scope.served.conversion.evict(scope.version, entry);
    }
}

/// Several of them.
pub(crate) async fn entries(
    scope: &RequestScope,
    entries: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, Status> {
    conversion::entries(&scope.storage, &scope.served, scope.version, entries).await
}

/// What a watcher sees of `changes`. Watchers that wake up together ask once: the first converts for
/// all.
pub(crate) async fn changes(
    scope: &RequestScope,
    prefix: &str,
    looks_inside: bool,
    changes: &[Arc<Change>],
) -> Result<Vec<Sight>, Status> {
    let seen = |entry: &Arc<Entry>| entry.key.starts_with(prefix);
    // What was there before is shown only when it goes; else only a selector looks at it.
    let old_of = |change: &Change| {
        let looks_back = looks_inside || change.new.is_none();
        change.old.clone().filter(|it| looks_back && seen(it))
    };
    let new_of = |change: &Change| change.new.clone().filter(seen);
    let stored = changes.iter().flat_map(|it| old_of(it).into_iter().chain(new_of(it))).collect();
    let mut converted =
        conversion::entries_coalesced(&scope.storage, &scope.served, scope.version, stored)
            .await?
            .into_iter();
    let sight = |change: &Arc<Change>| -> Sight {
        let old = old_of(change).and_then(|_| converted.next()).or_else(|| change.old.clone());
        let new = new_of(change).and_then(|_| converted.next()).or_else(|| change.new.clone());
        (old, new)
    };
    Ok(changes.iter().map(sight).collect())
}
