//! What a durable store does from time to time, whether or not anybody writes: it restores its
//! reserve of disk space, and returns unused space to the file system. How long history is kept is
//! decided by the caller of [`Store::compact`](crate::Store::compact).

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use keel::Clock;

use crate::{Engine, Error};

/// The time between two rounds.
pub(crate) const INTERVAL: Duration = Duration::from_mins(5);

/// Runs until `shutdown`, or until the store is closed; the first round is at once.
pub(crate) async fn keep(engine: Arc<Engine>, clock: Clock, shutdown: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    loop {
        match engine.maintain().await {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => {
                tracing::warn!(error = error.with_causes(), "the store cannot tidy its files");
            }
        }
        tokio::select! {
            () = &mut shutdown => return,
            () = clock.sleep(INTERVAL) => {}
        }
    }
}
