//! Deletes records when they expire, and closes the store when its tasks stop.
//!
//! An expired record is deleted by an ordinary write, which watches deliver. Until that write, the
//! record can be read.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::{Engine, Error, Store};
use keel::{Backoff, Clock, Entropy, Timestamp};

/// The largest number of records that one commit deletes.
const MAX_BATCH: usize = 256;

/// Runs until `shutdown`, and then closes the store.
pub(crate) async fn run(
    engine: Arc<Engine>,
    mut next: watch::Receiver<Option<Timestamp>>,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    // There is one such task per store, so a fixed seed is sufficient for the jitter.
    let entropy = Entropy::seeded(0);
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(1), entropy);
    loop {
        let due = *next.borrow_and_update();
        tokio::select! {
            () = &mut shutdown => break,
            _ = next.changed() => {
                if engine.is_closed() {
                    return;
                }
                continue;
            }
            () = sleep_until(&clock, due) => {}
        }
        match engine.delete_expired(MAX_BATCH).await {
            Ok(_) => backoff.reset(),
            Err(Error::Closed) => return,
            Err(error) => {
                tracing::warn!(
                    error = error.with_causes(),
                    "expired records could not be deleted; trying again later"
                );
                tokio::select! {
                    () = &mut shutdown => break,
                    () = clock.sleep(backoff.next_delay()) => {}
                }
            }
        }
    }
    if let Err(error) = engine.close().await {
        tracing::error!(error = error.with_causes(), "the store was not closed cleanly");
    }
}

async fn sleep_until(clock: &Clock, due: Option<Timestamp>) {
    match due {
        Some(due) => clock.sleep_until(due).await,
        None => std::future::pending().await,
    }
}
