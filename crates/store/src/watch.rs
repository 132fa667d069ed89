//! [`WatchResponse`]: an item of a watch. `Cursor`: a watch of an [`Engine`](crate::Engine).
//!
//! A cursor is a position in the history and holds no events. An idle one costs a few hundred bytes
//! and is not woken by writes outside of its prefix. One that is too slow for the bounded history
//! ends with [`Error::Compacted`]; the store does not keep more history for it.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use tokio::sync::watch;

use crate::state::{StoreState, WatchedPrefix};
use crate::{Error, Event, Revision};

/// The largest number of events in one response. It limits the time for which the state is locked.
const BATCH: usize = 512;

/// The responses of one watch, in the order of revisions and without a gap. The stream ends after
/// its first error:
/// - [`Error::Compacted`]: events were compacted before they were delivered;
/// - [`Error::Unavailable`]: the connection to the store is lost;
/// - [`Error::Closed`]: the store is closed.
pub type Watch = Pin<Box<dyn Stream<Item = Result<WatchResponse, Error>> + Send>>;

/// One item of a [`Watch`]: events that were committed since the previous one. A response without
/// events is a progress notification: nothing happened up to its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchResponse {
    /// The events, in the order of their revisions.
    pub events: Vec<Event>,
    /// All events of the watch up to this revision are delivered. It is not below the revision of
    /// the last event.
    pub revision: Revision,
}

/// See the [module documentation](self).
pub(crate) struct Cursor {
    state: Arc<StoreState>,
    prefix: Arc<str>,
    /// All events up to this revision are delivered.
    revision: Revision,
    /// The revision of the last response.
    reported: Revision,
    /// Changes with each event on the prefix, and with each request for progress.
    watched: watch::Receiver<WatchedPrefix>,
}

impl Cursor {
    pub(crate) fn new(
        state: &Arc<StoreState>,
        prefix: &str,
        after: Revision,
    ) -> Result<Self, Error> {
        let prefix = Arc::from(prefix);
        let watched = state.subscribe(&prefix, after)?;
        Ok(Self { state: Arc::clone(state), prefix, revision: after, reported: after, watched })
    }

    pub(crate) fn into_watch(self) -> Watch {
        Box::pin(stream::try_unfold(self, async |mut cursor| {
            let response = cursor.next().await?;
            Ok(Some((response, cursor)))
        }))
    }

    async fn next(&mut self) -> Result<WatchResponse, Error> {
        loop {
            if let Some(response) = self.take()? {
                return Ok(response);
            }
            self.watched.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    /// The response that is available now, if there is one.
    fn take(&mut self) -> Result<Option<WatchResponse>, Error> {
        let (events, revision) =
            self.state.events(&self.prefix, self.revision, &mut self.watched, BATCH)?;
        let is_requested = self.watched.borrow().requested > self.reported;
        self.revision = revision;
        if events.is_empty() && !is_requested {
            return Ok(None);
        }
        self.reported = revision;
        Ok(Some(WatchResponse { events, revision }))
    }
}
