//! [`ChangeLog`]: the recent changes of one resource, oldest first, bounded by their number and by
//! the memory that they keep alive.
//!
//! A change keeps the object alive that it replaced or deleted, since the snapshot has it no more,
//! and the events that were encoded for watchers. The object that it stored is in the snapshot; it
//! counts once another change has replaced it.
//!
//! Invariants:
//! - every change after `floor` is here, in revision order, without gaps;
//! - the ledger counts what the changes in the log keep alive, and nothing else.

use super::entry::Entry;
use super::ledger::Ledger;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use store::Revision;

/// More changes than this are forgotten, oldest first. A watcher that is further behind must list
/// again.
pub(super) const MAX_CHANGES: usize = 20_000;

/// The same for the bytes that the changes keep alive.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// What a change costs beside the object that it replaced: itself, and what an entry has beside
/// its bytes.
const CHANGE_OVERHEAD: usize = 256;

/// The number of changes that are looked at one by one before the log is searched: a search looks
/// at a dozen that nothing else has in the processor's cache.
const RECENT: usize = 8;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    /// When.
    pub revision: Revision,
    /// Before; None if it was created.
    pub old: Option<Arc<Entry>>,
    /// After; None if it was deleted.
    pub new: Option<Arc<Entry>>,
    encodings: Mutex<Encodings>,
}

/// What distinguishes one encoding of a change from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodingKey {
    /// `ADDED`, for example.
    pub event: &'static str,
    /// The edition of the kind.
    pub edition: Revision,
    /// The index of the version.
    pub version: usize,
    /// The number of the form.
    pub form: u8,
    /// When the ages in a Table are those that it shows, in seconds since 1970; 0 for other forms.
    pub second: i64,
}

/// The encodings of one form that are kept for different seconds. A watcher that takes longer than
/// that to read a large one lists again.
const MAX_SECONDS: usize = 4;

/// A change as it is sent, encoded once for each form in which it is watched, and shared by all
/// watchers of that form.
#[derive(Debug)]
struct Encodings {
    forms: Vec<(EncodingKey, Arc<OnceLock<Bytes>>)>,
    /// The bytes that the ledger counts for this change beside its weight.
    counted: usize,
    /// Counts the forms as long as the change is in the log.
    ledger: Option<Arc<Ledger>>,
}

impl Encodings {
    fn count(&mut self, bytes: usize) {
        if let Some(ledger) = &self.ledger {
            ledger.add(bytes);
            self.counted += bytes;
        }
    }

    /// Makes room for the encoding of another second.
    fn remove_oldest_second(&mut self, key: EncodingKey) {
        let is_same = |it: &EncodingKey| EncodingKey { second: key.second, ..*it } == key;
        if self.forms.iter().filter(|(it, _)| is_same(it)).count() < MAX_SECONDS {
            return;
        }
        let Some(oldest) = self.forms.iter().position(|(it, _)| is_same(it)) else { return };
        let (_, removed) = self.forms.remove(oldest);
        if let (Some(ledger), Some(bytes)) = (&self.ledger, removed.get()) {
            ledger.subtract(bytes.len());
            self.counted -= bytes.len();
        }
    }
}

impl Change {
    fn encodings(&self) -> MutexGuard<'_, Encodings> {
        self.encodings.lock().expect("nothing panics while it holds the forms")
    }

    /// The bytes of this change in one form, made by `encode` for the first watcher of that form.
    pub(crate) fn encoded(&self, key: EncodingKey, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        let form = self.form(key);
        if let Some(bytes) = form.get() {
            return bytes.clone();
        }
        // Without the lock, which the task that follows the store takes as well: it must neither
        // wait for `encode` nor end with it, should it panic.
        let mut is_first = false;
        let bytes = form.get_or_init(|| {
            is_first = true;
            encode().into()
        });
        if is_first {
            self.encodings().count(bytes.len());
        }
        bytes.clone()
    }

    /// The bytes of this change in one form, if they were made.
    pub(crate) fn encoding(&self, key: EncodingKey) -> Option<Bytes> {
        let encodings = self.encodings();
        let (_, form) = encodings.forms.iter().find(|(it, _)| *it == key)?;
        form.get().cloned()
    }

    /// Where the bytes of one form are, once they are made.
    fn form(&self, key: EncodingKey) -> Arc<OnceLock<Bytes>> {
        let mut encodings = self.encodings();
        if let Some((_, form)) = encodings.forms.iter().find(|(it, _)| *it == key) {
            return Arc::clone(form);
        }
        encodings.remove_oldest_second(key);
        let form = Arc::default();
        encodings.forms.push((key, Arc::clone(&form)));
        form
    }

    /// Counts the object that this change stored, which is no longer in the snapshot.
    pub(super) fn count_new(&self) {
        let bytes = self.new.as_ref().map_or(0, |new| new.len());
        self.encodings().count(bytes);
    }

    /// What it costs without its encodings.
    fn weight(&self) -> usize {
        CHANGE_OVERHEAD + self.old.as_ref().map_or(0, |old| old.len())
    }

    /// Ends the counting of its encodings, and returns what it was counted with.
    fn leave_log(&self) -> usize {
        let mut encodings = self.encodings();
        encodings.ledger = None;
        self.weight() + encodings.counted
    }
}

/// See the [module documentation](self).
pub(super) struct ChangeLog {
    changes: VecDeque<Arc<Change>>,
    floor: Revision,
    ledger: Arc<Ledger>,
}

impl ChangeLog {
    /// An empty one; its bytes are part of `total`.
    pub(super) fn new(floor: Revision, total: &Arc<AtomicUsize>) -> Self {
        Self { changes: VecDeque::new(), floor, ledger: Arc::new(Ledger::new(total)) }
    }

    /// The oldest revision from which a watch may begin.
    pub(super) fn floor(&self) -> Revision {
        self.floor
    }

    pub(super) fn set_floor(&mut self, floor: Revision) {
        self.floor = floor;
    }

    /// The bytes that the changes keep alive.
    pub(super) fn bytes(&self) -> usize {
        self.ledger.bytes()
    }

    pub(super) fn push(
        &mut self,
        revision: Revision,
        old: Option<Arc<Entry>>,
        new: Option<Arc<Entry>>,
    ) {
        let ledger = Some(Arc::clone(&self.ledger));
        let encodings = Encodings { forms: Vec::new(), counted: 0, ledger };
        let change = Change { revision, old, new, encodings: Mutex::new(encodings) };
        self.ledger.add(change.weight());
        self.changes.push_back(Arc::new(change));
    }

    /// Takes out the oldest change if the log exceeds its bounds.
    pub(super) fn pop_excess(&mut self) -> Option<Arc<Change>> {
        let exceeds = self.changes.len() > MAX_CHANGES || self.bytes() > MAX_BYTES;
        if exceeds { self.pop() } else { None }
    }

    /// Takes out the oldest change if it is not after `upto`.
    pub(super) fn pop_until(&mut self, upto: Revision) -> Option<Arc<Change>> {
        let is_old = self.changes.front().is_some_and(|change| change.revision <= upto);
        if is_old { self.pop() } else { None }
    }

    fn pop(&mut self) -> Option<Arc<Change>> {
        let change = self.changes.pop_front()?;
        self.ledger.subtract(change.leave_log());
        self.floor = change.revision;
        Some(change)
    }

    /// The changes after `revision`, oldest first.
    pub(super) fn after(
        &self,
        revision: Revision,
    ) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        // Most watchers want the last few.
        let recent = self.changes.iter().rev().take(RECENT);
        let first = match recent.take_while(|it| it.revision > revision).count() {
            RECENT => self.changes.partition_point(|it| it.revision <= revision),
            few => self.changes.len() - few,
        };
        self.changes.range(first..)
    }
}
