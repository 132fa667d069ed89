//! [`SharedInformer`]: a cache of the objects of one resource, with handlers that are notified of
//! their changes.
//!
//! ```text
//! ListWatch ─▶ Reflector ─▶ DeltaFifo ─▶ SharedInformer ─┬─▶ Indexer ◀── Lister
//!                                          ▲             └─▶ queue ─▶ EventHandler (each)
//!                         WriteObserver ───┘
//! ```
//!
//! Invariants:
//! - when a handler is notified of a state, the indexer has that state or a newer one;
//! - all handlers are notified of the same changes in the same order, but for those that the full
//!   queue of a slow handler merges;
//! - the last notification of an object has the state of the cache.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::event_handler::{Listener, NamedHandler};
use crate::indexer::Applied;
use crate::reflector::MAX_BATCH;
use crate::resync::resync_periodically;
use crate::transform::Transformer;
use crate::unconfirmed_writes::Origin;
use crate::{
    Delta, DeltaFifo, EventHandler, HandlerId, HandlerOptions, HasSynced, Indexer, Item, ListWatch,
    Lister, ObjectEvent, Reflector, ReflectorOptions, ReflectorStatus, ReflectorStore,
    Registration, Selection, Storage, Subscription, Transaction, Transform,
};
use keel::{Clock, Entropy, Tasks, UncleanStop};

/// The options of a [`SharedInformer`].
#[derive(Clone)]
pub struct InformerOptions {
    /// The objects to cache.
    pub selection: Selection,
    /// Applied in this order before caching; by default, managedFields are removed.
    pub transforms: Vec<Transform>,
    /// The form of the objects in memory.
    pub storage: Storage,
    /// The options of lists and watches.
    pub reflector: ReflectorOptions,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            transforms: vec![Transform::StripManagedFields],
            storage: Storage::default(),
            reflector: ReflectorOptions::default(),
        }
    }
}

/// See the [module documentation](self). Clones are the same informer.
#[derive(Clone)]
pub struct SharedInformer(pub(crate) Arc<InformerState>);

pub(crate) struct InformerState {
    source: Arc<dyn ListWatch>,
    pub(crate) options: InformerOptions,
    pub(crate) transformer: Transformer,
    pub(crate) indexer: Arc<Indexer>,
    /// Locked before `handlers`.
    pub(crate) fifo: DeltaFifo,
    /// Locked before the indexer and the queue of a handler, and held while a change is applied and
    /// notified, so that a new handler gets each change either from the cache or as an event.
    handlers: Mutex<Handlers>,
    pub(crate) clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    synced: watch::Sender<bool>,
    reflector_status: watch::Sender<ReflectorStatus>,
}

#[derive(Default)]
pub(crate) struct Handlers {
    listeners: BTreeMap<HandlerId, Arc<Listener>>,
    /// The number of handlers that were ever added.
    added: u64,
    started: bool,
    synced: bool,
}

impl SharedInformer {
    /// An informer that does nothing until it is [started](Self::start). Its tasks belong to
    /// `tasks` and end with them.
    pub fn new(
        source: Arc<dyn ListWatch>,
        options: InformerOptions,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        let transformer = Transformer::new(options.transforms.clone(), options.storage);
        let indexer = Arc::default();
        Self(Arc::new(InformerState {
            source,
            transformer,
            fifo: DeltaFifo::new(&indexer),
            indexer,
            options,
            handlers: Mutex::default(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            tasks: tasks.child("informer"),
            synced: watch::Sender::new(false),
            reflector_status: watch::Sender::default(),
        }))
    }

    /// Starts to list and watch. Later calls have no effect.
    pub fn start(&self) {
        let state = &self.0;
        if std::mem::replace(&mut state.lock().started, true) {
            return;
        }
        let store: Arc<InformerState> = Arc::clone(state);
        let options = state.options.reflector.clone();
        let source = Arc::clone(&state.source);
        let reflector = Reflector::new(source, store, options, &state.clock, &state.entropy)
            .with_selection(state.options.selection.clone())
            .stripping_managed_fields(state.transformer.only_strips_managed_fields())
            .with_status(state.reflector_status.clone());
        state.spawn("reflector", reflector.run());
    }

    pub(crate) fn source(&self) -> &Arc<dyn ListWatch> {
        &self.0.source
    }

    /// The cache.
    pub fn indexer(&self) -> &Arc<Indexer> {
        &self.0.indexer
    }

    /// Typed reads from the cache.
    pub fn lister<T>(&self) -> Lister<T> {
        Lister::new(Arc::clone(self.indexer()))
    }

    /// Whether the first list is in the cache. For handlers see [`Registration`].
    pub fn has_synced(&self) -> HasSynced {
        HasSynced { synced: self.0.synced.subscribe(), tasks: self.0.tasks.clone() }
    }

    /// The progress and the failures of lists and watches.
    pub fn reflector_status(&self) -> watch::Receiver<ReflectorStatus> {
        self.0.reflector_status.subscribe()
    }

    /// A stream of events, beginning with all cached objects. It is empty once the informer was
    /// stopped.
    pub fn subscribe(&self, options: &HandlerOptions) -> Subscription {
        let (listener, id) = self.listen(options, None);
        Subscription::new(listener, id, &self.0.tasks)
    }

    /// Calls `handler` for all cached objects and for all changes from now on. Must be called within
    /// a tokio runtime.
    pub fn add_handler(
        &self,
        handler: Arc<dyn EventHandler>,
        options: &HandlerOptions,
    ) -> Registration {
        let handler = NamedHandler { handler, name: options.name.clone() };
        if handler.handler.is_inline() {
            let (listener, id) = self.listen(options, Some(handler));
            return Registration { id, synced: listener.synced(&self.0.tasks) };
        }
        let mut subscription = self.subscribe(options);
        let registration = Registration { id: subscription.id(), synced: subscription.synced() };
        self.0.spawn(&options.name, async move {
            while let Some(event) = subscription.next().await {
                handler.call(&event);
            }
        });
        registration
    }

    fn listen(
        &self,
        options: &HandlerOptions,
        inline: Option<NamedHandler>,
    ) -> (Arc<Listener>, HandlerId) {
        let listener = Listener::new(options, inline);
        let mut handlers = self.0.lock();
        if self.0.tasks.is_stopping() {
            listener.close();
        }
        for item in self.0.indexer.list() {
            listener.notify(ObjectEvent::Added { item, is_initial: true });
        }
        if handlers.synced {
            listener.notify_synced();
        }
        handlers.listeners.retain(|_, listener| !listener.is_closed());
        handlers.added += 1;
        let id = HandlerId(handlers.added);
        handlers.listeners.insert(id, Arc::clone(&listener));
        drop(handlers);
        if let Some(period) = options.resync_period.filter(|period| !period.is_zero()) {
            let resync = resync_periodically(Arc::clone(&self.0), id, period);
            self.0.spawn("resync", resync);
        }
        (listener, id)
    }

    /// Removes a handler or a subscription and drops its queue. Returns false if there is none.
    pub fn remove_handler(&self, id: HandlerId) -> bool {
        let removed = self.0.lock().listeners.remove(&id);
        removed.inspect(|listener| listener.close()).is_some()
    }

    /// Stops listing, watching, and all handlers; aborts those that do not end within `timeout`.
    pub async fn shutdown(&self, timeout: Duration) -> Result<(), UncleanStop> {
        for listener in self.0.lock().listeners.values() {
            listener.close();
        }
        self.0.tasks.stop(timeout).await
    }
}

impl InformerState {
    /// Applies all entries of the FIFO, and yields to other tasks in between.
    pub(crate) async fn apply_all(&self) {
        while (0..MAX_BATCH).all(|_| self.apply_next()) {
            tokio::task::yield_now().await;
        }
    }

    /// Applies the next entry of the FIFO. Returns false if there is none.
    fn apply_next(&self) -> bool {
        let is_initial = !*self.synced.borrow();
        let popped = self.fifo.pop(|deltas| {
            let handlers = self.lock();
            for delta in deltas {
                self.apply_delta(&handlers, delta, is_initial);
            }
        });
        if is_initial && self.fifo.has_synced() {
            self.set_synced();
        }
        popped
    }

    fn apply_delta(&self, handlers: &Handlers, delta: Delta, is_initial: bool) {
        let indexer = &self.indexer;
        match delta {
            Delta::Added(item) | Delta::Updated(item) => {
                handlers.notify(indexer.apply_state(item, Origin::Watch), Notification::Ordinary);
            }
            Delta::Replaced(item) => {
                let kind = if is_initial { Notification::Initial } else { Notification::Ordinary };
                handlers.notify(indexer.apply_state(item, Origin::List), kind);
            }
            Delta::Deleted(item) => {
                handlers.notify(indexer.apply_removal(item, Origin::Watch), Notification::Ordinary);
            }
            Delta::DeletedFinalStateUnknown(item) => {
                handlers.notify(
                    indexer.apply_removal(item, Origin::List),
                    Notification::FinalStateUnknown,
                );
            }
            Delta::Sync(item, handler) => {
                let listener = handlers.listeners.get(&handler);
                if let Some((listener, item)) = listener.zip(indexer.get(item.key())) {
                    listener.notify(ObjectEvent::Updated { old: item.clone(), new: item });
                }
            }
        }
    }

    fn set_synced(&self) {
        let mut handlers = self.lock();
        handlers.synced = true;
        for listener in handlers.listeners.values() {
            listener.notify_synced();
        }
        self.synced.send_replace(true);
    }

    pub(crate) fn has_handler(&self, id: HandlerId) -> bool {
        let mut handlers = self.lock();
        handlers.listeners.retain(|_, listener| !listener.is_closed());
        handlers.listeners.contains_key(&id)
    }

    fn spawn(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.tasks.shutdown();
        self.tasks.spawn(name, async move {
            tokio::select! {
                biased;
                () = work => {}
                () = shutdown => {}
            }
        });
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Handlers> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReflectorStore<Item> for InformerState {
    fn replace<'a>(&'a self, items: Vec<Item>, resource_version: &'a str) -> BoxFuture<'a, ()> {
        self.fifo.replace(items, resource_version);
        Box::pin(self.apply_all())
    }

    fn apply(&self, transactions: Vec<Transaction<Item>>) {
        let cached = |item| self.transformer.transform_unpacked(item, &self.clock);
        self.fifo.apply(transactions.into_iter().map(|transaction| match transaction {
            Transaction::Add(item) => Transaction::Add(cached(item)),
            Transaction::Update(item) => Transaction::Update(cached(item)),
            Transaction::Delete(item) => Transaction::Delete(cached(item)),
        }));
        while self.apply_next() {}
    }

    fn bookmark(&self, resource_version: &str) {
        self.fifo.bookmark(resource_version);
        self.transformer.pack_due(&self.clock);
    }

    fn begin_list(&self) {
        self.fifo.begin_list();
        self.transformer.pack_due(&self.clock);
    }

    fn transform(&self, item: Item) -> Item {
        self.transformer.transform_known(item, &self.indexer)
    }
}

/// The kind of a notification.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notification {
    Ordinary,
    /// The object is in the first list.
    Initial,
    /// The deletion was found by a list.
    FinalStateUnknown,
}

impl Handlers {
    pub(crate) fn backlog(&self) -> usize {
        self.listeners.values().map(|listener| listener.backlog()).sum()
    }

    pub(crate) fn notify(&self, applied: Applied, kind: Notification) {
        let event = match applied {
            Applied::Added(item) => {
                ObjectEvent::Added { item, is_initial: kind == Notification::Initial }
            }
            Applied::Updated { old, new } => ObjectEvent::Updated { old, new },
            Applied::Deleted(item) => ObjectEvent::Deleted {
                item,
                is_final_state_unknown: kind == Notification::FinalStateUnknown,
            },
            Applied::Nothing => return,
        };
        for listener in self.listeners.values() {
            listener.notify(event.clone());
        }
    }
}
