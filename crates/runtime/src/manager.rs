//! [`Manager`]: runs controllers with shared caches until it is stopped. If there are several
//! managers, only the leader runs its workers.
//!
//! ```text
//! run ─▶ endpoint ─▶ caches ─▶ synced ─▶ leadership ─▶ workers ─▶ asked to stop ─▶ workers end
//!                    └──── warm standby ────┘                      lease released ◀──┘ caches end
//! ```
//!
//! A manager that is not the leader has complete caches and empty queues. When it becomes the
//! leader, all cached objects are queued with a low priority, so that changes overtake them.
//!
//! Several controllers, events, webhooks, and other tasks:
//!
//! ```no_run
//! # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! # use runtime::{Action, Client, Controller, Failure, Request};
//! use runtime::{LeaderElection, Manager, ManagerError, ManagerOptions};
//! use runtime::webhook::{CertificateOptions, Handler, ServerOptions, InjectionTarget, WebhookServer};
//! use std::{sync::Arc, time::Duration};
//!
//! # async fn sites(_: Request, _: Arc<()>) -> Result<Action, Failure> { Ok(Action::Done) }
//! # async fn gates(_: Request, _: Arc<()>) -> Result<Action, Failure> { Ok(Action::Done) }
//! # async fn example(client: Client, convert: Handler) -> Result<(), ManagerError> {
//! let options = ManagerOptions {
//!     leader_election: Some(LeaderElection::new("operators", "site-operator")),
//!     endpoint: Some(([0, 0, 0, 0], 8080).into()),
//!     stop_within: Duration::from_secs(20),
//!     ..ManagerOptions::default()
//! };
//! let manager = Manager::new(client, options);
//! let recorder = manager.recorder("example.com/site-operator"); // for the contexts
//! # drop(recorder);
//! manager.add(Controller::for_::<ConfigMap>().owns::<Pod>().reconcile(sites, ()));
//! manager.add(Controller::for_::<Pod>().named("gates").reconcile(gates, ()));
//! manager.serve_webhooks(
//!     WebhookServer::new(ServerOptions::default()).at("/convert", convert),
//!     CertificateOptions::of_service("operators", "site-webhooks"),
//!     [InjectionTarget::Conversion("sites.example.com".to_owned())],
//! );
//! manager.health().add("disk", || Ok(()));
//! match manager.run().await {
//!     Err(ManagerError::LeadershipLost) => std::process::exit(1), // the process is restarted
//!     ended => ended,
//! }
//! # }
//! ```
//!
//! If leadership is lost, the run ends with an error and all workers end at once. The process is
//! expected to be restarted.

mod options;
mod caches;
mod cache_group;
mod metrics;
mod webhooks;
mod signals;
mod run;
mod stop;
mod background_manager;
mod settled;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_client::Client;
use kube_core::{DynamicObject, Resource};
use tokio::sync::watch;

use crate::control_loop::ControlLoop;
use crate::controller::{is_namespaced, scope_of};
use crate::endpoint::AccessReviewer;
use crate::event_source::{EnqueueHandler, EventSources, controller_uid};
use crate::fence::Fence;
use crate::health::Checks;
use crate::leader_election::{Leadership, host_name};
use crate::managed_client::{fenced, managed};
use crate::metrics::DurationHistogram;
use crate::metrics::requests::Requests;
use crate::namespace_limit::NamespaceLimit;
use crate::reconcile_history::{ReconcileHistory, Record};
use crate::recorder::{Recorder, Reporter};
use crate::webhook::server::ReviewMetrics;
use crate::webhook::{CertificateOptions, InjectionTarget, ServerProbe, WebhookServer};
use crate::{ApiService, CONTROLLER_INDEX, Controller, DynamicKind, Request};
use caches::Caches;
use informer::work_queue::QueueOptions;
use informer::{InformerFactory, Lister, Scope, Selection, SharedInformer, WorkQueue};
use keel::{Clock, Tasks};
use metrics::OtherMetrics;
use webhooks::Webhooks;

pub(crate) use cache_group::CacheGroup;

pub use background_manager::BackgroundManager;
pub use options::{EndpointAccess, ManagerError, ManagerOptions};
pub use settled::NotSettled;

/// See the [module documentation](self). Clones are the same manager.
#[derive(Clone)]
pub struct Manager {
    state: Arc<ManagerState>,
    /// The caches for which the controllers wait that are added to this clone.
    cache_group: Arc<CacheGroup>,
}

pub(crate) struct ManagerState {
    options: ManagerOptions,
    /// Without the fence, for the lease and the webhook certificates.
    raw_client: Client,
    client: Client,
    /// Reviews the requests of the endpoint, unless it is open.
    pub(crate) access_reviewer: Option<AccessReviewer>,
    caches: Caches,
    /// The group of the controllers that are not in another one.
    common_caches: Arc<CacheGroup>,
    fence: Fence,
    pub(crate) health: Checks,
    pub(crate) readiness: Checks,
    requests: Requests,
    /// The number of events that were not written, by reporting controller.
    drop_counts: Mutex<Vec<(String, Arc<AtomicU64>)>>,
    /// The number of events that were not sent yet, by reporting controller.
    unsent_events: Mutex<Vec<(String, Arc<AtomicUsize>)>>,
    loops: Mutex<Loops>,
    other_metrics: OtherMetrics,
    leadership: Mutex<Option<watch::Receiver<Leadership>>>,
    webhooks: Mutex<Option<Webhooks>>,
    review_metrics: Mutex<Option<ReviewMetrics>>,
    address: watch::Sender<Option<SocketAddr>>,
    webhook_address: watch::Sender<Option<SocketAddr>>,
    /// Whether controllers may work: this manager leads, and the common caches are complete.
    leading: watch::Sender<bool>,
    /// The number of controllers whose workers have not started; `None` before the first ones start.
    unstarted: watch::Sender<Option<usize>>,
    stop: watch::Sender<bool>,
    /// Why the run has ended, with all causes; `None` until then.
    ended: watch::Sender<Option<String>>,
    /// The caches and the other sources of the workers' queues.
    cache_tasks: Tasks,
    worker_tasks: Tasks,
    /// The recorder of events, and the tasks of the operator, which the workers may use.
    side_tasks: Tasks,
    webhook_tasks: Tasks,
    elector_tasks: Tasks,
    endpoint_tasks: Tasks,
}

#[derive(Default)]
struct Loops {
    all: Vec<Arc<ControlLoop>>,
    /// Whether added loops start at once.
    are_started: bool,
}

impl Manager {
    /// A manager for an API server: a client, or a server in this process. Must be called within a tokio runtime.
    pub fn new(service: impl Into<ApiService>, options: ManagerOptions) -> Self {
        Self::with_tasks(service, options, &Tasks::new())
    }

    /// A manager whose tasks belong to `tasks`.
    pub fn with_tasks(
        service: impl Into<ApiService>,
        options: ManagerOptions,
        tasks: &Tasks,
    ) -> Self {
        let service = service.into();
        let (clock, entropy) = (&options.clock, &options.entropy);
        let cache_tasks = tasks.child("caches");
        let requests = Requests::recorded_in(options.access_file.clone());
        let counted = requests.counting(&service);
        let factory = InformerFactory::new(
            client::source_of(counted.clone()),
            options.informer.clone(),
            clock,
            entropy,
            &cache_tasks,
        );
        let caches = Caches::new(factory, options.namespace.clone(), clock, &cache_tasks);
        let fence = Fence::new(clock);
        let common_caches = Arc::<CacheGroup>::default();
        let state = ManagerState {
            client: managed(
                service,
                counted.clone(),
                &requests,
                &fence,
                &caches.factory,
                clock,
                entropy,
            ),
            access_reviewer: match options.endpoint_access {
                EndpointAccess::Open => None,
                EndpointAccess::Authorized => Some(AccessReviewer::new(counted.clone(), clock)),
            },
            raw_client: counted,
            caches,
            fence,
            health: Checks::default(),
            readiness: Checks::default(),
            requests,
            drop_counts: Mutex::default(),
            unsent_events: Mutex::default(),
            loops: Mutex::default(),
            other_metrics: OtherMetrics::default(),
            leadership: Mutex::default(),
            webhooks: Mutex::default(),
            review_metrics: Mutex::default(),
            address: watch::Sender::new(None),
            webhook_address: watch::Sender::new(None),
            leading: watch::Sender::new(false),
            unstarted: watch::Sender::new(None),
            stop: watch::Sender::new(false),
            ended: watch::Sender::new(None),
            cache_tasks,
            worker_tasks: tasks.child("workers"),
            side_tasks: tasks.child("beside the workers"),
            webhook_tasks: tasks.child("webhooks"),
            elector_tasks: tasks.child("elector"),
            endpoint_tasks: tasks.child("endpoint"),
            common_caches: Arc::clone(&common_caches),
            options,
        };
        Self { state: Arc::new(state), cache_group: common_caches }
    }

    /// The client for the writes of controllers: the caches show a write at once, and writes are
    /// refused unless this manager runs and, with leader election, is the leader.
    pub fn client(&self) -> Client {
        self.state.client.clone()
    }

    /// The same for another client of the same server, such as one with another user: a controller
    /// can write with its own permissions, and the caches show its writes at once. A server in this
    /// process is reached faster as an [`ApiService`].
    ///
    /// ```no_run
    /// # use runtime::{Client, Manager};
    /// # fn example(manager: &Manager, as_controller: Client) {
    /// let client = manager.managed_client(as_controller);
    /// # drop(client);
    /// # }
    /// ```
    pub fn managed_client(&self, service: impl Into<ApiService>) -> Client {
        let (service, shared) = (service.into(), &self.state);
        let ManagerOptions { clock, entropy, .. } = &shared.options;
        let (reader, factory) = (shared.raw_client.clone(), &shared.caches.factory);
        managed(service, reader, &shared.requests, &shared.fence, factory, clock, entropy)
    }

    /// A client whose writes are refused like those of [`managed_client`](Self::managed_client), but
    /// shown by the caches only when the watch delivers them. It is for many writes that the caches
    /// would read back, such as bindings of pods.
    ///
    /// ```no_run
    /// # use runtime::{Client, Manager};
    /// # fn example(manager: &Manager, as_scheduler: Client) {
    /// let client = manager.fenced_client(as_scheduler);
    /// # drop(client);
    /// # }
    /// ```
    pub fn fenced_client(&self, service: impl Into<ApiService>) -> Client {
        fenced(&service.into(), &self.state.requests, &self.state.fence)
    }

    /// The informer of a kind, shared by all controllers of this manager. It starts with the
    /// manager, or at once if the manager runs.
    pub fn informer<K>(&self) -> SharedInformer
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        self.informer_selecting::<K>(&Selection::default())
    }

    /// The informer of the selected objects of a kind, shared with a controller that is
    /// [selecting](crate::ControllerBuilder::selecting) the same objects.
    pub fn informer_selecting<K>(&self, selection: &Selection) -> SharedInformer
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        let scope = Scope { selection: selection.clone(), ..scope_of::<K>() };
        self.informer_of(scope, is_namespaced::<K>())
    }

    /// A lister of the cache of a kind.
    pub fn lister<K>(&self) -> Lister<K>
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        self.informer::<K>().lister()
    }

    /// The informer of a kind that is known at run time only.
    ///
    /// ```no_run
    /// # fn example(manager: &runtime::Manager, kind: &runtime::DynamicKind) {
    /// let labelled = manager.informer_dynamic(kind);
    /// labelled.indexer().add_index("app", |item| item.labels().get("app").into_iter().map(Into::into).collect());
    /// # }
    /// ```
    pub fn informer_dynamic(&self, kind: &DynamicKind) -> SharedInformer {
        self.informer_of(kind.scope(), kind.is_namespaced)
    }

    /// A lister of the cache of a kind that is known at run time only.
    pub fn lister_dynamic(&self, kind: &DynamicKind) -> Lister<DynamicObject> {
        self.informer_dynamic(kind).lister()
    }

    /// A lister of the selected objects of a kind, with the cache of a controller that is
    /// [selecting](crate::ControllerBuilder::selecting) the same objects.
    pub fn lister_selecting<K>(&self, selection: &Selection) -> Lister<K>
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        self.informer_selecting::<K>(selection).lister()
    }

    /// Adds a controller. Its workers start, and its queue is filled, when the manager runs and
    /// leads, and the caches are complete. Two controllers with the same name are refused: by [`run`](Self::run), or, if the
    /// manager runs, with an error in the log. Must be called within a tokio runtime.
    pub fn add(&self, controller: Controller) {
        let shared = &self.state;
        let (clock, entropy) = (&shared.options.clock, &shared.options.entropy);
        let (latency, work_duration) = (DurationHistogram::default(), DurationHistogram::default());
        let queue_options = QueueOptions {
            latency: Arc::new(latency.clone()),
            work_duration: Arc::new(work_duration.clone()),
            ..controller.queue
        };
        let queue = WorkQueue::with_groups(&queue_options, clock, entropy, Request::namespace);
        let history = Arc::new(ReconcileHistory::default());
        let mut handlers = Vec::new();
        for source in controller.sources {
            let informer = self.informer_of(source.scope.clone(), source.is_namespaced);
            if source.is_owned {
                informer.indexer().add_index(CONTROLLER_INDEX, controller_uid);
            }
            let options = source.handler_options(&controller.name);
            let handler = EnqueueHandler {
                kind: source.kind.into(),
                predicate: source.predicate,
                mapper: source.mapper,
                queue: queue.clone(),
                history: Arc::clone(&history),
            };
            handlers.push((informer, options, handler));
        }
        shared.add_loop(Arc::new(ControlLoop {
            name: controller.name,
            workers: controller.workers,
            namespace_limit: controller.namespace_limit.map(NamespaceLimit::new),
            caches: Arc::clone(&self.cache_group),
            queue,
            limits: queue_options.limits,
            latency,
            work_duration,
            history,
            reconcile: controller.reconcile,
            clock: clock.clone(),
            fence: shared.fence.clone(),
            event_sources: Mutex::new(Some(EventSources {
                handlers,
                channels: controller.channels,
            })),
            active: AtomicUsize::new(0),
        }));
    }

    /// A recorder of events. Events that were recorded before a stop are still written.
    /// `controller` is the reporting controller, such as `example.com/site-operator`.
    pub fn recorder(&self, controller: &str) -> Recorder {
        self.recorder_with(self.client(), controller)
    }

    /// A recorder that writes with another [managed client](Self::managed_client).
    ///
    /// ```no_run
    /// # use runtime::{Client, Manager};
    /// # fn example(manager: &Manager, client: Client) {
    /// let recorder = manager.recorder_with(client, "replicaset-controller");
    /// # drop(recorder);
    /// # }
    /// ```
    pub fn recorder_with(&self, client: Client, controller: &str) -> Recorder {
        let shared = &self.state;
        let ManagerOptions { leader_election, clock, entropy, .. } = &shared.options;
        let instance = match leader_election {
            Some(election) => election.identity.clone(),
            // The name of the pod.
            None => host_name(),
        };
        let reporter = Reporter::new(controller, &instance);
        let recorder = Recorder::start(client, reporter, clock, entropy, &shared.side_tasks);
        let drop_count = (controller.to_owned(), recorder.drop_count());
        shared.drop_counts.lock().unwrap_or_else(PoisonError::into_inner).push(drop_count);
        let unsent = (controller.to_owned(), recorder.unsent());
        shared.unsent_events.lock().unwrap_or_else(PoisonError::into_inner).push(unsent);
        recorder
    }

    /// Serves webhooks while the manager runs, as leader or not. The manager maintains their
    /// certificates and injects the CA into the configurations `targets`. It is ready while the
    /// webhooks are served, and their server answers a request over the network. There is one server: a second call replaces the first.
    pub fn serve_webhooks(
        &self,
        server: WebhookServer,
        certificates: CertificateOptions,
        targets: impl IntoIterator<Item = InjectionTarget>,
    ) {
        let is_served = self.state.webhook_address.subscribe();
        let probe = ServerProbe::new();
        let check = probe.clone();
        self.state.readiness.add("webhooks", move || match *is_served.borrow() {
            Some(_) => check.check(),
            None => Err("not served yet".to_owned()),
        });
        let server = match self.state.options.webhook_prefix.as_str() {
            "" => server,
            prefix => server.under(prefix),
        };
        let metrics = Some(server.metrics());
        *self.state.review_metrics.lock().unwrap_or_else(PoisonError::into_inner) = metrics;
        let targets = targets.into_iter().collect();
        let webhooks = Webhooks { server, certificates, targets, probe };
        *self.state.webhooks.lock().unwrap_or_else(PoisonError::into_inner) = Some(webhooks);
    }

    /// The group for other tasks of the operator. It is stopped after the workers and before the caches.
    pub fn tasks(&self) -> &Tasks {
        &self.state.side_tasks
    }

    /// The manager's clock.
    pub fn clock(&self) -> &Clock {
        &self.state.options.clock
    }

    /// The health checks; a manager that fails one should be restarted.
    pub fn health(&self) -> &Checks {
        &self.state.health
    }

    /// The readiness checks, to which the manager adds those of its caches and webhooks.
    pub fn readiness(&self) -> &Checks {
        &self.state.readiness
    }

    /// The address of the endpoint, once it listens. `None` if the options have none, and if the
    /// manager has ended; [`settled`](Self::settled) returns the reason, and the log has it.
    pub async fn endpoint(&self) -> Option<SocketAddr> {
        self.state.options.endpoint?;
        let mut address = self.state.address.subscribe();
        self.state.until_ended(address.wait_for(Option::is_some)).await?.ok().and_then(|it| *it)
    }

    /// The address of the server of [`serve_webhooks`](Self::serve_webhooks), once it listens. `None`
    /// if the manager has ended, for example since it may not write the Secret of the certificates;
    /// [`settled`](Self::settled) returns the reason, and the log has it.
    pub async fn webhook_endpoint(&self) -> Option<SocketAddr> {
        let mut address = self.state.webhook_address.subscribe();
        self.state.until_ended(address.wait_for(Option::is_some)).await?.ok().and_then(|it| *it)
    }

    /// The last reconciles of a controller, the latest first.
    pub fn records(&self, controller: &str) -> Vec<Record> {
        let loops = self.state.loops();
        let found = loops.iter().find(|control_loop| control_loop.name == controller);
        found.map(|control_loop| control_loop.history.records()).unwrap_or_default()
    }

    /// Requests a stop, without waiting for it.
    pub fn stop(&self) {
        self.state.stop.send_replace(true);
    }
}

impl ManagerState {
    /// Waits for `future`; `None` if the run has ended, or ends before.
    async fn until_ended<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            biased;
            _ = ended.wait_for(Option::is_some) => None,
            output = future => Some(output),
        }
    }

    fn add_loop(&self, control_loop: Arc<ControlLoop>) {
        let mut loops = self.lock_loops();
        if loops.are_started {
            let name = &control_loop.name;
            if loops.all.iter().any(|known| known.name == *name) {
                tracing::error!(controller = name, "there is another one of this name already");
                return;
            }
            self.start_loops(vec![Arc::clone(&control_loop)]);
        }
        loops.all.push(control_loop);
    }

    pub(crate) fn loops(&self) -> Vec<Arc<ControlLoop>> {
        self.lock_loops().all.clone()
    }

    fn lock_loops(&self) -> MutexGuard<'_, Loops> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
