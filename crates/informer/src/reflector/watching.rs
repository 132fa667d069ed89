//! The watches of a [`Reflector`]. Events that are ready together are applied together.

use std::future::{pending, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;

use super::position::{Novelty, Position};
use super::{Reflector, ReflectorItem, ReflectorPhase, Transaction};
use crate::{ListWatchError, WatchEvent, WatchRequest, WatchStream};

/// The time after the timeout of a watch within which the server must close it.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// A watch that is closed earlier without an event counts as failed.
const MIN_WATCH_TIME: Duration = Duration::from_secs(1);
/// The largest number of events that are applied together.
pub(crate) const MAX_BATCH: usize = 256;

impl<T: ReflectorItem> Reflector<T> {
    pub(super) async fn watch(
        &self,
        position: &mut Position,
        from: String,
    ) -> Result<(), ListWatchError> {
        let timeout = self.draw_watch_timeout();
        let followed = match self.open(Some(from), timeout).await {
            Ok(stream) => self.follow(position, stream, timeout).await,
            Err(error) => Err(error),
        };
        position.leave_unknown_version();
        followed
    }

    pub(super) async fn open(
        &self,
        from: Option<String>,
        timeout: Option<Duration>,
    ) -> Result<WatchStream<T>, ListWatchError> {
        let request = WatchRequest {
            selection: self.selection.clone(),
            initial_events: from.is_none(),
            resource_version: from,
            timeout_seconds: timeout
                .map(|timeout| u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX)),
            strips_managed_fields: self.strips_managed_fields,
        };
        let stream = tokio::select! {
            stream = self.source.watch(request) => stream?,
            () = self.clock.sleep(self.options.request_timeout) => return Err(ListWatchError::TimedOut),
        };
        self.status.send_modify(|status| {
            status.watches += 1;
            (status.last_error, status.failing_since) = (None, None);
        });
        Ok(stream)
    }

    /// Applies events until the watch ends.
    pub(super) async fn follow(
        &self,
        position: &mut Position,
        mut stream: WatchStream<T>,
        timeout: Option<Duration>,
    ) -> Result<(), ListWatchError> {
        self.set_phase(ReflectorPhase::Watching);
        position.watch_opened();
        let (began, mut has_events) = (self.clock.instant(), false);
        let mut expiry = pin!(async {
            match timeout {
                Some(timeout) => self.clock.sleep(timeout.saturating_add(WATCH_GRACE)).await,
                None => pending().await,
            }
        });
        let mut batch = Vec::new();
        loop {
            let event = tokio::select! {
                biased;
                event = self.next_event(&mut stream, position, &mut batch) => event,
                () = &mut expiry => return Err(ListWatchError::TimedOut),
            };
            let Some(event) = event.transpose()? else { break };
            let queued = self.queue(position, event, &mut batch);
            let is_full = batch.len() >= MAX_BATCH;
            if is_full || queued.is_err() {
                self.apply(position, &mut batch);
            }
            queued?;
            has_events = true;
            position.made_progress();
            if is_full {
                tokio::task::yield_now().await;
            }
        }
        if !has_events && self.clock.elapsed_since(&began) < MIN_WATCH_TIME {
            return Err(ListWatchError::ClosedEarly);
        }
        position.backoff.reset();
        Ok(())
    }

    /// Adds the change that `event` shows to `batch`.
    fn queue(
        &self,
        position: &mut Position,
        event: WatchEvent<T>,
        batch: &mut Vec<Transaction<T>>,
    ) -> Result<(), ListWatchError> {
        let (novelty, transaction) = match event {
            WatchEvent::Added(item) => {
                let novelty = position.advance_with_addition(&item.resource_version());
                (novelty, Transaction::Add(item))
            }
            WatchEvent::Modified(item) => {
                (position.advance(&item.resource_version()), Transaction::Update(item))
            }
            WatchEvent::Deleted(item) => {
                (position.advance(&item.resource_version()), Transaction::Delete(item))
            }
            WatchEvent::Bookmark { resource_version, .. } => {
                position.advance_to_bookmark(&resource_version)?;
                self.apply(position, batch);
                self.store.bookmark(&resource_version);
                return Ok(());
            }
            WatchEvent::Bad { resource_version, error } => {
                self.count_bad_item(&error);
                // It may be an initial item of a watch from an unknown version.
                position.advance_with_addition(&resource_version)?;
                return Ok(());
            }
            WatchEvent::Error(status) => return Err(ListWatchError::Refused(status)),
        };
        if novelty? == Novelty::New {
            batch.push(transaction);
        }
        Ok(())
    }

    /// The next event. Before it waits for one, and before the watch ends, `batch` is applied.
    async fn next_event(
        &self,
        stream: &mut WatchStream<T>,
        position: &Position,
        batch: &mut Vec<Transaction<T>>,
    ) -> Option<Result<WatchEvent<T>, ListWatchError>> {
        poll_fn(|context| {
            let event = stream.poll_next_unpin(context);
            if !matches!(event, Poll::Ready(Some(Ok(_)))) {
                self.apply(position, batch);
            }
            event
        })
        .await
    }

    fn apply(&self, position: &Position, batch: &mut Vec<Transaction<T>>) {
        if !batch.is_empty() {
            self.store.apply(mem::take(batch));
        }
        // Returns false: no receiver is woken, since this happens with every event.
        self.status.send_if_modified(|status| {
            status.resource_version.clone_from(&position.version);
            false
        });
    }

    /// A random timeout for each watch, so that the watches of many clients do not end together.
    pub(super) fn draw_watch_timeout(&self) -> Option<Duration> {
        self.options.watch_timeout.map(|base| {
            let nanos = u64::try_from(base.as_nanos()).unwrap_or(u64::MAX);
            base.saturating_add(Duration::from_nanos(self.entropy.below(nanos)))
        })
    }
}
