//! Resyncs: all Networks are compared with the backend with a period, and so is what the backend has
//! of Networks that do not exist.
//!
//! A resync lists the backend once, before the first plan. All keys go through the queue of the
//! controller, so that no two workers have the same one.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::backend::{Backend, BackendError};
use crate::controller::{Context, SLOW};
use runtime::prelude::*;

/// Sends the keys of orphans to `queue` when the workers start, when all Networks are in the queue
/// anyway; and then all keys with this period.
pub(crate) fn run_periodically<B: Backend>(
    manager: &Manager,
    context: Arc<Context<B>>,
    period: Duration,
    queue: mpsc::Sender<Request>,
) {
    let (running, clock, stop) =
        (manager.clone(), manager.clock().clone(), manager.tasks().shutdown());
    let resyncs = async move {
        running.wait_until_ready().await;
        drop(running);
        let mut keys = backend_keys(&context, &clock).await;
        keys.retain(|key| context.networks.indexer().get(key).is_none());
        loop {
            for key in keys {
                // Waits while the queue is full.
                let _ = queue.send(key).await;
            }
            clock.sleep(period).await;
            keys = backend_keys(&context, &clock).await;
            let cached = context.networks.indexer().list();
            keys.extend(cached.iter().map(|network| network.key().clone()));
        }
    };
    manager.tasks().spawn("resync", async move {
        tokio::select! {
            () = resyncs => {}
            () = stop => {}
        }
    });
}

/// The Networks of which the backend has something; none if it does not say.
async fn backend_keys<B: Backend>(context: &Context<B>, clock: &Clock) -> BTreeSet<Request> {
    let list = async || {
        let keys = context.backend.keys(context.cluster_name().await?).await?;
        Ok::<_, BackendError>(keys.into_iter().collect())
    };
    let mut listing = pin!(list());
    let listed = tokio::select! {
        listed = &mut listing => listed,
        () = clock.sleep(SLOW) => {
            tracing::warn!("the backend has not listed its networks in {} s", SLOW.as_secs());
            listing.await
        }
    };
    listed.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot list the networks of the backend");
        BTreeSet::new()
    })
}
