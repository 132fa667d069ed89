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
//! ```
//! use std::{sync::Arc, time::Duration};
//! use futures_util::{StreamExt, future::BoxFuture, stream};
//! use informer::{
//!     EventHandler, HandlerOptions, InformerOptions, Item, List, ListRequest, ListWatch, ListWatchError,
//!     ObjectKey, SharedInformer, WatchRequest, WatchStream, WorkQueue, work_queue::QueueOptions,
//! };
//! use keel::{Clock, Entropy, Tasks};
//!
//! /// A server on which nothing ever happens.
//! struct Quiet;
//!
//! impl ListWatch for Quiet {
//!     fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<List, ListWatchError>> {
//!         Box::pin(async {
//!             List::parse(r#"{"metadata":{"resourceVersion":"7"},
//!                 "items":[{"metadata":{"namespace":"default","name":"a"}}]}"#)
//!         })
//!     }
//!     fn watch(&self, _: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
//!         Box::pin(async { Ok(stream::pending().boxed()) })
//!     }
//!     fn offers_watch_list(&self) -> bool {
//!         false
//!     }
//! }
//!
//! /// Queues the key of whatever something happened to.
//! struct Enqueue(WorkQueue<ObjectKey>);
//!
//! impl EventHandler for Enqueue {
//!     fn on_add(&self, item: &Item, _is_initial: bool) {
//!         self.0.add(item.key().clone());
//!     }
//!     fn on_update(&self, _old: &Item, new: &Item) {
//!         self.0.add(new.key().clone());
//!     }
//!     fn on_delete(&self, item: &Item, _is_final_state_unknown: bool) {
//!         self.0.add(item.key().clone());
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
//! let informer =
//!     SharedInformer::new(Arc::new(Quiet), InformerOptions::default(), &clock, &entropy, &tasks);
//! let queue = WorkQueue::new(&QueueOptions::default(), &clock, &entropy);
//! informer.add_handler(Arc::new(Enqueue(queue.clone())), &HandlerOptions::default());
//! informer.start();
//!
//! let job = queue.get().await.unwrap();
//! let object = informer.indexer().get(job.key()).unwrap();
//! assert_eq!(object.name(), "a");
//! job.succeed();
//! tasks.stop(Duration::from_secs(5)).await.unwrap();
//! # }
//! ```
//!
//! What lies behind these names is an eventually complete mirror: events may come late or merged,
//! but for each object the last thing that a handler is told is the last thing that happened.

pub mod item;
mod json_spans;
mod json_dictionary;
pub mod list_watch;
mod recent;
pub mod transform;
pub mod reflector;
mod unconfirmed_writes;
pub mod delta_fifo;
pub mod indexer;
pub mod event_handler;
mod resync;
pub mod informer;
pub mod informer_factory;
pub mod write_observer;
mod decoded;
pub mod lister;
pub mod work_queue;
#[cfg(test)]
#[path = "../tests/it/seeded.rs"]
mod seeded;

pub use delta_fifo::{Delta, DeltaFifo};
pub use event_handler::{
    EventHandler, HandlerId, HandlerOptions, HasSynced, ObjectEvent, Registration, Subscription,
};
pub use indexer::{Indexer, NoSuchIndex};
pub use informer::{InformerOptions, SharedInformer};
pub use informer_factory::{Form, InformerFactory, NeverSynced, Scope};
pub use item::{BadItem, Item, ObjectKey};
pub use list_watch::{
    List, ListRequest, ListWatch, ListWatchError, Selection, WatchEvent, WatchRequest, WatchStream,
};
pub use lister::{Listed, Lister, Misfit};
pub use reflector::{
    Reflector, ReflectorItem, ReflectorOptions, ReflectorPhase, ReflectorStatus, ReflectorStore,
    Transaction,
};
pub use transform::{Storage, Transform};
pub use work_queue::WorkQueue;
