//! The end of a definition: its objects are deleted, and when the last is gone, so is what held the
//! definition back.

use super::DEFINITIONS;
use crate::catalog::Served;
use crate::own_client::OwnClient;
use crate::plane::Plane;
use kinds::apiextensions::CLEANUP_FINALIZER;
use machinery::{Object, json};

/// Deletes what there is; whether nothing is left to be done.
pub(super) async fn clean_up(
    plane: &Plane,
    client: &OwnClient,
    served: &Served,
    definition: &Object,
) -> bool {
    if !definition.finalizers().any(|it| it == CLEANUP_FINALIZER) {
        return true;
    }
    let resource = &served.resource;
    // Where nothing has to be converted, nobody has to be asked.
    let hub_first = std::iter::once(resource.hub()).chain(&resource.versions);
    let Some(version) = hub_first.into_iter().find(|it| it.served) else { return false };
    let root = format!("/apis/{}/{}", resource.group, version.name);
    let objects = served.cache.snapshot();
    for entry in objects.entries.values() {
        let path = if resource.namespaced {
            let (namespace, plural) = (entry.namespace(), &resource.plural);
            format!("{root}/namespaces/{namespace}/{plural}/{}", entry.name())
        } else {
            format!("{root}/{}/{}", resource.plural, entry.name())
        };
        client.delete(&path).await;
    }
    // What was just deleted must not be counted. Those with finalizers stay for a while.
    if plane.cache.catch_up().await.is_err() || !served.cache.snapshot().entries.is_empty() {
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
