//! [`Writer`]: the one place where the state changes.
//!
//! A batch of requests is checked against the state, each seeing those before it; the outcome goes
//! to the journal in one append, and only then to the readers:
//!
//! ```text
//! put /a expecting nothing      → revision 8     ┐
//! put /a expecting revision 8   → revision 9     ├ one append, one fsync, one new state
//! delete /b expecting 3         → conflict       ┘
//! ```
//!
//! Invariants:
//! - what readers see is in the journal;
//! - a revision is assigned once: when an append fails, its revisions are skipped.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use keel::Clock;

use crate::{
    Error, Event, Expect, Record, Revision,
    journal::{Batch, Journal},
    shared::{Records, Shared},
};

/// Far above what an API server lets through, and far below what the journal cannot take.
const MAX_VALUE: usize = 64 << 20;

/// A write that somebody asked for.
pub(crate) enum Request {
    Put { key: Arc<str>, value: Bytes, expect: Expect, ttl: Option<Duration> },
    Delete { key: Arc<str>, expect: Expect },
}

/// See the [module documentation](self).
pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// `None` for a store that forgets.
    journal: Option<Box<dyn Journal>>,
    clock: Clock,
    /// The last revision that was assigned, published or not.
    last: Revision,
    /// Superseded writes that the journal was not told of yet.
    garbage: Vec<Revision>,
}

/// The state as the requests of a batch leave it, before anybody else sees it.
struct Stage {
    records: Records,
    events: Vec<Event>,
    last: Revision,
}

impl Writer {
    /// A writer that goes on after the published state.
    pub(crate) fn new(
        shared: Arc<Shared>,
        journal: Option<Box<dyn Journal>>,
        clock: Clock,
        last: Revision,
    ) -> Self {
        Self { shared, journal, clock, last, garbage: Vec::new() }
    }

    /// Does what the requests ask, as one batch, and returns what came of each.
    pub(crate) fn commit(&mut self, requests: Vec<Request>) -> Vec<Result<Event, Error>> {
        let count = requests.len();
        match self.try_commit(requests) {
            Ok(outcomes) => outcomes,
            // Those that failed for reasons of their own may have seen a write that never was.
            Err(error) => vec![Err(error); count],
        }
    }

    fn try_commit(&mut self, requests: Vec<Request>) -> Result<Vec<Result<Event, Error>>, Error> {
        if let Some(failure) = self.shared.failure() {
            return Err(failure.clone());
        }
        let records = self.shared.read()?.records.clone();
        let mut stage =
            Stage { records, events: Vec::with_capacity(requests.len()), last: self.last };
        let outcomes =
            requests.into_iter().map(|request| self.stage(&mut stage, request)).collect();
        if stage.events.is_empty() {
            return Ok(outcomes);
        }
        self.last = stage.last;
        self.append(&stage.events)?;
        let forgotten = self.shared.publish(stage.records, stage.events);
        self.collect(&forgotten);
        Ok(outcomes)
    }

    /// Checks one request and, if nothing speaks against it, applies it to the stage.
    fn stage(&self, stage: &mut Stage, request: Request) -> Result<Event, Error> {
        let (Request::Put { key, expect, .. } | Request::Delete { key, expect }) = &request;
        let old = stage.records.get(key).cloned();
        if old.is_none() && matches!(request, Request::Delete { .. }) {
            return Err(Error::NotFound { key: Arc::clone(key) });
        }
        if !expect.is_met_by(old.as_ref()) {
            return Err(Error::Conflict { key: Arc::clone(key), found: old });
        }
        let revision = stage.last + 1;
        // One allocation per key, however often it is written.
        let key = Arc::clone(old.as_ref().map_or(key, |old| &old.key));
        let new = match request {
            Request::Delete { .. } => {
                stage.records.remove(&key);
                None
            }
            Request::Put { value, .. } if value.len() > MAX_VALUE => {
                return Err(Error::TooLarge { key, size: value.len(), limit: MAX_VALUE });
            }
            Request::Put { value, ttl, .. } => {
                let record = Arc::new(Record {
                    key: Arc::clone(&key),
                    value,
                    created: old.as_ref().map_or(revision, |old| old.created),
                    modified: revision,
                    expires: ttl.map(|ttl| self.clock.now() + ttl),
                });
                stage.records.insert(Arc::clone(&key), Arc::clone(&record));
                Some(record)
            }
        };
        stage.last = revision;
        let event = Event { revision, key, new, old };
        stage.events.push(event.clone());
        Ok(event)
    }

    /// Appends events, and tells of superseded writes along with them.
    fn append(&mut self, events: &[Event]) -> Result<(), Error> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let floor = self.shared.read()?.history.floor();
        match journal.append(&Batch { events, garbage: &self.garbage, floor }) {
            Ok(()) => {
                self.garbage.clear();
                Ok(())
            }
            Err(error) => {
                if !matches!(error, Error::Full) {
                    tracing::error!(%error, "the journal failed: writes are refused from now on");
                    self.shared.set_failure(error.clone());
                }
                Err(error)
            }
        }
    }

    /// Deletes what has expired, up to `limit` records, and says how many there were.
    pub(crate) fn sweep(&mut self, limit: usize) -> Result<usize, Error> {
        let expired = self.shared.expired(self.clock.now(), limit)?;
        let request = |record: &Arc<Record>| Request::Delete {
            key: Arc::clone(&record.key),
            expect: Expect::At(record.modified),
        };
        let count = expired.len();
        self.try_commit(expired.iter().map(request).collect())?;
        Ok(count)
    }

    /// See [`Store::compact`](crate::Store::compact). The journal learns of it at once, and is
    /// rid of what it need not keep in its own time.
    pub(crate) fn compact(&mut self, upto: Revision) -> Result<(), Error> {
        // A journal that has failed must not be used any more.
        if let Some(failure) = self.shared.failure() {
            return Err(failure.clone());
        }
        let forgotten = self.shared.forget(upto)?;
        if forgotten.is_empty() {
            return Ok(());
        }
        self.collect(&forgotten);
        self.append(&[])
    }

    /// Notes what the events that left the history have superseded.
    fn collect(&mut self, forgotten: &[Event]) {
        if self.journal.is_some() {
            self.garbage.extend(forgotten.iter().flat_map(garbage));
        }
    }

    /// Ends reads and watches, and releases the journal.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.shared.close();
        match self.journal.take() {
            // A broken journal must not touch the disk again.
            Some(_) if self.shared.failure().is_some() => Ok(()),
            Some(journal) => journal.close(),
            None => Ok(()),
        }
    }
}

/// The writes that nobody can see once `event` has left the history: the one it replaced, and
/// itself if it is a deletion, in this order. Were a deletion forgotten before what it deleted,
/// that would rise again at the next start.
pub(crate) fn garbage(event: &Event) -> impl Iterator<Item = Revision> + use<> {
    let replaced = event.old.as_ref().map(|old| old.modified);
    let deletion = event.new.is_none().then_some(event.revision);
    replaced.into_iter().chain(deletion)
}
