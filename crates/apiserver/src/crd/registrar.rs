//! [`Registrar`]: keeps the catalog in step with the definitions.

use super::DEFINITIONS;
use crate::catalog::{Catalog, Served};
use crate::own_client::OwnClient;
use crate::plane::Plane;
use crate::watch_cache::Entry;
use kinds::apiextensions;
use kinds::resource::Shape;
use machinery::{Object, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use store::Revision;
use tokio::sync::watch::Receiver;

/// How long to wait before a definition is looked at again whose objects are not all gone, or
/// whose status could not be written.
const AGAIN: Duration = Duration::from_millis(200);

/// See the [module documentation](self).
pub(super) struct Registrar {
    plane: Arc<Plane>,
    client: OwnClient,
    definitions: Arc<Served>,
    changed: Receiver<Revision>,
    /// The definitions as they were read, by key, with the revision at which they were.
    parsed: BTreeMap<Arc<str>, (Revision, Arc<Object>)>,
    /// What was made of each definition, so that it is not made again as long as nothing that
    /// matters has changed.
    made: HashMap<String, Made>,
}

struct Made {
    /// Of the definition: its spec counts, its status does not.
    generation: i64,
    uid: String,
    terminating: bool,
    accepted_names: Option<Value>,
    served: Arc<Served>,
}

impl Registrar {
    pub(super) fn new(plane: Arc<Plane>) -> Self {
        let catalog = plane.catalog.load();
        let definitions = catalog
            .resource("apiextensions.k8s.io", "customresourcedefinitions")
            .expect("definitions are a built-in kind");
        let definitions = Arc::clone(definitions);
        drop(catalog);
        let changed = definitions.cache.subscribe();
        let client = OwnClient::new(&plane);
        Self { plane, client, definitions, changed, parsed: BTreeMap::new(), made: HashMap::new() }
    }

    /// Follows the definitions until the plane stops.
    pub(super) async fn run(&mut self) {
        let clock = self.plane.clock.clone();
        let stop = self.plane.tasks.shutdown();
        tokio::pin!(stop);
        loop {
            self.changed.borrow_and_update();
            self.refresh();
            let unfinished = self.settle().await;
            let pause = async {
                if unfinished {
                    clock.sleep(AGAIN).await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                changed = self.changed.changed() => if changed.is_err() { return },
                () = pause => {}
                () = &mut stop => return,
            }
        }
    }

    /// All definitions; only those that have changed are read anew.
    fn objects(&mut self) -> Vec<Arc<Object>> {
        let snapshot = self.definitions.cache.snapshot();
        let before = std::mem::take(&mut self.parsed);
        for (key, entry) in &snapshot.entries {
            let object = match before.get(key) {
                Some((revision, object)) if *revision == entry.revision => Arc::clone(object),
                _ => Arc::new(entry.object()),
            };
            self.parsed.insert(Arc::clone(key), (entry.revision, object));
        }
        self.parsed.values().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Puts a new catalog in place if the definitions ask for one.
    pub(super) fn refresh(&mut self) {
        let mut made = HashMap::new();
        let mut retired = Vec::new();
        let mut changed = false;
        for definition in self.objects().iter().filter(|it| apiextensions::is_established(it)) {
            let name = definition.name().to_owned();
            let before = self.made.remove(&name);
            if let Some(before) = before.as_ref().filter(|it| !it.is_of(definition)) {
                retired.push(Arc::clone(&before.served));
            }
            let kept = before.filter(|it| it.still_fits(definition));
            changed |= kept.is_none();
            if let Some(it) = kept.or_else(|| self.make(definition)) {
                made.insert(name, it);
            }
        }
        changed |= !self.made.is_empty();
        retired.extend(self.made.drain().map(|(_, it)| it.served));
        self.made = made;
        if !changed {
            return;
        }
        let current = self.plane.catalog.load();
        let mut served: Vec<Arc<Served>> =
            current.served().iter().filter(|it| !it.resource.custom).map(Arc::clone).collect();
        served.extend(self.made.values().map(|it| Arc::clone(&it.served)));
        self.plane.catalog.store(Arc::new(Catalog::new(served)));
        for it in retired {
            it.retire();
        }
    }

    fn make(&self, definition: &Object) -> Option<Made> {
        let resource = match apiextensions::resource(definition) {
            Ok(resource) => resource,
            Err(error) => {
                tracing::error!(name = definition.name(), %error, "a definition cannot be served");
                return None;
            }
        };
        let cache = self.plane.cache.of_prefix(&resource.prefix);
        let terminating = definition.deletion_timestamp().is_some();
        let served = Arc::new(Served::new(resource, cache, terminating));
        if definition.generation() > 1 {
            served.cache.rewrite(|entry| rewritten(&served, entry));
        }
        Some(Made {
            generation: definition.generation(),
            uid: definition.uid().to_owned(),
            terminating,
            accepted_names: definition.get(&["status", "acceptedNames"]).cloned(),
            served,
        })
    }

    /// Brings each definition a step further; whether one of them needs another look.
    async fn settle(&mut self) -> bool {
        let mut unfinished = false;
        let objects = self.objects();
        for definition in &objects {
            if definition.deletion_timestamp().is_some() {
                unfinished |= !self.clean_up(definition).await;
                continue;
            }
            let others: Vec<&Object> = objects
                .iter()
                .map(|it| &**it)
                .filter(|it| it.name() != definition.name())
                .collect();
            let now = self.plane.now();
            let Some(status) = apiextensions::next_status(definition, &others, &now) else {
                continue;
            };
            let mut updated = Object::clone(definition);
            updated.map_mut().insert("status".to_owned(), status);
            let path = format!("{DEFINITIONS}/{}/status", definition.name());
            let code = self.client.update(&path, &updated.into_value()).await.code;
            // A conflict means that it has changed, which wakes us anyway.
            unfinished |= code >= 400 && code != 404;
        }
        unfinished
    }

    async fn clean_up(&self, definition: &Object) -> bool {
        let Some(made) = self.made.get(definition.name()) else {
            // Never established: there can be no objects.
            return super::cleanup::release(&self.client, definition).await;
        };
        super::cleanup::clean_up(&self.client, &made.served, definition).await
    }
}

impl Made {
    /// Whether it is this very definition, with this very spec.
    fn is_of(&self, definition: &Object) -> bool {
        self.generation == definition.generation() && self.uid == definition.uid()
    }

    fn still_fits(&self, definition: &Object) -> bool {
        self.is_of(definition)
            && self.terminating == definition.deletion_timestamp().is_some()
            && self.accepted_names.as_ref() == definition.get(&["status", "acceptedNames"])
    }
}

/// A stored object as its changed definition wants it. It is made anew even where its bytes are
/// the same, since other fields may be selectable now.
fn rewritten(served: &Served, entry: &Entry) -> Entry {
    let hub = served.resource.storage;
    let mut object = crate::answer::converted(served, hub, entry.object_as_stored());
    if let Shape::Structural(schema) = &served.resource.hub().shape {
        schema.prune(object.map_mut(), &mut Vec::new());
        schema.default(object.map_mut());
    }
    entry.with_object(&object)
}
