//! The end of a definition: its objects are deleted, and when the last is gone, so is what held the
//! definition back.

use super::{Creations, DEFINITIONS};
use crate::catalog::Served;
use crate::own_client::OwnClient;
use crate::plane::Plane;
use crate::watch_cache::ROOT;
use kinds::apiextensions::{CLEANUP_FINALIZER, is_established};
use machinery::{Object, Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// Deletes the objects that exist; whether nothing is left to be done.
pub(super) async fn clean_up(
    plane: &Plane,
    client: &OwnClient,
    served: &Arc<Served>,
    creations: &Creations,
    definition: &Object,
) -> bool {
    if !definition.finalizers().any(|it| it == CLEANUP_FINALIZER) {
        return true;
    }
    let resource = &served.resource;
    let root = format!("/apis/{}/{}", resource.group, resource.hub().name);
    // An object whose creation has begun must be seen below.
    let is_idle = creations.is_idle();
    if plane.cache.catch_up().await.is_err() {
        return false;
    }
    let objects = served.cache.snapshot();
    for entry in objects.entries.values() {
        let path = if resource.namespaced {
            let (namespace, plural) = (entry.namespace(), &resource.plural);
            format!("{root}/namespaces/{namespace}/{plural}/{}", entry.name())
        } else {
            format!("{root}/{}/{}", resource.plural, entry.name())
        };
        client.delete_instance(&path, served).await;
    }
    // What was just deleted must not be counted. Those with finalizers stay for a while.
    if !is_idle
        || plane.cache.catch_up().await.is_err()
        || !served.cache.snapshot().entries.is_empty()
    {
        return false;
    }
    release(client, definition).await
}

/// Ends a definition that is not served, unless it has objects: these would come back with the next
/// definition of its name. It then stays until somebody corrects it, and its objects are deleted.
/// Returns whether nothing is left to be done for now.
///
/// A definition that was never established, or is that of a built-in kind, has no objects.
pub(super) async fn release_unserved(
    plane: &Plane,
    client: &OwnClient,
    builtin_prefixes: &HashSet<String>,
    definition: &Object,
) -> bool {
    let field = |path: &[&str]| definition.get(path).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (field(&["spec", "group"]), field(&["spec", "names", "plural"]));
    let prefix = format!("{ROOT}{group}/{plural}");
    if is_established(definition) && !builtin_prefixes.contains(&prefix) {
        if plane.cache.catch_up().await.is_err() {
            return false;
        }
        if plane.cache.has_objects(&prefix) {
            let name = definition.name();
            tracing::error!(
                name,
                "the objects of a definition that cannot be served stay, and so does it"
            );
            return true;
        }
    }
    release(client, definition).await
}

/// Takes our finalizer away; whether that is done.
async fn release(client: &OwnClient, definition: &Object) -> bool {
    let rest: Vec<&str> = definition.finalizers().filter(|it| *it != CLEANUP_FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": rest, "uid": definition.uid()}});
    let path = format!("{DEFINITIONS}/{}", definition.name());
    let code = client.merge(&path, &patch).await.code;
    code < 400 || code == 404
}
