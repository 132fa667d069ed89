//! `garbage-collector-controller`: deletes objects whose owners do not exist.
//!
//! It promises that
//! - an object is deleted after the last of its owners, unless the owner was deleted with the policy
//!   `Orphan`: then the references to it are removed from its dependents;
//! - the foreground deletion of an owner ends after its dependents that have `blockOwnerDeletion` were
//!   deleted;
//! - an owner counts as deleted if its deletion was observed, or if the server has no object of its
//!   name, kind and uid in the namespace of the dependent. A cluster-scoped object with a namespaced
//!   owner is never deleted.
//!
//! It reads the metadata of all resources that can be listed, watched and deleted, but for Events, and
//! owners by name. It deletes dependents, and patches `ownerReferences` and `finalizers` of any object.
//!
//! ```text
//! discovery ─▶ Monitors: a Reflector per resource ─▶ Graph ─▶ WorkQueue ─▶ 32 workers ─▶ writes
//!                                                         ─▶ WorkQueue ─▶ 2 workers: objects with many owners
//! ```

mod uid;
mod absent_owners;
mod observed_object;
mod graph;
mod monitors;
mod requests;
mod worker;

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::exposition::{append_head, append_sample};
use crate::resource_discovery::ResourceDiscovery;
use graph::{Effects, Graph, InvalidReference, QueuedWork, ResourceId, Work};
use machinery::PolicyRule;
use monitors::Monitors;
use runtime::informer::WorkQueue;
use runtime::informer::work_queue::{JobOutcome, RateLimits};
use runtime::recorder::{EventType, Recorder};
use runtime::{Client, Manager};
use worker::Outcome;

/// The number of writes at a time.
const WORKERS: usize = 32;

/// The number of objects with many owners that are worked on at a time. An object can have thousands
/// of invented owners, each of which is looked up: other objects do not wait for that.
const WORKERS_FOR_MANY_OWNERS: usize = 2;

/// The controller.
pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "garbage-collector-controller",
    aliases: &["garbagecollector"],
    user: ControllerUser::ServiceAccount("generic-garbage-collector"),
    rules: &[PolicyRule::new(
        &["*"],
        &["*"],
        &["get", "list", "watch", "patch", "update", "delete"],
    )],
    start,
};

/// See the [module documentation](self).
struct GarbageCollector {
    client: Client,
    discovery: ResourceDiscovery,
    recorder: Recorder,
    graph: Mutex<Graph>,
    /// One key for each object that needs work, so its length is bounded by the number of objects.
    /// The namespaces take turns.
    queue: WorkQueue<QueuedWork>,
    /// The same, for objects with many owners.
    many_owners_queue: WorkQueue<QueuedWork>,
    /// The work that waits for a kind that is not served, or for the first list of a resource.
    parked: Mutex<Parked>,
    /// The resources that do not support strategic merge patches.
    merged_only: Mutex<HashSet<ResourceId>>,
    /// Whether the graph has the objects of all resources that are known, but for those that could
    /// not be listed in time.
    is_synced: watch::Sender<bool>,
    /// The number of resources that could not be listed at first, and of discoveries with failures.
    sync_errors: AtomicU64,
}

/// Work that waits.
#[derive(Default)]
struct Parked {
    work: HashSet<Work>,
    /// How often all of it was queued again.
    rounds: u64,
}

fn start(cx: &ControllerContext) {
    let limits =
        RateLimits { interval: Duration::from_millis(1), burst: 1000, ..RateLimits::default() };
    let queue =
        |name: &str| cx.manager.queue_with_groups(name, limits.clone(), QueuedWork::namespace);
    let collector = Arc::new(GarbageCollector {
        client: cx.client.clone(),
        discovery: cx.discovery(),
        recorder: cx.recorder(),
        graph: Mutex::default(),
        queue: queue(cx.name),
        many_owners_queue: queue(&format!("{}-many-owners", cx.name)),
        parked: Mutex::default(),
        merged_only: Mutex::default(),
        is_synced: watch::Sender::new(false),
        sync_errors: AtomicU64::new(0),
    });
    let measured = Arc::clone(&collector);
    cx.manager.add_metrics(move || measured.metrics_text());
    let (monitors, stop) = (Monitors::new(Arc::clone(&collector), cx), cx.tasks().shutdown());
    let mut tasks = vec![cx.tasks().spawn("garbage collector monitors", async move {
        tokio::select! {
            () = stop => {}
            () = monitors.run() => {}
        }
    })];
    for number in 0..WORKERS + WORKERS_FOR_MANY_OWNERS {
        let (collector, manager) = (Arc::clone(&collector), cx.manager.clone());
        let stop = cx.tasks().shutdown();
        tasks.push(cx.tasks().spawn("garbage collector", async move {
            tokio::select! {
                () = stop => {}
                () = collector.work(manager, collector.queue_of_worker(number)) => {}
            }
        }));
    }
    cx.manager.health().add(cx.name, move || {
        let has_ended = tasks.iter().any(JoinHandle::is_finished);
        let error = || Err("a worker or the watch of resources has ended".to_owned());
        if has_ended { error() } else { Ok(()) }
    });
}

impl GarbageCollector {
    fn queue_of_worker(&self, number: usize) -> &WorkQueue<QueuedWork> {
        if number < WORKERS { &self.queue } else { &self.many_owners_queue }
    }

    /// A worker.
    async fn work(&self, manager: Manager, queue: &WorkQueue<QueuedWork>) {
        manager.wait_until_ready().await;
        // Only at the start: later, a resource that is new and cannot be listed must not stop the
        // others. An error means that the collector was dropped.
        let _ = self.is_synced.subscribe().wait_for(|is_synced| *is_synced).await;
        while let Some(job) = queue.get().await {
            let work = job.key().work;
            let round = self.lock_parked().rounds;
            match self.perform(work).await {
                Outcome::Done => job.end(JobOutcome::Success),
                Outcome::Retry => job.end(JobOutcome::Failure),
                Outcome::UnknownKind | Outcome::UnknownDependents => {
                    job.end(JobOutcome::Success);
                    self.park(work, round);
                }
            }
        }
    }

    /// Keeps work that waits, unless what it waits for may have happened since `round`.
    fn park(&self, work: Work, round: u64) {
        let mut parked = self.lock_parked();
        if parked.rounds == round {
            parked.work.insert(work);
        } else {
            drop(parked);
            self.add_work([work]);
        }
    }

    fn metrics_text(&self) -> String {
        let mut text = String::new();
        let name = "garbagecollector_controller_resources_sync_error_total";
        let help = "Failures to find or list the resources whose objects are collected";
        append_head(&mut text, "counter", name, help);
        append_sample(&mut text, name, &[], self.sync_errors.load(Relaxed));
        text
    }

    /// Changes the graph, and queues the work that follows.
    fn change_graph(&self, change: impl FnOnce(&mut Graph, &mut Effects)) {
        let mut effects = Effects::default();
        change(&mut self.lock_graph(), &mut effects);
        self.add_work(effects.work);
        for invalid in effects.invalid_references {
            self.report(&invalid);
        }
    }

    /// Queues the work again that waits.
    fn unpark(&self) {
        let mut parked = self.lock_parked();
        parked.rounds += 1;
        let work = std::mem::take(&mut parked.work);
        drop(parked);
        self.add_work(work);
    }

    fn add_work(&self, work: impl IntoIterator<Item = Work>) {
        // Most events need no work, and no lock.
        let mut work = work.into_iter().peekable();
        if work.peek().is_none() {
            return;
        }
        let graph = self.lock_graph();
        for work in work {
            let has_many_owners = graph.has_many_owners(work);
            let queue = if has_many_owners { &self.many_owners_queue } else { &self.queue };
            queue.add(graph.queued(work));
        }
    }

    /// Records an event about a reference to an owner in another namespace.
    ///
    /// Upstream: `graph_builder.go` reportInvalidNamespaceOwnerRef
    fn report(&self, invalid: &InvalidReference) {
        let InvalidReference { resource, uid, node, owner } = invalid;
        let namespace = node.key.namespace();
        let uid = uid.text().or_else(|| node.uid_text.as_deref().map(str::to_owned));
        let regarding = ObjectReference {
            api_version: Some(resource.api_version.clone()),
            kind: Some(resource.kind.clone()),
            namespace: Some(namespace.to_owned()),
            name: Some(node.key.name().to_owned()),
            uid,
            ..ObjectReference::default()
        };
        let message = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
            owner.api_version, owner.kind, owner.name, owner.uid
        );
        let reason = "OwnerRefInvalidNamespace";
        self.recorder.record_about(regarding, EventType::Warning, reason, &message);
    }

    fn is_merged_only(&self, id: ResourceId) -> bool {
        self.merged_only.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    fn set_merged_only(&self, id: ResourceId) {
        self.merged_only.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    fn lock_graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
