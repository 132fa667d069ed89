//! [`Shared`]: what the writer has published, for readers and watchers to see.
//!
//! State and history change together, under one lock that is held for the time of a few pointer
//! copies: a reader clones the map, which shares its structure, and works on the clone.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    },
};

use keel::{Moment, Timestamp};
use tokio::sync::watch;

use crate::{Error, Event, Page, Record, Revision, history::History};

/// The state at some revision; a clone costs one reference count.
pub(crate) type Records = imbl::OrdMap<Arc<str>, Arc<Record>>;

/// See the [module documentation](self).
pub(crate) struct Shared {
    /// Lock order: this one before `topics`.
    published: RwLock<Published>,
    topics: Mutex<Topics>,
    /// When the next record expires, for the sweeper to sleep until.
    next_expiry: watch::Sender<Option<Timestamp>>,
    /// Set once the journal has failed for good.
    failure: OnceLock<Error>,
    /// When the oldest of the commands that the commit thread works on was sent. Its lock is a
    /// leaf.
    oldest_pending: Mutex<Option<Moment>>,
}

/// One consistent view: the state at `revision`, and the events that led to it.
pub(crate) struct Published {
    pub(crate) records: Records,
    pub(crate) revision: Revision,
    pub(crate) history: History,
    /// The keys of the records that expire, by the time at which they do.
    expiries: BTreeSet<(Timestamp, Arc<str>)>,
    closed: bool,
}

/// The watched prefixes. A commit wakes only those who watch a prefix that it touched; the others
/// fall behind in number but have missed nothing, and this is how they know.
type Topics = HashMap<Arc<str>, watch::Sender<Topic>>;

/// What happened to the keys with some prefix since anybody watched it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Topic {
    /// The newest event.
    newest: Revision,
    /// The newest event that is no longer in the history.
    forgotten: Revision,
    /// The revision up to which progress was requested: a watcher that has not reported it does.
    pub(crate) requested: Revision,
}

impl Topic {
    /// Notes events on the prefix that leave the history, which began after `floor`.
    fn forget(&mut self, prefix: &str, floor: Revision, events: &[Event]) {
        if self.newest <= floor {
            return;
        }
        if let Some(event) = events.iter().rfind(|event| event.key.starts_with(prefix)) {
            self.forgotten = event.revision;
        }
    }
}

impl Shared {
    pub(crate) fn new(records: Records, revision: Revision, history: History) -> Self {
        let expiries = records.values().filter_map(expiry).collect();
        let published = Published { records, revision, history, expiries, closed: false };
        Self {
            next_expiry: watch::Sender::new(published.next_expiry()),
            published: RwLock::new(published),
            topics: Mutex::default(),
            failure: OnceLock::new(),
            oldest_pending: Mutex::default(),
        }
    }

    /// Records that the journal has failed for good. Only the first failure counts.
    pub(crate) fn set_failure(&self, error: Error) {
        let _ = self.failure.set(error);
    }

    /// The error with which all writes are refused.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Notes when the oldest unfinished command was sent; `None` once all of them are finished.
    pub(crate) fn set_oldest_pending(&self, sent: Option<Moment>) {
        *self.lock_oldest_pending() = sent;
    }

    /// When the oldest unfinished command was sent.
    pub(crate) fn oldest_pending(&self) -> Option<Moment> {
        self.lock_oldest_pending().clone()
    }

    fn lock_oldest_pending(&self) -> MutexGuard<'_, Option<Moment>> {
        self.oldest_pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is published now, unless the store is closed.
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

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the outcome of a batch visible and wakes those who watch for it. Returns the events
    /// that fell out of the history.
    pub(crate) fn publish(&self, records: Records, events: Vec<Event>) -> Vec<Event> {
        let Some(last) = events.last().map(|event| event.revision) else {
            return Vec::new();
        };
        let mut published = self.write();
        let mut topics = self.topics();
        // With the state still locked: a watcher that sees the new revision must also see that
        // its prefix was touched.
        topics.retain(|prefix, topic| {
            if let Some(event) = events.iter().rfind(|event| event.key.starts_with(&**prefix)) {
                topic.send_modify(|topic| topic.newest = event.revision);
            }
            topic.receiver_count() > 0
        });
        for event in events {
            published.track_expiry(&event);
            published.history.push(event);
        }
        let former = mem::replace(&mut published.records, records);
        published.revision = last;
        let floor = published.history.floor();
        let forgotten = published.history.trim();
        tell(&topics, floor, &forgotten);
        let next_expiry = published.next_expiry();
        drop((topics, published));
        // Freeing what only the former map held takes a while; nobody waits for it here.
        drop(former);
        self.next_expiry.send_if_modified(|next| mem::replace(next, next_expiry) != next_expiry);
        forgotten
    }

    /// Forgets the history up to `upto`, and returns it.
    pub(crate) fn forget(&self, upto: Revision) -> Result<Vec<Event>, Error> {
        let mut published = self.write();
        if upto > published.revision {
            return Err(Error::Future { asked: upto, current: published.revision });
        }
        let floor = published.history.floor();
        let forgotten = published.history.forget(upto);
        tell(&self.topics(), floor, &forgotten);
        Ok(forgotten)
    }

    /// Ends all reads and watches.
    pub(crate) fn close(&self) {
        self.write().closed = true;
        for topic in self.topics().values() {
            topic.send_modify(|_| {});
        }
        self.next_expiry.send_replace(None);
    }

    /// Registers a watcher of `prefix` from `after` on; it is woken when the prefix is touched.
    pub(crate) fn subscribe(
        &self,
        prefix: &Arc<str>,
        after: Revision,
    ) -> Result<watch::Receiver<Topic>, Error> {
        let published = self.read()?;
        if after > published.revision {
            return Err(Error::Future { asked: after, current: published.revision });
        }
        published.history.check(after)?;
        let past = published.history.after(after, prefix).next_back();
        let newest = past.map_or(0, |event| event.revision);
        let mut topics = self.topics();
        let topic = topics.entry(Arc::clone(prefix)).or_default();
        topic.send_if_modified(|topic| {
            topic.newest = topic.newest.max(newest);
            false
        });
        Ok(topic.subscribe())
    }

    /// Has each watcher report the present revision, unless its next event does so.
    pub(crate) fn request_progress(&self) -> Result<(), Error> {
        let published = self.read()?;
        for topic in self.topics().values() {
            topic.send_if_modified(|topic| {
                let is_silent = topic.newest < published.revision;
                if is_silent {
                    topic.requested = published.revision;
                }
                is_silent
            });
        }
        Ok(())
    }

    /// The events after `cursor` that a watcher of `prefix` is to see, `limit` at most, and how far
    /// it is then.
    pub(crate) fn events(
        &self,
        prefix: &str,
        cursor: Revision,
        topic: &watch::Receiver<Topic>,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), Error> {
        let published = self.read_even_closed();
        let mut events = Vec::new();
        let topic = *topic.borrow();
        if topic.forgotten > cursor {
            published.history.check(cursor)?;
        }
        if topic.newest > cursor {
            events.extend(published.history.after(cursor, prefix).take(limit).cloned());
        }
        if events.is_empty() && published.closed {
            return Err(Error::Closed);
        }
        let cut_short = (events.len() == limit).then(|| events.last()).flatten();
        let cursor = cut_short.map_or(published.revision, |last| last.revision);
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

    /// The records that have expired by `now`, the longest expired first, `limit` at most.
    pub(crate) fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<Arc<Record>>, Error> {
        let published = self.read()?;
        let due = published.expiries.iter().take_while(|(expires, _)| *expires <= now).take(limit);
        Ok(due.filter_map(|(_, key)| published.records.get(key).cloned()).collect())
    }

    /// Changes when another record becomes the next one to expire, and at the close.
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

/// Lets watchers know what of theirs has left the history.
fn tell(topics: &Topics, floor: Revision, forgotten: &[Event]) {
    if forgotten.is_empty() {
        return;
    }
    for (prefix, topic) in topics {
        topic.send_if_modified(|topic| {
            topic.forget(prefix, floor, forgotten);
            false
        });
    }
}

fn expiry(record: &Arc<Record>) -> Option<(Timestamp, Arc<str>)> {
    record.expires.map(|expires| (expires, Arc::clone(&record.key)))
}
