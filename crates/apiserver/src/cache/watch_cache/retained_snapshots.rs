//! [`RetainedSnapshots`]: the snapshots of lists that are read in pages, at the revision of the first
//! page.
//!
//! A snapshot shares its objects with the present one. Its memory is that of the objects that were
//! replaced or deleted since. They are counted for the log as long as it has the change, and then
//! for the snapshot. Without the snapshot, the next page is answered with 410 and a token that
//! continues in the present state. A snapshot is dropped when
//! - the history is compacted beyond its revision, five to ten minutes after it was retained, unless
//!   there was no write meanwhile;
//! - a resource has more than [`MAX_RETAINED`] of them;
//! - those of a resource have more memory than [`MAX_RETAINED_BYTES`];
//! - a new schema of the resource changes its objects. The next page is then read from the log, if
//!   that goes back far enough.
//!
//! A snapshot from before such a change, or from before the oldest change in the log, is not
//! retained: its memory could not be counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::byte_counter::ByteCounter;
use super::entry::Entry;
use super::snapshot::Snapshot;
use store::Revision;

/// See the [module documentation](self).
pub(super) const MAX_RETAINED: usize = 64;

/// See the [module documentation](self).
pub(super) const MAX_RETAINED_BYTES: usize = 64 << 20;

/// See the [module documentation](self).
pub(super) struct RetainedSnapshots {
    /// The oldest first.
    snapshots: VecDeque<RetainedSnapshot>,
    counter: ByteCounter,
}

struct RetainedSnapshot {
    snapshot: Arc<Snapshot>,
    /// The memory that is counted for it.
    bytes: usize,
}

impl RetainedSnapshots {
    /// An empty set, whose memory is added to `total`.
    pub(super) fn new(total: &Arc<AtomicUsize>) -> Self {
        Self { snapshots: VecDeque::new(), counter: ByteCounter::new(total) }
    }

    /// The snapshot of a revision.
    pub(super) fn get(&self, revision: Revision) -> Option<&Arc<Snapshot>> {
        self.snapshots.iter().map(|it| &it.snapshot).find(|it| it.revision == revision)
    }

    /// Adds a snapshot, unless its revision has one.
    pub(super) fn add(&mut self, snapshot: &Snapshot, revision: Revision) {
        if self.get(revision).is_some() {
            return;
        }
        if self.snapshots.len() == MAX_RETAINED {
            self.pop();
        }
        let snapshot = Arc::new(Snapshot { revision, ..snapshot.clone() });
        self.snapshots.push_back(RetainedSnapshot { snapshot, bytes: 0 });
    }

    /// The memory of the snapshots, without that of the log.
    pub(super) fn bytes(&self) -> usize {
        self.counter.bytes()
    }

    /// Counts an object that was replaced or deleted at `revision`, and is no longer in the log.
    pub(super) fn count(&mut self, old: &Entry, revision: Revision) {
        // The oldest are dropped first, so the newest snapshot with the object frees it.
        let owner = self.snapshots.iter_mut().rev().find(|it| {
            let retained_at = it.snapshot.revision;
            old.revision <= retained_at && retained_at < revision
        });
        let Some(owner) = owner else { return };
        owner.bytes += old.len();
        self.counter.add(old.len());
        while self.bytes() > MAX_RETAINED_BYTES && self.pop() {}
    }

    /// Drops the snapshots from before `upto`.
    pub(super) fn drop_before(&mut self, upto: Revision) {
        let Self { snapshots, counter } = self;
        snapshots.retain(|it| {
            let stays = it.snapshot.revision >= upto;
            if !stays {
                counter.subtract(it.bytes);
            }
            stays
        });
    }

    /// Drops all of them.
    pub(super) fn clear(&mut self) {
        while self.pop() {}
    }

    /// Drops the oldest snapshot; false if there is none.
    pub(super) fn pop(&mut self) -> bool {
        let Some(first) = self.snapshots.pop_front() else { return false };
        self.counter.subtract(first.bytes);
        true
    }
}
