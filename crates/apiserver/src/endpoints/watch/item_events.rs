//! Events as items, for a client in this process: they share the bytes of the cache and are not
//! encoded. All watchers of a change share one item.
//!
//! The response has a body as well, for a client that does not take the items.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::vec;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::Stream;
use http::Response;

use super::event_form::EventForm;
use super::initial_events::EntryDropped;
use super::{BATCH, Bookmark, WatchAction, Watcher};
use crate::cache::watch_cache::{Change, Entry};
use crate::endpoints::object_response;
use crate::http::body::Body;
use crate::http::response;
use crate::registry::conversion::ConvertedChange;
use informer::shared_items::ItemEvents;
use informer::{BadItem, Item, ListWatchError, WatchEvent};
use machinery::Status;
use store::Revision;

/// The maximum number of initial events that are made at once.
const INITIAL_BATCH: usize = 256;

/// The watcher of a response, until the items or the body are read.
type UnreadWatcher = Arc<Mutex<Option<Watcher>>>;

fn take(watcher: &UnreadWatcher) -> Option<Watcher> {
    watcher.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A response with the events of `watcher`, as items or as a body.
pub(super) fn response(watcher: Watcher, content_type: &str) -> Response<Body> {
    let unread = Arc::new(Mutex::new(Some(watcher)));
    let items = ItemEvents::new({
        let unread = Arc::clone(&unread);
        move || {
            let watcher = take(&unread)?;
            Some(ItemStream { watcher, ready: Vec::new().into_iter() }.boxed())
        }
    });
    let body = BodyStream { unread, watcher: None };
    let mut response = response::bytes(200, content_type, Body::stream(body));
    response.extensions_mut().insert(items);
    response
}

/// The events of a watcher as bytes; none if the items were taken.
struct BodyStream {
    unread: UnreadWatcher,
    watcher: Option<Watcher>,
}

impl Stream for BodyStream {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.watcher.is_none() {
            self.watcher = take(&self.unread);
        }
        self.watcher.as_mut().map_or(Poll::Ready(None), |watcher| watcher.poll_events(cx))
    }
}

/// The events of a watcher as items.
struct ItemStream {
    watcher: Watcher,
    ready: vec::IntoIter<WatchEvent>,
}

impl Stream for ItemStream {
    type Item = Result<WatchEvent, ListWatchError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.next() {
                return Poll::Ready(Some(Ok(event)));
            }
            let Some(ItemBatch(events)) = ready!(self.watcher.poll_events(cx)) else {
                return Poll::Ready(None);
            };
            self.ready = events.into_iter();
        }
    }
}

/// Events with items.
struct ItemBatch(Vec<WatchEvent>);

impl EventForm for ItemBatch {
    fn initial(watcher: &mut Watcher) -> Result<Self, EntryDropped> {
        let mut events = Vec::new();
        while events.len() < INITIAL_BATCH
            && let Some(entry) = watcher.initial.pop()
        {
            let entry = entry?;
            let item = watcher.item(&entry, entry.revision);
            events.push(event(item, entry.revision, WatchEvent::Added));
        }
        watcher.events_sent.add(events.len() as u64);
        Ok(Self(events))
    }

    fn changes(
        watcher: &mut Watcher,
        changes: &[Arc<Change>],
        converted: &[ConvertedChange],
    ) -> Option<Self> {
        let mut events = Vec::new();
        watcher.caught_up = changes.len() < BATCH;
        for (index, change) in changes.iter().enumerate() {
            let selected = watcher.selected(change, converted.get(index));
            events.extend(watcher.change_event(change, selected));
            watcher.cursor = change.revision;
        }
        watcher.events_sent.add(events.len() as u64);
        (!events.is_empty()).then_some(Self(events))
    }

    fn bookmark(watcher: &mut Watcher, bookmark: Bookmark) -> Self {
        Self(vec![WatchEvent::Bookmark {
            resource_version: watcher.cursor.to_string(),
            initial_events_end: bookmark == Bookmark::AfterInitial,
        }])
    }

    fn error(_: &Watcher, status: &Status) -> Self {
        Self(vec![WatchEvent::Error(status.clone())])
    }

    fn next_part(_: &mut Watcher) -> Option<WatchAction<Self>> {
        None
    }

    /// Clients in this process have no limit, and items are not copies.
    fn limited(self, _: &mut Watcher) -> Self {
        self
    }
}

impl Watcher {
    /// The event of a change: an object was added to the selection, modified, or removed from it.
    fn change_event(
        &self,
        change: &Change,
        selected: (Option<&Arc<Entry>>, Option<&Arc<Entry>>),
    ) -> Option<WatchEvent> {
        let (entry, make): (_, fn(Item) -> WatchEvent) = match selected {
            (None, None) => return None,
            (None, Some(new)) => (new, WatchEvent::Added),
            (Some(_), Some(new)) => (new, WatchEvent::Modified),
            // Upstream: the event has the last selected state, with the revision of the deletion.
            (Some(old), None) => (old, WatchEvent::Deleted),
        };
        let is_new = selected.1.is_some();
        if is_new
            && self.cx.accept_items.is_some_and(|it| !it.managed_fields)
            && object_response::is_served_as_stored(&self.served, self.cx.scope.version, entry)
            && let Some(item) = change.item()
        {
            return Some(make(item));
        }
        Some(event(self.item(entry, change.revision), change.revision, make))
    }

    fn item(&self, entry: &Entry, revision: Revision) -> Result<Item, BadItem> {
        let managed_fields = self.cx.accept_items.is_none_or(|it| it.managed_fields);
        object_response::item(&self.cx, entry, revision, managed_fields)
    }
}

fn event(
    item: Result<Item, BadItem>,
    revision: Revision,
    make: fn(Item) -> WatchEvent,
) -> WatchEvent {
    match item {
        Ok(item) => make(item),
        Err(error) => {
            WatchEvent::Bad { resource_version: revision.to_string(), error: Arc::new(error) }
        }
    }
}
