//! [`Registrar`]: keeps the catalog in step with the definitions.

use super::made::{DefinitionState, Made, apply_schemas};
use super::rewrite::Rewrite;
use super::steps::{Outcome, Steps};
use super::{Creations, DEFINITIONS, cleanup};
use crate::catalog::{Catalog, Served};
use crate::conversion::Conversion;
use crate::own_client::OwnClient;
use crate::plane::Plane;
use crate::watch_cache::{Entry, Snapshot, Subscription, raise};
use kinds::apiextensions;
use machinery::Object;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use store::Revision;

/// How long to wait before a definition is looked at again whose objects are not all gone, or
/// whose status could not be written.
const AGAIN: Duration = Duration::from_millis(200);

/// See the [module documentation](self).
pub(super) struct Registrar {
    plane: Arc<Plane>,
    client: OwnClient,
    definitions: Arc<Served>,
    /// Where built-in kinds are stored: a definition must not touch what is there.
    builtin_prefixes: Arc<HashSet<String>>,
    changed: Subscription,
    /// The definitions as they were read, by key.
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
    revision: Revision,
    object: Arc<Object>,
    /// Its status is what it should be, whatever other definitions there are.
    settled: bool,
}

impl Registrar {
    pub(super) fn new(plane: Arc<Plane>) -> Self {
        let catalog = plane.catalog.load();
        let definitions = catalog
            .resource("apiextensions.k8s.io", "customresourcedefinitions")
            .expect("definitions are a built-in kind");
        let definitions = Arc::clone(definitions);
        let builtin = catalog.served().iter().filter(|it| !it.resource.custom);
        let builtin_prefixes: HashSet<_> = builtin.map(|it| it.resource.prefix.clone()).collect();
        drop(catalog);
        let changed = definitions.cache.subscribe();
        let client = OwnClient::new(&plane);
        let steps = Steps::new(&plane.clock);
        Self {
            plane,
            client,
            definitions,
            builtin_prefixes: Arc::new(builtin_prefixes),
            changed,
            parsed: BTreeMap::new(),
            made: HashMap::new(),
            unservable: HashMap::new(),
            prepared: HashMap::new(),
            steps,
        }
    }

    /// Follows the definitions until the plane stops.
    pub(super) async fn run(&mut self) {
        let clock = self.plane.clock.clone();
        let stop = self.plane.tasks.shutdown();
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

    /// The definitions of a snapshot; only those that have changed are read anew.
    fn objects(&mut self, snapshot: &Snapshot) -> Vec<Parsed> {
        let before = std::mem::take(&mut self.parsed);
        for (key, entry) in &snapshot.entries {
            let parsed = match before.get(key) {
                Some(parsed) if parsed.revision == entry.revision => parsed.clone(),
                _ => self.parse(entry),
            };
            self.parsed.insert(Arc::clone(key), parsed);
        }
        self.parsed.values().cloned().collect()
    }

    fn parse(&self, entry: &Entry) -> Parsed {
        let object = Arc::new(entry.object());
        // Who has got all the names it wants keeps them, whoever else comes.
        let settled = apiextensions::next_status(&object, &[], &self.plane.now()).is_none();
        Parsed { revision: entry.revision, object, settled }
    }

    /// Puts a new catalog in place if the definitions ask for one.
    pub(super) fn refresh(&mut self) {
        let snapshot = self.definitions.cache.snapshot().initialized();
        self.refresh_to(&snapshot);
        // Only now, so that who reads the revision finds all of it in the catalog.
        let revision = snapshot.revision;
        self.plane.definitions_served.send_if_modified(|served| raise(served, revision));
    }

    fn refresh_to(&mut self, snapshot: &Snapshot) {
        let mut made = HashMap::new();
        let mut unservable = HashMap::new();
        let mut retired = Vec::new();
        let mut changed = false;
        let objects = self.objects(snapshot);
        let definitions = objects.iter().map(|it| &it.object);
        for definition in definitions.filter(|it| apiextensions::is_established(it)) {
            let name = definition.name().to_owned();
            if let Some(it) = self.take_prepared(definition) {
                made.insert(name, it);
                changed = true;
                continue;
            }
            let known = self.unservable.remove(&name).filter(|it| it.fits(definition));
            if let Some(state) = known {
                unservable.insert(name, state);
                continue;
            }
            let mut former = Vec::new();
            let before = self.made.remove(&name);
            changed |= before.as_ref().is_some_and(|it| !it.state.fits(definition));
            let creations = before.as_ref().filter(|it| it.state.has_uid_of(definition));
            let creations = creations.map(|it| Arc::clone(&it.creations)).unwrap_or_default();
            let replaced = before.as_ref().map(|it| Arc::clone(&it.served));
            match before {
                Some(it) if it.state.fits(definition) => {
                    made.insert(name, it);
                    continue;
                }
                // Watches go on, and end with what takes its place.
                Some(it) if it.state.has_spec_of(definition) => former.extend(it.all()),
                before => retired.extend(before.into_iter().flat_map(Made::all)),
            }
            if let Some(it) = self.make(definition, creations, replaced.as_deref()) {
                made.insert(name, Made { former, ..it });
                changed = true;
            } else {
                retired.extend(former);
                unservable.insert(name, DefinitionState::of(definition));
            }
        }
        changed |= !self.made.is_empty();
        let gone: Vec<Arc<Served>> = self.made.values().map(|it| Arc::clone(&it.served)).collect();
        retired.extend(self.made.drain().flat_map(|(_, it)| it.all()));
        self.made = made;
        self.unservable = unservable;
        if !changed {
            return;
        }
        self.publish();
        for it in retired {
            it.retire();
        }
        for it in gone {
            self.plane.cache.remove(&it.resource.prefix);
        }
    }

    /// Puts a catalog in place that has the built-in kinds and what was made. What is in a group of
    /// built-in kinds is listed by discovery and not served.
    fn publish(&self) {
        let current = self.plane.catalog.load();
        let mut served: Vec<Arc<Served>> =
            current.served().iter().filter(|it| !it.resource.custom).map(Arc::clone).collect();
        let is_builtin =
            |it: &Arc<Served>| current.group(&it.resource.group).is_some_and(|group| !group.custom);
        let made = self.made.values().map(|it| Arc::clone(&it.served));
        let (unserved, custom): (Vec<_>, Vec<_>) = made.partition(is_builtin);
        served.extend(custom);
        let catalog = Catalog::new(served).with_unserved(unserved);
        self.plane.catalog.store(Arc::new(catalog));
        self.plane.catalog_changed.send_replace(());
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
        let resource = match apiextensions::resource_with(definition, &self.plane.patterns) {
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
        let cache = self.plane.cache.of_prefix(&resource.prefix);
        if definition.deletion_timestamp().is_some() {
            creations.close();
        }
        let schemas = apply_schemas(&resource, definition);
        let key = self.definitions.key("", definition.name());
        let edition = definition.resource_version().parse().unwrap_or(0);
        let served = Served::new(resource, cache)
            .with_apply_schemas(schemas)
            .converted_by(Conversion::defined(definition), edition)
            .terminating(apiextensions::is_terminating(definition))
            .defined_by(&self.definitions.cache, key, Arc::clone(&creations));
        let served = Arc::new(served);
        if definition.generation() > 1 {
            let rewrite = Rewrite::new(&served.resource, replaced.map(|it| &*it.resource));
            served.cache.rewrite(|entry| rewrite.apply(entry));
        }
        let state = DefinitionState::of(definition);
        Some(Made { state, creations, served, former: Vec::new() })
    }

    /// The same off the runtime's own threads: a large schema takes a second to compile, and many
    /// objects take as long to be rewritten.
    async fn refresh_offloaded(&mut self) {
        let plane = Arc::clone(&self.plane);
        plane.offload.run(None, async { self.refresh() }).await;
    }

    /// Serves what can be served, and brings each definition a step further; whether one of them needs
    /// another look.
    async fn settle(&mut self) -> bool {
        // Before the refresh, which sees the statuses that these steps have stored.
        let mut unfinished = self.steps.take_finished();
        self.refresh_offloaded().await;
        let mut objects: Vec<Parsed> = self.parsed.values().cloned().collect();
        let uids: HashSet<&str> = objects.iter().map(|it| it.object.uid()).collect();
        unfinished |= self.steps.retain(|uid| uids.contains(uid));
        self.forget_prepared(&objects);
        // A definition whose webhook hangs again and again must not take the place of others.
        objects.sort_by_key(|it| self.steps.has_failed(&it.object));
        for Parsed { object: definition, settled, .. } in &objects {
            let is_ending = definition.deletion_timestamp().is_some();
            if (*settled && !is_ending) || !self.steps.may_start(definition) {
                continue;
            }
            if is_ending {
                self.clean_up(definition);
            } else {
                self.write_status(definition, &objects).await;
            }
        }
        unfinished
    }

    /// Forgets what was prepared for definitions whose status is not being written.
    fn forget_prepared(&mut self, objects: &[Parsed]) {
        if self.prepared.is_empty() {
            return;
        }
        let running = objects.iter().filter(|it| self.steps.is_running(&it.object));
        let running: HashSet<&str> = running.map(|it| it.object.name()).collect();
        self.prepared.retain(|name, _| running.contains(name.as_str()));
    }

    /// Begins to write the status that a definition should have, if it does not have it. The names
    /// that other definitions get by writes under way are taken.
    async fn write_status(&mut self, definition: &Arc<Object>, all: &[Parsed]) {
        let others = all.iter().filter(|it| it.object.name() != definition.name());
        let others: Vec<&Object> =
            others.map(|it| self.steps.updated(&it.object).unwrap_or(&it.object)).collect();
        let now = self.plane.now();
        let Some(status) = apiextensions::next_status(definition, &others, &now) else { return };
        let mut updated = Object::clone(definition);
        updated.map_mut().insert("status".to_owned(), status);
        let plane = Arc::clone(&self.plane);
        plane.offload.run(None, async { self.prepare(&updated) }).await;
        let (client, updated) = (self.client.clone(), Arc::new(updated));
        let written = Arc::clone(&updated);
        let step = async move { update_status(&plane, &client, &written).await };
        self.steps.start(&self.plane, definition, Some(updated), step);
    }

    /// Begins to bring the end of a definition a step further.
    fn clean_up(&mut self, definition: &Arc<Object>) {
        let (plane, client) = (Arc::clone(&self.plane), self.client.clone());
        let builtin = Arc::clone(&self.builtin_prefixes);
        let made = self.made.get(definition.name());
        let made = made.map(|it| (Arc::clone(&it.served), Arc::clone(&it.creations)));
        let ending = Arc::clone(definition);
        let step = async move {
            let is_done = match &made {
                Some((served, creations)) => {
                    cleanup::clean_up(&plane, &client, served, creations, &ending).await
                }
                None => cleanup::release_unserved(&plane, &client, &builtin, &ending).await,
            };
            if is_done { Outcome::Done } else { Outcome::Again }
        };
        self.steps.start(&self.plane, definition, None, step);
    }
}

/// Writes the status of a definition, and waits until the watch cache has it.
async fn update_status(plane: &Plane, client: &OwnClient, updated: &Object) -> Outcome {
    let path = format!("{DEFINITIONS}/{}/status", updated.name());
    match client.update(&path, &updated.clone().into_value()).await.code {
        404 => Outcome::Done,
        // The definition is not as it was, and its status is decided again.
        409 => Outcome::Again,
        400.. => Outcome::Failed,
        _ if plane.cache.catch_up().await.is_ok() => Outcome::Done,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests;
