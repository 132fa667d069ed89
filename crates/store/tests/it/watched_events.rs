//! Reads the history of a store.

use futures_util::{FutureExt, StreamExt};

use store::{Error, Event, Revision, Store, Watch};

/// The events after `after`, without those to come.
pub(crate) async fn past_events(store: &dyn Store, after: Revision) -> Result<Vec<Event>, Error> {
    let mut watch = store.watch("", after).await?;
    Ok(take_events(&mut watch))
}

/// The events that a watch of a store in this process delivers without a wait.
pub(crate) fn take_events(watch: &mut Watch) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(Some(response)) = watch.next().now_or_never() {
        events.extend(response.unwrap().events);
    }
    events
}
