//! [`Reflector`]: lists, then watches from the list's version, and again after each failure, so
//! that a [`ReflectorStore`] gets every change of the items in scope without a gap.
//!
//! ```text
//!            ┌──────── 410, out of order, 404 ────────────────────┐
//!            ▼                                                    │
//!   list (streamed, or in pages) ──▶ watch from its version ──▶ events, bookmarks ──┐
//!                                          ▲                                        │
//!                                          └─ closed, cut, timed out, 401, 403, 5xx ┘
//! ```
//!
//! A reflector takes a [`ListWatch`] and a store. Both may be of any item type that implements
//! [`ReflectorItem`]:
//!
//! ```
//! use std::{borrow::Cow, collections::BTreeMap, sync::{Arc, Mutex}};
//! use futures_util::{StreamExt, future::BoxFuture, stream};
//! use informer::{
//!     List, ListRequest, ListWatch, ListWatchError, Reflector, ReflectorItem, ReflectorOptions,
//!     ReflectorStore, Transaction, WatchEvent, WatchRequest, WatchStream,
//! };
//! use keel::{Clock, Entropy};
//!
//! /// A file on a file server that counts its changes.
//! #[derive(Clone)]
//! struct File { path: &'static str, size: u32, change: u64 }
//!
//! impl ReflectorItem for File {
//!     type Key = &'static str;
//!     fn key(&self) -> &'static str {
//!         self.path
//!     }
//!     fn resource_version(&self) -> Cow<'_, str> {
//!         self.change.to_string().into()
//!     }
//! }
//!
//! /// Has one file, which grows once, and stops.
//! struct FileServer;
//!
//! impl ListWatch<File> for FileServer {
//!     fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<List<File>, ListWatchError>> {
//!         let items = vec![File { path: "/a", size: 1, change: 7 }];
//!         let list = List { items, resource_version: "7".to_owned(), ..List::default() };
//!         Box::pin(async { Ok(list) })
//!     }
//!     fn watch(
//!         &self,
//!         _: WatchRequest,
//!     ) -> BoxFuture<'_, Result<WatchStream<File>, ListWatchError>> {
//!         let grown = WatchEvent::Modified(File { path: "/a", size: 2, change: 8 });
//!         let events = stream::iter([Ok(grown), Err(ListWatchError::Stopped)]);
//!         Box::pin(async { Ok(events.boxed()) })
//!     }
//!     fn uses_watch_list(&self) -> bool {
//!         false
//!     }
//! }
//!
//! /// The sizes of all files.
//! #[derive(Default)]
//! struct Sizes(Mutex<BTreeMap<&'static str, u32>>);
//!
//! impl ReflectorStore<File> for Sizes {
//!     fn replace<'a>(&'a self, files: Vec<File>, _: &'a str) -> BoxFuture<'a, ()> {
//!         *self.0.lock().unwrap() = files.iter().map(|file| (file.path, file.size)).collect();
//!         Box::pin(async {})
//!     }
//!     fn apply(&self, transactions: Vec<Transaction<File>>) {
//!         let mut sizes = self.0.lock().unwrap();
//!         for transaction in transactions {
//!             match transaction {
//!                 Transaction::Add(file) | Transaction::Update(file) => {
//!                     sizes.insert(file.path, file.size)
//!                 }
//!                 Transaction::Delete(file) => sizes.remove(file.path),
//!             };
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let sizes = Arc::new(Sizes::default());
//! let (clock, entropy) = (Clock::system(), Entropy::system());
//! let options = ReflectorOptions::default();
//! let store: Arc<Sizes> = Arc::clone(&sizes);
//! let reflector = Reflector::new(Arc::new(FileServer), store, options, &clock, &entropy);
//! let status = reflector.status();
//! reflector.run().await;
//! assert_eq!(sizes.0.lock().unwrap()["/a"], 2);
//! assert_eq!(status.borrow().resource_version.as_deref(), Some("8"));
//! # }
//! ```
//!
//! What follows each failure:
//!
//! | failure | then |
//! |---|---|
//! | 410 (as a response or as an event), a version from the future, 400, 405, 406, 415 or 422 to a watch | list |
//! | an event older than the last one | list, which is correct for a server that lost its history and for a proxy that repeats events |
//! | 404 | list, until the resource exists again; its items are deleted after half a minute without another response |
//! | 429, or a response with a Retry-After | the same request, not before that time |
//! | a watch with initial events refused, or closed, silent or endless before their end | list in pages, from then on |
//! | a watch with initial events failed with 5xx | list in pages at once, this time |
//! | a watch with initial events failed in another way | the same request; after three times in a row, list in pages |
//! | a continue token expired | list without pages, once |
//! | an object without a name | counted, and left out |
//! | a response that cannot be read, 500 | the same request; after three times in a row without an event, list |
//! | 401, 403, 502 to 504, no connection, no response in time | the same request; the source renews tokens |
//! | the source was stopped | the reflector ends |
//!
//! The delay between two attempts grows with each failure, with jitter; an event or a bookmark
//! resets it. After a 404 it is less than a second, so that the objects of a new CRD are soon cached.
//! Lists are always of the most recent state.

mod listing;
mod options;
mod position;
mod reflector_store;
mod status;
mod watching;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::{BadItem, ListWatch, ListWatchError, Selection};
use keel::{Backoff, Clock, Entropy, message_with_causes};
use position::{Absence, MIN_REPEATED_FAILURES, Position};

pub use options::ReflectorOptions;
pub use reflector_store::{ReflectorItem, ReflectorStore, Transaction};
pub use status::{ReflectorPhase, ReflectorStatus};
pub(crate) use watching::MAX_BATCH;

/// The time for which a resource must be unknown to the server before its items count as deleted. The
/// objects of a deleted CRD are deleted, but a server that is starting gives the same response.
const MIN_ABSENCE: Duration = Duration::from_secs(30);

/// The longest delay between two attempts while the server does not know the resource: a cache is
/// complete within a second after its CRD was installed.
const MAX_ABSENCE_DELAY: Duration = Duration::from_millis(750);

/// See the [module documentation](self).
pub struct Reflector<T> {
    source: Arc<dyn ListWatch<T>>,
    store: Arc<dyn ReflectorStore<T>>,
    selection: Selection,
    start: Option<String>,
    strips_managed_fields: bool,
    options: ReflectorOptions,
    clock: Clock,
    entropy: Entropy,
    status: watch::Sender<ReflectorStatus>,
}

impl<T: ReflectorItem> Reflector<T> {
    /// A reflector that does nothing until it [runs](Self::run).
    pub fn new(
        source: Arc<dyn ListWatch<T>>,
        store: Arc<dyn ReflectorStore<T>>,
        options: ReflectorOptions,
        clock: &Clock,
        entropy: &Entropy,
    ) -> Self {
        Self {
            source,
            store,
            selection: Selection::default(),
            start: None,
            strips_managed_fields: false,
            options,
            clock: clock.clone(),
            entropy: entropy.clone(),
            status: watch::Sender::default(),
        }
    }

    /// Requests only the items that `selection` selects.
    #[must_use]
    pub fn with_selection(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// Begins with a watch from `resource_version`, whose state the store has already, instead of
    /// a list.
    #[must_use]
    pub fn starting_at(self, resource_version: String) -> Self {
        Self { start: Some(resource_version), ..self }
    }

    /// The store removes `metadata.managedFields`: the source may leave them out.
    pub(crate) fn stripping_managed_fields(self, strips_managed_fields: bool) -> Self {
        Self { strips_managed_fields, ..self }
    }

    /// Publishes the status through `status`.
    pub(crate) fn with_status(self, status: watch::Sender<ReflectorStatus>) -> Self {
        Self { status, ..self }
    }

    /// The status, which changes while the reflector runs.
    pub fn status(&self) -> watch::Receiver<ReflectorStatus> {
        self.status.subscribe()
    }

    /// Lists and watches until the source fails with [`Stopped`](ListWatchError::Stopped), or the
    /// future is dropped.
    pub async fn run(self) {
        let (options, entropy) = (&self.options, self.entropy.clone());
        let backoff = Backoff::new(options.backoff_base, options.backoff_cap, entropy);
        let mut position = Position::new(self.source.uses_watch_list(), backoff);
        if let Some(start) = &self.start {
            position.listed_at(start.clone());
            self.set_phase(ReflectorPhase::Connecting);
        }
        loop {
            let attempt = match position.version.clone() {
                None if position.streams_lists() => self.stream_or_list(&mut position).await,
                None => self.list_pages(&mut position).await,
                Some(version) => self.watch(&mut position, version).await,
            };
            if let Err(ListWatchError::Stopped) = attempt {
                self.set_phase(ReflectorPhase::Stopped);
                return;
            }
            let delay = match &attempt {
                Ok(()) => None,
                Err(error) => Some(self.recover(error, &mut position).await),
            };
            self.set_phase(match position.version {
                None => ReflectorPhase::Listing,
                Some(_) => ReflectorPhase::Connecting,
            });
            if let Some(delay) = delay {
                self.clock.sleep(delay).await;
            }
        }
    }

    /// Chooses the next request after a failure, and returns the delay before it.
    async fn recover(&self, error: &ListWatchError, position: &mut Position) -> Duration {
        tracing::debug!(error = %message_with_causes(error), version = ?position.version, "list or watch failed");
        let is_first = position.backoff.failures() == 0;
        self.status.send_modify(|status| {
            status.failures += 1;
            status.failing_since.get_or_insert_with(|| self.clock.now());
            status.is_absent = error.status().is_some_and(|status| status.code == 404);
            status.last_error = match error {
                // A server ends the watches of a CRD that is changed.
                ListWatchError::ClosedEarly if is_first => None,
                ListWatchError::Refused(status) if status.code == 404 => Some(format!(
                    "{}; is its CRD installed?",
                    message_with_causes(error).trim_end()
                )),
                _ => Some(message_with_causes(error)),
            };
        });
        let is_immediate = self.options.retries_at_once && is_first;
        let backoff = position.backoff.next_delay();
        let mut delay = if is_immediate { Duration::ZERO } else { backoff };
        position.fall_back(error);
        match error.status() {
            Some(status) if status.code == 404 => {
                self.note_absence(position).await;
                delay = delay.min(MAX_ABSENCE_DELAY);
            }
            _ => position.absence = None,
        }
        let details = error.status().and_then(|status| status.details.as_ref());
        let retry_after = details.map_or(0, |details| details.retry_after_seconds);
        delay.max(Duration::from_secs(retry_after.into()))
    }

    /// Counts a response with the code 404, and deletes all items after several of them in
    /// [`MIN_ABSENCE`].
    async fn note_absence(&self, position: &mut Position) {
        let absence = position
            .absence
            .get_or_insert_with(|| Absence { since: self.clock.instant(), responses: 0 });
        absence.responses += 1;
        let is_long = absence.responses >= MIN_REPEATED_FAILURES
            && self.clock.elapsed_since(&absence.since) >= MIN_ABSENCE;
        if is_long && mem::take(&mut position.listed) {
            self.store.begin_list();
            self.store.replace(Vec::new(), "").await;
        }
    }

    fn count_bad_item(&self, bad: &BadItem) {
        tracing::warn!(error = %message_with_causes(bad), "an object cannot be cached");
        self.status.send_modify(|status| status.bad_items += 1);
    }

    fn set_phase(&self, phase: ReflectorPhase) {
        self.status.send_if_modified(|status| mem::replace(&mut status.phase, phase) != phase);
    }
}
