//! Resync: a handler with a resync period is called again for all cached objects, through the Delta
//! FIFO. No request is sent.

use std::sync::Arc;
use std::time::Duration;

use crate::event_handler::HandlerId;
use crate::informer::InformerState;

/// Runs until the handler is removed.
pub(crate) async fn resync_periodically(
    state: Arc<InformerState>,
    handler: HandlerId,
    period: Duration,
) {
    loop {
        state.clock.sleep(period).await;
        if !state.has_handler(handler) {
            return;
        }
        for item in state.indexer.list() {
            state.fifo.sync(item, handler);
        }
        state.apply_all().await;
    }
}
