//! [`ResourceCache`]: one resource's objects and the log of their recent changes.
//!
//! Invariants:
//! - `snapshot` is the state after the last change in the log;
//! - a watcher is represented by the revision up to which it has the changes; it requests those after
//!   it;
//! - a retired cache does not change.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use imbl::ordmap::DiffItem;

use super::change_log::{Change, ChangeLog};
use super::entry::Entry;
use super::retained_snapshots::RetainedSnapshots;
use super::snapshot::{Snapshot, SnapshotEntry};
use super::subscription::{Subscription, WakerSet};
use super::unreadable_objects::{UnreadableObject, UnreadableObjects};
use store::{Event, Record, Revision};

/// The number of passes, without the lock, over objects that have changed during a rewrite.
const MAX_UNLOCKED_REWRITES: usize = 8;

/// See the [module documentation](self).
pub(crate) struct ResourceCache {
    prefix: Arc<str>,
    snapshot: ArcSwap<Snapshot>,
    state: Mutex<ResourceState>,
    changed: Arc<WakerSet>,
}

/// The requested revision was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The oldest revision that can be watched from.
    pub floor: Revision,
}

struct ResourceState {
    log: ChangeLog,
    retained: RetainedSnapshots,
    /// The revision up to which the history of the plane was compacted.
    compacted: Revision,
    /// Whether the cache was removed, and gets no events.
    retired: bool,
}

/// The cache was removed; the event belongs to a cache that replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retired;

impl ResourceCache {
    /// An empty cache whose history begins at `floor`. The memory of its history is added to `total`.
    pub(crate) fn new(prefix: &str, floor: Revision, total: &Arc<AtomicUsize>) -> Self {
        let log = ChangeLog::new(floor, total);
        let retained = RetainedSnapshots::new(total);
        Self {
            prefix: prefix.into(),
            snapshot: ArcSwap::from_pointee(Snapshot { revision: floor, ..Snapshot::default() }),
            state: Mutex::new(ResourceState { log, retained, compacted: 0, retired: false }),
            changed: Arc::default(),
        }
    }

    /// Whether a key belongs to this resource.
    pub(crate) fn owns_key(&self, key: &str) -> bool {
        key.strip_prefix(&*self.prefix).is_some_and(|it| it.starts_with('/'))
    }

    /// Loads all records at the start, before the first read.
    pub(crate) fn load(&self, records: &[Arc<Record>]) {
        let unreadable = UnreadableObjects::among(records);
        self.log_unreadable(&unreadable, &UnreadableObjects::default());
        let entries = records
            .iter()
            .filter(|it| unreadable.get(&it.key).is_none())
            .map(|it| Arc::new(Entry::of(it, self.prefix.len())))
            .map(|it| (Arc::clone(&it.key), SnapshotEntry::from(it)))
            .collect();
        let revision = self.snapshot.load().revision;
        let loaded = Snapshot { unreadable, ..Snapshot::of(entries, revision) };
        self.snapshot.store(Arc::new(loaded));
    }

    /// Finishes the load: the records are those at `revision`, and the events after `floor` follow.
    pub(crate) fn finish_load(&self, revision: Revision, floor: Revision) {
        self.lock().log.set_floor(floor);
        self.snapshot.rcu(|snapshot| Snapshot { revision, ..Snapshot::clone(snapshot) });
    }

    /// Replaces the content with the records of the store at `revision`. The earlier history is
    /// removed.
    pub(crate) fn replace(&self, records: &[Arc<Record>], revision: Revision) {
        let mut state = self.lock();
        let before = self.snapshot.load();
        let unreadable = UnreadableObjects::among(records);
        self.log_unreadable(&unreadable, &before.unreadable);
        let entries = records
            .iter()
            .filter(|it| unreadable.get(&it.key).is_none())
            .map(|record| match before.entries.get(&record.key) {
                // An unchanged object keeps its entry, which may have the defaults of a newer schema.
                Some(snapshot_entry) if snapshot_entry.revision == record.modified => {
                    snapshot_entry.clone()
                }
                _ => SnapshotEntry::from(Arc::new(Entry::of(record, self.prefix.len()))),
            })
            .map(|snapshot_entry| (Arc::clone(&snapshot_entry.key), snapshot_entry))
            .collect();
        let (rewrites, repairs) = (before.rewrites, before.repairs + 1);
        let next = Snapshot { unreadable, rewrites, repairs, ..Snapshot::of(entries, revision) };
        state.compact_log(revision);
        state.log.set_floor(revision);
        // The replaced objects, whose events were lost, may be in retained snapshots.
        for (key, snapshot_entry) in &before.entries {
            if next.entries.get(key).is_none_or(|now| now.revision != snapshot_entry.revision) {
                state.retained.count(snapshot_entry, revision);
            }
        }
        self.snapshot.store(Arc::new(next));
    }

    /// Applies an event. An event from before the load is added to the log only.
    pub(crate) fn apply(&self, event: &Event) -> Result<(), Retired> {
        let mut state = self.lock();
        if state.retired {
            return Err(Retired);
        }
        let snapshot = self.snapshot.load();
        let old = match (&event.old, snapshot.entries.get(&event.key)) {
            (None, _) => None,
            (Some(record), Some(entry)) if entry.revision == record.modified => {
                Some(Arc::clone(&entry.entry))
            }
            (Some(record), _) => self.entry_of(record),
        };
        let new = event.new.as_ref().and_then(|it| self.entry_of(it));
        let unreadable = event.new.as_ref().and_then(|it| UnreadableObject::of(it));
        let is_unreadable = unreadable.is_some();
        if event.revision > snapshot.revision {
            let mut next = Snapshot::clone(&snapshot);
            next.exchange(&event.key, new.as_ref());
            next.unreadable.exchange(&event.key, unreadable);
            next.revision = event.revision;
            self.snapshot.store(Arc::new(next));
        }
        if is_unreadable {
            self.log_unreadable(&self.snapshot.load().unreadable, &snapshot.unreadable);
            // Watchers must not see a deletion: they list again, which fails with the reason.
            state.compact_log(event.revision);
            state.log.set_floor(event.revision);
            if let Some(old) = &old {
                state.retained.count(old, event.revision);
            }
        } else if old.is_some() || new.is_some() {
            state.log.push(event.revision, old, new);
            state.trim();
        }
        Ok(())
    }

    /// The entry of a record; None if the record cannot be decrypted.
    fn entry_of(&self, record: &Record) -> Option<Arc<Entry>> {
        let is_readable = UnreadableObject::of(record).is_none();
        is_readable.then(|| Arc::new(Entry::of(record, self.prefix.len())))
    }

    /// Adds an object that could not be decrypted until now, unless it has changed since it was read.
    /// Watchers that do not know it list again.
    pub(super) fn repair(&self, record: &Record) {
        let Some(entry) = self.entry_of(record) else { return };
        let mut state = self.lock();
        let snapshot = self.snapshot.load();
        let found = snapshot.unreadable.get(&record.key);
        if state.retired || found.is_none_or(|it| it.revision != record.modified) {
            return;
        }
        let mut next = Snapshot::clone(&snapshot);
        next.exchange(&record.key, Some(&entry));
        next.unreadable.exchange(&record.key, None);
        next.repairs += 1;
        state.compact_log(next.revision);
        state.log.set_floor(next.revision);
        self.snapshot.store(Arc::new(next));
    }

    /// Whether some objects cannot be decrypted.
    pub(super) fn has_unreadable(&self) -> bool {
        !self.snapshot.load().unreadable.is_empty()
    }

    /// Logs that objects cannot be decrypted, unless it was logged of as many before.
    fn log_unreadable(&self, unreadable: &UnreadableObjects, logged: &UnreadableObjects) {
        let count = unreadable.keys().count();
        if let Some((key, object)) = unreadable.first_under(&self.prefix)
            && count != logged.keys().count()
        {
            let why = &object.reason;
            tracing::error!(
                key,
                %why,
                count,
                "objects cannot be decrypted: add their key to the file of \
                 --encryption-provider-config, or start its plugin (docs/encryption.md)"
            );
        }
    }

    /// Wakes the watchers, after a batch of events was applied.
    pub(crate) fn wake(&self) {
        self.changed.wake_all();
    }

    /// A subscription to changes.
    pub(crate) fn subscribe(&self) -> Subscription {
        self.changed.subscribe()
    }

    /// The present objects.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Whether `snapshot` has the present objects.
    pub(crate) fn is_current(&self, snapshot: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(&self.snapshot.load(), snapshot)
    }

    /// Whether there are no objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.snapshot.load().is_empty()
    }

    /// Whether an object is stored at `key`, also an unreadable one.
    pub(crate) fn contains(&self, key: &str) -> bool {
        let snapshot = self.snapshot.load();
        snapshot.entries.contains_key(key) || snapshot.unreadable.get(key).is_some()
    }

    /// The number of objects and their size in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let snapshot = self.snapshot.load();
        (snapshot.entries.len(), snapshot.bytes)
    }

    /// One present object. None if it is unreadable.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.snapshot.load().entries.get(key).map(|it| Arc::clone(it))
    }

    /// Up to `limit` changes after `revision`.
    pub(crate) fn after(
        &self,
        revision: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Change>>, TooOld> {
        let state = self.lock();
        state.check(revision)?;
        Ok(state.log.after(revision).take(limit).cloned().collect())
    }

    /// The present objects, and the changes since `position`, which is that of the last call.
    pub(crate) fn follow(&self, position: Option<LogPosition>) -> Followed {
        let state = self.lock();
        let snapshot = self.snapshot();
        let from = position.filter(|it| it.repairs == snapshot.repairs).map(|it| it.revision);
        let changes = from.filter(|from| state.check(*from).is_ok());
        let changes = changes.map(|from| state.log.after(from).cloned().collect());
        let position = LogPosition { revision: snapshot.revision, repairs: snapshot.repairs };
        Followed { snapshot, changes, position }
    }

    /// The objects at `revision`: the present ones after undoing the later changes.
    pub(crate) fn at(&self, revision: Revision) -> Result<Arc<Snapshot>, TooOld> {
        let state = self.lock();
        // Upstream: a compacted revision cannot be read, even if nothing has changed since.
        if revision < state.compacted {
            return Err(TooOld { floor: state.compacted });
        }
        let now = self.snapshot.load_full();
        if now.revision <= revision {
            return Ok(now);
        }
        if let Some(retained) = state.retained.get(revision) {
            return Ok(Arc::clone(retained));
        }
        state.check(revision)?;
        let mut then = Snapshot { revision, ..Snapshot::clone(&now) };
        for change in state.log.after(revision).rev() {
            if let Some(entry) = change.old.as_ref().or(change.new.as_ref()) {
                then.exchange(&entry.key, change.old.as_ref());
            }
        }
        Ok(Arc::new(then))
    }

    /// Retains `snapshot`, at the revision that the list has, for the next pages of the list. It is
    /// not retained if its objects were rewritten, or changes of them were removed from the log:
    /// its memory could not be counted.
    pub(crate) fn retain_snapshot(&self, snapshot: &Snapshot, revision: Revision) {
        let mut state = self.lock();
        let is_rewritten = snapshot.rewrites != self.snapshot.load().rewrites;
        if !is_rewritten && state.check(revision).is_ok() {
            state.retained.add(snapshot, revision);
        }
    }

    /// Removes the changes up to `upto`, and the retained snapshots from before it. Watchers that have
    /// these changes continue.
    pub(crate) fn compact(&self, upto: Revision) {
        let mut state = self.lock();
        state.compacted = state.compacted.max(upto);
        state.retained.drop_before(upto);
        state.compact_log(upto);
    }

    /// The memory of the history and of the retained snapshots.
    pub(crate) fn history_bytes(&self) -> usize {
        let state = self.lock();
        state.log.bytes() + state.retained.bytes()
    }

    /// Drops the older half of the history, or of the retained snapshots if these have more memory.
    pub(crate) fn drop_older_half(&self) {
        let mut state = self.lock();
        if state.retained.bytes() > state.log.bytes() {
            let half = state.retained.bytes() / 2;
            while state.retained.bytes() > half && state.retained.pop() {}
            return;
        }
        let half = state.log.bytes() / 2;
        while state.log.bytes() > half {
            let Some(change) = state.log.pop_until(Revision::MAX) else { return };
            state.count(&change);
        }
    }

    /// Retires the cache if it is empty, and returns whether it is retired. A retired cache refuses
    /// later events.
    pub(crate) fn retire_if_empty(&self) -> bool {
        let mut state = self.lock();
        state.retired |= self.snapshot.load().is_empty();
        state.retired
    }

    /// Replaces every object for which `rewrite` returns one: the schema of a CRD has changed, and its
    /// new defaults apply to stored objects.
    ///
    /// The objects are rewritten without the lock, followed by those that have changed meanwhile.
    pub(crate) fn rewrite(&self, rewrite: impl Fn(&Entry) -> Option<Entry>) {
        // The snapshot whose objects `next` has in their rewritten form.
        let mut base = self.snapshot();
        let mut next = Snapshot::clone(&base);
        for (key, snapshot_entry) in &base.entries {
            if let Some(entry) = rewrite(snapshot_entry) {
                next.exchange(key, Some(&Arc::new(entry)));
            }
        }
        let catch_up = |next: &mut Snapshot, base: &Snapshot, now: &Snapshot| {
            for difference in base.entries.diff(&now.entries) {
                match difference {
                    DiffItem::Add(key, snapshot_entry)
                    | DiffItem::Update { new: (key, snapshot_entry), .. } => {
                        let entry = rewrite(snapshot_entry)
                            .map_or_else(|| Arc::clone(snapshot_entry), Arc::new);
                        next.exchange(key, Some(&entry));
                    }
                    DiffItem::Remove(key, _) => next.exchange(key, None),
                }
            }
            next.unreadable = now.unreadable.clone();
            next.repairs = now.repairs;
            next.revision = now.revision;
        };
        // Usually, each pass has fewer changed objects. Under constant writes, the last few are
        // rewritten with the lock.
        for _ in 0..MAX_UNLOCKED_REWRITES {
            let now = self.snapshot();
            if Arc::ptr_eq(&now, &base) {
                break;
            }
            catch_up(&mut next, &base, &now);
            base = now;
        }
        let mut state = self.lock();
        let now = self.snapshot();
        catch_up(&mut next, &base, &now);
        if !next.entries.ptr_eq(&now.entries) {
            next.rewrites = now.rewrites + 1;
            state.count_rewritten(&now, &next);
            self.snapshot.store(Arc::new(next));
        }
        // The replaced objects are freed without the lock.
        drop(state);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ResourceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position of a follower of the changes, see [`ResourceCache::follow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    revision: Revision,
    repairs: u64,
}

/// The result of [`ResourceCache::follow`].
#[derive(Debug)]
pub(crate) struct Followed {
    /// The present objects.
    pub snapshot: Arc<Snapshot>,
    /// The changes up to the snapshot; None if the log does not have all of them.
    pub changes: Option<Vec<Arc<Change>>>,
    /// The position for the next call.
    pub position: LogPosition,
}

impl ResourceState {
    /// Fails if the log does not have all changes after `revision`.
    fn check(&self, revision: Revision) -> Result<(), TooOld> {
        let floor = self.log.floor();
        if revision < floor { Err(TooOld { floor }) } else { Ok(()) }
    }

    /// Drops the retained snapshots, which have the objects before the rewrite, and counts those that
    /// the log has.
    fn count_rewritten(&mut self, before: &Snapshot, after: &Snapshot) {
        self.retained.clear();
        for change in self.log.after(self.log.floor()) {
            let Some(new) = &change.new else { continue };
            let was_current = before
                .entries
                .get(&new.key)
                .is_some_and(|snapshot_entry| Arc::ptr_eq(&snapshot_entry.entry, new));
            let now = after.entries.get(&new.key);
            if was_current && now.is_some_and(|snapshot_entry| !snapshot_entry.shares_bytes(new)) {
                change.count_new();
            }
        }
        self.trim();
    }

    /// Removes the changes that exceed the bounds of the log.
    fn trim(&mut self) {
        while let Some(change) = self.log.pop_excess() {
            self.count(&change);
        }
    }

    /// Removes the changes up to `upto` from the log.
    fn compact_log(&mut self, upto: Revision) {
        while let Some(change) = self.log.pop_until(upto) {
            self.count(&change);
        }
    }

    /// Counts the object that a removed change has replaced for the retained snapshot that has it.
    fn count(&mut self, change: &Change) {
        if let Some(old) = &change.old {
            self.retained.count(old, change.revision);
        }
    }
}

#[cfg(test)]
mod tests;
