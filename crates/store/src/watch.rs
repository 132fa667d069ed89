//! [`Watch`]: a cursor in the store's history.
//!
//! A watch holds no events. One that is idle costs a few hundred bytes and is not woken by writes
//! outside of its prefix; one that is too slow for the bounded history ends with
//! [`Error::Compacted`] instead of making the store keep more.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    Error, Event, Revision,
    shared::{Shared, Topic},
};

/// How many events one call hands out at most, to keep the time short for which the state is
/// locked.
const BATCH: usize = 512;

/// The events on some keys, in the order of their revisions and without a gap.
pub struct Watch {
    shared: Arc<Shared>,
    prefix: Arc<str>,
    /// Everything up to here was delivered.
    cursor: Revision,
    /// What happened to the prefix; wakes us when something does.
    topic: watch::Receiver<Topic>,
}

impl Watch {
    pub(crate) fn new(shared: &Arc<Shared>, prefix: &str, after: Revision) -> Result<Self, Error> {
        let prefix = Arc::from(prefix);
        let topic = shared.subscribe(&prefix, after)?;
        Ok(Self { shared: Arc::clone(shared), prefix, cursor: after, topic })
    }

    /// The next events, at least one; waits for it if need be. Nothing is lost when the future is
    /// dropped before it is ready.
    ///
    /// Fails with [`Error::Compacted`] if the watch fell behind what the history keeps, and with
    /// [`Error::Closed`] at the end of the store.
    pub async fn next(&mut self) -> Result<Vec<Event>, Error> {
        loop {
            // Before looking at the events: a change from here on ends the wait below.
            self.topic.mark_unchanged();
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.topic.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    /// The events that [`next`](Self::next) would return without waiting; none if it would wait.
    pub fn take(&mut self) -> Result<Vec<Event>, Error> {
        let (events, cursor) = self.shared.events(&self.prefix, self.cursor, &self.topic, BATCH)?;
        self.cursor = cursor;
        Ok(events)
    }

    /// The revision up to which this watch has delivered everything there is. After a
    /// [`take`](Self::take) that found nothing, that is the revision of the store.
    pub fn revision(&self) -> Revision {
        self.cursor
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch of {} after {}", self.prefix, self.cursor)
    }
}
