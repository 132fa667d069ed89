//! Feeds the [`WatchCache`] with the store's records and events, by the [`Reflector`] that informers
//! use.
//!
//! ```text
//! Watching ── connection lost ────────▶ Connecting ── watch opened ──▶ Watching
//!     │ └──── events compacted ──▶ Listing ── content replaced ──▶ Connecting
//!     └────── store closed, or the task panicked ──▶ Stopped
//! ```
//!
//! A lost connection loses no event: the next watch continues after the last one. If events were
//! compacted before they were read, the reflector lists the store, and the list replaces the
//! snapshots of all resources. Their logs begin at the revision of the list, so that an older
//! watcher gets 410 and also lists again.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;

use super::{ROOT, WatchCache};
use informer::{
    List, ListRequest, ListWatch, ListWatchError, Reflector, ReflectorItem, ReflectorOptions,
    ReflectorStatus, ReflectorStore, Transaction, WatchEvent, WatchRequest, WatchStream,
};
use keel::{Clock, Entropy, Tasks};
use store::{Error, Event, Record, Revision, Store, WatchResponse};

/// Consistent reads wait for this reflector, the only one of the store, so the first retry has no
/// delay. A watch has no timeout: the backend detects a lost connection and ends the watch.
const OPTIONS: ReflectorOptions = ReflectorOptions {
    page_size: u32::MAX,
    watch_timeout: None,
    backoff_base: Duration::from_millis(50),
    backoff_cap: Duration::from_secs(5),
    retries_at_once: true,
};

/// Starts the task that applies the events after `revision`, and ends with `tasks`.
pub(super) fn spawn(
    cache: &Arc<WatchCache>,
    revision: Revision,
    clock: &Clock,
    tasks: &Tasks,
) -> watch::Receiver<ReflectorStatus> {
    let source = StoreListWatch { store: Arc::clone(&cache.store) };
    let reflector_store: Arc<WatchCache> = Arc::clone(cache);
    // There is one cache per store, so a fixed seed is sufficient for the jitter.
    let entropy = Entropy::seeded(0);
    let reflector = Reflector::new(Arc::new(source), reflector_store, OPTIONS, clock, &entropy)
        .starting_at(revision.to_string());
    let status = reflector.status();
    let shutdown = tasks.shutdown();
    tasks.spawn("watch-cache", async move {
        tokio::select! {
            () = reflector.run() => {}
            () = shutdown => {}
        }
    });
    status
}

/// The store as a source of lists and watches.
struct StoreListWatch {
    store: Arc<dyn Store>,
}

/// A record of a list, or an event of a watch.
pub(super) enum StoreItem {
    Record(Arc<Record>),
    Event(Event),
}

impl ReflectorItem for StoreItem {
    type Key = Arc<str>;

    fn key(&self) -> Arc<str> {
        match self {
            Self::Record(record) => Arc::clone(&record.key),
            Self::Event(event) => Arc::clone(&event.key),
        }
    }

    fn resource_version(&self) -> Cow<'_, str> {
        let revision = match self {
            Self::Record(record) => record.modified,
            Self::Event(event) => event.revision,
        };
        revision.to_string().into()
    }
}

impl ListWatch<StoreItem> for StoreListWatch {
    /// All records in one page.
    fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<List<StoreItem>, ListWatchError>> {
        Box::pin(async {
            let page = self.store.range(ROOT, None, usize::MAX, None).await.map_err(list_error)?;
            Ok(List {
                items: page.records.into_iter().map(StoreItem::Record).collect(),
                resource_version: page.revision.to_string(),
                ..List::default()
            })
        })
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxFuture<'_, Result<WatchStream<StoreItem>, ListWatchError>> {
        Box::pin(async move {
            let after = revision_of(request.resource_version.as_deref().unwrap_or_default());
            let watch = self.store.watch(ROOT, after).await.map_err(watch_error)?;
            let events = watch.flat_map(|response| match response {
                Ok(response) => stream::iter(events_of(response)).left_stream(),
                Err(error) => stream::iter([Err(watch_error(error))]).right_stream(),
            });
            Ok(events.boxed())
        })
    }

    fn uses_watch_list(&self) -> bool {
        false
    }
}

/// The events of a response, and a bookmark if its revision is not that of the last event.
fn events_of(
    response: WatchResponse,
) -> impl Iterator<Item = Result<WatchEvent<StoreItem>, ListWatchError>> {
    let newest = response.events.last().map_or(0, |event| event.revision);
    let bookmark = (response.revision > newest).then(|| WatchEvent::Bookmark {
        resource_version: response.revision.to_string(),
        initial_events_end: false,
    });
    // Creations are sent as modifications: to the reflector, version 0, which is that of an empty
    // store, is an unknown version, and an addition does not advance an unknown version.
    let events = response.events.into_iter().map(|event| match event.new {
        Some(_) => WatchEvent::Modified(StoreItem::Event(event)),
        None => WatchEvent::Deleted(StoreItem::Event(event)),
    });
    events.chain(bookmark).map(Ok)
}

/// The revision in a resource version, which [`StoreItem`] and [`StoreListWatch`] have written.
fn revision_of(resource_version: &str) -> Revision {
    resource_version.parse().unwrap_or(0)
}

fn list_error(error: Error) -> ListWatchError {
    if !matches!(error, Error::Closed) {
        tracing::warn!(error = error.with_causes(), "the watch cache cannot list the store");
    }
    list_watch_error(error)
}

fn watch_error(error: Error) -> ListWatchError {
    if !matches!(error, Error::Closed) {
        tracing::warn!(error = error.with_causes(), "the watch cache cannot watch the store");
    }
    list_watch_error(error)
}

fn list_watch_error(error: Error) -> ListWatchError {
    match error {
        Error::Closed => ListWatchError::Stopped,
        // A revision in the future is of a store that was replaced by a backup.
        Error::Compacted { .. } | Error::Future { .. } => ListWatchError::Expired(error.into()),
        _ => ListWatchError::Connection(error.into()),
    }
}

impl ReflectorStore<StoreItem> for WatchCache {
    fn begin_list(&self) {
        self.defer_removals();
    }

    fn replace<'a>(
        &'a self,
        items: Vec<StoreItem>,
        resource_version: &'a str,
    ) -> BoxFuture<'a, ()> {
        let records = items.into_iter().filter_map(|item| match item {
            StoreItem::Record(record) => Some(record),
            StoreItem::Event(_) => None,
        });
        let records: Vec<Arc<Record>> = records.collect();
        self.replace_content(&records, revision_of(resource_version));
        self.apply_deferred_removals();
        Box::pin(std::future::ready(()))
    }

    fn apply(&self, transactions: Vec<Transaction<StoreItem>>) {
        let events = transactions.iter().filter_map(|transaction| match transaction {
            Transaction::Add(StoreItem::Event(event))
            | Transaction::Update(StoreItem::Event(event))
            | Transaction::Delete(StoreItem::Event(event)) => Some(event),
            _ => None,
        });
        self.apply_events(events);
    }

    fn bookmark(&self, resource_version: &str) {
        self.set_applied(revision_of(resource_version));
    }
}
