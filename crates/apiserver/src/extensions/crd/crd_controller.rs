//! [`CrdController`]: keeps the catalog up to date with the stored CRDs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use imbl::ordmap::DiffItem;

use super::crd_tasks::{CrdTasks, TaskOutcome};
use super::rewrite::Rewrite;
use super::served_crd::{CrdState, ServedCrd, apply_schemas};
use super::{CRDS_PATH, cleanup};
use crate::cache::watch_cache::{Entry, Snapshot, Subscription, raise};
use crate::in_process::loopback::LoopbackClient;
use crate::storage::Storage;
use crate::storage::catalog::{Catalog, ServedResource};
use crate::storage::conversion::Conversion;
use crate::storage::creations::Creations;
use keel::blocking;
use kinds::apiextensions;
use machinery::Object;

/// The delay before the next attempt for CRDs whose objects are not all deleted, or whose status could
/// not be written.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// See the [module documentation](self).
pub(super) struct CrdController {
    storage: Arc<Storage>,
    client: LoopbackClient,
    crds: Arc<ServedResource>,
    /// The key prefixes of built-in kinds, whose objects a CRD must not serve.
    builtin_prefixes: Arc<HashSet<String>>,
    changed: Subscription,
    /// The CRDs at the last refresh.
    snapshot: Arc<Snapshot>,
    /// The parsed CRDs of `snapshot`, by key.
    parsed: BTreeMap<Arc<str>, ParsedCrd>,
    /// The served CRDs, by name. A resource is built again only if the state that it depends on changes.
    served_crds: HashMap<String, ServedCrd>,
    /// The established CRDs that cannot be served, by name. They are not tried again until their state
    /// changes.
    unservable: HashMap<String, CrdState>,
    /// The resources that are built while the status of their CRD is being written, by name. They are
    /// served as soon as the status is stored, without a wait for the compilation of a large schema.
    prepared: HashMap<String, ServedCrd>,
    /// The background tasks of CRDs.
    crd_tasks: CrdTasks,
}

#[derive(Clone)]
struct ParsedCrd {
    object: Arc<Object>,
    /// Whether its status is final, independently of other CRDs.
    has_final_status: bool,
}

impl ParsedCrd {
    fn is_being_deleted(&self) -> bool {
        self.object.deletion_timestamp().is_some()
    }
}

/// The changes of a refresh.
#[derive(Default)]
struct CatalogChange {
    /// Whether a new catalog must be published.
    changed: bool,
    /// The resources that are no longer served: their watches end.
    retired: Vec<Arc<ServedResource>>,
    /// The resources that have no replacement: their caches are removed.
    removed: Vec<Arc<ServedResource>>,
}

impl CrdController {
    pub(super) fn new(storage: Arc<Storage>, client: LoopbackClient) -> Self {
        let catalog = storage.catalog.load();
        let crds = catalog
            .resource("apiextensions.k8s.io", "customresourcedefinitions")
            .expect("CustomResourceDefinition is a built-in kind");
        let crds = Arc::clone(crds);
        let builtin = catalog.served().iter().filter(|it| !it.resource.conventions.dynamic);
        let builtin_prefixes: HashSet<_> = builtin.map(|it| it.resource.prefix.clone()).collect();
        drop(catalog);
        let changed = crds.cache.subscribe();
        let crd_tasks = CrdTasks::new(&storage.clock);
        Self {
            storage,
            client,
            crds,
            builtin_prefixes: Arc::new(builtin_prefixes),
            changed,
            snapshot: Arc::default(),
            parsed: BTreeMap::new(),
            served_crds: HashMap::new(),
            unservable: HashMap::new(),
            prepared: HashMap::new(),
            crd_tasks,
        }
    }

    /// Runs until the plane stops.
    pub(super) async fn run(&mut self) {
        let clock = self.storage.clock.clone();
        let stop = self.storage.tasks.shutdown();
        tokio::pin!(stop);
        loop {
            self.changed.mark_seen();
            let unfinished = self.sync().await;
            let pause = async {
                if unfinished {
                    clock.sleep(RETRY_INTERVAL).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = self.changed.changed() => {}
                () = pause => {}
                () = self.crd_tasks.finished() => {}
                () = &mut stop => return,
            }
        }
    }

    /// Updates the catalog to the stored CRDs.
    pub(super) fn refresh(&mut self) {
        let snapshot = self.crds.cache.snapshot().initialized();
        let before = std::mem::replace(&mut self.snapshot, Arc::clone(&snapshot));
        let mut change = CatalogChange::default();
        for difference in before.entries.diff(&snapshot.entries) {
            match difference {
                DiffItem::Add(key, entry) | DiffItem::Update { new: (key, entry), .. } => {
                    let parsed = self.parse(entry);
                    let crd = Arc::clone(&parsed.object);
                    let former = self.parsed.insert(Arc::clone(key), parsed);
                    if let Some(former) = former.filter(|it| it.object.uid() != crd.uid()) {
                        self.crd_tasks.remove_crd(former.object.uid());
                    }
                    self.update_served(&crd, &mut change);
                }
                DiffItem::Remove(key, _) => {
                    if let Some(former) = self.parsed.remove(key) {
                        self.crd_tasks.remove_crd(former.object.uid());
                        self.stop_serving(former.object.name(), &mut change);
                    }
                }
            }
        }
        if change.changed {
            self.publish();
            change.retired.into_iter().for_each(|it| it.retire());
            for it in change.removed {
                self.storage.cache.remove(&it.resource.prefix);
            }
        }
        // After the catalog is published, so that the catalog contains all changes up to the revision.
        let revision = snapshot.revision;
        self.storage.crds_served.send_if_modified(|served| raise(served, revision));
    }

    fn parse(&self, entry: &Entry) -> ParsedCrd {
        let object = Arc::new(entry.object());
        // A CRD whose names are all accepted keeps them, independently of other CRDs.
        let has_final_status =
            apiextensions::next_status(&object, &[], &self.storage.now()).is_none();
        ParsedCrd { object, has_final_status }
    }

    /// Builds the resource of a new or changed CRD, unless the current one is still valid.
    fn update_served(&mut self, crd: &Object, change: &mut CatalogChange) {
        let name = crd.name();
        if !apiextensions::is_established(crd) {
            return self.stop_serving(name, change);
        }
        if let Some(served_crd) = self.take_prepared(crd) {
            self.unservable.remove(name);
            self.served_crds.insert(name.to_owned(), served_crd);
            change.changed = true;
            return;
        }
        let is_known = self.unservable.get(name).is_some_and(|it| it.is_state_of(crd))
            || self.served_crds.get(name).is_some_and(|it| it.state.is_state_of(crd));
        if is_known {
            return;
        }
        self.unservable.remove(name);
        let before = self.served_crds.remove(name);
        change.changed |= before.is_some();
        let creations = before.as_ref().filter(|it| it.state.has_uid_of(crd));
        let creations = creations.map(|it| Arc::clone(&it.creations)).unwrap_or_default();
        let served = before.as_ref().map(|it| Arc::clone(&it.served));
        let mut former = Vec::new();
        match before {
            // The spec is the same: watches continue, and end together with the new resource.
            Some(it) if it.state.has_spec_of(crd) => former.extend(it.into_served()),
            before => change.retired.extend(before.into_iter().flat_map(ServedCrd::into_served)),
        }
        // The compilation of a large schema takes a second, and so does the rewrite of many objects.
        if let Some(served_crd) = blocking(|| self.build(crd, creations, served.as_deref())) {
            self.served_crds.insert(name.to_owned(), ServedCrd { former, ..served_crd });
            change.changed = true;
        } else {
            change.retired.extend(former);
            self.unservable.insert(name.to_owned(), CrdState::of(crd));
        }
    }

    /// Removes a CRD from the served ones.
    fn stop_serving(&mut self, name: &str, change: &mut CatalogChange) {
        self.unservable.remove(name);
        if let Some(served_crd) = self.served_crds.remove(name) {
            change.changed = true;
            change.removed.push(Arc::clone(&served_crd.served));
            change.retired.extend(served_crd.into_served());
        }
    }

    /// Publishes a catalog of the built-in kinds and the served CRDs. Custom resources in a built-in
    /// group are listed by discovery and not served.
    fn publish(&self) {
        let current = self.storage.catalog.load();
        let mut served: Vec<Arc<ServedResource>> = current
            .served()
            .iter()
            .filter(|it| !it.resource.conventions.dynamic)
            .map(Arc::clone)
            .collect();
        let is_builtin = |it: &Arc<ServedResource>| {
            current.group(&it.resource.group).is_some_and(|group| !group.conventions.dynamic)
        };
        let served_crds = self.served_crds.values().map(|it| Arc::clone(&it.served));
        let (discovery_only, custom): (Vec<_>, Vec<_>) = served_crds.partition(is_builtin);
        served.extend(custom);
        let catalog = Catalog::new(served).with_discovery_only(discovery_only);
        self.storage.catalog.store(Arc::new(catalog));
        self.storage.catalog_changed.send_replace(());
    }

    /// Builds the resource of a CRD that is about to be established.
    fn prepare(&mut self, crd: &Object) {
        let name = crd.name();
        if self.served_crds.contains_key(name) || !apiextensions::is_established(crd) {
            return;
        }
        if let Some(served_crd) = self.build(crd, Arc::default(), None) {
            self.prepared.insert(name.to_owned(), served_crd);
        }
    }

    /// Takes the resource that was prepared for a CRD, if its state is still the same.
    fn take_prepared(&mut self, crd: &Object) -> Option<ServedCrd> {
        if self.served_crds.contains_key(crd.name()) {
            return None;
        }
        self.prepared.remove(crd.name()).filter(|served_crd| served_crd.state.is_state_of(crd))
    }

    /// Builds the resource of a CRD, which replaces `replaced`. None if the CRD cannot be served.
    fn build(
        &self,
        crd: &Object,
        creations: Arc<Creations>,
        replaced: Option<&ServedResource>,
    ) -> Option<ServedCrd> {
        let resource = match apiextensions::resource_with(crd, &self.storage.patterns) {
            Ok(resource) => resource,
            Err(error) => {
                tracing::error!(name = crd.name(), %error, "the CRD cannot be served");
                return None;
            }
        };
        // Upstream: crd_finalizer.go OverlappingBuiltInResources
        if self.builtin_prefixes.contains(&resource.prefix) {
            tracing::warn!(name = crd.name(), "the CRD overlaps a built-in kind");
            return None;
        }
        let cache = self.storage.cache.get_or_create(&resource.prefix);
        if crd.deletion_timestamp().is_some() {
            creations.close();
        }
        let schemas = apply_schemas(&resource, crd);
        let key = self.crds.key("", crd.name());
        let crd_revision = crd.resource_version().parse().unwrap_or(0);
        let served = ServedResource::new(resource, cache)
            .with_apply_schemas(schemas)
            .with_conversion(Conversion::of_crd(crd), crd_revision)
            .with_terminating(apiextensions::is_terminating(crd))
            .with_crd(&self.crds.cache, key, Arc::clone(&creations));
        let served = Arc::new(served);
        if crd.generation() > 1 {
            let rewrite = Rewrite::new(&served.resource, replaced.map(|it| &*it.resource));
            served.cache.rewrite(|entry| rewrite.apply(entry));
        }
        let state = CrdState::of(crd);
        Some(ServedCrd { state, creations, served, former: Vec::new() })
    }

    /// Refreshes the catalog and starts the tasks of all CRDs that need one. Returns whether a CRD must
    /// be looked at again after [`RETRY_INTERVAL`].
    async fn sync(&mut self) -> bool {
        // Before the refresh, which then sees the statuses that these tasks have stored.
        let unfinished = self.crd_tasks.take_finished();
        self.refresh();
        self.remove_unused_prepared();
        let pending =
            self.parsed.values().filter(|it| !it.has_final_status || it.is_being_deleted());
        let mut pending: Vec<ParsedCrd> = pending.cloned().collect();
        // CRDs without failures first: a CRD whose webhook always hangs must not block the others.
        pending.sort_by_key(|it| self.crd_tasks.has_failed(&it.object));
        for parsed in &pending {
            let crd = &parsed.object;
            if !self.crd_tasks.may_start(crd) {
                continue;
            }
            if parsed.is_being_deleted() {
                self.clean_up(crd);
            } else {
                self.write_status(crd).await;
            }
        }
        unfinished || self.crd_tasks.have_failed()
    }

    /// Removes the resources prepared for CRDs whose status is not being written.
    fn remove_unused_prepared(&mut self) {
        let Self { prepared, crds, parsed, crd_tasks, served_crds, storage, .. } = self;
        prepared.retain(|name, unused| {
            let found = parsed.get(crds.key("", name).as_str());
            let is_used = found.is_some_and(|it| crd_tasks.is_running(&it.object));
            if !is_used && !served_crds.contains_key(name) {
                storage.cache.remove(&unused.served.resource.prefix);
            }
            is_used
        });
    }

    /// Starts a task that writes the status of a CRD, if it must change. The names that tasks in
    /// progress give to other CRDs count as taken.
    async fn write_status(&mut self, crd: &Arc<Object>) {
        let others = self.parsed.values().map(|it| &*it.object);
        let others = others.filter(|it| it.name() != crd.name());
        let others: Vec<&Object> =
            others.map(|it| self.crd_tasks.updated(it).unwrap_or(it)).collect();
        let now = self.storage.now();
        let Some(status) = apiextensions::next_status(crd, &others, &now) else { return };
        let mut updated = Object::clone(crd);
        updated.map_mut().insert("status".to_owned(), status);
        let storage = Arc::clone(&self.storage);
        storage.offload.run(None, async { self.prepare(&updated) }).await;
        let (client, updated) = (self.client.clone(), Arc::new(updated));
        let written = Arc::clone(&updated);
        let task = async move { update_status(&storage, &client, &written).await };
        self.crd_tasks.start(&self.storage, crd, Some(updated), task);
    }

    /// Starts a task that deletes the objects of a CRD and removes its finalizer.
    fn clean_up(&mut self, crd: &Arc<Object>) {
        let (storage, client) = (Arc::clone(&self.storage), self.client.clone());
        let builtin = Arc::clone(&self.builtin_prefixes);
        let served_crd = self.served_crds.get(crd.name());
        let served_crd = served_crd.map(|it| (Arc::clone(&it.served), Arc::clone(&it.creations)));
        let deleted = Arc::clone(crd);
        let task = async move {
            let is_done = match &served_crd {
                Some((served, creations)) => {
                    cleanup::clean_up(&storage, &client, served, creations, &deleted).await
                }
                None => cleanup::finalize_unserved(&storage, &client, &builtin, &deleted).await,
            };
            if is_done { TaskOutcome::Done } else { TaskOutcome::Retry }
        };
        self.crd_tasks.start(&self.storage, crd, None, task);
    }
}

/// Writes the status of a CRD, and waits until the watch cache contains it.
async fn update_status(
    storage: &Storage,
    client: &LoopbackClient,
    updated: &Object,
) -> TaskOutcome {
    let path = format!("{CRDS_PATH}/{}/status", updated.name());
    match client.update(&path, &updated.clone().into_value()).await.code {
        404 => TaskOutcome::Done,
        // The CRD has changed, so its status is computed again.
        409 => TaskOutcome::Retry,
        400.. => TaskOutcome::Failed,
        _ if storage.cache.catch_up().await.is_ok() => TaskOutcome::Done,
        _ => TaskOutcome::Failed,
    }
}

#[cfg(test)]
mod tests;
