//! The end of a definition: its objects are deleted, and when the last is gone, so is what held the
//! definition back.

use super::{Creations, DEFINITIONS};
use crate::catalog::Served;
use crate::own_client::OwnClient;
use crate::plane::Plane;
use kinds::apiextensions::CLEANUP_FINALIZER;
use machinery::{Object, json};
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

/// Takes our finalizer away; whether that is done.
pub(super) async fn release(client: &OwnClient, definition: &Object) -> bool {
    let rest: Vec<&str> = definition.finalizers().filter(|it| *it != CLEANUP_FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": rest, "uid": definition.uid()}});
    let path = format!("{DEFINITIONS}/{}", definition.name());
    let code = client.merge(&path, &patch).await.code;
    code < 400 || code == 404
}
