//! Finds resources in a catalog that is not behind the stored CRDs.
//!
//! A change of a CRD is stored first and reaches the catalog shortly afterwards. A client that has
//! read the stored change must also see its effect, so its request waits for the catalog.

use std::sync::Arc;
use std::time::Duration;

use crate::cache::watch_cache::ResourceCache;
use crate::request::ResourcePath;
use crate::storage::Storage;
use crate::storage::catalog::{Catalog, ServedResource};
use kinds::apiextensions;
use store::Revision;

/// The maximum time that a request waits for the catalog. An update usually takes less than a
/// millisecond, and a second for a changed schema of a megabyte. If the controller cannot follow the
/// CRDs, requests are answered from the old catalog.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// A resource, and the index of the requested version.
pub(crate) type FoundResource = (Arc<ServedResource>, usize);

/// The resource of a path, and the catalog that was searched.
pub(crate) async fn find(
    storage: &Storage,
    path: &ResourcePath,
) -> (Arc<Catalog>, Option<FoundResource>) {
    let catalog = storage.catalog.load_full();
    match look_up(&catalog, path) {
        Some((served, version)) if !served.resource.conventions.dynamic => {
            return (catalog, Some((served, version)));
        }
        None if is_builtin(&catalog, &path.group) => return (catalog, None),
        _ => {}
    }
    // The revision is read before the catalog, which therefore contains all changes up to it.
    let served_up_to = *storage.crds_served.borrow();
    let mut catalog = storage.catalog.load_full();
    let mut found = look_up(&catalog, path);
    let stored_crd_revision = match &found {
        Some((served, _)) => served.stored_crd_revision(),
        None => stored_crd_revision(&catalog, path),
    };
    if let Some(revision) = stored_crd_revision.filter(|it| *it > served_up_to) {
        wait_for(storage, revision).await;
        catalog = storage.catalog.load_full();
        found = look_up(&catalog, path);
    }
    found.take_if(|(served, _)| served.stored_crd_revision().is_none());
    (catalog, found)
}

/// Waits until the catalog contains every CRD that is stored now.
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
        tracing::warn!(revision, "the catalog is behind the stored CRDs");
    }
}

fn look_up(catalog: &Catalog, path: &ResourcePath) -> Option<FoundResource> {
    let (served, version) = catalog.find(&path.group, &path.version, &path.resource)?;
    Some((Arc::clone(served), version))
}

fn is_builtin(catalog: &Catalog, group: &str) -> bool {
    catalog.group(group).is_some_and(|it| !it.conventions.dynamic)
}

/// The revision of the stored CRD with the group and plural of a path.
fn stored_crd_revision(catalog: &Catalog, path: &ResourcePath) -> Option<Revision> {
    let crds = crds(catalog)?;
    let cache: &ResourceCache = &crds.cache;
    let key = crds.key("", &format!("{}.{}", path.resource, path.group));
    cache.get(&key).map(|it| it.revision)
}

fn crds(catalog: &Catalog) -> Option<&Arc<ServedResource>> {
    catalog.resource(apiextensions::GROUP, "customresourcedefinitions")
}
