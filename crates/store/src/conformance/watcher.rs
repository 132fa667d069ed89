//! [`Watcher`]: reads a watch in a test.

use futures_util::StreamExt;

use super::show_events;
use crate::{Error, Event, Revision, Store, Watch, WatchResponse};

/// A watch, and the revision of its last response.
pub(crate) struct Watcher {
    watch: Watch,
    reported: Revision,
}

impl Watcher {
    pub(crate) async fn open(
        store: &dyn Store,
        prefix: &str,
        after: Revision,
    ) -> Result<Self, Error> {
        Ok(Self { watch: store.watch(prefix, after).await?, reported: after })
    }

    /// The next response.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, Error> {
        let response = self.watch.next().await.expect("a watch ends with an error")?;
        let newest = response.events.last().map_or(self.reported, |event| event.revision);
        assert!(response.revision >= newest.max(self.reported), "{response:?}");
        self.reported = response.revision;
        Ok(response)
    }

    /// The next events, `count` at least.
    pub(crate) async fn events(&mut self, count: usize) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        while events.len() < count {
            events.extend(self.next().await?.events);
        }
        Ok(events)
    }

    /// The next events as lines, `count` at least.
    pub(crate) async fn lines(&mut self, count: usize) -> Vec<String> {
        show_events(&self.events(count).await.unwrap())
    }

    /// The events up to the present revision of the store.
    pub(crate) async fn catch_up(&mut self, store: &dyn Store) -> Result<Vec<Event>, Error> {
        let revision = store.revision().await?;
        store.request_progress().await?;
        let mut events = Vec::new();
        while self.reported < revision {
            events.extend(self.next().await?.events);
        }
        Ok(events)
    }
}
