//! [`ResourceCache`]: one resource's objects and the log of their recent changes.
//!
//! Invariants:
//! - `snapshot` is the state after the last change in the log;
//! - a watcher is a revision: it has seen everything up to there and asks for what came after;
//! - once retired, nothing changes any more.

use super::change_log::{Change, ChangeLog};
use super::entry::Entry;
use super::pinned::PinnedSnapshots;
use super::snapshot::{Held, Snapshot};
use super::subscription::{Bell, Subscription};
use arc_swap::ArcSwap;
use imbl::ordmap::DiffItem;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use store::{Event, Record, Revision};

/// How often the objects that have changed during a rewrite are rewritten without the lock.
const MAX_UNLOCKED_REWRITES: usize = 8;

/// See the [module documentation](self).
pub(crate) struct ResourceCache {
    prefix: Arc<str>,
    snapshot: ArcSwap<Snapshot>,
    state: Mutex<State>,
    changed: Arc<Bell>,
}

/// The asked-for history is gone; `floor` is the oldest revision from which a watch may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// See the type.
    pub floor: Revision,
}

struct State {
    log: ChangeLog,
    pinned: PinnedSnapshots,
    /// It is no longer among the caches that are kept up to date.
    retired: bool,
}

/// The resource is no longer cached here; the event belongs to a cache that is yet to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retired;

impl ResourceCache {
    /// An empty one, of which nothing is known before `floor`. What its history keeps alive is
    /// part of `total`.
    pub(crate) fn new(prefix: &str, floor: Revision, total: &Arc<AtomicUsize>) -> Self {
        let log = ChangeLog::new(floor, total);
        let pinned = PinnedSnapshots::new(total);
        Self {
            prefix: prefix.into(),
            snapshot: ArcSwap::from_pointee(Snapshot { revision: floor, ..Snapshot::default() }),
            state: Mutex::new(State { log, pinned, retired: false }),
            changed: Arc::default(),
        }
    }

    /// Whether a key is one of this resource's.
    pub(crate) fn holds(&self, key: &str) -> bool {
        key.strip_prefix(&*self.prefix).is_some_and(|it| it.starts_with('/'))
    }

    /// Takes in all records at the start, before anybody reads.
    pub(crate) fn load(&self, records: &[Arc<Record>]) {
        let entries = records
            .iter()
            .map(|it| Arc::new(Entry::of(it, self.prefix.len())))
            .map(|it| (Arc::clone(&it.key), Held::from(it)))
            .collect();
        let revision = self.snapshot.load().revision;
        self.snapshot.store(Arc::new(Snapshot::of(entries, revision)));
    }

    /// Ends the loading: what is here is the state at `revision`, and the store will tell again
    /// what happened since `floor`.
    pub(crate) fn loaded(&self, revision: Revision, floor: Revision) {
        self.lock().log.set_floor(floor);
        self.snapshot.rcu(|snapshot| Snapshot { revision, ..Snapshot::clone(snapshot) });
    }

    /// Puts the state of the store at `revision` in the place of what is here. What happened before
    /// is no longer known.
    pub(crate) fn replace(&self, records: &[Arc<Record>], revision: Revision) {
        let mut state = self.lock();
        let before = self.snapshot.load();
        let entries = records
            .iter()
            .map(|record| match before.entries.get(&record.key) {
                // As it is here, it may have the defaults of a later schema.
                Some(held) if held.revision == record.modified => held.clone(),
                _ => Held::from(Arc::new(Entry::of(record, self.prefix.len()))),
            })
            .map(|held| (Arc::clone(&held.key), held))
            .collect();
        let next = Snapshot { rewrites: before.rewrites, ..Snapshot::of(entries, revision) };
        state.forget(revision);
        state.log.set_floor(revision);
        // What pinned snapshots keep alive of the objects whose events were lost.
        for (key, held) in &before.entries {
            if next.entries.get(key).is_none_or(|now| now.revision != held.revision) {
                state.pinned.count(held, revision);
            }
        }
        self.snapshot.store(Arc::new(next));
    }

    /// Takes in a change. One from before the load goes to the log alone.
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
            (Some(record), _) => Some(Arc::new(Entry::of(record, self.prefix.len()))),
        };
        let new = event.new.as_ref().map(|it| Arc::new(Entry::of(it, self.prefix.len())));
        if event.revision > snapshot.revision {
            let mut next = Snapshot::clone(&snapshot);
            next.exchange(&event.key, new.as_ref());
            next.revision = event.revision;
            self.snapshot.store(Arc::new(next));
        }
        state.log.push(event.revision, old, new);
        state.trim();
        Ok(())
    }

    /// Wakes the watchers after all of a batch is in.
    pub(crate) fn wake(&self) {
        self.changed.ring();
    }

    /// Wakes up whenever there may be something new.
    pub(crate) fn subscribe(&self) -> Subscription {
        self.changed.subscribe()
    }

    /// The objects as they are now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Whether the objects are still as in `snapshot`.
    pub(crate) fn is_now(&self, snapshot: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(&self.snapshot.load(), snapshot)
    }

    /// Whether there are no objects now.
    pub(crate) fn is_empty(&self) -> bool {
        self.snapshot.load().entries.is_empty()
    }

    /// One object as it is now.
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

    /// The objects as they were at `revision`, found by undoing what came after.
    pub(crate) fn at(&self, revision: Revision) -> Result<Arc<Snapshot>, TooOld> {
        let state = self.lock();
        let now = self.snapshot.load_full();
        if now.revision <= revision {
            return Ok(now);
        }
        if let Some(pinned) = state.pinned.get(revision) {
            return Ok(Arc::clone(pinned));
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

    /// Keeps `snapshot`, at the revision that its readers were told, for those who read it in
    /// pages. A snapshot is not kept if its objects were rewritten, or the log has forgotten changes
    /// of them: what it would keep alive is no longer counted for it.
    pub(crate) fn pin(&self, snapshot: &Snapshot, revision: Revision) {
        let mut state = self.lock();
        let is_rewritten = snapshot.rewrites != self.snapshot.load().rewrites;
        if !is_rewritten && state.check(revision).is_ok() {
            state.pinned.add(snapshot, revision);
        }
    }

    /// Forgets the changes up to `upto`, and the pinned snapshots from before it. Watchers that
    /// have seen all of these changes go on.
    pub(crate) fn compact(&self, upto: Revision) {
        let mut state = self.lock();
        state.pinned.drop_before(upto);
        state.forget(upto);
    }

    /// The bytes that its history and its pinned snapshots keep alive.
    pub(crate) fn history_bytes(&self) -> usize {
        let state = self.lock();
        state.log.bytes() + state.pinned.bytes()
    }

    /// Drops half of its history, the oldest first, or of its pinned snapshots if these keep more
    /// alive.
    pub(crate) fn shed(&self) {
        let mut state = self.lock();
        if state.pinned.bytes() > state.log.bytes() {
            let half = state.pinned.bytes() / 2;
            while state.pinned.bytes() > half && state.pinned.pop() {}
            return;
        }
        let half = state.log.bytes() / 2;
        while state.log.bytes() > half {
            let Some(change) = state.log.pop_until(Revision::MAX) else { return };
            state.count(&change);
        }
    }

    /// Ends the cache if it is empty; whether it is. Events from then on are refused.
    pub(crate) fn retire_if_empty(&self) -> bool {
        let mut state = self.lock();
        state.retired |= self.snapshot.load().entries.is_empty();
        state.retired
    }

    /// Shows every object as `rewrite` makes it, unless that returns None: a definition's schema
    /// has changed, and its new defaults hold for what is stored already.
    ///
    /// The objects are rewritten without the lock, and then those that have changed meanwhile.
    pub(crate) fn rewrite(&self, rewrite: impl Fn(&Entry) -> Option<Entry>) {
        let mut seen = self.snapshot();
        let mut next = Snapshot::clone(&seen);
        for (key, held) in &seen.entries {
            if let Some(entry) = rewrite(held) {
                next.exchange(key, Some(&Arc::new(entry)));
            }
        }
        let catch_up = |next: &mut Snapshot, seen: &Snapshot, now: &Snapshot| {
            for difference in seen.entries.diff(&now.entries) {
                match difference {
                    DiffItem::Add(key, held) | DiffItem::Update { new: (key, held), .. } => {
                        let entry = rewrite(held).map_or_else(|| Arc::clone(held), Arc::new);
                        next.exchange(key, Some(&entry));
                    }
                    DiffItem::Remove(key, _) => next.exchange(key, None),
                }
            }
            next.revision = now.revision;
        };
        // Each time fewer objects have changed. The last few, if others write all the time, are
        // rewritten with the lock.
        for _ in 0..MAX_UNLOCKED_REWRITES {
            let now = self.snapshot();
            if Arc::ptr_eq(&now, &seen) {
                break;
            }
            catch_up(&mut next, &seen, &now);
            seen = now;
        }
        let mut state = self.lock();
        let now = self.snapshot();
        catch_up(&mut next, &seen, &now);
        if !next.entries.ptr_eq(&now.entries) {
            next.rewrites = now.rewrites + 1;
            state.count_rewritten(&now, &next);
            self.snapshot.store(Arc::new(next));
        }
        // What was rewritten is freed without the lock.
        drop(state);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the log")
    }
}

impl State {
    fn check(&self, revision: Revision) -> Result<(), TooOld> {
        let floor = self.log.floor();
        if revision < floor { Err(TooOld { floor }) } else { Ok(()) }
    }

    /// Drops the pinned snapshots, which keep alive what was rewritten, and counts what the log
    /// keeps alive of it.
    fn count_rewritten(&mut self, before: &Snapshot, after: &Snapshot) {
        self.pinned.clear();
        for change in self.log.after(self.log.floor()) {
            let Some(new) = &change.new else { continue };
            let was_current =
                before.entries.get(&new.key).is_some_and(|held| Arc::ptr_eq(&held.entry, new));
            let now = after.entries.get(&new.key);
            if was_current && now.is_some_and(|held| !held.shares_bytes(new)) {
                change.count_new();
            }
        }
        self.trim();
    }

    /// Forgets the changes that exceed the bounds of the log.
    fn trim(&mut self) {
        while let Some(change) = self.log.pop_excess() {
            self.count(&change);
        }
    }

    /// Forgets the changes up to `upto`.
    fn forget(&mut self, upto: Revision) {
        while let Some(change) = self.log.pop_until(upto) {
            self.count(&change);
        }
    }

    /// Counts what a forgotten change has replaced for the pinned snapshot that keeps it alive.
    fn count(&mut self, change: &Change) {
        if let Some(old) = &change.old {
            self.pinned.count(old, change.revision);
        }
    }
}

#[cfg(test)]
mod tests;
