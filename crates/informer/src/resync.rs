//! Resync: a handler with a resync period is called again for all cached objects, through the Delta
//! FIFO. No request is sent.

use std::sync::Arc;
use std::time::Duration;

use crate::event_handler::HandlerId;
use crate::informer::InformerState;

/// Runs until the handler is removed.
pub(crate) async fn resync_periodically(
    shared: Arc<InformerState>,
    handler: HandlerId,
    period: Duration,
) {
    loop {
        shared.clock.sleep(period).await;
        if !shared.has_handler(handler) {
            return;
        }
        for item in shared.indexer.list() {
            shared.fifo.sync(item, handler);
        }
        shared.apply_all().await;
    }
}
