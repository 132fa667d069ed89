//! The sweeper: deletes records when they expire, and closes the store when its tasks stop.
//!
//! A record that expires is deleted by an ordinary write, so watches see it go. Between the time
//! at which it expires and that write it can still be read.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use keel::{Backoff, Clock, Entropy, Timestamp};
use tokio::sync::watch;

use crate::{Engine, Error, Store};

/// How many records one commit deletes at most.
const BATCH: usize = 256;

/// Runs until `shutdown`, and closes the store then.
pub(crate) async fn keep(
    engine: Arc<Engine>,
    mut next: watch::Receiver<Option<Timestamp>>,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    // One sweeper has nobody to collide with: a fixed seed jitters well enough.
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
        match engine.sweep(BATCH).await {
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
