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
use store::{Error, Event, Page, Record, Revision, Store, WatchResponse};

/// The number of records that one request reads. A store behind a network answers such a request in
/// a fraction of the timeout.
const PAGE_SIZE: u32 = 10_000;

/// Consistent reads wait for this reflector, the only one of the store, so the first retry has no
/// delay. A watch has no timeout: the backend detects a lost connection and ends the watch.
const OPTIONS: ReflectorOptions = ReflectorOptions {
    page_size: PAGE_SIZE,
    request_timeout: Duration::from_mins(1),
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

/// All records at one revision, read in pages. If the revision is compacted meanwhile, one request
/// reads all records.
pub(super) async fn read_all(store: &dyn Store) -> Result<Page, Error> {
    let limit = PAGE_SIZE as usize;
    let mut all = store.range(ROOT, None, limit, None).await?;
    while let Some(start) = next_start(&all) {
        match store.range(ROOT, Some(&start), limit, Some(all.revision)).await {
            Ok(page) => {
                all.records.extend(page.records);
                all.remaining = page.remaining;
            }
            Err(Error::Compacted { .. }) => {
                return store.range(ROOT, None, usize::MAX, None).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// The first possible key of the page after `page`, if there is one.
fn next_start(page: &Page) -> Option<String> {
    let last = page.records.last().filter(|_| page.more())?;
    Some(format!("{}\0", last.key))
}

/// The store as a source of lists and watches.
struct StoreListWatch {
    store: Arc<dyn Store>,
}

/// The state of a key after a write. A record of a list is the state after the last write of its key.
pub(super) struct StoreItem(Event);

impl From<Arc<Record>> for StoreItem {
    fn from(record: Arc<Record>) -> Self {
        let (revision, key) = (record.modified, Arc::clone(&record.key));
        Self(Event { revision, key, new: Some(record), old: None })
    }
}

impl ReflectorItem for StoreItem {
    type Key = Arc<str>;

    fn key(&self) -> Arc<str> {
        Arc::clone(&self.0.key)
    }

    fn resource_version(&self) -> Cow<'_, str> {
        self.0.revision.to_string().into()
    }
}

impl ListWatch<StoreItem> for StoreListWatch {
    /// All pages show the records at the revision of the first one. A continue token is that revision
    /// and the first possible key of the page.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<List<StoreItem>, ListWatchError>> {
        Box::pin(async move {
            let token = request.continue_token.as_deref().and_then(|token| token.split_once(' '));
            let (start, at) = token.map(|(at, start)| (start, revision_of(at))).unzip();
            let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
            let page = self.store.range(ROOT, start, limit, at).await.map_err(list_error)?;
            Ok(List {
                resource_version: page.revision.to_string(),
                continue_token: next_start(&page).map(|start| format!("{} {start}", page.revision)),
                items: page.records.into_iter().map(StoreItem::from).collect(),
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
        Some(_) => WatchEvent::Modified(StoreItem(event)),
        None => WatchEvent::Deleted(StoreItem(event)),
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
        // A key without a record does not exist.
        let records: Vec<Arc<Record>> =
            items.into_iter().filter_map(|StoreItem(event)| event.new).collect();
        self.replace_content(&records, revision_of(resource_version));
        self.apply_deferred_removals();
        Box::pin(std::future::ready(()))
    }

    fn apply(&self, transactions: Vec<Transaction<StoreItem>>) {
        self.apply_events(transactions.iter().map(|transaction| match transaction {
            Transaction::Add(StoreItem(event))
            | Transaction::Update(StoreItem(event))
            | Transaction::Delete(StoreItem(event)) => event,
        }));
    }

    fn bookmark(&self, resource_version: &str) {
        self.set_applied(revision_of(resource_version));
    }
}

#[cfg(test)]
mod tests;
