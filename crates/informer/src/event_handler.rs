//! [`EventHandler`]: who wants to know what happens to the objects of an informer, and
//! [`Subscription`], the same without a trait.
//!
//! Each handler has a queue of its own ([`handler_queue`]) and is called by a task of its own, so a
//! slow one holds up nobody but itself: what it missed is merged, object by object, and the last
//! state of each is what it gets in the end. Who only takes note needs neither
//! ([`EventHandler::is_prompt`]).
//!
//! ```
//! use informer::{HandlerId, HandlerOptions, ObjectEvent, Registration, SharedInformer};
//! use informer::{EventHandler, Subscription};
//! use std::{sync::Arc, time::Duration};
//!
//! async fn follow(informer: &SharedInformer, handler: Arc<dyn EventHandler>) {
//!     let resync_period = Some(Duration::from_secs(600));
//!     let options = HandlerOptions { resync_period, ..HandlerOptions::default() };
//!     let Registration { id, mut synced } = informer.add_handler(handler, &options);
//!     synced.wait().await; // it was told of every object that was there
//!
//!     let mut events: Subscription = informer.subscribe(&HandlerOptions::default());
//!     while let Some(event) = events.next().await {
//!         match event {
//!             ObjectEvent::Added { item, .. } => println!("{} is there", item.key()),
//!             ObjectEvent::Updated { old, new } if old.labels() == new.labels() => {}
//!             ObjectEvent::Updated { new, .. } => println!("{} has other labels", new.key()),
//!             ObjectEvent::Deleted { item, .. } => println!("{} is gone", item.key()),
//!         }
//!     }
//!     let id: HandlerId = id;
//!     informer.remove_handler(id);
//! }
//! ```

mod handler_queue;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keel::Tasks;
use tokio::sync::{Notify, watch};

use crate::Item;
use handler_queue::{HandlerQueue, Popped};

/// Something that happened to an object.
#[derive(Debug, Clone)]
pub enum ObjectEvent {
    /// It is there, and was not known before.
    Added {
        /// The object.
        item: Item,
        /// Whether it was there when the handler, or the informer, began.
        is_initial: bool,
    },
    /// It changed; or, at a resync, it is to be looked at again, and both are the same.
    Updated {
        /// The last state that this handler was told of, or was about to be told of.
        old: Item,
        /// The state now.
        new: Item,
    },
    /// It is gone.
    Deleted {
        /// Its last state, as far as it is known.
        item: Item,
        /// The end was missed and found by listing: there may have been later states.
        is_final_state_unknown: bool,
    },
}

impl ObjectEvent {
    /// The object as it is now, or was at last.
    pub fn item(&self) -> &Item {
        match self {
            Self::Added { item, .. }
            | Self::Updated { new: item, .. }
            | Self::Deleted { item, .. } => item,
        }
    }
}

/// Is called for everything that happens to the objects of an informer, one call after the other.
///
/// The calls are made on a task, so they should not block; most handlers put a key into a
/// [`WorkQueue`](crate::WorkQueue) and return. Who wants to wait uses a [`Subscription`].
pub trait EventHandler: Send + Sync + 'static {
    /// The object is there; `is_initial` if it was there before the handler was.
    fn on_add(&self, item: &Item, is_initial: bool);
    /// The object changed, or it is time for a resync and both are the same.
    fn on_update(&self, old: &Item, new: &Item);
    /// The object is gone; `is_final_state_unknown` if that was only found out by listing.
    fn on_delete(&self, item: &Item, is_final_state_unknown: bool);

    /// Whether the calls only take note, and never wait nor run somebody else's code: then they are
    /// made where the events are read, without a queue and a task in between. Who says so and waits
    /// all the same holds up the informer and all its handlers.
    fn is_prompt(&self) -> bool {
        false
    }
}

impl ObjectEvent {
    /// Calls the method of `handler` that this event is for.
    pub fn tell(&self, handler: &dyn EventHandler) {
        match self {
            Self::Added { item, is_initial } => handler.on_add(item, *is_initial),
            Self::Updated { old, new } => handler.on_update(old, new),
            Self::Deleted { item, is_final_state_unknown } => {
                handler.on_delete(item, *is_final_state_unknown);
            }
        }
    }
}

/// How a handler wants to be served.
#[derive(Debug, Clone)]
pub struct HandlerOptions {
    /// For logs.
    pub name: String,
    /// Look at all objects again so often, even if nothing happened; None for never.
    pub resync_period: Option<Duration>,
    /// So many events may wait; beyond that, the events of each object are merged.
    pub queue_capacity: usize,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self { name: "handler".to_owned(), resync_period: None, queue_capacity: 1024 }
    }
}

/// Tells the handlers of one informer apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub(crate) u64);

/// A handler with its name. One event that it cannot digest must not cost it the others.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) handler: Arc<dyn EventHandler>,
    pub(crate) name: String,
}

impl Guarded {
    pub(crate) fn call(&self, event: &ObjectEvent) {
        if catch_unwind(AssertUnwindSafe(|| event.tell(&*self.handler))).is_err() {
            tracing::error!(handler = self.name, object = ?event.item(), "a handler panicked");
        }
    }
}

/// The informer's end of a handler's queue.
pub(crate) struct Listener {
    /// Is called at once.
    prompt: Option<Guarded>,
    queue: Mutex<HandlerQueue>,
    filled: Notify,
    synced: watch::Sender<bool>,
}

impl Listener {
    pub(crate) fn new(options: &HandlerOptions, prompt: Option<Guarded>) -> Arc<Self> {
        Arc::new(Self {
            prompt,
            queue: Mutex::new(HandlerQueue::new(options.queue_capacity)),
            filled: Notify::new(),
            synced: watch::Sender::new(false),
        })
    }

    pub(crate) fn tell(&self, event: ObjectEvent) {
        match &self.prompt {
            Some(_) if self.is_closed() => {}
            Some(handler) => handler.call(&event),
            None => {
                self.lock().push(event);
                self.filled.notify_one();
            }
        }
    }

    /// What was told so far is everything there was in the beginning.
    pub(crate) fn tell_synced(&self) {
        if self.prompt.is_some() {
            self.synced.send_replace(true);
            return;
        }
        self.lock().push_synced();
        self.filled.notify_one();
    }

    pub(crate) fn synced(&self, tasks: &Tasks) -> HasSynced {
        HasSynced { synced: self.synced.subscribe(), tasks: tasks.clone() }
    }

    /// There will be no more events.
    pub(crate) fn close(&self) {
        self.lock().close();
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, HandlerQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of an informer, to be taken one by one.
///
/// Ends when the informer is stopped or the subscription was removed.
pub struct Subscription {
    listener: Arc<Listener>,
    id: HandlerId,
    /// Those of the informer.
    tasks: Tasks,
    /// They were asked to stop.
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Subscription {
    pub(crate) fn new(listener: Arc<Listener>, id: HandlerId, tasks: &Tasks) -> Self {
        Self { listener, id, tasks: tasks.clone(), stopped: Box::pin(tasks.shutdown()) }
    }

    /// The next event; None when there will be no more. Asking for it says that the one before was
    /// dealt with.
    pub async fn next(&mut self) -> Option<ObjectEvent> {
        loop {
            let popped = self.listener.lock().pop();
            match popped {
                Popped::Event(event) => return Some(event),
                Popped::Synced => drop(self.listener.synced.send_replace(true)),
                Popped::Nothing => tokio::select! {
                    biased;
                    () = self.listener.filled.notified() => {}
                    () = &mut self.stopped => {
                        // It has told so once, and cannot be asked again.
                        self.listener.close();
                        return None;
                    }
                },
                Popped::Closed => return None,
            }
        }
    }

    /// Which handler this is, to have it removed.
    pub fn id(&self) -> HandlerId {
        self.id
    }

    /// Knows when all initial objects were dealt with.
    pub fn synced(&self) -> HasSynced {
        self.listener.synced(&self.tasks)
    }

    /// How many events wait.
    pub fn backlog(&self) -> usize {
        self.listener.lock().len()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The informer forgets it when the next one is added; until then it costs nothing.
        self.listener.lock().close();
    }
}

impl Listener {
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription {:?}, {} events behind", self.id, self.backlog())
    }
}

/// Whether an informer has its first list in the cache, or a handler has dealt with all of it.
///
/// ```
/// # use informer::{HasSynced, SharedInformer};
/// async fn is_worth_reading(informer: &SharedInformer) -> bool {
///     let mut synced: HasSynced = informer.has_synced();
///     synced.get() || synced.wait().await
/// }
/// ```
#[derive(Debug, Clone)]
pub struct HasSynced {
    pub(crate) synced: watch::Receiver<bool>,
    /// Those of the informer.
    pub(crate) tasks: Tasks,
}

impl HasSynced {
    /// Whether it is so now.
    pub fn get(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until it is so; false if it never will be, since the informer was stopped.
    pub async fn wait(&mut self) -> bool {
        tokio::select! {
            biased;
            synced = self.synced.wait_for(|synced| *synced) => synced.is_ok(),
            () = self.tasks.shutdown() => false,
        }
    }
}

/// A handler that was added to an informer.
#[derive(Debug, Clone)]
pub struct Registration {
    /// To have it removed.
    pub id: HandlerId,
    /// Whether it has dealt with all initial objects.
    pub synced: HasSynced,
}
