//! Resync: at a handler's own period, everything that is cached goes through the Delta FIFO once
//! more, for that handler only. No request is made; it is the handler's second look.

use std::{sync::Arc, time::Duration};

use crate::{event_handler::HandlerId, informer::InformerState};

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
