//! [`ChangeLog`]: the recent changes of one resource, oldest first, bounded by their number and their
//! memory.
//!
//! The memory of a change is that of the object that it replaced or deleted, and of the events that
//! were encoded for watchers. The object that it stored is in the snapshot, and counts once another
//! change has replaced it.
//!
//! Invariants:
//! - the log has every change after `floor`, in revision order, without gaps;
//! - the counter counts the memory of the changes in the log, and nothing else.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use super::byte_counter::ByteCounter;
use super::entry::Entry;
use informer::Item;
use store::Revision;

/// The largest number of changes. A watcher that is further behind must list again.
pub(super) const MAX_CHANGES: usize = 20_000;

/// The largest memory of the changes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The memory of a change without the bytes of the replaced object.
const CHANGE_OVERHEAD: usize = 256;

/// The memory of an item without the bytes, which it shares.
const ITEM_OVERHEAD: usize = 256;

/// The number of recent changes that are compared one by one before a binary search, which reads about
/// a dozen changes that are not in the processor's cache.
const RECENT: usize = 8;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    /// The revision of the change.
    pub revision: Revision,
    /// The object before; None if it was created.
    pub old: Option<Arc<Entry>>,
    /// The object after; None if it was deleted.
    pub new: Option<Arc<Entry>>,
    /// The object after the change, without managedFields, for all watchers in this process.
    item: OnceLock<Item>,
    encodings: Mutex<Encodings>,
}

/// Identifies an encoding of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodingKey {
    /// `ADDED`, for example.
    pub event: &'static str,
    /// The revision of the CRD; 0 for a built-in kind.
    pub crd_revision: Revision,
    /// The index of the version.
    pub version: usize,
    /// The number that the encoder of watch events assigns to the media type and the representation.
    pub form: u8,
    /// The time for which a Table shows ages, in seconds since 1970; 0 for other forms.
    pub second: i64,
}

/// The maximum number of encodings of one form for different seconds. A watcher that needs more
/// seconds to read a large encoding does not find it any more, and must list again.
const MAX_SECONDS: usize = 4;

/// The encodings of a change, one for each form, which all watchers of that form share.
#[derive(Debug)]
struct Encodings {
    forms: Vec<(EncodingKey, Arc<OnceLock<Bytes>>)>,
    /// The memory that is counted for this change in addition to its weight.
    counted: usize,
    /// Counts the encodings while the change is in the log.
    counter: Option<Arc<ByteCounter>>,
}

impl Encodings {
    fn count(&mut self, bytes: usize) {
        if let Some(counter) = &self.counter {
            counter.add(bytes);
            self.counted += bytes;
        }
    }

    /// Removes the encoding of the oldest second if there are too many.
    fn remove_oldest_second(&mut self, key: EncodingKey) {
        let is_same = |it: &EncodingKey| EncodingKey { second: key.second, ..*it } == key;
        if self.forms.iter().filter(|(it, _)| is_same(it)).count() < MAX_SECONDS {
            return;
        }
        let Some(oldest) = self.forms.iter().position(|(it, _)| is_same(it)) else { return };
        let (_, removed) = self.forms.remove(oldest);
        if let (Some(counter), Some(bytes)) = (&self.counter, removed.get()) {
            counter.subtract(bytes.len());
            self.counted -= bytes.len();
        }
    }
}

impl Change {
    fn encodings(&self) -> MutexGuard<'_, Encodings> {
        self.encodings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of this change in one form, encoded by `encode` for the first watcher of that form.
    pub(crate) fn encoded(&self, key: EncodingKey, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        let form = self.form(key);
        if let Some(bytes) = form.get() {
            return bytes.clone();
        }
        // `encode` runs without the lock, which the reflector takes too: the reflector must not
        // wait for `encode`, nor end if `encode` panics.
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

    /// The bytes of this change in one form, if they are encoded.
    pub(crate) fn encoding(&self, key: EncodingKey) -> Option<Bytes> {
        let encodings = self.encodings();
        let (_, form) = encodings.forms.iter().find(|(it, _)| *it == key)?;
        form.get().cloned()
    }

    /// The object after the change, without managedFields; None if it was deleted or is no valid
    /// item.
    pub(crate) fn item(&self) -> Option<Item> {
        if let Some(item) = self.item.get() {
            return Some(item.clone());
        }
        let item = self.new.as_ref()?.item(self.revision, false).ok()?;
        let mut is_first = false;
        let item = self.item.get_or_init(|| {
            is_first = true;
            item
        });
        if is_first {
            self.encodings().count(ITEM_OVERHEAD);
        }
        Some(item.clone())
    }

    /// The cell for the bytes of one form.
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

    /// Counts the object that this change stored, after it was replaced in the snapshot.
    pub(super) fn count_new(&self) {
        let bytes = self.new.as_ref().map_or(0, |new| new.len());
        self.encodings().count(bytes);
    }

    /// The memory without encodings.
    fn weight(&self) -> usize {
        CHANGE_OVERHEAD + self.old.as_ref().map_or(0, |old| old.len())
    }

    /// Stops the counting of encodings, and returns the counted memory.
    fn leave_log(&self) -> usize {
        let mut encodings = self.encodings();
        encodings.counter = None;
        self.weight() + encodings.counted
    }
}

/// See the [module documentation](self).
pub(super) struct ChangeLog {
    changes: VecDeque<Arc<Change>>,
    floor: Revision,
    counter: Arc<ByteCounter>,
}

impl ChangeLog {
    /// An empty log, whose memory is added to `total`.
    pub(super) fn new(floor: Revision, total: &Arc<AtomicUsize>) -> Self {
        Self { changes: VecDeque::new(), floor, counter: Arc::new(ByteCounter::new(total)) }
    }

    /// The oldest revision from which a watch may begin.
    pub(super) fn floor(&self) -> Revision {
        self.floor
    }

    pub(super) fn set_floor(&mut self, floor: Revision) {
        self.floor = floor;
    }

    /// The memory of the changes.
    pub(super) fn bytes(&self) -> usize {
        self.counter.bytes()
    }

    pub(super) fn push(
        &mut self,
        revision: Revision,
        old: Option<Arc<Entry>>,
        new: Option<Arc<Entry>>,
    ) {
        let counter = Some(Arc::clone(&self.counter));
        let encodings = Encodings { forms: Vec::new(), counted: 0, counter };
        let item = OnceLock::new();
        let change = Change { revision, old, new, item, encodings: Mutex::new(encodings) };
        self.counter.add(change.weight());
        self.changes.push_back(Arc::new(change));
    }

    /// Removes the oldest change if the log exceeds its bounds.
    pub(super) fn pop_excess(&mut self) -> Option<Arc<Change>> {
        let exceeds = self.changes.len() > MAX_CHANGES || self.bytes() > MAX_BYTES;
        if exceeds { self.pop() } else { None }
    }

    /// Removes the oldest change if it is not after `upto`.
    pub(super) fn pop_until(&mut self, upto: Revision) -> Option<Arc<Change>> {
        let is_old = self.changes.front().is_some_and(|change| change.revision <= upto);
        if is_old { self.pop() } else { None }
    }

    fn pop(&mut self) -> Option<Arc<Change>> {
        let change = self.changes.pop_front()?;
        self.counter.subtract(change.leave_log());
        self.floor = change.revision;
        Some(change)
    }

    /// The changes after `revision`, oldest first.
    pub(super) fn after(
        &self,
        revision: Revision,
    ) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        // Most watchers request the last few.
        let recent = self.changes.iter().rev().take(RECENT);
        let first = match recent.take_while(|it| it.revision > revision).count() {
            RECENT => self.changes.partition_point(|it| it.revision <= revision),
            few => self.changes.len() - few,
        };
        self.changes.range(first..)
    }
}
