//! [`Monitors`]: a reflector for each resource whose objects may be owners or dependents. They follow
//! the discovery: a resource of a new CRD is watched at once, and one that is no longer served until
//! the server has ended its watch, so that the last deletions are seen.
//!
//! Until a new resource is listed, owners of its kind are looked up one by one, and the deletions wait
//! that depend on all dependents of an object: those in the foreground, and those that orphan. They
//! wait for at most [`MAX_LIST_WAIT`], since a list may hang for ever, such as that of a CRD whose
//! conversion webhook does not answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::GarbageCollector;
use super::graph::{Effects, ResourceId};
use super::observed_object::{ObjectSource, ObservedObject};
use super::uid::Uid;
use crate::controller_context::ControllerContext;
use crate::resource_discovery::{ApiResource, DiscoveredResources};
use keel::{Clock, Entropy, Tasks, Timestamp};
use runtime::Client;
use runtime::client::ClientListWatch;
use runtime::informer::{
    Form, Reflector, ReflectorOptions, ReflectorPhase, ReflectorStatus, ReflectorStore, Transaction,
};

/// The verbs that a resource must support.
const REQUIRED_VERBS: [&str; 3] = ["delete", "list", "watch"];

/// The longest time for which a resource is watched that is no longer served.
const MAX_RETIREMENT: Duration = Duration::from_secs(30);

/// The longest time that others wait for the first list of a resource.
const MAX_LIST_WAIT: Duration = Duration::from_secs(30);

/// The number of objects of a list that are added to the graph at a time.
const CHUNK: usize = 512;

/// Group and plural.
type ResourceKey = (String, String);

/// See the [module documentation](self).
pub(super) struct Monitors {
    collector: Arc<GarbageCollector>,
    /// Lists and watches.
    reader: Client,
    clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    /// The resources of the graph.
    ids: HashMap<ResourceKey, ResourceId>,
    running: HashMap<ResourceKey, Monitor>,
    /// The end of the watches of resources that are no longer served.
    retiring: FuturesUnordered<BoxFuture<'static, Retired>>,
    /// The first lists that others wait for.
    listing: FuturesUnordered<BoxFuture<'static, FirstList>>,
    /// The resources that could not be listed so far, and the times since when. The time stays when
    /// the resource is not served for a while, so that others do not wait for it again and again.
    unlisted: HashMap<ResourceKey, Timestamp>,
    started: u64,
}

/// The end of the wait for the first list of a resource.
struct FirstList {
    key: ResourceKey,
    is_listed: bool,
}

struct Monitor {
    id: ResourceId,
    resource: Arc<ApiResource>,
    task: JoinHandle<()>,
    status: watch::Receiver<ReflectorStatus>,
    /// Distinguishes the monitors of one resource.
    number: u64,
    is_retiring: bool,
}

/// A monitor whose watch has ended.
struct Retired {
    key: ResourceKey,
    number: u64,
}

impl Monitor {
    fn was_listed(&self) -> bool {
        self.status.borrow().lists > 0
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Monitors {
    pub(super) fn new(collector: Arc<GarbageCollector>, cx: &ControllerContext) -> Self {
        Self {
            collector,
            reader: cx.reader.clone(),
            clock: cx.clock().clone(),
            entropy: cx.entropy().clone(),
            tasks: cx.tasks().clone(),
            ids: HashMap::new(),
            running: HashMap::new(),
            retiring: FuturesUnordered::new(),
            listing: FuturesUnordered::new(),
            unlisted: HashMap::new(),
            started: 0,
        }
    }

    /// Follows the discovery.
    pub(super) async fn run(mut self) {
        let mut discoveries = self.collector.discovery.subscribe();
        loop {
            let discovered = discoveries.borrow_and_update().clone();
            if let Some(discovered) = discovered {
                self.sync(&discovered);
            }
            tokio::select! {
                changed = discoveries.changed() => if changed.is_err() { return },
                Some(retired) = self.retiring.next() => self.remove(&retired),
                Some(list) = self.listing.next() => self.end_first_list(&list),
            }
        }
    }

    /// Starts and stops monitors.
    fn sync(&mut self, discovered: &DiscoveredResources) {
        let wanted: HashMap<ResourceKey, &Arc<ApiResource>> = discovered
            .preferred()
            .filter(|it| is_monitored(it))
            .map(|it| (key_of(it), it))
            .collect();
        let failed_groups = discovered.failed_groups();
        for (key, monitor) in &mut self.running {
            let is_served = wanted.contains_key(key) || failed_groups.contains(key.0.as_str());
            if !is_served && !monitor.is_retiring {
                monitor.is_retiring = true;
                self.retiring.push(retirement(key.clone(), monitor, &self.clock));
            }
        }
        for (key, resource) in wanted {
            let is_running = self.running.get(&key).is_some_and(|monitor| {
                monitor.resource.version == resource.version && !monitor.is_retiring
            });
            if !is_running {
                let status = self.start(key.clone(), resource);
                self.await_first_list(key, status);
            }
        }
        if !failed_groups.is_empty() {
            self.collector.sync_errors.fetch_add(1, Relaxed);
        }
        self.collector.is_synced.send_replace(self.listing.is_empty());
        self.collector.unpark();
    }

    fn await_first_list(&mut self, key: ResourceKey, mut status: watch::Receiver<ReflectorStatus>) {
        let (clock, now) = (self.clock.clone(), self.clock.now());
        let since = *self.unlisted.entry(key.clone()).or_insert(now);
        let remaining = MAX_LIST_WAIT.saturating_sub(now.since(since));
        self.listing.push(Box::pin(async move {
            tokio::select! {
                // A resource that cannot be listed must not stop the others. An error means that
                // the reflector has ended.
                _ = status.wait_for(|status| status.lists > 0 || status.failures > 0) => {}
                () = clock.sleep(remaining) => {}
            }
            let is_listed = status.borrow().lists > 0;
            FirstList { key, is_listed }
        }));
    }

    fn end_first_list(&mut self, list: &FirstList) {
        if list.is_listed {
            self.unlisted.remove(&list.key);
        } else {
            self.collector.sync_errors.fetch_add(1, Relaxed);
        }
        if self.listing.is_empty() {
            self.collector.is_synced.send_replace(true);
            self.collector.unpark();
        }
    }

    fn start(
        &mut self,
        key: ResourceKey,
        resource: &Arc<ApiResource>,
    ) -> watch::Receiver<ReflectorStatus> {
        let former = self.running.remove(&key);
        if former.as_ref().is_some_and(Monitor::was_listed) {
            self.unlisted.remove(&key);
        }
        let id = match self.ids.get(&key) {
            Some(id) => {
                self.collector.change_graph(|graph, effects| {
                    if former.is_some_and(|former| former.is_retiring) {
                        graph.forget_resource(*id, effects);
                    }
                    graph.set_resource(*id, Arc::clone(resource));
                });
                *id
            }
            None => self.collector.lock_graph().add_resource(Arc::clone(resource)),
        };
        self.ids.insert(key.clone(), id);
        // Whole objects: the server encodes them once for all watches, and copies stored bytes.
        let source = ClientListWatch::new(self.reader.clone(), &resource.scope(Form::Whole));
        let store = GraphStore { collector: Arc::clone(&self.collector), resource: id };
        let reflector = Reflector::new(
            Arc::new(ObjectSource(source)),
            Arc::new(store),
            ReflectorOptions::default(),
            &self.clock,
            &self.entropy,
        );
        let (status, stop) = (reflector.status(), self.tasks.shutdown());
        let task = self.tasks.spawn("garbage collector monitor", async move {
            tokio::select! {
                () = stop => {}
                () = reflector.run() => {}
            }
        });
        self.started += 1;
        let monitor = Monitor {
            id,
            resource: Arc::clone(resource),
            task,
            status: status.clone(),
            number: self.started,
            is_retiring: false,
        };
        self.running.insert(key, monitor);
        status
    }

    fn remove(&mut self, retired: &Retired) {
        let is_same = |monitor: &Monitor| monitor.number == retired.number;
        if !self.running.get(&retired.key).is_some_and(is_same) {
            return;
        }
        if let Some(monitor) = self.running.remove(&retired.key) {
            let id = monitor.id;
            if monitor.was_listed() {
                self.unlisted.remove(&retired.key);
            }
            drop(monitor);
            self.collector.change_graph(|graph, effects| graph.forget_resource(id, effects));
        }
    }
}

fn key_of(resource: &ApiResource) -> ResourceKey {
    (resource.group.clone(), resource.plural.clone())
}

/// Whether objects of a resource may be owners or dependents. Upstream: Events are ignored.
fn is_monitored(resource: &ApiResource) -> bool {
    let is_event =
        resource.plural == "events" && matches!(resource.group.as_str(), "" | "events.k8s.io");
    !is_event && resource.supports(&REQUIRED_VERBS)
}

/// Waits until the server has ended the watch of a resource.
fn retirement(key: ResourceKey, monitor: &Monitor, clock: &Clock) -> BoxFuture<'static, Retired> {
    let (mut status, clock) = (monitor.status.clone(), clock.clone());
    let number = monitor.number;
    Box::pin(async move {
        tokio::select! {
            _ = status.wait_for(|status| status.phase != ReflectorPhase::Watching) => {}
            () = clock.sleep(MAX_RETIREMENT) => {}
        }
        Retired { key, number }
    })
}

/// The objects of one resource in the graph.
struct GraphStore {
    collector: Arc<GarbageCollector>,
    resource: ResourceId,
}

impl ReflectorStore<ObservedObject> for GraphStore {
    fn replace<'a>(
        &'a self,
        objects: Vec<ObservedObject>,
        resource_version: &'a str,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if resource_version.is_empty() {
                return self.collector.change_graph(|graph, effects| {
                    graph.forget_resource(self.resource, effects);
                });
            }
            let listed: HashSet<Uid> = objects.iter().map(|object| object.uid).collect();
            let mut objects = objects.into_iter().peekable();
            while objects.peek().is_some() {
                self.collector.change_graph(|graph, effects| {
                    for object in objects.by_ref().take(CHUNK) {
                        graph.observe(self.resource, object, effects);
                    }
                });
                tokio::task::yield_now().await;
            }
            self.collector.change_graph(|graph, effects| {
                graph.delete_unlisted(self.resource, &listed, effects);
            });
        })
    }

    fn apply(&self, transactions: Vec<Transaction<ObservedObject>>) {
        self.collector.change_graph(|graph, effects: &mut Effects| {
            for transaction in transactions {
                match transaction {
                    Transaction::Add(object) | Transaction::Update(object) => {
                        graph.observe(self.resource, object, effects);
                    }
                    Transaction::Delete(object) => {
                        graph.delete(self.resource, object.uid, &object.key, effects);
                    }
                }
            }
        });
    }
}
