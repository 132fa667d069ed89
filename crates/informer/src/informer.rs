//! [`SharedInformer`]: keeps a cache of the objects of one resource, and tells any number of
//! handlers what happens to them.
//!
//! ```text
//! ListWatch ─▶ Reflector ─▶ DeltaFifo ─▶ SharedInformer ─┬─▶ Indexer ◀── Lister
//!                                          ▲             └─▶ queue ─▶ EventHandler (each)
//!                         observe_write ───┘
//! ```
//!
//! Invariants:
//! - when a handler is told of a state, the indexer has that state or a newer one;
//! - all handlers are told the same, in the same order, but for what a slow one's queue merges;
//! - a handler's history of an object ends in the state that the cache has.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use keel::{Clock, Entropy, Tasks, Unclean};
use tokio::sync::watch;

use crate::{
    Delta, DeltaFifo, EventHandler, HandlerId, HandlerOptions, HasSynced, Indexer, Intake, Item,
    ListWatch, Lister, ObjectEvent, ObjectKey, Reflector, ReflectorOptions, ReflectorStatus,
    ReflectorStore, Registration, Selection, Storage, Subscription, Transaction, Transform,
    event_handler::{Guarded, Listener},
    indexer::Applied,
    item::compare_versions,
    own_writes::Origin,
    reflector::MAX_BATCH,
    resync::resync_periodically,
};

/// What an informer caches, and how.
#[derive(Clone)]
pub struct InformerOptions {
    /// Only these objects.
    pub selection: Selection,
    /// Applied in this order before caching; by default, managedFields are taken out.
    pub transforms: Vec<Transform>,
    /// How objects are kept.
    pub storage: Storage,
    /// How to list and watch.
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
pub struct SharedInformer(Arc<InformerState>);

pub(crate) struct InformerState {
    source: Arc<dyn ListWatch>,
    options: InformerOptions,
    intake: Intake,
    pub(crate) indexer: Arc<Indexer>,
    /// Locked before `handlers`.
    pub(crate) fifo: DeltaFifo,
    /// Locked before the indexer and the queue of a handler, and held while a change is applied and
    /// told: so a handler that is added sees each change either in the cache or as an event.
    handlers: Mutex<Handlers>,
    pub(crate) clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    synced: watch::Sender<bool>,
    reflector_status: watch::Sender<ReflectorStatus>,
}

#[derive(Default)]
struct Handlers {
    listeners: BTreeMap<HandlerId, Arc<Listener>>,
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
        let intake = Intake::new(options.transforms.clone(), options.storage);
        let indexer = Arc::default();
        Self(Arc::new(InformerState {
            source,
            intake,
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

    /// Starts to list and watch; the second time and later it does nothing.
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
            .with_status(state.reflector_status.clone());
        state.spawn("reflector", reflector.run());
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

    /// Events to be taken one by one, beginning with all objects that are cached. At any time; once
    /// the informer was stopped, there are none.
    pub fn subscribe(&self, options: &HandlerOptions) -> Subscription {
        let (listener, id) = self.listen(options, None);
        Subscription::new(listener, id, &self.0.tasks)
    }

    /// Has `handler` called for all objects that are cached, and for everything that happens from
    /// now on. At any time; must be called within a tokio runtime.
    pub fn add_handler(
        &self,
        handler: Arc<dyn EventHandler>,
        options: &HandlerOptions,
    ) -> Registration {
        let handler = Guarded { handler, name: options.name.clone() };
        if handler.handler.is_prompt() {
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
        prompt: Option<Guarded>,
    ) -> (Arc<Listener>, HandlerId) {
        let listener = Listener::new(options, prompt);
        let mut handlers = self.0.lock();
        if self.0.tasks.is_stopping() {
            listener.close();
        }
        for item in self.0.indexer.list() {
            listener.tell(ObjectEvent::Added { item, is_initial: true });
        }
        if handlers.synced {
            listener.tell_synced();
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

    /// Ends a handler or a subscription; what waits in its queue is dropped. False if it is not
    /// there.
    pub fn remove_handler(&self, id: HandlerId) -> bool {
        let removed = self.0.lock().listeners.remove(&id);
        removed.inspect(|listener| listener.close()).is_some()
    }

    /// Records the object that a successful write returned: the next read of that key is at least
    /// as new, handlers are told at once, and older events of the watch are ignored.
    ///
    /// Objects out of the informer's scope are left out. If the scope has fields that only the
    /// server can judge, objects that are not cached yet are left to the watch. An object that
    /// ended with this write, as with its last finalizer, is gone at once. An answer that comes so
    /// late that the watch has shown the end of the object already is ignored.
    pub fn observe_write(&self, item: Item) {
        if item.is_last_state() {
            self.observe_deletion(item.key(), item.uid());
        } else {
            self.take_over_write(item);
        }
    }

    /// The same, but for an object of which it is known that it has not ended: metadata alone do not
    /// tell that of a namespace.
    pub fn take_over_write(&self, item: Item) {
        let shared = &self.0;
        // Before the transforms, which may take away what the selection is about.
        let is_selected = shared.options.selection.selects(&item);
        let item = shared.intake.admit_recent(item, &shared.clock);
        shared.fifo.hold(|queue| {
            let handlers = shared.lock();
            let is_known = shared.indexer.get(item.key()).is_some();
            if !is_known && (is_selected.is_none() || queue.has_passed(&item)) {
                return;
            }
            let applied = match is_selected {
                Some(false) => shared.indexer.apply_departure(item),
                None | Some(true) => shared.indexer.apply_write(item),
            };
            shared.indexer.forget_passed_writes(queue.version(), |key| queue.contains(key));
            handlers.tell(applied, Told::Normally);
        });
    }

    /// Records that a deletion has succeeded and left nothing behind (no finalizers): the object is
    /// gone for readers and handlers at once.
    pub fn observe_deletion(&self, key: &ObjectKey, uid: &str) {
        let shared = &self.0;
        shared.fifo.hold(|queue| {
            let handlers = shared.lock();
            let applied = shared.indexer.apply_deletion(key, uid);
            shared.indexer.forget_passed_writes(queue.version(), |key| queue.contains(key));
            handlers.tell(applied, Told::Normally);
        });
    }

    /// Records what a list of the most recent state, asked for after a write, has shown of one
    /// object: its state, or that it is not (any more) among those that this informer is about.
    /// `resource_version` is that of the list.
    pub fn observe_read(&self, key: &ObjectKey, found: Option<Item>, resource_version: &str) {
        let shared = &self.0;
        let found = found.map(|item| shared.intake.admit(item));
        // What came since is not the list's to judge.
        let is_newer = |known: &Item| {
            compare_versions(known.resource_version(), resource_version) == Some(Ordering::Greater)
        };
        shared.fifo.hold(|queue| {
            let handlers = shared.lock();
            let applied = match (found, shared.indexer.get(key)) {
                (Some(item), None) if queue.has_passed(&item) => Applied::Nothing,
                (Some(item), _) => shared.indexer.apply_write(item),
                (None, Some(known)) if !is_newer(&known) => {
                    shared.indexer.apply_deletion(key, known.uid())
                }
                (None, _) => Applied::Nothing,
            };
            shared.indexer.forget_passed_writes(queue.version(), |key| queue.contains(key));
            handlers.tell(applied, Told::Normally);
        });
    }

    /// Stops listing, watching, and all handlers.
    pub async fn shutdown(&self, patience: Duration) -> Result<(), Unclean> {
        for listener in self.0.lock().listeners.values() {
            listener.close();
        }
        self.0.tasks.stop(patience).await
    }
}

impl InformerState {
    /// Acts on everything that waits in the FIFO, however much it is, and lets others work in
    /// between.
    pub(crate) async fn apply_all(&self) {
        while (0..MAX_BATCH).all(|_| self.apply_next()) {
            tokio::task::yield_now().await;
        }
    }

    /// False if nothing waits.
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
                handlers.tell(indexer.apply_state(item, Origin::Watch), Told::Normally);
            }
            Delta::Replaced(item) => {
                let told = if is_initial { Told::AsInitial } else { Told::Normally };
                handlers.tell(indexer.apply_state(item, Origin::List), told);
            }
            Delta::Deleted(item) => {
                handlers.tell(indexer.apply_end(item, Origin::Watch), Told::Normally);
            }
            Delta::DeletedFinalStateUnknown(item) => {
                handlers.tell(indexer.apply_end(item, Origin::List), Told::AsMissed);
            }
            Delta::Sync(item, handler) => {
                let listener = handlers.listeners.get(&handler);
                if let Some((listener, item)) = listener.zip(indexer.get(item.key())) {
                    listener.tell(ObjectEvent::Updated { old: item.clone(), new: item });
                }
            }
        }
    }

    fn set_synced(&self) {
        let mut handlers = self.lock();
        handlers.synced = true;
        for listener in handlers.listeners.values() {
            listener.tell_synced();
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

    fn lock(&self) -> MutexGuard<'_, Handlers> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReflectorStore<Item> for InformerState {
    fn replace<'a>(&'a self, items: Vec<Item>, resource_version: &'a str) -> BoxFuture<'a, ()> {
        self.fifo.replace(items, resource_version);
        Box::pin(self.apply_all())
    }

    fn apply(&self, transactions: Vec<Transaction<Item>>) {
        let cached = |item| self.intake.admit_recent(item, &self.clock);
        self.fifo.apply(transactions.into_iter().map(|transaction| match transaction {
            Transaction::Add(item) => Transaction::Add(cached(item)),
            Transaction::Update(item) => Transaction::Update(cached(item)),
            Transaction::Delete(item) => Transaction::Delete(cached(item)),
        }));
        while self.apply_next() {}
    }

    fn bookmark(&self, resource_version: &str) {
        self.fifo.bookmark(resource_version);
        self.intake.settle(&self.clock);
    }

    fn begin_list(&self) {
        self.fifo.begin_list();
        self.intake.settle(&self.clock);
    }

    fn transform(&self, item: Item) -> Item {
        self.intake.admit_known(item, &self.indexer)
    }
}

/// What handlers should know beside what happened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Normally,
    AsInitial,
    AsMissed,
}

impl Handlers {
    fn tell(&self, applied: Applied, told: Told) {
        let event = match applied {
            Applied::Added(item) => {
                ObjectEvent::Added { item, is_initial: told == Told::AsInitial }
            }
            Applied::Updated { old, new } => ObjectEvent::Updated { old, new },
            Applied::Deleted(item) => {
                ObjectEvent::Deleted { item, is_final_state_unknown: told == Told::AsMissed }
            }
            Applied::Nothing => return,
        };
        for listener in self.listeners.values() {
            listener.tell(event.clone());
        }
    }
}
