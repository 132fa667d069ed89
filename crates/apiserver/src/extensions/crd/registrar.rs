//! [`Registrar`]: keeps the catalog in step with the definitions.

use super::made::{DefinitionState, Made, apply_schemas};
use super::rewrite::Rewrite;
use super::steps::{Outcome, Steps};
use super::{DEFINITIONS, cleanup};
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

/// How long to wait before a definition is looked at again whose objects are not all gone, or
/// whose status could not be written.
const AGAIN: Duration = Duration::from_millis(200);

/// See the [module documentation](self).
pub(super) struct Registrar {
    storage: Arc<Storage>,
    client: LoopbackClient,
    definitions: Arc<Served>,
    /// Where built-in kinds are stored: a definition must not touch what is there.
    builtin_prefixes: Arc<HashSet<String>>,
    changed: Subscription,
    /// The definitions of the last refresh.
    seen: Arc<Snapshot>,
    /// The same, read, by key.
    parsed: BTreeMap<Arc<str>, Parsed>,
    /// What was made of each definition, so that it is not made again as long as nothing that
    /// matters has changed.
    made: HashMap<String, Made>,
    /// The established definitions that cannot be served, by name: they are not tried again as long
    /// as they stay as they are.
    unservable: HashMap<String, DefinitionState>,
    /// What is made of definitions while their status is being written, by name. It is served once
    /// the status is stored, without the time that a large schema takes.
    prepared: HashMap<String, Made>,
    /// What is done for definitions in the background.
    steps: Steps,
}

#[derive(Clone)]
struct Parsed {
    object: Arc<Object>,
    /// Its status is what it should be, whatever other definitions there are.
    settled: bool,
}

impl Parsed {
    fn is_ending(&self) -> bool {
        self.object.deletion_timestamp().is_some()
    }
}

/// What a refresh changes.
#[derive(Default)]
struct Replaced {
    /// Whether there is anything to publish.
    changed: bool,
    /// What is not served any more: its watches end.
    retired: Vec<Arc<Served>>,
    /// What no definition takes the place of.
    gone: Vec<Arc<Served>>,
}

impl Registrar {
    pub(super) fn new(storage: Arc<Storage>, client: LoopbackClient) -> Self {
        let catalog = storage.catalog.load();
        let definitions = catalog
            .resource("apiextensions.k8s.io", "customresourcedefinitions")
            .expect("definitions are a built-in kind");
        let definitions = Arc::clone(definitions);
        let builtin = catalog.served().iter().filter(|it| !it.resource.conventions.dynamic);
        let builtin_prefixes: HashSet<_> = builtin.map(|it| it.resource.prefix.clone()).collect();
        drop(catalog);
        let changed = definitions.cache.subscribe();
        let steps = Steps::new(&storage.clock);
        Self {
            storage,
            client,
            definitions,
            builtin_prefixes: Arc::new(builtin_prefixes),
            changed,
            seen: Arc::default(),
            parsed: BTreeMap::new(),
            made: HashMap::new(),
            unservable: HashMap::new(),
            prepared: HashMap::new(),
            steps,
        }
    }

    /// Follows the definitions until the plane stops.
    pub(super) async fn run(&mut self) {
        let clock = self.storage.clock.clone();
        let stop = self.storage.tasks.shutdown();
        tokio::pin!(stop);
        loop {
            self.changed.mark_seen();
            let unfinished = self.settle().await;
            let pause = async {
                if unfinished {
                    clock.sleep(AGAIN).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = self.changed.changed() => {}
                () = pause => {}
                () = self.steps.finished() => {}
                () = &mut stop => return,
            }
        }
    }

    /// Brings the catalog in step with the stored definitions.
    pub(super) fn refresh(&mut self) {
        let snapshot = self.definitions.cache.snapshot().initialized();
        let before = std::mem::replace(&mut self.seen, Arc::clone(&snapshot));
        let mut replaced = Replaced::default();
        for difference in before.entries.diff(&snapshot.entries) {
            match difference {
                DiffItem::Add(key, entry) | DiffItem::Update { new: (key, entry), .. } => {
                    let parsed = self.parse(entry);
                    let definition = Arc::clone(&parsed.object);
                    let former = self.parsed.insert(Arc::clone(key), parsed);
                    if let Some(former) = former.filter(|it| it.object.uid() != definition.uid()) {
                        self.steps.forget(former.object.uid());
                    }
                    self.serve(&definition, &mut replaced);
                }
                DiffItem::Remove(key, _) => {
                    if let Some(former) = self.parsed.remove(key) {
                        self.steps.forget(former.object.uid());
                        self.withdraw(former.object.name(), &mut replaced);
                    }
                }
            }
        }
        if replaced.changed {
            self.publish();
            replaced.retired.into_iter().for_each(|it| it.retire());
            for it in replaced.gone {
                self.storage.cache.remove(&it.resource.prefix);
            }
        }
        // Only now, so that whoever reads the revision finds all of it in the catalog.
        let revision = snapshot.revision;
        self.storage.crds_served.send_if_modified(|served| raise(served, revision));
    }

    fn parse(&self, entry: &Entry) -> Parsed {
        let object = Arc::new(entry.object());
        // A definition that has all the names it wants keeps them, whatever others there are.
        let settled = apiextensions::next_status(&object, &[], &self.storage.now()).is_none();
        Parsed { object, settled }
    }

    /// Makes what a new or changed definition needs to be served, unless that is there.
    fn serve(&mut self, definition: &Object, replaced: &mut Replaced) {
        let name = definition.name();
        if !apiextensions::is_established(definition) {
            return self.withdraw(name, replaced);
        }
        if let Some(made) = self.take_prepared(definition) {
            self.unservable.remove(name);
            self.made.insert(name.to_owned(), made);
            replaced.changed = true;
            return;
        }
        let is_known = self.unservable.get(name).is_some_and(|it| it.fits(definition))
            || self.made.get(name).is_some_and(|it| it.state.fits(definition));
        if is_known {
            return;
        }
        self.unservable.remove(name);
        let before = self.made.remove(name);
        replaced.changed |= before.is_some();
        let creations = before.as_ref().filter(|it| it.state.has_uid_of(definition));
        let creations = creations.map(|it| Arc::clone(&it.creations)).unwrap_or_default();
        let served = before.as_ref().map(|it| Arc::clone(&it.served));
        let mut former = Vec::new();
        match before {
            // Watches go on, and end with what takes its place.
            Some(it) if it.state.has_spec_of(definition) => former.extend(it.all()),
            before => replaced.retired.extend(before.into_iter().flat_map(Made::all)),
        }
        // A large schema takes a second to compile, and many objects take as long to be rewritten.
        if let Some(made) = blocking(|| self.make(definition, creations, served.as_deref())) {
            self.made.insert(name.to_owned(), Made { former, ..made });
            replaced.changed = true;
        } else {
            replaced.retired.extend(former);
            self.unservable.insert(name.to_owned(), DefinitionState::of(definition));
        }
    }

    /// Takes a definition out of what is served.
    fn withdraw(&mut self, name: &str, replaced: &mut Replaced) {
        self.unservable.remove(name);
        if let Some(made) = self.made.remove(name) {
            replaced.changed = true;
            replaced.gone.push(Arc::clone(&made.served));
            replaced.retired.extend(made.all());
        }
    }

    /// Puts a catalog in place that has the built-in kinds and what was made. What is in a group of
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
        let made = self.made.values().map(|it| Arc::clone(&it.served));
        let (discovery_only, custom): (Vec<_>, Vec<_>) = made.partition(is_builtin);
        served.extend(custom);
        let catalog = Catalog::new(served).with_discovery_only(discovery_only);
        self.storage.catalog.store(Arc::new(catalog));
        self.storage.catalog_changed.send_replace(());
    }

    /// Makes what a definition that is about to be established needs to be served.
    fn prepare(&mut self, definition: &Object) {
        let name = definition.name();
        if self.made.contains_key(name) || !apiextensions::is_established(definition) {
            return;
        }
        if let Some(made) = self.make(definition, Arc::default(), None) {
            self.prepared.insert(name.to_owned(), made);
        }
    }

    /// What was prepared for a definition that is now stored.
    fn take_prepared(&mut self, definition: &Object) -> Option<Made> {
        if self.made.contains_key(definition.name()) {
            return None;
        }
        self.prepared.remove(definition.name()).filter(|made| made.state.fits(definition))
    }

    /// Makes what a definition needs to be served, in the place of `replaced`.
    fn make(
        &self,
        definition: &Object,
        creations: Arc<Creations>,
        replaced: Option<&Served>,
    ) -> Option<Made> {
        let resource = match apiextensions::resource_with(definition, &self.storage.patterns) {
            Ok(resource) => resource,
            Err(error) => {
                tracing::error!(name = definition.name(), %error, "a definition cannot be served");
                return None;
            }
        };
        // Upstream: crd_finalizer.go OverlappingBuiltInResources
        if self.builtin_prefixes.contains(&resource.prefix) {
            tracing::warn!(name = definition.name(), "the definition is that of a built-in kind");
            return None;
        }
        let cache = self.storage.cache.of_prefix(&resource.prefix);
        if definition.deletion_timestamp().is_some() {
            creations.close();
        }
        let schemas = apply_schemas(&resource, definition);
        let key = self.definitions.key("", definition.name());
        let crd_revision = definition.resource_version().parse().unwrap_or(0);
        let served = Served::new(resource, cache)
            .with_apply_schemas(schemas)
            .with_conversion(Conversion::of_crd(definition), crd_revision)
            .with_terminating(apiextensions::is_terminating(definition))
            .with_crd(&self.definitions.cache, key, Arc::clone(&creations));
        let served = Arc::new(served);
        if definition.generation() > 1 {
            let rewrite = Rewrite::new(&served.resource, replaced.map(|it| &*it.resource));
            served.cache.rewrite(|entry| rewrite.apply(entry));
        }
        let state = DefinitionState::of(definition);
        Some(Made { state, creations, served, former: Vec::new() })
    }

    /// Serves what can be served, and brings each definition a step further; whether one of them needs
    /// another look.
    async fn settle(&mut self) -> bool {
        // Before the refresh, which sees the statuses that these steps have stored.
        let unfinished = self.steps.take_finished();
        self.refresh();
        self.forget_prepared();
        let unsettled = self.parsed.values().filter(|it| !it.settled || it.is_ending());
        let mut unsettled: Vec<Parsed> = unsettled.cloned().collect();
        // A definition whose webhook hangs again and again must not take the place of others.
        unsettled.sort_by_key(|it| self.steps.has_failed(&it.object));
        for parsed in &unsettled {
            let definition = &parsed.object;
            if !self.steps.may_start(definition) {
                continue;
            }
            if parsed.is_ending() {
                self.clean_up(definition);
            } else {
                self.write_status(definition).await;
            }
        }
        unfinished || self.steps.have_failed()
    }

    /// Forgets what was prepared for definitions whose status is not being written.
    fn forget_prepared(&mut self) {
        let Self { prepared, definitions, parsed, steps, made, storage, .. } = self;
        prepared.retain(|name, unused| {
            let found = parsed.get(definitions.key("", name).as_str());
            let is_used = found.is_some_and(|it| steps.is_running(&it.object));
            if !is_used && !made.contains_key(name) {
                storage.cache.remove(&unused.served.resource.prefix);
            }
            is_used
        });
    }

    /// Begins to write the status that a definition should have, if it does not have it. The names
    /// that other definitions get by writes under way are taken.
    async fn write_status(&mut self, definition: &Arc<Object>) {
        let others = self.parsed.values().map(|it| &*it.object);
        let others = others.filter(|it| it.name() != definition.name());
        let others: Vec<&Object> = others.map(|it| self.steps.updated(it).unwrap_or(it)).collect();
        let now = self.storage.now();
        let Some(status) = apiextensions::next_status(definition, &others, &now) else { return };
        let mut updated = Object::clone(definition);
        updated.map_mut().insert("status".to_owned(), status);
        let storage = Arc::clone(&self.storage);
        storage.offload.run(None, async { self.prepare(&updated) }).await;
        let (client, updated) = (self.client.clone(), Arc::new(updated));
        let written = Arc::clone(&updated);
        let step = async move { update_status(&storage, &client, &written).await };
        self.steps.start(&self.storage, definition, Some(updated), step);
    }

    /// Begins to bring the end of a definition a step further.
    fn clean_up(&mut self, definition: &Arc<Object>) {
        let (storage, client) = (Arc::clone(&self.storage), self.client.clone());
        let builtin = Arc::clone(&self.builtin_prefixes);
        let made = self.made.get(definition.name());
        let made = made.map(|it| (Arc::clone(&it.served), Arc::clone(&it.creations)));
        let ending = Arc::clone(definition);
        let step = async move {
            let is_done = match &made {
                Some((served, creations)) => {
                    cleanup::clean_up(&storage, &client, served, creations, &ending).await
                }
                None => cleanup::release_unserved(&storage, &client, &builtin, &ending).await,
            };
            if is_done { Outcome::Done } else { Outcome::Again }
        };
        self.steps.start(&self.storage, definition, None, step);
    }
}

/// Writes the status of a definition, and waits until the watch cache has it.
async fn update_status(storage: &Storage, client: &LoopbackClient, updated: &Object) -> Outcome {
    let path = format!("{DEFINITIONS}/{}/status", updated.name());
    match client.update(&path, &updated.clone().into_value()).await.code {
        404 => Outcome::Done,
        // The definition is not as it was, and its status is decided again.
        409 => Outcome::Again,
        400.. => Outcome::Failed,
        _ if storage.cache.catch_up().await.is_ok() => Outcome::Done,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests;
