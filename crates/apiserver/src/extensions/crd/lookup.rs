//! Finds resources in a catalog that is not behind the stored crds.
//!
//! A crd is stored first and served a moment later. A client that has read that it is
//! established, changed or being deleted must find it so; its request waits for that moment.

use crate::cache::catalog::{Catalog, Served};
use crate::cache::storage::Storage;
use crate::cache::watch_cache::ResourceCache;
use crate::request::ResourcePath;
use kinds::apiextensions;
use std::sync::Arc;
use std::time::Duration;
use store::Revision;

/// How long a request waits for the catalog. It usually takes less than a millisecond, for a changed
/// schema of a megabyte a second. If the crds cannot be followed, requests are answered with
/// what was served before.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// A resource, and the index of the version that was asked for.
pub(crate) type Found = (Arc<Served>, usize);

/// The resource of a path, and the catalog in which it was looked for.
pub(crate) async fn find(
    storage: &Storage,
    target: &ResourcePath,
) -> (Arc<Catalog>, Option<Found>) {
    let catalog = storage.catalog.load_full();
    match look_up(&catalog, target) {
        Some((served, version)) if !served.resource.conventions.dynamic => {
            return (catalog, Some((served, version)));
        }
        None if is_builtin(&catalog, &target.group) => return (catalog, None),
        _ => {}
    }
    // The revision is read before the catalog, which then has everything up to it.
    let served_up_to = *storage.crds_served.borrow();
    let mut catalog = storage.catalog.load_full();
    let mut found = look_up(&catalog, target);
    let stored_crd_revision = match &found {
        Some((served, _)) => served.stored_crd_revision(),
        None => stored_crd_revision(&catalog, target),
    };
    if let Some(revision) = stored_crd_revision.filter(|it| *it > served_up_to) {
        wait_for(storage, revision).await;
        catalog = storage.catalog.load_full();
        found = look_up(&catalog, target);
    }
    found.take_if(|(served, _)| served.stored_crd_revision().is_none());
    (catalog, found)
}

/// Waits until the catalog has every crd that is stored now.
pub(crate) async fn catch_up(storage: &Storage) {
    let catalog = storage.catalog.load();
    let stored = crds(&catalog).map_or(0, |it| it.cache.snapshot().revision);
    drop(catalog);
    if stored > *storage.crds_served.borrow() {
        wait_for(storage, stored).await;
    }
}

async fn wait_for(storage: &Storage, revision: Revision) {
    let mut served = storage.crds_served.subscribe();
    let caught_up = served.wait_for(|it| *it >= revision);
    if tokio::time::timeout(MAX_WAIT, caught_up).await.is_err() {
        tracing::warn!(revision, "the catalog is behind the stored crds");
    }
}

fn look_up(catalog: &Catalog, target: &ResourcePath) -> Option<Found> {
    let (served, version) = catalog.find(&target.group, &target.version, &target.resource)?;
    Some((Arc::clone(served), version))
}

fn is_builtin(catalog: &Catalog, group: &str) -> bool {
    catalog.group(group).is_some_and(|it| !it.custom)
}

/// The revision of the crd that a path would need.
fn stored_crd_revision(catalog: &Catalog, target: &ResourcePath) -> Option<Revision> {
    let crds = crds(catalog)?;
    let cache: &ResourceCache = &crds.cache;
    let key = crds.key("", &format!("{}.{}", target.resource, target.group));
    cache.get(&key).map(|it| it.revision)
}

fn crds(catalog: &Catalog) -> Option<&Arc<Served>> {
    catalog.resource(apiextensions::GROUP, "customresourcedefinitions")
}
