//! The lists of a [`Reflector`]: streamed in a watch with initial events, or in pages.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use futures_util::StreamExt;

use super::position::{Position, is_expired, is_unsupported};
use super::{Reflector, ReflectorItem};
use crate::{ListRequest, ListWatchError, WatchEvent, WatchStream};

/// The longest time between two initial items. A server that is silent for longer, or sends initial
/// items for longer than [`MAX_INITIAL_TIME`], does not support initial events.
const MAX_INITIAL_PAUSE: Duration = Duration::from_secs(10);
const MAX_INITIAL_TIME: Duration = Duration::from_mins(2);

impl<T: ReflectorItem> Reflector<T> {
    /// Lists by a watch with initial events, and in pages if that fails with a code from 500 on. A
    /// kube-apiserver on an etcd without progress notifications, for instance, supports initial events
    /// and fails to send them, with the same response as for any other failure.
    pub(super) async fn stream_or_list(
        &self,
        position: &mut Position,
    ) -> Result<(), ListWatchError> {
        let streamed = self.stream_list(position).await;
        if position.version.is_some() {
            return streamed;
        }
        match streamed {
            Err(ListWatchError::Refused(status)) if status.code >= 500 => {
                tracing::debug!(%status, "no initial events; listing instead");
                self.list_pages(position).await
            }
            Err(error) => {
                position.count_failed_stream();
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Requests all items and their changes in one watch.
    async fn stream_list(&self, position: &mut Position) -> Result<(), ListWatchError> {
        self.store.begin_list();
        let timeout = self.draw_watch_timeout();
        let mut stream = match self.open(None, timeout).await {
            Err(ListWatchError::Refused(status)) if is_unsupported(&status) => {
                position.stop_streaming();
                return Ok(());
            }
            stream => stream?,
        };
        let mut items = BTreeMap::new();
        let (began, mut last_addition) = (self.clock.instant(), self.clock.instant());
        loop {
            let pause = MAX_INITIAL_PAUSE
                .saturating_sub(self.clock.elapsed_since(&last_addition))
                .min(MAX_INITIAL_TIME.saturating_sub(self.clock.elapsed_since(&began)));
            let event = match self.next_within(&mut stream, pause).await {
                Ok(Some(event)) if !pause.is_zero() => event,
                Ok(_) | Err(ListWatchError::TimedOut) => {
                    position.stop_streaming();
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            match event {
                WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                    let item = self.store.transform(item);
                    if items.insert(item.key(), item).is_none() {
                        last_addition = self.clock.instant();
                    }
                }
                WatchEvent::Deleted(item) => drop(items.remove(&item.key())),
                WatchEvent::Bad { error, .. } => self.count_bad_item(&error),
                WatchEvent::Error(status) => return Err(ListWatchError::Refused(status)),
                WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                    let items = items.into_values().collect();
                    self.replace(position, items, resource_version).await;
                    return self.follow(position, stream, timeout).await;
                }
                WatchEvent::Bookmark { .. } => {}
            }
        }
    }

    pub(super) async fn list_pages(&self, position: &mut Position) -> Result<(), ListWatchError> {
        self.store.begin_list();
        let (mut items, mut version, mut token) = (Vec::new(), None, None);
        loop {
            let request = ListRequest {
                selection: self.selection.clone(),
                limit: position.pages.then_some(self.options.page_size),
                continue_token: token.take(),
                resource_version: None,
            };
            let is_continued = request.continue_token.is_some();
            let page = tokio::select! {
                page = self.source.list(request) => page,
                () = self.clock.sleep(self.options.request_timeout) => Err(ListWatchError::TimedOut),
            };
            let page = page.inspect_err(|error| {
                let is_token_expired = is_continued && is_expired(error);
                // The next list is requested without pages, and the one after it in pages again.
                position.pages = !(position.pages && is_token_expired);
            })?;
            page.bad.iter().for_each(|bad| self.count_bad_item(bad));
            items.extend(page.items.into_iter().map(|item| self.store.transform(item)));
            // The watch starts at the version of the first page. Changes during the other pages are
            // received again.
            let version = version.get_or_insert(page.resource_version);
            token = page.continue_token;
            if token.is_none() {
                let version = mem::take(version);
                self.replace(position, items, version).await;
                return Ok(());
            }
        }
    }

    async fn replace(&self, position: &mut Position, items: Vec<T>, version: String) {
        self.store.replace(items, &version).await;
        position.absence = None;
        self.status.send_modify(|status| {
            status.lists += 1;
            status.resource_version = Some(version.clone());
        });
        position.listed_at(version);
    }

    /// The next event within `pause`; `None` at the end of the watch.
    async fn next_within(
        &self,
        stream: &mut WatchStream<T>,
        pause: Duration,
    ) -> Result<Option<WatchEvent<T>>, ListWatchError> {
        tokio::select! {
            biased;
            event = stream.next() => event.transpose(),
            () = self.clock.sleep(pause) => Err(ListWatchError::TimedOut),
        }
    }
}
