//! Informers, listers and work queues: the parts between an API server and a controller, with the
//! names of client-go. The crate contains no HTTP; a source of objects implements [`ListWatch`].
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
//! /// A server with one object, which never changes.
//! struct OneObject;
//!
//! impl ListWatch for OneObject {
//!     fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<List, ListWatchError>> {
//!         Box::pin(async {
//!             List::parse(r#"{"metadata":{"resourceVersion":"7"},
//!                 "items":[{"metadata":{"namespace":"default","name":"a"}}]}"#)
//!         })
//!     }
//!     fn watch(&self, _: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
//!         Box::pin(async { Ok(stream::pending().boxed()) })
//!     }
//!     fn uses_watch_list(&self) -> bool {
//!         false
//!     }
//! }
//!
//! /// Adds the key of each changed object to a queue.
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
//!     SharedInformer::new(Arc::new(OneObject), InformerOptions::default(), &clock, &entropy, &tasks);
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
//! A cache is eventually consistent: events may be late or merged, but the last notification of each
//! object has its last state.

pub mod item;
mod json_spans;
mod json_dictionary;
pub mod list_watch;
pub mod shared_items;
mod pack_queue;
pub mod transform;
pub mod reflector;
mod unconfirmed_writes;
pub mod delta_fifo;
mod decode_failures;
pub mod indexer;
pub mod event_handler;
mod resync;
pub mod informer;
mod settling;
pub mod informer_factory;
pub mod write_observer;
mod decoded_cache;
pub mod lister;
pub mod work_queue;
#[cfg(test)]
#[path = "../tests/it/seeded.rs"]
mod seeded;

pub use decode_failures::DecodeFailures;
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
pub use lister::{Listed, Lister, ObjectDecodeError};
pub use reflector::{
    Reflector, ReflectorItem, ReflectorOptions, ReflectorPhase, ReflectorStatus, ReflectorStore,
    Transaction,
};
pub use transform::{Storage, Transform};
pub use work_queue::WorkQueue;

pub use machinery::selector::{FieldSelector, LabelSelector};
