//! [`Writer`]: makes all changes of the state.
//!
//! The requests of a batch are checked against the state, each after the one before. The outcome is
//! appended to the journal, and then published to readers:
//!
//! ```text
//! put /a expecting nothing      → revision 8     ┐
//! put /a expecting revision 8   → revision 9     ├ one append, one fsync, one new state
//! delete /b expecting 3         → conflict       ┘
//! ```
//!
//! A batch ends once it replaces a quarter of the values that the history can keep. Otherwise a single
//! batch could remove events that no watch has read yet.
//!
//! On a full disk, puts are refused and deletions succeed, on reserved space, until the disk has space
//! for the whole reserve again. Puts check for that at most once a second.
//!
//! Invariants:
//! - published writes are in the journal;
//! - a revision is assigned once: when an append fails, its revisions are skipped.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::journal::{Batch, Journal, Shrink};
use crate::quota::Quota;
use crate::state::{Records, StoreState};
use crate::{Error, Event, Expect, Record, Revision};
use keel::{Clock, ClockInstant};

/// The largest value: far above the limit of an API server, and far below that of the journal.
const MAX_VALUE: usize = 64 << 20;

/// The shortest time between two checks for free space on a full disk. Each writes up to the whole
/// reserve, on the commit thread.
const SPACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A requested write.
pub(crate) enum Request {
    Put { key: Arc<str>, value: Bytes, expect: Expect, ttl: Option<Duration> },
    Delete { key: Arc<str>, expect: Expect },
}

impl Request {
    fn is_put(&self) -> bool {
        matches!(self, Self::Put { .. })
    }

    /// The error if the disk and the reserve are full.
    fn full_error(&self) -> Error {
        if self.is_put() { Error::Full } else { Error::FullForDeletions }
    }
}

/// The outcome of each request of a batch.
type Outcomes = Vec<Result<Event, Error>>;

/// See the [module documentation](self).
pub(crate) struct Writer {
    state: Arc<StoreState>,
    /// `None` for a store in memory.
    journal: Option<Box<dyn Journal>>,
    clock: Clock,
    /// The last revision that was assigned, published or not.
    last: Revision,
    /// Superseded writes that were not appended to the journal yet.
    garbage: Vec<Revision>,
    /// The superseded writes up to this revision are known to the journal. After the disk was full
    /// it may be above the floor of the history: the disk then has less history than the memory.
    compacted_on_disk: Revision,
    /// Whether maintenance has run.
    is_maintained: bool,
    /// Whether the disk was full and the reserve is not complete yet.
    is_full: bool,
    /// The time of the last check for free space; `None` if the disk was never full.
    space_checked: Option<ClockInstant>,
    quota: Quota,
}

/// The state after the requests of a batch, before it is published.
struct StagedState {
    records: Records,
    events: Vec<Event>,
    last: Revision,
    /// The size of all records.
    used: usize,
    /// The size of the replaced values.
    replaced: usize,
}

impl Writer {
    /// A writer that continues the published state.
    pub(crate) fn new(
        state: Arc<StoreState>,
        journal: Option<Box<dyn Journal>>,
        clock: Clock,
        last: Revision,
        quota_bytes: usize,
    ) -> Self {
        let records = state.read().map(|it| it.records.clone()).unwrap_or_default();
        Self {
            quota: Quota::new(quota_bytes, &records),
            state,
            journal,
            clock,
            last,
            garbage: Vec::new(),
            compacted_on_disk: 0,
            is_maintained: false,
            is_full: false,
            space_checked: None,
        }
    }

    /// Commits the requests, as one batch unless they replace too much, and returns the outcome of
    /// each.
    pub(crate) fn commit(&mut self, requests: &[Request]) -> Vec<Result<Event, Error>> {
        let mut outcomes = self.commit_batch(requests);
        while outcomes.len() < requests.len() {
            let batch = self.commit_batch(&requests[outcomes.len()..]);
            outcomes.extend(batch);
        }
        outcomes
    }

    /// Commits the first requests as one batch, and returns the outcome of each of them.
    fn commit_batch(&mut self, requests: &[Request]) -> Outcomes {
        let checked = if self.is_full && requests.iter().any(Request::is_put) {
            self.check_space()
        } else {
            Ok(())
        };
        match checked.and_then(|()| self.commit_or_release_reserve(requests)) {
            Ok(outcomes) => outcomes,
            // All requests fail, also those that conflicted: the conflict may be with a write of this
            // batch, which did not happen.
            Err(Error::Full) => requests.iter().map(|request| Err(request.full_error())).collect(),
            Err(error) => vec![Err(error); requests.len()],
        }
    }

    /// If the disk is full, commits the deletions of the batch on the reserved space.
    fn commit_or_release_reserve(&mut self, requests: &[Request]) -> Result<Outcomes, Error> {
        match self.try_commit(requests) {
            Err(Error::Full) => {
                self.release_reserve()?;
                self.try_commit(requests)
            }
            outcome => outcome,
        }
    }

    /// Commits the first requests, up to the limit on the size of the replaced values.
    fn try_commit(&mut self, requests: &[Request]) -> Result<Outcomes, Error> {
        if let Some(failure) = self.state.failure() {
            return Err(failure.clone());
        }
        let (records, max_replaced) = {
            let published = self.state.read()?;
            (published.records.clone(), published.history.max_batch_bytes())
        };
        let events = Vec::with_capacity(requests.len());
        let (last, used) = (self.last, self.quota.used());
        let mut stage = StagedState { records, events, last, used, replaced: 0 };
        let mut outcomes = Vec::with_capacity(requests.len());
        for request in requests {
            outcomes.push(self.stage(&mut stage, request));
            if stage.replaced > max_replaced {
                break;
            }
        }
        let was_refused = outcomes.iter().any(|it| matches!(it, Err(Error::OverQuota { .. })));
        if stage.events.is_empty() {
            self.quota.set_used(stage.used, was_refused);
            return Ok(outcomes);
        }
        self.last = stage.last;
        self.append(&stage.events)?;
        self.quota.set_used(stage.used, was_refused);
        let removed = self.state.publish(stage.records, stage.events);
        self.collect_garbage(&removed);
        Ok(outcomes)
    }

    /// Checks one request and applies it to the staged state.
    fn stage(&self, stage: &mut StagedState, request: &Request) -> Result<Event, Error> {
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
        // All records of a key share one allocation of it.
        let key = Arc::clone(old.as_ref().map_or(key, |old| &old.key));
        let new = match request {
            Request::Delete { .. } => {
                stage.used = self.quota.after_replacement(stage.used, old.as_deref(), None)?;
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
                stage.used =
                    self.quota.after_replacement(stage.used, old.as_deref(), Some(&record))?;
                stage.records.insert(Arc::clone(&key), Arc::clone(&record));
                Some(record)
            }
        };
        stage.last = revision;
        stage.replaced += old.as_ref().map_or(0, |old| old.value.len());
        let event = Event { revision, key, new, old };
        stage.events.push(event.clone());
        Ok(event)
    }

    /// Appends events and the superseded writes to the journal.
    fn append(&mut self, events: &[Event]) -> Result<(), Error> {
        let floor = self.state.read()?.history.floor().max(self.compacted_on_disk);
        let mut garbage = mem::take(&mut self.garbage);
        let batch = Batch { events, garbage: &garbage, floor };
        let appended = self.with_journal(|journal| journal.append(&batch));
        if appended.is_ok() {
            garbage.clear();
        }
        self.garbage = garbage;
        appended
    }

    /// Runs `operation` on the journal; without a journal the result is the default. After an error
    /// other than [`Error::Full`] the journal must not be used: this function, which is the only one
    /// that uses it, returns that error from then on.
    fn with_journal<T: Default>(
        &mut self,
        operation: impl FnOnce(&mut (dyn Journal + 'static)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(failure) = self.state.failure() {
            return Err(failure.clone());
        }
        let Some(journal) = &mut self.journal else { return Ok(T::default()) };
        operation(&mut **journal).inspect_err(|error| {
            if !matches!(error, Error::Full) {
                tracing::error!(
                    error = error.with_causes(),
                    "the journal failed: writes are refused from now on"
                );
                self.state.set_failure(error.clone());
            }
        })
    }

    /// Deletes up to `limit` expired records in one batch, and returns their number.
    pub(crate) fn delete_expired(&mut self, limit: usize) -> Result<usize, Error> {
        let expired = self.state.expired(self.clock.now(), limit)?;
        let request = |record: &Arc<Record>| Request::Delete {
            key: Arc::clone(&record.key),
            expect: Expect::At(record.modified),
        };
        let requests: Vec<Request> = expired.iter().map(request).collect();
        Ok(self.commit_or_release_reserve(&requests)?.len())
    }

    /// See [`Store::compact`](crate::Store::compact). The journal notes it at once, and a later
    /// checkpoint removes the superseded writes.
    pub(crate) fn compact(&mut self, upto: Revision) -> Result<(), Error> {
        // A failed journal must not be used.
        if let Some(failure) = self.state.failure() {
            return Err(failure.clone());
        }
        let removed = self.state.compact(upto)?;
        if removed.is_empty() {
            return Ok(());
        }
        self.collect_garbage(&removed);
        self.append(&[])
    }

    /// Collects the writes that the removed events have superseded.
    fn collect_garbage(&mut self, removed: &[Event]) {
        if self.journal.is_some() {
            let unknown = removed.iter().filter(|event| event.revision > self.compacted_on_disk);
            self.garbage.extend(unknown.flat_map(garbage));
        }
    }

    /// Removes the history up to `upto` from the journal. It stays in memory.
    fn compact_on_disk(&mut self, upto: Revision) -> Result<(), Error> {
        let known = self.compacted_on_disk;
        if upto <= known {
            return Ok(());
        }
        {
            let published = self.state.read()?;
            let events = published.history.after(known, "");
            let superseded = events.take_while(|event| event.revision <= upto).flat_map(garbage);
            self.garbage.extend(superseded);
        }
        self.compacted_on_disk = upto;
        self.append(&[])
    }

    /// Refuses puts from now on, and releases the reserve for deletions.
    fn release_reserve(&mut self) -> Result<(), Error> {
        if !self.is_full {
            self.is_full = true;
            self.space_checked = Some(self.clock.instant());
            let (path, needed) = self.describe_reserve()?;
            tracing::error!(
                path,
                needed,
                "no space is left on the disk: all writes but deletions are refused until space is free"
            );
        }
        self.with_journal(Journal::release_reserve)?;
        self.free_space()
    }

    /// For the log: a file on the full disk, and the size of a complete reserve.
    fn describe_reserve(&mut self) -> Result<(String, String), Error> {
        self.with_journal(|journal| {
            let (path, bytes) = journal.reserve_location();
            Ok((path.display().to_string(), format!("{} MiB", bytes.div_ceil(1 << 20))))
        })
    }

    /// Accepts puts again if the disk has space for the whole reserve. Does nothing until
    /// [`SPACE_CHECK_INTERVAL`] has passed since the last check.
    fn check_space(&mut self) -> Result<(), Error> {
        let is_recent = |instant| self.clock.elapsed_since(instant) < SPACE_CHECK_INTERVAL;
        if self.space_checked.as_ref().is_some_and(is_recent) {
            return Ok(());
        }
        self.space_checked = Some(self.clock.instant());
        // A running checkpoint needs space, and is about to free some.
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

    /// Begins to remove the history from the disk. On a full disk the next write matters more than a
    /// watch that resumes after a restart.
    fn free_space(&mut self) -> Result<(), Error> {
        let revision = self.state.read()?.revision;
        let compacted = self.compact_on_disk(revision);
        match compacted.and_then(|()| self.with_journal(|journal| journal.maintain(Shrink::IfAny)))
        {
            // The next check for space tries again.
            Err(Error::Full) => Ok(()),
            freed => freed,
        }
    }

    /// See [`maintenance`](crate::maintenance).
    pub(crate) fn maintain(&mut self) -> Result<(), Error> {
        let is_first = !mem::replace(&mut self.is_maintained, true);
        if self.is_full {
            return self.check_space();
        }
        if !self.with_journal(Journal::restore_reserve)? {
            let (path, needed) = self.describe_reserve()?;
            tracing::warn!(
                path,
                needed,
                "the disk is almost full: it has no space for the reserve, without which objects \
                 cannot be deleted once the disk is full"
            );
        }
        // The first round is at the start, when other work needs the disk.
        if is_first {
            return Ok(());
        }
        self.with_journal(|journal| journal.maintain(Shrink::IfLarge))
    }

    /// Ends reads and watches, and closes the journal.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.state.close();
        match self.journal.take() {
            // A failed journal must not be used.
            Some(_) if self.state.failure().is_some() => Ok(()),
            Some(journal) => journal.close(),
            None => Ok(()),
        }
    }
}

/// The writes that no state contains once `event` is removed from the history: the replaced one, and
/// the event itself if it is a deletion, in this order. If a deletion were removed before the write
/// that it deletes, that write would be loaded at the next start.
pub(crate) fn garbage(event: &Event) -> impl Iterator<Item = Revision> + use<> {
    let replaced = event.old.as_ref().map(|old| old.modified);
    let deletion = event.new.is_none().then_some(event.revision);
    replaced.into_iter().chain(deletion)
}

#[cfg(test)]
mod tests;
