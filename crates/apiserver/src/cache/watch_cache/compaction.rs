//! Forgets history by its age, as kube-apiserver lets etcd do it: every five minutes, what is older
//! than five minutes. So a `continue` token is good for five to ten minutes, and what was deleted
//! does not stay in memory for longer.
//!
//! The age of history is decided here alone: the store keeps what it is not told to compact. A
//! store that cannot be compacted is told again after the next interval, and does not keep the
//! caches from being compacted.
//!
//! Upstream: storage/etcd3/compact.go

use super::WatchCache;
use keel::Clock;
use std::sync::Arc;
use std::time::Duration;
use store::Error;

/// Upstream: --etcd-compaction-interval
pub(super) const INTERVAL: Duration = Duration::from_mins(5);

/// Compacts until the store is closed.
pub(super) async fn compact_periodically(cache: Arc<WatchCache>, clock: Clock) {
    loop {
        let revision = cache.applied();
        clock.sleep(INTERVAL).await;
        match cache.compact(revision).await {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => tracing::warn!(
                error = error.with_causes(),
                "the store's history cannot be compacted"
            ),
        }
    }
}
