//! [`CrdController`]: keeps the catalog in task with the crds.

use super::crd_tasks::{CrdTasks, TaskOutcome};
use super::rewrite::Rewrite;
use super::served_crd::{CrdState, ServedCrd, apply_schemas};
use super::{CRDS_PATH, cleanup};
use crate::cache::catalog::{Catalog, Served};
use crate::cache::conversion::Conversion;
use crate::cache::creations::Creations;
use crate::cache::storage::Storage;
use crate::cache::watch_cache::{Entry, Snapshot, Subscription, raise};
use crate::in_process::loopback::LoopbackClient;
use imbl::ordmap::DiffItem;
use keel::blocking;
use kinds::apiextensions;
use machinery::Object;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait before a crd is looked at again whose objects are not all removed, or
/// whose status could not be written.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// See the [module documentation](self).
pub(super) struct CrdController {
    storage: Arc<Storage>,
    client: LoopbackClient,
    crds: Arc<Served>,
    /// Where built-in kinds are stored: a crd must not touch what is there.
    builtin_prefixes: Arc<HashSet<String>>,
    changed: Subscription,
    /// The crds of the last refresh.
    snapshot: Arc<Snapshot>,
    /// The same, read, by key.
    parsed: BTreeMap<Arc<str>, ParsedCrd>,
    /// What was served_crds of each crd, so that it is not served_crds again as long as nothing that
    /// matters has changed.
    served_crds: HashMap<String, ServedCrd>,
    /// The established crds that cannot be served, by name: they are not tried again as long
    /// as they stay as they are.
    unservable: HashMap<String, CrdState>,
    /// What is served_crds of crds while their status is being written, by name. It is served once
    /// the status is stored, without the time that a large schema takes.
    prepared: HashMap<String, ServedCrd>,
    /// What is done for crds in the background.
    crd_tasks: CrdTasks,
}

#[derive(Clone)]
struct ParsedCrd {
    object: Arc<Object>,
    /// Its status is what it should be, whatever other crds there are.
    has_final_status: bool,
}

impl ParsedCrd {
    fn is_being_deleted(&self) -> bool {
        self.object.deletion_timestamp().is_some()
    }
}

/// What a refresh changes.
#[derive(Default)]
struct CatalogChange {
    /// Whether there is anything to publish.
    changed: bool,
    /// What is not served any more: its watches end.
    retired: Vec<Arc<Served>>,
    /// What no crd takes the place of.
    removed: Vec<Arc<Served>>,
}

impl CrdController {
    pub(super) fn new(storage: Arc<Storage>, client: LoopbackClient) -> Self {
        let catalog = storage.catalog.load();
        let crds = catalog
            .resource("apiextensions.k8s.io", "customresourcedefinitions")
            .expect("crds are a built-in kind");
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

    /// Follows the crds until the plane stops.
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

    /// Brings the catalog in task with the stored crds.
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
        // Only now, so that whoever reads the revision finds all of it in the catalog.
        let revision = snapshot.revision;
        self.storage.crds_served.send_if_modified(|served| raise(served, revision));
    }

    fn parse(&self, entry: &Entry) -> ParsedCrd {
        let object = Arc::new(entry.object());
        // A crd that has all the names it wants keeps them, whatever others there are.
        let has_final_status =
            apiextensions::next_status(&object, &[], &self.storage.now()).is_none();
        ParsedCrd { object, has_final_status }
    }

    /// Makes what a new or changed crd needs to be served, unless that is there.
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
            // Watches go on, and end with what takes its place.
            Some(it) if it.state.has_spec_of(crd) => former.extend(it.into_served()),
            before => change.retired.extend(before.into_iter().flat_map(ServedCrd::into_served)),
        }
        // A large schema takes a second to compile, and many objects take as long to be rewritten.
        if let Some(served_crd) = blocking(|| self.build(crd, creations, served.as_deref())) {
            self.served_crds.insert(name.to_owned(), ServedCrd { former, ..served_crd });
            change.changed = true;
        } else {
            change.retired.extend(former);
            self.unservable.insert(name.to_owned(), CrdState::of(crd));
        }
    }

    /// Takes a crd out of what is served.
    fn stop_serving(&mut self, name: &str, change: &mut CatalogChange) {
        self.unservable.remove(name);
        if let Some(served_crd) = self.served_crds.remove(name) {
            change.changed = true;
            change.removed.push(Arc::clone(&served_crd.served));
            change.retired.extend(served_crd.into_served());
        }
    }

    /// Puts a catalog in place that has the built-in kinds and what was served_crds. What is in a group of
    /// built-in kinds is listed by discovery and not served.
    fn publish(&self) {
        let current = self.storage.catalog.load();
        let mut served: Vec<Arc<Served>> = current
            .served()
            .iter()
            .filter(|it| !it.resource.conventions.dynamic)
            .map(Arc::clone)
            .collect();
        let is_builtin =
            |it: &Arc<Served>| current.group(&it.resource.group).is_some_and(|group| !group.custom);
        let served_crds = self.served_crds.values().map(|it| Arc::clone(&it.served));
        let (discovery_only, custom): (Vec<_>, Vec<_>) = served_crds.partition(is_builtin);
        served.extend(custom);
        let catalog = Catalog::new(served).with_discovery_only(discovery_only);
        self.storage.catalog.store(Arc::new(catalog));
        self.storage.catalog_changed.send_replace(());
    }

    /// Makes what a crd that is about to be established needs to be served.
    fn prepare(&mut self, crd: &Object) {
        let name = crd.name();
        if self.served_crds.contains_key(name) || !apiextensions::is_established(crd) {
            return;
        }
        if let Some(served_crd) = self.build(crd, Arc::default(), None) {
            self.prepared.insert(name.to_owned(), served_crd);
        }
    }

    /// What was prepared for a crd that is now stored.
    fn take_prepared(&mut self, crd: &Object) -> Option<ServedCrd> {
        if self.served_crds.contains_key(crd.name()) {
            return None;
        }
        self.prepared.remove(crd.name()).filter(|served_crd| served_crd.state.is_state_of(crd))
    }

    /// Makes what a crd needs to be served, in the place of `replaced`.
    fn build(
        &self,
        crd: &Object,
        creations: Arc<Creations>,
        replaced: Option<&Served>,
    ) -> Option<ServedCrd> {
        let resource = match apiextensions::resource_with(crd, &self.storage.patterns) {
            Ok(resource) => resource,
            Err(error) => {
                tracing::error!(name = crd.name(), %error, "a crd cannot be served");
                return None;
            }
        };
        // Upstream: crd_finalizer.go OverlappingBuiltInResources
        if self.builtin_prefixes.contains(&resource.prefix) {
            tracing::warn!(name = crd.name(), "the crd is that of a built-in kind");
            return None;
        }
        let cache = self.storage.cache.of_prefix(&resource.prefix);
        if crd.deletion_timestamp().is_some() {
            creations.close();
        }
        let schemas = apply_schemas(&resource, crd);
        let key = self.crds.key("", crd.name());
        let crd_revision = crd.resource_version().parse().unwrap_or(0);
        let served = Served::new(resource, cache)
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

    /// Serves what can be served, and brings each crd a task further; whether one of them needs
    /// another look.
    async fn sync(&mut self) -> bool {
        // Before the refresh, which sees the statuses that these crd_tasks have stored.
        let unfinished = self.crd_tasks.take_finished();
        self.refresh();
        self.remove_unused_prepared();
        let pending =
            self.parsed.values().filter(|it| !it.has_final_status || it.is_being_deleted());
        let mut pending: Vec<ParsedCrd> = pending.cloned().collect();
        // A crd whose webhook hangs again and again must not take the place of others.
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

    /// Forgets what was prepared for crds whose status is not being written.
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

    /// Begins to write the status that a crd should have, if it does not have it. The names
    /// that other crds get by writes under way are taken.
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

    /// Begins to bring the end of a crd a task further.
    fn clean_up(&mut self, crd: &Arc<Object>) {
        let (storage, client) = (Arc::clone(&self.storage), self.client.clone());
        let builtin = Arc::clone(&self.builtin_prefixes);
        let served_crd = self.served_crds.get(crd.name());
        let served_crd = served_crd.map(|it| (Arc::clone(&it.served), Arc::clone(&it.creations)));
        let ending = Arc::clone(crd);
        let task = async move {
            let is_done = match &served_crd {
                Some((served, creations)) => {
                    cleanup::clean_up(&storage, &client, served, creations, &ending).await
                }
                None => cleanup::finalize_unserved(&storage, &client, &builtin, &ending).await,
            };
            if is_done { TaskOutcome::Done } else { TaskOutcome::Retry }
        };
        self.crd_tasks.start(&self.storage, crd, None, task);
    }
}

/// Writes the status of a crd, and waits until the watch cache has it.
async fn update_status(
    storage: &Storage,
    client: &LoopbackClient,
    updated: &Object,
) -> TaskOutcome {
    let path = format!("{CRDS_PATH}/{}/status", updated.name());
    match client.update(&path, &updated.clone().into_value()).await.code {
        404 => TaskOutcome::Done,
        // The crd is not as it was, and its status is decided again.
        409 => TaskOutcome::Retry,
        400.. => TaskOutcome::Failed,
        _ if storage.cache.catch_up().await.is_ok() => TaskOutcome::Done,
        _ => TaskOutcome::Failed,
    }
}

#[cfg(test)]
mod tests;
