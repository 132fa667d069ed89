//! [`EventHandler`]: is called for the changes of the objects of an informer. [`Subscription`] is a
//! stream of the same changes.
//!
//! Each handler has its own queue ([`handler_queue`]) and is called by its own task, so a slow handler
//! delays no other. If its queue is full, the changes of each object are merged, and the handler
//! gets the last state of the object. An [inline](EventHandler::is_inline) handler has neither queue
//! nor task.
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
//!     synced.wait().await; // the handler was called for every object of the first list
//!
//!     let mut events: Subscription = informer.subscribe(&HandlerOptions::default());
//!     while let Some(event) = events.next().await {
//!         match event {
//!             ObjectEvent::Added { item, .. } => println!("{} was added", item.key()),
//!             ObjectEvent::Updated { old, new } if old.labels() == new.labels() => {}
//!             ObjectEvent::Updated { new, .. } => println!("{} has other labels", new.key()),
//!             ObjectEvent::Deleted { item, .. } => println!("{} was deleted", item.key()),
//!         }
//!     }
//!     let id: HandlerId = id;
//!     informer.remove_handler(id);
//! }
//! ```

mod handler_queue;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::Item;
use handler_queue::{HandlerQueue, Popped};
use keel::Tasks;

/// A change of an object.
#[derive(Debug, Clone)]
pub enum ObjectEvent {
    /// The object exists, and was not known before.
    Added {
        /// The object.
        item: Item,
        /// Whether it existed when the handler was added or the informer was started.
        is_initial: bool,
    },
    /// The object was changed. At a resync, both states are the same.
    Updated {
        /// The state of the previous event of this object.
        old: Item,
        /// The present state.
        new: Item,
    },
    /// The object was deleted.
    Deleted {
        /// The last known state.
        item: Item,
        /// The deletion was found by a list: there may have been later states.
        is_final_state_unknown: bool,
    },
}

impl ObjectEvent {
    /// The present state of the object, or its last state.
    pub fn item(&self) -> &Item {
        match self {
            Self::Added { item, .. }
            | Self::Updated { new: item, .. }
            | Self::Deleted { item, .. } => item,
        }
    }
}

/// Is called for each change of the objects of an informer, one call at a time.
///
/// The calls are made on a task, so they should not block; most handlers put a key into a
/// [`WorkQueue`](crate::WorkQueue) and return. A [`Subscription`] is for work that has to wait.
pub trait EventHandler: Send + Sync + 'static {
    /// The object was added; `is_initial` if it existed before the handler was added.
    fn on_add(&self, item: &Item, is_initial: bool);
    /// The object was changed; at a resync, both states are the same.
    fn on_update(&self, old: &Item, new: &Item);
    /// The object was deleted; `is_final_state_unknown` if the deletion was found by a list.
    fn on_delete(&self, item: &Item, is_final_state_unknown: bool);

    /// Whether the handler is called by the informer's own task, without a queue and a task of its
    /// own. An inline handler that blocks delays the informer and all its handlers.
    fn is_inline(&self) -> bool {
        false
    }
}

impl ObjectEvent {
    /// Calls the method of `handler` for this event.
    pub fn dispatch(&self, handler: &dyn EventHandler) {
        match self {
            Self::Added { item, is_initial } => handler.on_add(item, *is_initial),
            Self::Updated { old, new } => handler.on_update(old, new),
            Self::Deleted { item, is_final_state_unknown } => {
                handler.on_delete(item, *is_final_state_unknown);
            }
        }
    }
}

/// The options of a handler.
#[derive(Debug, Clone)]
pub struct HandlerOptions {
    /// The name in logs.
    pub name: String,
    /// The period after which the handler is called for all objects again; `None` for never.
    pub resync_period: Option<Duration>,
    /// The number of events in the queue from which on the events of each object are merged.
    pub queue_capacity: usize,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self { name: "handler".to_owned(), resync_period: None, queue_capacity: 1024 }
    }
}

/// Identifies a handler of an informer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub(crate) u64);

/// A handler with its name. A panic of one call is caught.
#[derive(Clone)]
pub(crate) struct NamedHandler {
    pub(crate) handler: Arc<dyn EventHandler>,
    pub(crate) name: String,
}

impl NamedHandler {
    pub(crate) fn call(&self, event: &ObjectEvent) {
        if catch_unwind(AssertUnwindSafe(|| event.dispatch(&*self.handler))).is_err() {
            tracing::error!(handler = self.name, object = ?event.item(), "a handler panicked");
        }
    }
}

/// Passes the events of an informer to one handler, through a queue or inline.
pub(crate) struct Listener {
    /// An inline handler, which has no queue.
    inline: Option<NamedHandler>,
    queue: Mutex<HandlerQueue>,
    filled: Notify,
    synced: watch::Sender<bool>,
}

impl Listener {
    pub(crate) fn new(options: &HandlerOptions, inline: Option<NamedHandler>) -> Arc<Self> {
        Arc::new(Self {
            inline,
            queue: Mutex::new(HandlerQueue::new(options.queue_capacity)),
            filled: Notify::new(),
            synced: watch::Sender::new(false),
        })
    }

    pub(crate) fn notify(&self, event: ObjectEvent) {
        match &self.inline {
            Some(_) if self.is_closed() => {}
            Some(handler) => handler.call(&event),
            None => {
                self.lock().push(event);
                self.filled.notify_one();
            }
        }
    }

    /// Marks the end of the initial objects.
    pub(crate) fn notify_synced(&self) {
        if self.inline.is_some() {
            self.synced.send_replace(true);
            return;
        }
        self.lock().push_synced();
        self.filled.notify_one();
    }

    pub(crate) fn synced(&self, tasks: &Tasks) -> HasSynced {
        HasSynced { synced: self.synced.subscribe(), tasks: tasks.clone() }
    }

    /// Ends the events.
    pub(crate) fn close(&self) {
        self.lock().close();
        self.filled.notify_one();
    }

    /// The number of events that wait or are being processed.
    pub(crate) fn backlog(&self) -> usize {
        self.lock().unprocessed()
    }

    fn lock(&self) -> MutexGuard<'_, HandlerQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of the events of an informer.
///
/// It ends when the informer is stopped or the subscription is removed.
pub struct Subscription {
    listener: Arc<Listener>,
    id: HandlerId,
    /// The informer's tasks.
    tasks: Tasks,
    /// Resolves when the informer is stopped.
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Subscription {
    pub(crate) fn new(listener: Arc<Listener>, id: HandlerId, tasks: &Tasks) -> Self {
        Self { listener, id, tasks: tasks.clone(), stopped: Box::pin(tasks.shutdown()) }
    }

    /// The next event; `None` at the end. The call marks the previous event as processed.
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
                        // Closed, so that the next call does not poll the completed future again.
                        self.listener.close();
                        return None;
                    }
                },
                Popped::Closed => return None,
            }
        }
    }

    /// Identifies the subscription, for its removal.
    pub fn id(&self) -> HandlerId {
        self.id
    }

    /// Whether all initial objects were processed.
    pub fn synced(&self) -> HasSynced {
        self.listener.synced(&self.tasks)
    }

    /// The number of events that wait.
    pub fn backlog(&self) -> usize {
        self.listener.lock().len()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The informer removes a closed listener when the next handler is added.
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

/// Whether the first list of an informer is in the cache, or was processed by a handler.
///
/// ```
/// # use informer::{HasSynced, SharedInformer};
/// async fn wait_for_cache(informer: &SharedInformer) -> bool {
///     let mut synced: HasSynced = informer.has_synced();
///     synced.get() || synced.wait().await
/// }
/// ```
#[derive(Debug, Clone)]
pub struct HasSynced {
    pub(crate) synced: watch::Receiver<bool>,
    /// The informer's tasks.
    pub(crate) tasks: Tasks,
}

impl HasSynced {
    /// Whether it has synced.
    pub fn get(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until it has synced; false if the informer was stopped before.
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
    /// Identifies the handler, for its removal.
    pub id: HandlerId,
    /// Whether the handler has processed all initial objects.
    pub synced: HasSynced,
}
