//! The periodic maintenance of a durable store: it restores the reserve of disk space, and returns
//! unused space to the file system. The caller of [`Store::compact`](crate::Store::compact) decides
//! how long history is kept.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{Engine, Error};
use keel::Clock;

/// The time between two rounds.
pub(crate) const INTERVAL: Duration = Duration::from_mins(5);

/// Runs until `shutdown`, or until the store is closed. The first round begins at once.
pub(crate) async fn run(engine: Arc<Engine>, clock: Clock, shutdown: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    loop {
        match engine.maintain().await {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => {
                tracing::warn!(error = error.with_causes(), "the maintenance of the store failed");
            }
        }
        tokio::select! {
            () = &mut shutdown => return,
            () = clock.sleep(INTERVAL) => {}
        }
    }
}
