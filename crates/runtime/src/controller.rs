//! [`Controller`]: which objects it looks after, what else concerns them, and what to do.
//!
//! ```
//! # use {k8s_openapi::api::{apps::v1::Deployment, core::v1::{Pod, Secret}}, std::sync::Arc};
//! # use runtime::{Action, Controller, Failure, Mapper, Predicate, Request};
//! # async fn reconcile(_: Request, _: Arc<()>) -> Result<Action, Failure> { Ok(Action::Done) }
//! let controller = Controller::for_::<Deployment>()
//!     .when(Predicate::generation_changed()) // narrows what was named last
//!     .owns::<Pod>()
//!     .watches::<Secret>(Mapper::custom(|secret| vec![Request::new(secret.namespace(), "web")]))
//!     .workers(4)
//!     .reconcile(reconcile, ());
//! # drop(controller);
//! ```

use std::{any::TypeId, future::Future, sync::Arc, time::Duration};

use informer::{
    Form, HandlerOptions, Scope, Selection,
    work_queue::{QueueOptions, RateLimits},
};
use kube_core::{ClusterResourceScope, Resource};
use machinery::GroupVersion;
use tokio::sync::mpsc;

use crate::{Action, Failure, Mapper, Predicate, Request, reconcile::Reconcile};

/// So many workers, unless something else is said.
const DEFAULT_WORKERS: usize = 2;

/// See the [module documentation](self).
pub struct Controller {
    pub(crate) name: String,
    pub(crate) workers: usize,
    pub(crate) queue: QueueOptions,
    pub(crate) sources: Vec<Source>,
    pub(crate) channels: Vec<mpsc::Receiver<Request>>,
    pub(crate) reconcile: Reconcile,
}

/// Events of one kind, and whose business they are.
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
        Self {
            kind: K::kind(&()).into_owned(),
            scope: scope_of::<K>(),
            is_namespaced: is_namespaced::<K>(),
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

/// All objects of a kind; only their metadata for `PartialObjectMeta<K>`.
pub(crate) fn scope_of<K: Resource<DynamicType = ()>>() -> Scope {
    let group_version = GroupVersion::new(&K::group(&()), &K::version(&()));
    let form = if K::metadata_api() { Form::Metadata } else { Form::Whole };
    Scope { form, ..Scope::all(group_version, &K::plural(&())) }
}

pub(crate) fn is_namespaced<K: Resource<Scope: 'static>>() -> bool {
    TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>()
}

impl Controller {
    /// One that looks after objects of kind `K`, and is named after it.
    pub fn for_<K: Resource<DynamicType = (), Scope: 'static>>() -> ControllerBuilder<K> {
        ControllerBuilder {
            name: K::kind(&()).to_lowercase(),
            workers: DEFAULT_WORKERS,
            queue: QueueOptions::default(),
            sources: vec![Source::of::<K>(Mapper::itself())],
            channels: Vec::new(),
            kind: std::marker::PhantomData,
        }
    }
}

/// Makes a [`Controller`].
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use runtime::{Controller, ControllerBuilder, Request};
/// use runtime::informer::{Selection, work_queue::RateLimits};
/// use std::time::Duration;
///
/// let (sender, requests) = tokio::sync::mpsc::channel::<Request>(16); // keys from elsewhere
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
    queue: QueueOptions,
    /// Never empty.
    sources: Vec<Source>,
    channels: Vec<mpsc::Receiver<Request>>,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: Resource<DynamicType = (), Scope: 'static>> ControllerBuilder<K> {
    /// For logs and metrics; two controllers of a manager must not have the same name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Objects of kind `O` whose controller is a `K` concern that `K`.
    #[must_use]
    pub fn owns<O: Resource<DynamicType = (), Scope: 'static>>(mut self) -> Self {
        let source = Source { is_owned: true, ..Source::of::<O>(Mapper::owner::<K>()) };
        self.sources.push(source);
        self
    }

    /// Objects of kind `O` concern whomever `mapper` says.
    #[must_use]
    pub fn watches<O: Resource<DynamicType = (), Scope: 'static>>(
        mut self,
        mapper: Mapper,
    ) -> Self {
        self.sources.push(Source::of::<O>(mapper));
        self
    }

    /// Keys that come from elsewhere: a timer, a webhook, another system. They are taken out of the
    /// channel while this manager leads; until then, who sends into a full one waits.
    #[must_use]
    pub fn channel(mut self, requests: mpsc::Receiver<Request>) -> Self {
        self.channels.push(requests);
        self
    }

    /// Of the kind that was named last, only these events count.
    #[must_use]
    pub fn when(mut self, predicate: Predicate) -> Self {
        self.last().predicate = predicate;
        self
    }

    /// Of the kind that was named last, only these objects are cached.
    ///
    /// A selection has a cache of its own: a reconcile reads it with
    /// [`Manager::lister_selecting`](crate::Manager::lister_selecting) of the same selection. One of
    /// [`Manager::lister`](crate::Manager::lister) would be of all objects, need the right to list
    /// them, and know of an object earlier or later than the controller.
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
    ///         pods: manager.lister_selecting(&mine), // has the CONTROLLER_INDEX
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

    /// Of the kind that was named last, all objects are looked at again so often.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.last().resync_period = Some(period);
        self
    }

    /// At most so many keys at a time; at least one. While reconciles end at once, without waiting for
    /// anything, one worker does them all, since that is faster.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// How soon keys come again that failed.
    #[must_use]
    pub fn back_off(mut self, limits: RateLimits) -> Self {
        self.queue.limits = limits;
        self
    }

    /// What to do with a key.
    pub fn reconcile<C, F, R>(self, reconcile: F, context: C) -> Controller
    where
        C: Send + Sync + 'static,
        F: Fn(Request, Arc<C>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        let context = Arc::new(context);
        Controller {
            name: self.name,
            workers: self.workers,
            queue: self.queue,
            sources: self.sources,
            channels: self.channels,
            reconcile: Arc::new(move |request| Box::pin(reconcile(request, Arc::clone(&context)))),
        }
    }

    fn last(&mut self) -> &mut Source {
        self.sources.last_mut().expect("a builder begins with the kind that it is for")
    }
}
