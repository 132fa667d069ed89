//! [`Controller`]: the reconciled kind, the watched kinds, and the reconcile function.
//!
//! ```
//! # use {k8s_openapi::api::{apps::v1::Deployment, core::v1::{Pod, Secret}}, std::sync::Arc};
//! # use runtime::{Action, Controller, Failure, Mapper, Predicate, Request};
//! # async fn reconcile(_: Request, _: Arc<()>) -> Result<Action, Failure> { Ok(Action::Done) }
//! let controller = Controller::for_::<Deployment>()
//!     .when(Predicate::generation_changed()) // filters the events of the last added kind
//!     .owns::<Pod>()
//!     .watches::<Secret>(Mapper::custom(|secret| vec![Request::new(secret.namespace(), "web")]))
//!     .workers(4)
//!     .workers_per_namespace(2)
//!     .reconcile(reconcile, ());
//! # drop(controller);
//! ```

use std::any::TypeId;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube_core::{ClusterResourceScope, DynamicObject, Resource};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::control_loop::reconcile_span;
use crate::reconcile::Reconcile;
use crate::{Action, DynamicKind, Failure, Mapper, Predicate, Request};
use informer::work_queue::{QueueOptions, RateLimits};
use informer::{Form, HandlerOptions, Scope, Selection};
use machinery::GroupVersion;

/// The default number of workers.
const DEFAULT_WORKERS: usize = 2;

/// See the [module documentation](self).
pub struct Controller {
    pub(crate) name: String,
    pub(crate) workers: usize,
    /// The number of workers for one namespace at a time.
    pub(crate) namespace_limit: Option<usize>,
    pub(crate) queue: QueueOptions,
    pub(crate) sources: Vec<Source>,
    pub(crate) channels: Vec<mpsc::Receiver<Request>>,
    pub(crate) reconcile: Reconcile,
}

/// The events of one kind, and the keys that they are mapped to.
pub(crate) struct Source {
    pub(crate) kind: String,
    pub(crate) scope: Scope,
    pub(crate) is_namespaced: bool,
    pub(crate) mapper: Mapper,
    pub(crate) predicate: Predicate,
    pub(crate) is_owned: bool,
    pub(crate) resync_period: Option<Duration>,
}

impl Source {
    fn of<K: Resource<DynamicType = (), Scope: 'static>>(mapper: Mapper) -> Self {
        Self::new(K::kind(&()).into_owned(), scope_of::<K>(), is_namespaced::<K>(), mapper)
    }

    fn of_dynamic(kind: &DynamicKind, mapper: Mapper) -> Self {
        Self::new(kind.resource.kind.clone(), kind.scope(), kind.is_namespaced, mapper)
    }

    fn new(kind: String, scope: Scope, is_namespaced: bool, mapper: Mapper) -> Self {
        Self {
            kind,
            scope,
            is_namespaced,
            mapper,
            predicate: Predicate::everything(),
            is_owned: false,
            resync_period: None,
        }
    }

    pub(crate) fn handler_options(&self, controller: &str) -> HandlerOptions {
        HandlerOptions {
            name: format!("{controller}-{}", self.scope.resource),
            resync_period: self.resync_period,
            ..HandlerOptions::default()
        }
    }
}

/// The scope of all objects of a kind; of their metadata for `PartialObjectMeta<K>`.
pub(crate) fn scope_of<K: Resource<DynamicType = ()>>() -> Scope {
    let group_version = GroupVersion::new(&K::group(&()), &K::version(&()));
    let form = if K::metadata_api() { Form::Metadata } else { Form::Whole };
    Scope { form, ..Scope::all(group_version, &K::plural(&())) }
}

pub(crate) fn is_namespaced<K: Resource<Scope: 'static>>() -> bool {
    TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>()
}

impl Controller {
    /// Builds a controller of objects of kind `K`, with the name of the kind.
    pub fn for_<K: Resource<DynamicType = (), Scope: 'static>>() -> ControllerBuilder<K> {
        ControllerBuilder::new(Source::of::<K>(Mapper::itself()), Mapper::owner::<K>())
    }

    /// Builds a controller of objects of a kind that is known at run time only, with the name of the
    /// kind.
    pub fn for_dynamic(kind: &DynamicKind) -> ControllerBuilder<DynamicObject> {
        let source = Source::of_dynamic(kind, Mapper::itself());
        ControllerBuilder::new(source, Mapper::dynamic_owner(kind))
    }

    /// Calls the reconcile function once, as a worker would, for a test of one reconcile.
    ///
    /// ```no_run
    /// # use runtime::{Action, Controller, Failure, Request};
    /// # async fn example(controller: &Controller) -> Result<(), Failure> {
    /// let action = controller.reconcile_once(Request::new("default", "blog")).await?;
    /// assert_eq!(action, Action::Done);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reconcile_once(&self, request: Request) -> Result<Action, Failure> {
        let span = reconcile_span(&self.name, &request);
        (self.reconcile)(request).instrument(span).await
    }
}

/// Builds a [`Controller`].
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use runtime::{Controller, ControllerBuilder, Request};
/// use runtime::informer::{Selection, work_queue::RateLimits};
/// use std::time::Duration;
///
/// let (sender, requests) = tokio::sync::mpsc::channel::<Request>(16); // keys from another source
/// let mine = Selection { namespace: Some("operators".to_owned()), ..Selection::default() };
/// let builder: ControllerBuilder<ConfigMap> = Controller::for_()
///     .selecting(mine)
///     .resync(Duration::from_secs(600))
///     .owns::<Pod>()
///     .channel(requests)
///     .named("maps")
///     .back_off(RateLimits { backoff_cap: Duration::from_secs(60), ..RateLimits::default() });
/// # drop((builder, sender));
/// ```
pub struct ControllerBuilder<K> {
    name: String,
    workers: usize,
    namespace_limit: Option<usize>,
    queue: QueueOptions,
    /// Never empty.
    sources: Vec<Source>,
    channels: Vec<mpsc::Receiver<Request>>,
    /// Maps an object to the `K` that is its controller.
    to_owner: Mapper,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K> ControllerBuilder<K> {
    fn new(source: Source, to_owner: Mapper) -> Self {
        Self {
            name: source.kind.to_lowercase(),
            workers: DEFAULT_WORKERS,
            namespace_limit: None,
            queue: QueueOptions::default(),
            sources: vec![source],
            channels: Vec::new(),
            to_owner,
            kind: std::marker::PhantomData,
        }
    }

    /// The name in logs and metrics; the names of a manager's controllers must be different.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Watches objects of kind `O`, and reconciles the `K` that is their controller.
    #[must_use]
    pub fn owns<O: Resource<DynamicType = (), Scope: 'static>>(mut self) -> Self {
        let source = Source { is_owned: true, ..Source::of::<O>(self.to_owner.clone()) };
        self.sources.push(source);
        self
    }

    /// Watches objects of a kind that is known at run time only, and reconciles the `K` that is their
    /// controller.
    #[must_use]
    pub fn owns_dynamic(mut self, kind: &DynamicKind) -> Self {
        let source = Source::of_dynamic(kind, self.to_owner.clone());
        self.sources.push(Source { is_owned: true, ..source });
        self
    }

    /// Watches objects of a kind that is known at run time only, and reconciles the keys of `mapper`.
    ///
    /// ```no_run
    /// # use runtime::{Controller, DynamicKind, Mapper, Request};
    /// # fn example(kind: &DynamicKind, themes: &DynamicKind) {
    /// let mapper = Mapper::custom(|theme| vec![Request::new(theme.namespace(), "blog")]);
    /// let controller = Controller::for_dynamic(kind).watches_dynamic(themes, mapper);
    /// # drop(controller);
    /// # }
    /// ```
    #[must_use]
    pub fn watches_dynamic(mut self, kind: &DynamicKind, mapper: Mapper) -> Self {
        self.sources.push(Source::of_dynamic(kind, mapper));
        self
    }

    /// Watches objects of kind `O`, and reconciles the keys of `mapper`.
    #[must_use]
    pub fn watches<O: Resource<DynamicType = (), Scope: 'static>>(
        mut self,
        mapper: Mapper,
    ) -> Self {
        self.sources.push(Source::of::<O>(mapper));
        self
    }

    /// Reconciles keys from a channel: of a timer, a webhook, or another system. Keys are received
    /// while this manager leads; until then, sending to a full channel waits.
    #[must_use]
    pub fn channel(mut self, requests: mpsc::Receiver<Request>) -> Self {
        self.channels.push(requests);
        self
    }

    /// Filters the events of the last added kind.
    #[must_use]
    pub fn when(mut self, predicate: Predicate) -> Self {
        self.last().predicate = predicate;
        self
    }

    /// Selects the cached objects of the last added kind.
    ///
    /// A selection has a cache of its own, which a reconcile reads with
    /// [`Manager::lister_selecting`](crate::Manager::lister_selecting) of the same selection.
    /// [`Manager::lister`](crate::Manager::lister) would cache all objects, need the permission to
    /// list them, and be earlier or later than the cache of the controller.
    ///
    /// ```no_run
    /// # use {k8s_openapi::api::core::v1::{ConfigMap, Pod}, std::sync::Arc};
    /// # use runtime::{Action, Controller, Failure, Lister, Manager, Request};
    /// use runtime::informer::Selection;
    ///
    /// struct Context {
    ///     maps: Lister<ConfigMap>,
    ///     pods: Lister<Pod>,
    /// }
    /// # async fn reconcile(_: Request, _: Arc<Context>) -> Result<Action, Failure> {
    /// #     Ok(Action::Done)
    /// # }
    ///
    /// fn add_to(manager: &Manager) {
    ///     let mine = Selection { namespace: Some("operators".to_owned()), ..Selection::default() };
    ///     let context = Context {
    ///         maps: manager.lister_selecting(&mine),
    ///         pods: manager.lister_selecting(&mine), // for `controlled_by`
    ///     };
    ///     let controller = Controller::for_::<ConfigMap>()
    ///         .selecting(mine.clone())
    ///         .owns::<Pod>()
    ///         .selecting(mine)
    ///         .reconcile(reconcile, context);
    ///     manager.add(controller);
    /// }
    /// ```
    #[must_use]
    pub fn selecting(mut self, selection: Selection) -> Self {
        self.last().scope.selection = selection;
        self
    }

    /// Resyncs all objects of the last added kind with this period.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.last().resync_period = Some(period);
        self
    }

    /// The number of workers; at least one.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// The number of workers for the objects of one namespace at a time, at least one; without it,
    /// all of them. A tenant whose objects take long to reconcile then delays its own objects only.
    #[must_use]
    pub fn workers_per_namespace(mut self, workers: usize) -> Self {
        self.namespace_limit = Some(workers);
        self
    }

    /// The backoff and the rate limit of failed keys.
    #[must_use]
    pub fn back_off(mut self, limits: RateLimits) -> Self {
        self.queue.limits = limits;
        self
    }

    /// Sets the reconcile function and its context: a value, or an `Arc` that several controllers
    /// share.
    ///
    /// ```no_run
    /// # use {k8s_openapi::api::core::v1::{ConfigMap, Pod}, std::sync::Arc};
    /// # use runtime::{Action, Client, Controller, Failure, Manager, Request};
    /// struct Context {
    ///     client: Client,
    /// }
    /// # async fn maps(_: Request, _: Arc<Context>) -> Result<Action, Failure> { Ok(Action::Done) }
    /// # async fn pods(_: Request, _: Arc<Context>) -> Result<Action, Failure> { Ok(Action::Done) }
    ///
    /// fn add_to(manager: &Manager) {
    ///     let context = Arc::new(Context { client: manager.client() });
    ///     manager.add(Controller::for_::<ConfigMap>().reconcile(maps, Arc::clone(&context)));
    ///     manager.add(Controller::for_::<Pod>().reconcile(pods, context));
    /// }
    /// ```
    pub fn reconcile<C, F, R>(self, reconcile: F, context: impl Into<Arc<C>>) -> Controller
    where
        C: Send + Sync + 'static,
        F: Fn(Request, Arc<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        let context = context.into();
        Controller {
            name: self.name,
            workers: self.workers,
            namespace_limit: self.namespace_limit,
            queue: self.queue,
            sources: self.sources,
            channels: self.channels,
            reconcile: Arc::new(move |request| Box::pin(reconcile(request, Arc::clone(&context)))),
        }
    }

    fn last(&mut self) -> &mut Source {
        self.sources.last_mut().expect("a builder has the source of its kind")
    }
}
