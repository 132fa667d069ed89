//! Keeps the [`WatchCache`] in sync with the store: follows its events, and lists afresh when some
//! of them are no longer in the store's history.
//!
//! ```text
//! Synced ── events lost ──▶ Relisting ── snapshot in place, watch open ──▶ Synced
//!    └─────── store closed, or the task panicked ───────▶ Stopped
//! ```
//!
//! A watch of the store ends with [`Error::Compacted`] when a commit pushes events out of the
//! history before they were read. The state of the store is then read at one revision and takes
//! the place of all resources' snapshots; their logs begin anew at that revision, so that watchers
//! that are not as far get 410 and list again, too.

use super::{ROOT, WatchCache};
use futures_util::StreamExt;
use keel::{Backoff, Clock, Entropy};
use std::sync::Arc;
use std::time::Duration;
use store::{Error, Watch, WatchResponse};

/// The pauses between attempts to list that fail.
const BACKOFF_BASE: Duration = Duration::from_millis(50);
const BACKOFF_CAP: Duration = Duration::from_secs(5);

/// Whether the cache shows what is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncState {
    /// It is as far as the store, or on the way there.
    Synced,
    /// It has missed events. Reads wait until it has listed afresh.
    Relisting,
    /// Nothing brings it up to date any more. The process has to be restarted.
    Stopped,
}

/// Applies the store's events until it is closed.
pub(super) async fn follow(cache: Arc<WatchCache>, mut events: Watch, clock: Clock) {
    let _stopped = StoppedAtEnd(&cache);
    loop {
        match next(&mut events).await {
            Ok(response) => cache.apply(&response),
            Err(Error::Closed) => return,
            Err(error) => {
                tracing::warn!(
                    error = error.with_causes(),
                    "the watch cache missed events and lists afresh"
                );
                cache.set_sync_state(SyncState::Relisting);
                let Ok(watch) = relist(&cache, &clock).await else { return };
                events = watch;
                cache.end_relist();
            }
        }
    }
}

/// The next response of a watch, whose stream ends after its first error.
pub(super) async fn next(events: &mut Watch) -> Result<WatchResponse, Error> {
    events.next().await.unwrap_or(Err(Error::Closed))
}

/// Replaces the content of the cache, and returns a watch that goes on from there. Fails only if
/// the store is closed.
pub(super) async fn relist(cache: &WatchCache, clock: &Clock) -> Result<Watch, Error> {
    // There is one cache per store: a fixed seed jitters well enough.
    let mut backoff = Backoff::new(BACKOFF_BASE, BACKOFF_CAP, Entropy::seeded(0));
    loop {
        match try_relist(cache).await {
            Ok(watch) => return Ok(watch),
            Err(Error::Closed) => return Err(Error::Closed),
            Err(error) => {
                tracing::warn!(
                    error = error.with_causes(),
                    "the watch cache cannot list the store; trying again"
                );
                clock.sleep(backoff.next_delay()).await;
            }
        }
    }
}

async fn try_relist(cache: &WatchCache) -> Result<Watch, Error> {
    let page = cache.store.range(ROOT, None, usize::MAX, None).await?;
    // Before the content is replaced: if the history has moved on again, it must be listed again.
    let watch = cache.store.watch(ROOT, page.revision).await?;
    cache.replace(&page);
    Ok(watch)
}

/// Notes the end of the task, also if it panics.
struct StoppedAtEnd<'a>(&'a WatchCache);

impl Drop for StoppedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set_sync_state(SyncState::Stopped);
    }
}
