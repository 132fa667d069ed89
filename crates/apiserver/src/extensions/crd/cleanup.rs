//! The deletion of a CRD: its objects are deleted first, then its finalizer is removed.

use std::collections::HashSet;
use std::sync::Arc;

use super::CRDS_PATH;
use crate::cache::watch_cache::ROOT;
use crate::in_process::loopback::LoopbackClient;
use crate::storage::Storage;
use crate::storage::catalog::ServedResource;
use crate::storage::creations::Creations;
use kinds::apiextensions::{CLEANUP_FINALIZER, Termination, is_established};
use machinery::{Object, Value};

/// Deletes the objects of a CRD, and removes its finalizer once they are deleted. Returns whether
/// nothing is left to be done.
pub(super) async fn clean_up(
    storage: &Storage,
    client: &LoopbackClient,
    served: &Arc<ServedResource>,
    creations: &Creations,
    crd: &Object,
) -> bool {
    if !crd.finalizers().any(|it| it == CLEANUP_FINALIZER) {
        return true;
    }
    let mut crd = crd.clone();
    if Termination::Pending.is_in(&crd)
        && !write_termination(storage, client, &mut crd, Termination::InProgress).await
    {
        return false;
    }
    // Read before the cache catches up, so that the objects of finished creations are deleted below.
    let is_idle = creations.is_idle();
    if storage.cache.catch_up().await.is_err() {
        return false;
    }
    let failure = delete_objects(client, served).await;
    // The cache catches up again, so that the objects just deleted are not counted. Objects with
    // finalizers still exist.
    if !is_idle
        || storage.cache.catch_up().await.is_err()
        || !served.cache.snapshot().entries.is_empty()
    {
        let state = failure.as_deref().map_or(Termination::InProgress, Termination::Failed);
        write_termination(storage, client, &mut crd, state).await;
        return false;
    }
    remove_finalizer(storage, client, crd, Termination::Completed).await
}

/// Deletes the objects of a CRD; returns the message of the first failure.
async fn delete_objects(client: &LoopbackClient, served: &Arc<ServedResource>) -> Option<String> {
    let resource = &served.resource;
    let root = format!("/apis/{}/{}", resource.group, resource.storage_version().name);
    let mut failure = None;
    for entry in served.cache.snapshot().entries.values() {
        let path = if resource.namespaced {
            let (namespace, plural) = (entry.namespace(), &resource.plural);
            format!("{root}/namespaces/{namespace}/{plural}/{}", entry.name())
        } else {
            format!("{root}/{}/{}", resource.plural, entry.name())
        };
        let response = client.delete_instance(&path, served).await;
        // An object that was deleted or changed meanwhile is handled in the next round.
        if response.code >= 400 && !matches!(response.code, 404 | 409) {
            failure.get_or_insert_with(|| response.message());
        }
    }
    failure
}

/// Removes the finalizer of a CRD that is not served, unless it has objects, which would reappear with
/// the next CRD of its name. Such a CRD stays until its spec is corrected, and its objects are deleted
/// then. Returns whether nothing is left to be done for now.
///
/// A CRD that was never established, or that overlaps a built-in kind, has no objects.
pub(super) async fn finalize_unserved(
    storage: &Storage,
    client: &LoopbackClient,
    builtin_prefixes: &HashSet<String>,
    crd: &Object,
) -> bool {
    let field = |path: &[&str]| crd.get(path).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (field(&["spec", "group"]), field(&["spec", "names", "plural"]));
    let prefix = format!("{ROOT}{group}/{plural}");
    let state = if builtin_prefixes.contains(&prefix) {
        Termination::OverlapsBuiltIn
    } else if is_established(crd) {
        Termination::Completed
    } else {
        Termination::NeverEstablished
    };
    if state == Termination::Completed {
        if storage.cache.catch_up().await.is_err() {
            return false;
        }
        if storage.cache.has_objects(&prefix) {
            let name = crd.name();
            tracing::error!(
                name,
                "a CRD that cannot be served is not deleted because it still has objects"
            );
            return true;
        }
    }
    remove_finalizer(storage, client, crd.clone(), state).await
}

/// Removes the cleanup finalizer and writes the termination state; returns whether that succeeded.
async fn remove_finalizer(
    storage: &Storage,
    client: &LoopbackClient,
    mut crd: Object,
    state: Termination<'_>,
) -> bool {
    let finalizers = crd.finalizers().filter(|it| *it != CLEANUP_FINALIZER);
    let finalizers: Vec<Value> = finalizers.map(Value::from).collect();
    crd.set_meta("finalizers", Value::Array(finalizers));
    state.set_in(&mut crd, &storage.now());
    let code = update_status(client, &mut crd).await;
    code < 400 || code == 404
}

/// Writes the termination state to the status of a CRD if it has another; returns whether the status
/// has it.
async fn write_termination(
    storage: &Storage,
    client: &LoopbackClient,
    crd: &mut Object,
    state: Termination<'_>,
) -> bool {
    if state.is_in(crd) {
        return true;
    }
    state.set_in(crd, &storage.now());
    update_status(client, crd).await < 400
}

/// Writes the status of a CRD, replaces `crd` by the stored object, and returns the status code.
async fn update_status(client: &LoopbackClient, crd: &mut Object) -> u16 {
    let path = format!("{CRDS_PATH}/{}/status", crd.name());
    let response = client.update(&path, &crd.clone().into_value()).await;
    if response.code < 400 {
        *crd = response.object();
    }
    response.code
}
