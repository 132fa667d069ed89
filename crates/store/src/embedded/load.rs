//! [`Loader`]: rebuilds the state, and the history that is still kept, from the rows of the base and
//! then those of the log.

use std::sync::Arc;

use bytes::Bytes;

use super::row::{Meta, Row};
use crate::{
    Event, Record, Revision,
    history::{Bounds, History},
    shared::Records,
    writer::garbage,
};

/// What the rows add up to.
pub(super) struct Loaded {
    pub(super) records: Records,
    pub(super) revision: Revision,
    pub(super) history: History,
    /// Rows that no readable state shows.
    pub(super) garbage: Vec<Revision>,
}

/// Takes rows in the order of their revisions.
pub(super) struct Loader {
    meta: Meta,
    records: Records,
    history: History,
    garbage: Vec<Revision>,
    rows: u64,
    /// The revision of the last row taken.
    last: Revision,
}

impl Loader {
    pub(super) fn new(meta: Meta, bounds: Bounds) -> Self {
        Self {
            meta,
            records: Records::new(),
            history: History::new(meta.floor, bounds),
            garbage: Vec::new(),
            rows: 0,
            last: 0,
        }
    }

    /// The summary of the base.
    pub(super) fn meta(&self) -> Meta {
        self.meta
    }

    /// Notes that the base has another summary now, of the same rows.
    pub(super) fn set_meta(&mut self, meta: Meta) {
        self.meta = meta;
    }

    /// Applies one row, unless it contradicts those before it, and returns what it did.
    pub(super) fn apply(&mut self, revision: Revision, row: &Row<'_>) -> Result<Event, String> {
        if revision <= self.last {
            return Err(format!("revision {revision} follows revision {}", self.last));
        }
        self.last = revision;
        self.rows += 1;
        let event = self.replay(revision, row);
        if revision <= self.meta.floor {
            self.garbage.extend(garbage(&event));
            return Ok(event);
        }
        check_against_history(&event)?;
        self.history.push(event.clone());
        self.garbage.extend(self.history.trim().iter().flat_map(garbage));
        Ok(event)
    }

    /// Forgets what is not readable from `floor` on.
    pub(super) fn forget(&mut self, floor: Revision) -> Result<(), String> {
        if floor > self.last {
            return Err(format!("revision {floor} is forgotten, but {} is the last", self.last));
        }
        self.garbage.extend(self.history.forget(floor).iter().flat_map(garbage));
        Ok(())
    }

    fn replay(&mut self, revision: Revision, row: &Row<'_>) -> Event {
        let Some(value) = row.value else {
            let old = self.records.remove(row.key);
            let key = old.as_ref().map_or_else(|| row.key.into(), |old| Arc::clone(&old.key));
            return Event { revision, key, new: None, old };
        };
        let known = self.records.get(row.key).map(|old| Arc::clone(&old.key));
        let key = known.unwrap_or_else(|| row.key.into());
        let new = Arc::new(Record {
            key: Arc::clone(&key),
            value: Bytes::copy_from_slice(value),
            created: row.created,
            modified: revision,
            expires: row.expires,
        });
        let old = self.records.insert(Arc::clone(&key), Arc::clone(&new));
        Event { revision, key, new: Some(new), old }
    }

    /// Ends the rows of the base, unless some are missing.
    pub(super) fn finish_base(&mut self) -> Result<(), String> {
        let Meta { newest, rows, floor, .. } = self.meta;
        if self.rows != rows {
            return Err(format!("it holds {} writes where {rows} were kept", self.rows));
        }
        // The newest write may be gone only if it was a deletion that is forgotten by now.
        if self.last != newest && (self.last > newest || newest > floor) {
            return Err(format!("its last write is {}, but {newest} was written", self.last));
        }
        self.last = newest;
        Ok(())
    }

    /// What all rows add up to.
    pub(super) fn finish(self) -> Loaded {
        let Self { records, history, garbage, last, .. } = self;
        Loaded { records, revision: last, history, garbage }
    }
}

/// Above the floor every write is there, so each must fit what it replaced.
fn check_against_history(event: &Event) -> Result<(), String> {
    let fits = match (&event.new, &event.old) {
        (None, old) => old.is_some(),
        (Some(new), Some(old)) => new.created == old.created,
        (Some(new), None) => new.created == event.revision,
    };
    if fits {
        return Ok(());
    }
    Err(format!("revision {} does not fit what was written before it", event.revision))
}
