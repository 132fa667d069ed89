//! [`Loader`]: rebuilds the state and the history from the rows of the database and then of the log.

use std::sync::Arc;

use bytes::Bytes;

use super::row::{Meta, Row};
use crate::history::{Bounds, History};
use crate::state::Records;
use crate::writer::garbage;
use crate::{Event, Record, Revision};

/// The result of a load.
pub(super) struct Loaded {
    pub(super) records: Records,
    pub(super) revision: Revision,
    pub(super) history: History,
    /// Rows that no readable state contains.
    pub(super) garbage: Vec<Revision>,
}

/// Applies rows in the order of their revisions.
pub(super) struct Loader {
    meta: Meta,
    records: Records,
    history: History,
    garbage: Vec<Revision>,
    rows: u64,
    /// The revision of the last applied row.
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

    /// The summary of the database.
    pub(super) fn meta(&self) -> Meta {
        self.meta
    }

    /// Replaces the summary, after the format of the database was raised.
    pub(super) fn set_meta(&mut self, meta: Meta) {
        self.meta = meta;
    }

    /// Applies one row, and returns its event. Fails if it contradicts an earlier row.
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
        check_previous_record(&event)?;
        self.history.push(event.clone());
        self.garbage.extend(self.history.trim().iter().flat_map(garbage));
        Ok(event)
    }

    /// Compacts the history up to `floor`.
    pub(super) fn compact(&mut self, floor: Revision) -> Result<(), String> {
        if floor > self.last {
            return Err(format!("revision {floor} is compacted, but {} is the last", self.last));
        }
        self.garbage.extend(self.history.compact(floor).iter().flat_map(garbage));
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

    /// Checks that no row of the database is missing, after the last of them.
    pub(super) fn finish_database(&mut self) -> Result<(), String> {
        let Meta { newest, rows, floor, .. } = self.meta;
        if self.rows != rows {
            return Err(format!("it contains {} writes where {rows} are expected", self.rows));
        }
        // The newest write may be missing only if it is a compacted deletion.
        if self.last != newest && (self.last > newest || newest > floor) {
            return Err(format!("its last write is {}, but {newest} was written", self.last));
        }
        self.last = newest;
        Ok(())
    }

    /// The result, after the last row.
    pub(super) fn finish(self) -> Loaded {
        let Self { records, history, garbage, last, .. } = self;
        Loaded { records, revision: last, history, garbage }
    }
}

/// Above the floor every write is present, so each must match the record that it replaces.
fn check_previous_record(event: &Event) -> Result<(), String> {
    let fits = match (&event.new, &event.old) {
        (None, old) => old.is_some(),
        (Some(new), Some(old)) => new.created == old.created,
        (Some(new), None) => new.created == event.revision,
    };
    if fits {
        return Ok(());
    }
    Err(format!("revision {} does not match the write before it", event.revision))
}
