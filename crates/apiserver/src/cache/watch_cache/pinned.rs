//! [`PinnedSnapshots`]: the lists that are being read in pages, as they were when the first page
//! was read.
//!
//! A snapshot shares its objects with the present one. What it keeps alive is what was replaced or
//! deleted since; that is counted for it when the log forgets the change, and until then for the
//! log. A snapshot that is dropped leaves its readers with 410 and a token with which they may go
//! on in the present state. It is dropped when
//! - the history is compacted beyond its revision, five to ten minutes after it was pinned, unless
//!   nothing was written meanwhile;
//! - there are more than [`MAX_PINNED`] of a resource;
//! - those of a resource keep more than [`MAX_PINNED_BYTES`] alive;
//! - the schema of the resource changes the objects in it. The list is then made from the log, if
//!   that goes back far enough.
//!
//! A snapshot from before such a change, or from before the log's oldest change, is not pinned:
//! nothing would count what it keeps alive.

use super::entry::Entry;
use super::ledger::Ledger;
use super::snapshot::Snapshot;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use store::Revision;

/// See the [module documentation](self).
pub(super) const MAX_PINNED: usize = 64;

/// See the [module documentation](self).
pub(super) const MAX_PINNED_BYTES: usize = 64 << 20;

/// See the [module documentation](self).
pub(super) struct PinnedSnapshots {
    /// The one that was pinned first comes first.
    pinned: VecDeque<Pinned>,
    ledger: Ledger,
}

struct Pinned {
    snapshot: Arc<Snapshot>,
    /// The bytes that are counted for it.
    bytes: usize,
}

impl PinnedSnapshots {
    /// None; their bytes are part of `total`.
    pub(super) fn new(total: &Arc<AtomicUsize>) -> Self {
        Self { pinned: VecDeque::new(), ledger: Ledger::new(total) }
    }

    /// The snapshot that was pinned for this revision.
    pub(super) fn get(&self, revision: Revision) -> Option<&Arc<Snapshot>> {
        self.pinned.iter().map(|it| &it.snapshot).find(|it| it.revision == revision)
    }

    /// Adds a snapshot, unless there is one of its revision.
    pub(super) fn add(&mut self, snapshot: &Snapshot, revision: Revision) {
        if self.get(revision).is_some() {
            return;
        }
        if self.pinned.len() == MAX_PINNED {
            self.pop();
        }
        let snapshot = Arc::new(Snapshot { revision, ..snapshot.clone() });
        self.pinned.push_back(Pinned { snapshot, bytes: 0 });
    }

    /// The bytes that they keep alive, beside what the log does.
    pub(super) fn bytes(&self) -> usize {
        self.ledger.bytes()
    }

    /// Counts an object that was replaced or deleted at `revision`, and that the log keeps no more.
    pub(super) fn count(&mut self, old: &Entry, revision: Revision) {
        // The oldest are dropped first, so the newest that has the object frees it.
        let holder = self.pinned.iter_mut().rev().find(|it| {
            let pinned_at = it.snapshot.revision;
            old.revision <= pinned_at && pinned_at < revision
        });
        let Some(holder) = holder else { return };
        holder.bytes += old.len();
        self.ledger.add(old.len());
        while self.bytes() > MAX_PINNED_BYTES && self.pop() {}
    }

    /// Drops those from before `upto`.
    pub(super) fn drop_before(&mut self, upto: Revision) {
        let Self { pinned, ledger } = self;
        pinned.retain(|it| {
            let stays = it.snapshot.revision >= upto;
            if !stays {
                ledger.subtract(it.bytes);
            }
            stays
        });
    }

    /// Drops all of them.
    pub(super) fn clear(&mut self) {
        while self.pop() {}
    }

    /// Drops the one that was pinned first; false if there is none.
    pub(super) fn pop(&mut self) -> bool {
        let Some(first) = self.pinned.pop_front() else { return false };
        self.ledger.subtract(first.bytes);
        true
    }
}
