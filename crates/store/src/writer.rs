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
//! When the disk is full, puts are refused and deletions still succeed, on space that the journal
//! has kept in reserve, until there is room for all of the reserve again. Puts search for that room,
//! at most once a second.
//!
//! Invariants:
//! - what readers see is in the journal;
//! - a revision is assigned once: when an append fails, its revisions are skipped.

use std::{mem, sync::Arc, time::Duration};

use bytes::Bytes;
use keel::{Clock, Moment};

use crate::{
    Error, Event, Expect, Record, Revision,
    journal::{Batch, Journal, Shrink},
    quota::Quota,
    shared::{Records, Shared},
};

/// Far above what an API server lets through, and far below what the journal cannot take.
const MAX_VALUE: usize = 64 << 20;

/// The least time between two searches for room on a full disk. Each writes up to all of the
/// reserve, on the thread that commits.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// A write that somebody asked for.
pub(crate) enum Request {
    Put { key: Arc<str>, value: Bytes, expect: Expect, ttl: Option<Duration> },
    Delete { key: Arc<str>, expect: Expect },
}

impl Request {
    fn is_put(&self) -> bool {
        matches!(self, Self::Put { .. })
    }

    /// The error if not even the reserve has room for it.
    fn full(&self) -> Error {
        if self.is_put() { Error::Full } else { Error::FullForDeletions }
    }
}

/// What came of each request of a batch.
type Outcomes = Vec<Result<Event, Error>>;

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
    /// Up to this revision the journal has been told what is superseded. After the disk was full it
    /// may be above the floor of the history, of which the disk then has less than the memory.
    collected: Revision,
    /// Whether there was a round of maintenance.
    is_maintained: bool,
    /// The disk was full, and the reserve is not complete since.
    is_full: bool,
    /// The time of the last search for room; `None` as long as the disk was never full.
    searched: Option<Moment>,
    quota: Quota,
}

/// The state as the requests of a batch leave it, before anybody else sees it.
struct Stage {
    records: Records,
    events: Vec<Event>,
    last: Revision,
    /// The bytes of all records.
    used: usize,
}

impl Writer {
    /// A writer that goes on after the published state.
    pub(crate) fn new(
        shared: Arc<Shared>,
        journal: Option<Box<dyn Journal>>,
        clock: Clock,
        last: Revision,
        quota_bytes: usize,
    ) -> Self {
        let records = shared.read().map(|it| it.records.clone()).unwrap_or_default();
        Self {
            quota: Quota::new(quota_bytes, &records),
            shared,
            journal,
            clock,
            last,
            garbage: Vec::new(),
            collected: 0,
            is_maintained: false,
            is_full: false,
            searched: None,
        }
    }

    /// Does what the requests ask, as one batch, and returns what came of each.
    pub(crate) fn commit(&mut self, requests: &[Request]) -> Vec<Result<Event, Error>> {
        let looked = if self.is_full && requests.iter().any(Request::is_put) {
            self.look_for_room()
        } else {
            Ok(())
        };
        match looked.and_then(|()| self.commit_or_make_room(requests)) {
            Ok(outcomes) => outcomes,
            // Those that failed for reasons of their own may have seen a write that never was.
            Err(Error::Full) => requests.iter().map(|request| Err(request.full())).collect(),
            Err(error) => vec![Err(error); requests.len()],
        }
    }

    /// Once the disk is full, the deletions of the batch are tried again on the reserve.
    fn commit_or_make_room(&mut self, requests: &[Request]) -> Result<Outcomes, Error> {
        match self.try_commit(requests) {
            Err(Error::Full) => {
                self.make_room()?;
                self.try_commit(requests)
            }
            outcome => outcome,
        }
    }

    fn try_commit(&mut self, requests: &[Request]) -> Result<Outcomes, Error> {
        if let Some(failure) = self.shared.failure() {
            return Err(failure.clone());
        }
        let records = self.shared.read()?.records.clone();
        let events = Vec::with_capacity(requests.len());
        let mut stage = Stage { records, events, last: self.last, used: self.quota.used() };
        let outcomes: Outcomes =
            requests.iter().map(|request| self.stage(&mut stage, request)).collect();
        let was_refused = outcomes.iter().any(|it| matches!(it, Err(Error::OverQuota { .. })));
        if stage.events.is_empty() {
            self.quota.set_used(stage.used, was_refused);
            return Ok(outcomes);
        }
        self.last = stage.last;
        self.append(&stage.events)?;
        self.quota.set_used(stage.used, was_refused);
        let forgotten = self.shared.publish(stage.records, stage.events);
        self.collect(&forgotten);
        Ok(outcomes)
    }

    /// Checks one request and, if nothing speaks against it, applies it to the stage.
    fn stage(&self, stage: &mut Stage, request: &Request) -> Result<Event, Error> {
        let (Request::Put { key, expect, .. } | Request::Delete { key, expect }) = request;
        let old = stage.records.get(key).cloned();
        if old.is_none() && matches!(request, Request::Delete { .. }) {
            return Err(Error::NotFound { key: Arc::clone(key) });
        }
        if !expect.is_met_by(old.as_ref()) {
            return Err(Error::Conflict { key: Arc::clone(key), found: old });
        }
        if self.is_full && request.is_put() {
            return Err(Error::Full);
        }
        let revision = stage.last + 1;
        // One allocation per key, however often it is written.
        let key = Arc::clone(old.as_ref().map_or(key, |old| &old.key));
        let new = match request {
            Request::Delete { .. } => {
                stage.used = self.quota.replaced(stage.used, old.as_deref(), None)?;
                stage.records.remove(&key);
                None
            }
            Request::Put { value, .. } if value.len() > MAX_VALUE => {
                return Err(Error::TooLarge { key, size: value.len(), limit: MAX_VALUE });
            }
            Request::Put { value, ttl, .. } => {
                let record = Arc::new(Record {
                    key: Arc::clone(&key),
                    value: value.clone(),
                    created: old.as_ref().map_or(revision, |old| old.created),
                    modified: revision,
                    expires: ttl.map(|ttl| self.clock.now() + ttl),
                });
                stage.used = self.quota.replaced(stage.used, old.as_deref(), Some(&record))?;
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
        let floor = self.shared.read()?.history.floor().max(self.collected);
        let mut garbage = mem::take(&mut self.garbage);
        let batch = Batch { events, garbage: &garbage, floor };
        let appended = self.with_journal(|journal| journal.append(&batch));
        if appended.is_ok() {
            garbage.clear();
        }
        self.garbage = garbage;
        appended
    }

    /// Runs `operation` on the journal; a store that forgets has none, and the result is the
    /// default. After an error other than [`Error::Full`] the journal must not be used any more:
    /// it is used through this function alone, which returns that error from then on.
    fn with_journal<T: Default>(
        &mut self,
        operation: impl FnOnce(&mut (dyn Journal + 'static)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(failure) = self.shared.failure() {
            return Err(failure.clone());
        }
        let Some(journal) = &mut self.journal else { return Ok(T::default()) };
        operation(&mut **journal).inspect_err(|error| {
            if !matches!(error, Error::Full) {
                tracing::error!(
                    error = error.with_causes(),
                    "the journal failed: writes are refused from now on"
                );
                self.shared.set_failure(error.clone());
            }
        })
    }

    /// Deletes what has expired, up to `limit` records, and says how many there were.
    pub(crate) fn sweep(&mut self, limit: usize) -> Result<usize, Error> {
        let expired = self.shared.expired(self.clock.now(), limit)?;
        let request = |record: &Arc<Record>| Request::Delete {
            key: Arc::clone(&record.key),
            expect: Expect::At(record.modified),
        };
        let requests: Vec<Request> = expired.iter().map(request).collect();
        self.commit_or_make_room(&requests)?;
        Ok(requests.len())
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
            let unknown = forgotten.iter().filter(|event| event.revision > self.collected);
            self.garbage.extend(unknown.flat_map(garbage));
        }
    }

    /// Has the journal forget the history up to `upto`, which stays in memory.
    fn forget_on_disk(&mut self, upto: Revision) -> Result<(), Error> {
        let known = self.collected;
        if upto <= known {
            return Ok(());
        }
        {
            let published = self.shared.read()?;
            let events = published.history.after(known, "");
            let superseded = events.take_while(|event| event.revision <= upto).flat_map(garbage);
            self.garbage.extend(superseded);
        }
        self.collected = upto;
        self.append(&[])
    }

    /// Enters the state in which puts are refused, and gives the reserve to deletions.
    fn make_room(&mut self) -> Result<(), Error> {
        if !self.is_full {
            self.is_full = true;
            self.searched = Some(self.clock.moment());
            let (path, needed) = self.reserve()?;
            tracing::error!(
                path,
                needed,
                "no space is left on the disk: all writes but deletions are refused until there is"
            );
        }
        self.with_journal(Journal::release_reserve)?;
        self.free_space()
    }

    /// For the log: a file on the disk that is full, and how much space is missing at most.
    fn reserve(&mut self) -> Result<(String, String), Error> {
        self.with_journal(|journal| {
            let (path, bytes) = journal.reserve();
            Ok((path.display().to_string(), format!("{} MiB", bytes.div_ceil(1 << 20))))
        })
    }

    /// Leaves that state if there is room for all of the reserve; does nothing until
    /// [`SEARCH_INTERVAL`] has passed since the last call that searched.
    fn look_for_room(&mut self) -> Result<(), Error> {
        let is_recent = |moment| self.clock.passed_since(moment) < SEARCH_INTERVAL;
        if self.searched.as_ref().is_some_and(is_recent) {
            return Ok(());
        }
        self.searched = Some(self.clock.moment());
        // What is under way needs space itself, and is about to free some.
        if !self.with_journal(Journal::is_idle)? {
            return Ok(());
        }
        if self.with_journal(Journal::restore_reserve)? {
            self.is_full = false;
            tracing::warn!("there is space on the disk again: all writes are accepted");
            return Ok(());
        }
        self.with_journal(Journal::release_reserve)?;
        self.free_space()
    }

    /// Begins to remove from the disk all that is not part of the present state. On a full disk a
    /// resumable watch matters less than the next write.
    fn free_space(&mut self) -> Result<(), Error> {
        let revision = self.shared.read()?.revision;
        let forgotten = self.forget_on_disk(revision);
        match forgotten.and_then(|()| self.with_journal(|journal| journal.maintain(Shrink::IfAny)))
        {
            // It is tried again when somebody looks for room.
            Err(Error::Full) => Ok(()),
            freed => freed,
        }
    }

    /// See [`maintenance`](crate::maintenance).
    pub(crate) fn maintain(&mut self) -> Result<(), Error> {
        let is_first = !mem::replace(&mut self.is_maintained, true);
        if self.is_full {
            return self.look_for_room();
        }
        if !self.with_journal(Journal::restore_reserve)? {
            let (path, needed) = self.reserve()?;
            tracing::warn!(
                path,
                needed,
                "the disk is almost full: there is no room for the reserve, without which objects \
                 cannot be deleted once the disk is full"
            );
        }
        // At the start other work waits for the disk.
        if is_first {
            return Ok(());
        }
        self.with_journal(|journal| journal.maintain(Shrink::IfMuch))
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
