//! [`ResourceCache`]: one resource's objects and the log of their recent changes.
//!
//! Invariants:
//! - `snapshot` is the state after the last change in the log;
//! - the log holds every change after `floor`, in revision order, without gaps;
//! - a watcher is a revision: it has seen everything up to there and asks for what came after.

use super::entry::Entry;
use super::label_mask::LabelMask;
use super::subscription::{Bell, Subscription};
use arc_swap::ArcSwap;
use bytes::Bytes;
use imbl::OrdMap;
use std::collections::VecDeque;
use std::ops::{Bound, Deref};
use std::sync::{Arc, Mutex};
use store::{Event, Record, Revision};

/// More changes than this are forgotten, oldest first. Who is further behind must list again.
const MAX_CHANGES: usize = 20_000;

/// The same for the bytes that the changes hold.
const MAX_BYTES: usize = 64 << 20;

/// So many changes are looked at one by one before the log is searched: a search looks at a dozen
/// that nobody else does, and memory is slow.
const RECENT: usize = 8;

/// How many lists that are being read in pages are kept as they were.
const MAX_PINS: usize = 64;

/// See the [module documentation](self).
pub(crate) struct ResourceCache {
    prefix: Arc<str>,
    snapshot: ArcSwap<Snapshot>,
    state: Mutex<State>,
    changed: Arc<Bell>,
}

/// All objects of a resource at one revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// By key.
    pub entries: OrdMap<Arc<str>, Held>,
    /// Of the last change to this resource, or of the load.
    pub revision: Revision,
    /// How many of the objects somebody still has to work on before others may see them: mostly
    /// none, and then nobody has to look.
    pub uninitialized: usize,
}

/// An object, and beside it what spares a look at it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    entry: Arc<Entry>,
    labels: LabelMask,
}

impl From<Arc<Entry>> for Held {
    fn from(entry: Arc<Entry>) -> Self {
        Self { labels: entry.label_mask(), entry }
    }
}

impl Deref for Held {
    type Target = Arc<Entry>;

    fn deref(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Snapshot {
    fn of(entries: OrdMap<Arc<str>, Held>, revision: Revision) -> Self {
        let uninitialized = entries.values().filter(|it| it.uninitialized).count();
        Self { entries, revision, uninitialized }
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Without the objects that not everybody may see yet.
    pub(crate) fn initialized(self: &Arc<Self>) -> Arc<Self> {
        if self.uninitialized == 0 {
            return Arc::clone(self);
        }
        let entries = self.entries.iter().filter(|(_, held)| !held.uninitialized);
        let entries = entries.map(|(key, held)| (Arc::clone(key), held.clone())).collect();
        Arc::new(Self { entries, revision: self.revision, uninitialized: 0 })
    }

    /// Puts one state of an object in the place of another.
    fn exchange(&mut self, key: &Arc<str>, entry: Option<&Arc<Entry>>) {
        let before = match entry {
            Some(entry) => self.entries.insert(Arc::clone(key), Arc::clone(entry).into()),
            None => self.entries.remove(key),
        };
        self.uninitialized += usize::from(entry.is_some_and(|it| it.uninitialized));
        self.uninitialized -= usize::from(before.is_some_and(|it| it.uninitialized));
    }

    /// The objects whose keys begin with `prefix`, which ends with a slash, from `start` on, in the
    /// order of their keys.
    pub(crate) fn under(
        &self,
        prefix: &str,
        start: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Entry>> {
        self.labeled(prefix, start, LabelMask::default())
    }

    /// The same without those that surely lack the `wanted` labels.
    pub(crate) fn labeled(
        &self,
        prefix: &str,
        start: Option<&str>,
        wanted: LabelMask,
    ) -> impl Iterator<Item = &Arc<Entry>> {
        // The end is found once, since to look at each key costs as much as all the rest.
        let end = prefix.strip_suffix('/').map(|it| format!("{it}0")).unwrap_or_default();
        let start = start.unwrap_or(prefix).min(&end);
        let range = (Bound::Included(start), Bound::Excluded(end.as_str()));
        self.entries
            .range::<(Bound<&str>, Bound<&str>), str>(range)
            .filter(move |(_, held)| held.labels.may_have(wanted))
            .map(|(_, held)| &held.entry)
    }
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    /// When.
    pub revision: Revision,
    /// Before; None if it was created.
    pub old: Option<Arc<Entry>>,
    /// After; None if it was deleted.
    pub new: Option<Arc<Entry>>,
    /// Encoded once for each form in which somebody watches, and shared by all who do.
    encoded: Mutex<Vec<(EncodingKey, Bytes)>>,
}

/// What distinguishes one encoding of a change from another: the event, the edition of the kind and
/// its version, the form.
pub(crate) type EncodingKey = (&'static str, Revision, usize, u8);

/// The asked-for history is gone; `floor` is the oldest revision from which a watch may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// See the type.
    pub floor: Revision,
}

#[derive(Default)]
struct State {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    floor: Revision,
    pins: VecDeque<Arc<Snapshot>>,
}

impl ResourceCache {
    /// An empty one, of which nothing is known before `floor`.
    pub(crate) fn new(prefix: &str, floor: Revision) -> Self {
        Self {
            prefix: prefix.into(),
            snapshot: ArcSwap::from_pointee(Snapshot { revision: floor, ..Snapshot::default() }),
            state: Mutex::new(State { floor, ..State::default() }),
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
        self.lock().floor = floor;
        self.snapshot.rcu(|snapshot| Snapshot { revision, ..Snapshot::clone(snapshot) });
    }

    /// Takes in a change. One from before the load goes to the log alone.
    pub(crate) fn apply(&self, event: &Event) {
        let mut state = self.lock();
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
        state.push(Arc::new(Change {
            revision: event.revision,
            old,
            new,
            encoded: Mutex::default(),
        }));
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
        if revision < state.floor {
            return Err(TooOld { floor: state.floor });
        }
        Ok(state.changes.range(state.after(revision)..).take(limit).cloned().collect())
    }

    /// The objects as they were at `revision`, found by undoing what came after.
    pub(crate) fn at(&self, revision: Revision) -> Result<Arc<Snapshot>, TooOld> {
        let state = self.lock();
        let now = self.snapshot.load_full();
        if now.revision <= revision {
            return Ok(now);
        }
        if let Some(pinned) = state.pins.iter().find(|it| it.revision == revision) {
            return Ok(Arc::clone(pinned));
        }
        if revision < state.floor {
            return Err(TooOld { floor: state.floor });
        }
        let mut then = Snapshot { revision, ..Snapshot::clone(&now) };
        for change in state.changes.iter().rev().take_while(|it| it.revision > revision) {
            if let Some(entry) = change.old.as_ref().or(change.new.as_ref()) {
                then.exchange(&entry.key, change.old.as_ref());
            }
        }
        Ok(Arc::new(then))
    }

    /// Keeps `snapshot`, at the revision that its readers were told, for those who read it in
    /// pages. When there are too many, the oldest is forgotten: its reader gets 410 and begins
    /// again.
    pub(crate) fn pin(&self, snapshot: &Snapshot, revision: Revision) {
        let mut state = self.lock();
        if state.pins.iter().any(|it| it.revision == revision) {
            return;
        }
        if state.pins.len() == MAX_PINS {
            state.pins.pop_front();
        }
        state.pins.push_back(Arc::new(Snapshot { revision, ..snapshot.clone() }));
    }

    /// Shows every object as `rewrite` makes it: a definition's schema has changed, and its new
    /// defaults hold for what is stored already.
    pub(crate) fn rewrite(&self, rewrite: impl Fn(&Entry) -> Entry) {
        let state = self.lock();
        let now = self.snapshot.load();
        let entries = now
            .entries
            .iter()
            .map(|(key, entry)| (Arc::clone(key), Held::from(Arc::new(rewrite(entry)))))
            .collect();
        self.snapshot.store(Arc::new(Snapshot::of(entries, now.revision)));
        drop(state);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the log")
    }
}

impl State {
    /// Where the changes after `revision` begin. Most watchers want the last few.
    fn after(&self, revision: Revision) -> usize {
        let recent = self.changes.iter().rev().take(RECENT);
        match recent.take_while(|it| it.revision > revision).count() {
            RECENT => self.changes.partition_point(|it| it.revision <= revision),
            few => self.changes.len() - few,
        }
    }

    fn push(&mut self, change: Arc<Change>) {
        self.bytes += change.len();
        self.changes.push_back(change);
        while self.changes.len() > MAX_CHANGES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes -= oldest.len();
            self.floor = oldest.revision;
        }
    }
}

impl Change {
    fn len(&self) -> usize {
        self.new.as_ref().map_or(64, |it| it.len())
    }

    /// The bytes of this change in one form, made by `encode` for the first who asks.
    pub(crate) fn encoded(&self, key: EncodingKey, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        let mut encoded = self.encoded.lock().expect("nothing panics while it encodes");
        if let Some((_, bytes)) = encoded.iter().find(|(it, _)| *it == key) {
            return bytes.clone();
        }
        let bytes = Bytes::from(encode());
        encoded.push((key, bytes.clone()));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "/registry/things";

    fn record(name: &str, revision: Revision) -> Arc<Record> {
        Arc::new(Record {
            key: format!("{PREFIX}/{name}").into(),
            value: format!(r#"{{"apiVersion":"v1","kind":"T","metadata":{{"name":"{name}"}}}}"#)
                .into(),
            created: revision,
            modified: revision,
            expires: None,
        })
    }

    /// Applies `script` ("+a ~a -a": add, update, delete), one revision a step, from revision 1.
    fn fed(script: &str) -> ResourceCache {
        let cache = ResourceCache::new(PREFIX, 0);
        for (revision, step) in (1..).zip(script.split_whitespace()) {
            let (sign, name) = step.split_at(1);
            let new = (sign != "-").then(|| record(name, revision));
            let key: Arc<str> = format!("{PREFIX}/{name}").into();
            let old = cache.get(&key).map(|it| record(name, it.revision));
            cache.apply(&Event { revision, key, new, old });
        }
        cache
    }

    fn names(snapshot: &Snapshot) -> String {
        let names = snapshot.entries.values().map(|it| format!("{}@{}", it.name(), it.revision));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_past_is_found_by_undoing() {
        let cache = fed("+a +b ~a -b +c");
        assert_eq!(names(&cache.snapshot()), "a@3 c@5");
        assert_eq!(names(&cache.at(3).unwrap()), "a@3 b@2");
        assert_eq!(names(&cache.at(1).unwrap()), "a@1");
        assert_eq!(names(&cache.at(0).unwrap()), "");
    }

    #[test]
    fn a_watcher_gets_what_came_after_it() {
        let cache = fed("+a +b ~a -b");
        let seen: Vec<_> = cache.after(2, 10).unwrap().iter().map(|it| it.revision).collect();
        assert_eq!(seen, [3, 4]);
        assert!(cache.after(4, 10).unwrap().is_empty());
    }

    #[test]
    fn who_is_older_than_the_log_is_told_so() {
        let cache = ResourceCache::new(PREFIX, 10);
        assert_eq!(cache.after(9, 1).unwrap_err(), TooOld { floor: 10 });
        assert_eq!(cache.at(9).unwrap_err(), TooOld { floor: 10 });
        assert!(cache.after(10, 1).is_ok());
    }

    #[test]
    fn a_pinned_list_outlives_the_log() {
        let cache = fed("+a +b");
        cache.pin(&cache.snapshot(), 2);
        for revision in 3..(3 + MAX_CHANGES as Revision + 5) {
            let key: Arc<str> = format!("{PREFIX}/z").into();
            cache.apply(&Event { revision, key, new: Some(record("z", revision)), old: None });
        }
        assert!(cache.at(3).is_err());
        assert_eq!(names(&cache.at(2).unwrap()), "a@1 b@2");
    }
}
