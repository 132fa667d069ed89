//! Events as bytes, for clients that read the body of the response.

use std::sync::Arc;

use bytes::Bytes;

use super::event_form::EventForm;
use super::initial_events::EntryDropped;
use super::large_event::LargeEvent;
use super::{BATCH, Bookmark, WatchAction, Watcher, event, initial_events};
use crate::cache::watch_cache::Change;
use crate::endpoints::object_response;
use crate::registry::conversion::ConvertedChange;
use machinery::Status;

/// The size up to which small events are sent in one chunk.
const CHUNK: usize = 64 << 10;

impl EventForm for Bytes {
    fn initial(watcher: &mut Watcher) -> Result<Self, EntryDropped> {
        let (mut out, mut read) = (Vec::new(), 0);
        while out.len() < CHUNK
            && read < initial_events::MAX_READ
            && let Some(entry) = watcher.initial.pop()
        {
            let entry = entry?;
            read += entry.len();
            watcher.encoder.added(&watcher.cx, &entry, &mut out);
            watcher.events_sent.inc();
        }
        Ok(out.into())
    }

    /// Up to the size of a chunk: an unread watch holds one chunk, and there may be many watches.
    fn changes(
        watcher: &mut Watcher,
        changes: &[Arc<Change>],
        converted: &[ConvertedChange],
    ) -> Option<Self> {
        let mut events = Vec::new();
        let mut size = 0;
        watcher.caught_up = changes.len() < BATCH;
        for (index, change) in changes.iter().enumerate() {
            let selected = watcher.selected(change, converted.get(index));
            let event = watcher.encoder.change(&watcher.cx, change, selected);
            if let Some((event, key)) = &event
                && event.len() >= object_response::LARGE_OBJECT
            {
                watcher.caught_up = false;
                // The events before it are sent first.
                if events.is_empty() {
                    watcher.cursor = change.revision;
                    watcher.large_event = Some(LargeEvent::new(change, *key));
                    watcher.events_sent.inc();
                }
                break;
            }
            watcher.cursor = change.revision;
            if let Some((event, _)) = event {
                size += event.len();
                events.push(event);
            }
            if size >= CHUNK {
                watcher.caught_up = false;
                break;
            }
        }
        watcher.events_sent.add(events.len() as u64);
        event::concatenated(events)
    }

    fn bookmark(watcher: &mut Watcher, bookmark: Bookmark) -> Self {
        watcher.encoder.bookmark(&watcher.cx, watcher.cursor, bookmark)
    }

    fn error(watcher: &Watcher, status: &Status) -> Self {
        event::error(&watcher.cx, status)
    }

    fn next_part(watcher: &mut Watcher) -> Option<WatchAction<Self>> {
        watcher.next_part()
    }

    fn limited(self, watcher: &mut Watcher) -> Self {
        watcher.limit_unread(self)
    }
}
