//! From lists and watches to a key in a work queue: the machinery between an API server and a
//! controller, under the names that Kubernetes has for it. It knows no HTTP: whoever implements
//! [`ListWatch`] can be mirrored.
//!
//! ```text
//! ListWatch ─▶ Reflector ─▶ DeltaFifo ─▶ SharedInformer ─┬─▶ Indexer ◀─ Lister ◀──┐
//!                                                        └─▶ EventHandler         │
//!                                                                 │ key           │
//!                                                                 ▼               │
//!                                                             WorkQueue ─▶ your control loop
//! ```
//!
//! What lies behind these names is an eventually complete mirror: events may come late or merged,
//! but for each object the last thing that a handler is told is the last thing that happened.

pub mod item;
pub mod packing;
pub mod list_watch;
pub mod intake;
pub mod reflector;
mod own_writes;
mod delta_fifo;
pub mod indexer;
pub mod event_handler;
mod resync;
pub mod informer;
pub mod informer_factory;
pub mod lister;
pub mod work_queue;
#[cfg(test)]
#[path = "../tests/it/seeded.rs"]
mod seeded;

pub use event_handler::{
    EventHandler, HandlerId, HandlerOptions, HasSynced, ObjectEvent, Registration, Subscription,
};
pub use indexer::{Indexer, NoSuchIndex};
pub use informer::{InformerOptions, SharedInformer};
pub use informer_factory::{Form, InformerFactory, NeverSynced, Scope};
pub use intake::{Intake, Storage, Transform};
pub use item::{BadItem, Item, ObjectKey, compare_versions};
pub use list_watch::{
    ListRequest, ListWatch, ListWatchError, Page, Selection, WatchEvent, WatchRequest, WatchStream,
};
pub use lister::{Listed, Lister, Misfit};
pub use reflector::{ReflectorOptions, Report};
pub use work_queue::WorkQueue;
