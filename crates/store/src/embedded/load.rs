//! [`Loader`]: rebuilds the state, and the history that is still kept, from the rows of the log.

use std::{collections::VecDeque, sync::Arc};

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
    /// Rows that no readable state shows, older ones of a key before newer ones.
    pub(super) garbage: VecDeque<Revision>,
}

/// Takes rows in the order of their revisions.
pub(super) struct Loader {
    meta: Meta,
    records: Records,
    history: History,
    garbage: VecDeque<Revision>,
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
            garbage: VecDeque::new(),
            rows: 0,
            last: 0,
        }
    }

    /// Applies one row, unless it contradicts those before it.
    pub(super) fn apply(&mut self, revision: Revision, row: &Row<'_>) -> Result<(), String> {
        if revision <= self.last {
            return Err(format!("revision {revision} follows revision {}", self.last));
        }
        self.last = revision;
        self.rows += 1;
        let event = self.replay(revision, row);
        if revision <= self.meta.floor {
            self.garbage.extend(garbage(&event));
            return Ok(());
        }
        check_against_history(&event)?;
        self.history.push(event);
        self.garbage.extend(self.history.trim().iter().flat_map(garbage));
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

    /// The result, unless rows are missing.
    pub(super) fn finish(self) -> Result<Loaded, String> {
        let Meta { newest, rows, floor, .. } = self.meta;
        if self.rows != rows {
            return Err(format!("it holds {} writes where {rows} were kept", self.rows));
        }
        // The newest write may be gone only if it was a deletion that is forgotten by now.
        if self.last != newest && (self.last > newest || newest > floor) {
            return Err(format!("its last write is {}, but {newest} was written", self.last));
        }
        let Self { records, history, garbage, .. } = self;
        Ok(Loaded { records, revision: newest, history, garbage })
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
