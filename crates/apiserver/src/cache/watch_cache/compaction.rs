//! Compacts the history by its age, as kube-apiserver does with etcd: every five minutes, the history
//! that is older than five minutes. A `continue` token is therefore valid for five to ten minutes, and
//! deleted objects stay in memory no longer than that.
//!
//! The store compacts its history only on request, and within its bounds. A failed compaction of the
//! store is repeated after the next interval; the caches are compacted all the same.
//!
//! Upstream: storage/etcd3/compact.go

use std::sync::Arc;
use std::time::Duration;

use super::WatchCache;
use keel::Clock;
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
