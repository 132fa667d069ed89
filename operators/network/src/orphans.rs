//! Finds networks in the backend whose Network does not exist.
//!
//! Their keys are queued like those of Networks, so that no two workers have the same one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::backend::{Backend, BackendError};
use crate::controller::Context;
use runtime::prelude::*;

/// Sends the keys of orphans to `queue` when the workers start, and then with this period.
pub(crate) fn find_periodically<B: Backend>(
    manager: &Manager,
    context: Arc<Context<B>>,
    period: Duration,
    queue: mpsc::Sender<Request>,
) {
    let (running, clock, stop) =
        (manager.clone(), manager.clock().clone(), manager.tasks().shutdown());
    let search = async move {
        running.wait_until_ready().await;
        drop(running);
        loop {
            match find(&context).await {
                Ok(orphans) => {
                    for orphan in orphans {
                        // Waits while the queue is full.
                        let _ = queue.send(orphan).await;
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot look for orphans"),
            }
            clock.sleep(period).await;
        }
    };
    manager.tasks().spawn("orphans", async move {
        tokio::select! {
            () = search => {}
            () = stop => {}
        }
    });
}

async fn find<B: Backend>(context: &Context<B>) -> Result<Vec<Request>, BackendError> {
    // In this order: what another worker makes meanwhile is in the cache, but not in this list.
    let mut keys = context.backend.keys(context.owner().await?).await?;
    keys.retain(|key| context.networks.indexer().get(key).is_none());
    keys.dedup();
    Ok(keys)
}
