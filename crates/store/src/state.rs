//! [`StoreState`]: the state that the writer publishes to readers and watches.
//!
//! Records and history change together, under one lock that is held for a few pointer copies: a
//! reader clones the map, which shares its structure, and works on the clone.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::ops::Bound;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use tokio::sync::watch;

use crate::history::History;
use crate::{Error, Event, Page, Record, Revision};
use keel::{ClockInstant, Timestamp};

/// The records at one revision; a clone costs one reference count.
pub(crate) type Records = imbl::OrdMap<Arc<str>, Arc<Record>>;

/// See the [module documentation](self).
pub(crate) struct StoreState {
    /// Locked before `prefixes`.
    published: RwLock<Published>,
    prefixes: Mutex<WatchedPrefixes>,
    /// The time at which the next record expires.
    next_expiry: watch::Sender<Option<Timestamp>>,
    /// The permanent failure of the journal.
    failure: OnceLock<Error>,
    /// The time at which the oldest unfinished command was sent. No other lock is taken while it is
    /// locked.
    oldest_pending: Mutex<Option<ClockInstant>>,
}

/// A consistent view: the records at `revision`, and the events before it.
pub(crate) struct Published {
    pub(crate) records: Records,
    pub(crate) revision: Revision,
    pub(crate) history: History,
    /// The keys of the records that expire, by time.
    expiries: BTreeSet<(Timestamp, Arc<str>)>,
    closed: bool,
}

/// The watched prefixes. A commit wakes only the watches of a prefix that it changes. The state of
/// a prefix shows the other watches that they have missed no event.
type WatchedPrefixes = HashMap<Arc<str>, watch::Sender<WatchedPrefix>>;

/// The events on the keys with a prefix, since the first watch of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct WatchedPrefix {
    /// The newest event.
    newest: Revision,
    /// The newest event that was removed from the history.
    compacted: Revision,
    /// The revision at the last request for progress. A watch that has not reported it does so.
    pub(crate) requested: Revision,
}

impl WatchedPrefix {
    /// Records the removal of events from the history, whose floor was `floor`.
    fn compact(&mut self, prefix: &str, floor: Revision, events: &[Event]) {
        if self.newest <= floor {
            return;
        }
        if let Some(event) = events.iter().rfind(|event| event.key.starts_with(prefix)) {
            self.compacted = event.revision;
        }
    }
}

impl StoreState {
    pub(crate) fn new(records: Records, revision: Revision, history: History) -> Self {
        let expiries = records.values().filter_map(expiry).collect();
        let published = Published { records, revision, history, expiries, closed: false };
        Self {
            next_expiry: watch::Sender::new(published.next_expiry()),
            published: RwLock::new(published),
            prefixes: Mutex::default(),
            failure: OnceLock::new(),
            oldest_pending: Mutex::default(),
        }
    }

    /// Sets the permanent failure of the journal. Later failures are ignored.
    pub(crate) fn set_failure(&self, error: Error) {
        let _ = self.failure.set(error);
    }

    /// The error of all writes after a permanent failure.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Sets the time at which the oldest unfinished command was sent; `None` if all are finished.
    pub(crate) fn set_oldest_pending(&self, sent: Option<ClockInstant>) {
        *self.lock_oldest_pending() = sent;
    }

    /// The time at which the oldest unfinished command was sent.
    pub(crate) fn oldest_pending(&self) -> Option<ClockInstant> {
        self.lock_oldest_pending().clone()
    }

    fn lock_oldest_pending(&self) -> MutexGuard<'_, Option<ClockInstant>> {
        self.oldest_pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The published state; fails if the store is closed.
    pub(crate) fn read(&self) -> Result<RwLockReadGuard<'_, Published>, Error> {
        let published = self.read_even_closed();
        if published.closed { Err(Error::Closed) } else { Ok(published) }
    }

    fn read_even_closed(&self) -> RwLockReadGuard<'_, Published> {
        self.published.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Published> {
        self.published.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn prefixes(&self) -> MutexGuard<'_, WatchedPrefixes> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the outcome of a batch and wakes the watches of its keys. Returns the events that
    /// were removed from the history.
    pub(crate) fn publish(&self, records: Records, events: Vec<Event>) -> Vec<Event> {
        let Some(last) = events.last().map(|event| event.revision) else {
            return Vec::new();
        };
        let mut published = self.write();
        let mut prefixes = self.prefixes();
        // While the state is locked: a watch that sees the new revision must also see that its
        // prefix has changed.
        prefixes.retain(|prefix, watched| {
            if let Some(event) = events.iter().rfind(|event| event.key.starts_with(&**prefix)) {
                watched.send_modify(|watched| watched.newest = event.revision);
            }
            watched.receiver_count() > 0
        });
        for event in events {
            published.track_expiry(&event);
            published.history.push(event);
        }
        let previous = mem::replace(&mut published.records, records);
        published.revision = last;
        let floor = published.history.floor();
        let removed = published.history.trim();
        record_compaction(&prefixes, floor, &removed);
        let next_expiry = published.next_expiry();
        drop((prefixes, published));
        // After the locks are released, since freeing the records takes time.
        drop(previous);
        self.next_expiry.send_if_modified(|next| mem::replace(next, next_expiry) != next_expiry);
        removed
    }

    /// Removes the history up to `upto`, and returns it.
    pub(crate) fn compact(&self, upto: Revision) -> Result<Vec<Event>, Error> {
        let mut published = self.write();
        if upto > published.revision {
            return Err(Error::Future { asked: upto, current: published.revision });
        }
        let floor = published.history.floor();
        let removed = published.history.compact(upto);
        record_compaction(&self.prefixes(), floor, &removed);
        Ok(removed)
    }

    /// Ends all reads and watches.
    pub(crate) fn close(&self) {
        self.write().closed = true;
        for watched in self.prefixes().values() {
            watched.send_modify(|_| {});
        }
        self.next_expiry.send_replace(None);
    }

    /// Registers a watch of `prefix` after `after`. The receiver is woken when the prefix changes.
    pub(crate) fn subscribe(
        &self,
        prefix: &Arc<str>,
        after: Revision,
    ) -> Result<watch::Receiver<WatchedPrefix>, Error> {
        let published = self.read()?;
        if after > published.revision {
            return Err(Error::Future { asked: after, current: published.revision });
        }
        published.history.check(after)?;
        let past = published.history.after(after, prefix).next_back();
        let newest = past.map_or(0, |event| event.revision);
        let mut prefixes = self.prefixes();
        let watched = prefixes.entry(Arc::clone(prefix)).or_default();
        watched.send_if_modified(|watched| {
            watched.newest = watched.newest.max(newest);
            // Returns false: the state changes without waking the other watches of the prefix.
            false
        });
        Ok(watched.subscribe())
    }

    /// Requests that each watch reports the present revision, unless an event with it is due.
    pub(crate) fn request_progress(&self) -> Result<(), Error> {
        let published = self.read()?;
        for watched in self.prefixes().values() {
            watched.send_if_modified(|watched| {
                let is_behind = watched.newest < published.revision;
                if is_behind {
                    watched.requested = published.revision;
                }
                is_behind
            });
        }
        Ok(())
    }

    /// The events after `cursor` on keys with `prefix`, `limit` at most, and the revision up to which
    /// there are no others. `watched` is woken by every later change.
    pub(crate) fn events(
        &self,
        prefix: &str,
        cursor: Revision,
        watched: &mut watch::Receiver<WatchedPrefix>,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), Error> {
        let published = self.read_even_closed();
        let mut events = Vec::new();
        let watched = *watched.borrow_and_update();
        if watched.compacted > cursor {
            published.history.check(cursor)?;
        }
        if watched.newest > cursor {
            events.extend(published.history.after(cursor, prefix).take(limit).cloned());
        }
        if events.is_empty() && published.closed {
            return Err(Error::Closed);
        }
        let last_if_full = (events.len() == limit).then(|| events.last()).flatten();
        let cursor = last_if_full.map_or(published.revision, |last| last.revision);
        Ok((events, cursor))
    }

    /// See [`Store::range`](crate::Store::range).
    pub(crate) fn range(
        &self,
        prefix: &str,
        start: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> Result<Page, Error> {
        let (mut records, revision, undo) = {
            let published = self.read()?;
            let revision = at.unwrap_or(published.revision);
            if revision > published.revision {
                return Err(Error::Future { asked: revision, current: published.revision });
            }
            published.history.check(revision)?;
            (published.records.clone(), revision, published.history.undo(revision, prefix))
        };
        for (key, record) in undo {
            match record {
                Some(record) => records.insert(key, record),
                None => records.remove(&key),
            };
        }
        let start = start.unwrap_or(prefix).max(prefix);
        let mut found = records
            .range::<_, str>((Bound::Included(start), Bound::Unbounded))
            .map(|(_, record)| record)
            .take_while(|record| record.key.starts_with(prefix));
        let page = found.by_ref().take(limit).map(Arc::clone).collect();
        Ok(Page { records: page, revision, remaining: found.count() })
    }

    /// The records that have expired at `now`, in the order of their expiration, `limit` at most.
    pub(crate) fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<Arc<Record>>, Error> {
        let published = self.read()?;
        let due = published.expiries.iter().take_while(|(expires, _)| *expires <= now).take(limit);
        Ok(due.filter_map(|(_, key)| published.records.get(key).cloned()).collect())
    }

    /// Changes with the expiration time of the next record, and when the store is closed.
    pub(crate) fn next_expiry(&self) -> watch::Receiver<Option<Timestamp>> {
        self.next_expiry.subscribe()
    }
}

impl Published {
    fn track_expiry(&mut self, event: &Event) {
        if let Some(entry) = event.old.as_ref().and_then(expiry) {
            self.expiries.remove(&entry);
        }
        self.expiries.extend(event.new.as_ref().and_then(expiry));
    }

    fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(expires, _)| *expires)
    }
}

/// Records the removed events in the state of their prefixes.
fn record_compaction(prefixes: &WatchedPrefixes, floor: Revision, removed: &[Event]) {
    if removed.is_empty() {
        return;
    }
    for (prefix, watched) in prefixes {
        watched.send_if_modified(|watched| {
            watched.compact(prefix, floor, removed);
            // Returns false: the state changes without waking the watches.
            false
        });
    }
}

fn expiry(record: &Arc<Record>) -> Option<(Timestamp, Arc<str>)> {
    record.expires.map(|expires| (expires, Arc::clone(&record.key)))
}
