//! [`Quota`]: how many bytes all records may have together.
//!
//! All records are in memory. Without a limit, one client could write until the process is ended for
//! lack of memory, and it would be ended again at each start.
//!
//! At the limit, keys can still be deleted, and values replaced by ones that are not longer. A value
//! may grow a little above the limit, so that an object can be marked as deleted.

use crate::{Error, Record, shared::Records};

/// What a record takes up in memory besides its key and its value, about.
const OVERHEAD: usize = 256;

/// The part of the limit by which it may be exceeded when values of existing keys grow.
const GROWTH: usize = 16;

/// Once the limit was reached, it counts as reached until this part of it is free.
const FREE: usize = 20;

/// See the [module documentation](self).
pub(crate) struct Quota {
    limit: usize,
    used: usize,
    is_reached: bool,
}

impl Quota {
    pub(crate) fn new(limit: usize, records: &Records) -> Self {
        Self { limit, used: records.values().map(|it| size(it)).sum(), is_reached: false }
    }

    /// The bytes of all records.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The bytes of all records after one of them is replaced, if `used` are in use before that.
    pub(crate) fn replaced(
        &self,
        used: usize,
        old: Option<&Record>,
        new: Option<&Record>,
    ) -> Result<usize, Error> {
        let (old_size, new_size) = (old.map_or(0, size), new.map_or(0, size));
        let after = used.saturating_sub(old_size).saturating_add(new_size);
        let growth = if old.is_some() { self.limit / GROWTH } else { 0 };
        if new_size > old_size && after > self.limit.saturating_add(growth) {
            return Err(Error::OverQuota { limit: self.limit });
        }
        Ok(after)
    }

    /// Notes the bytes of all records after a batch, and whether a write of it was refused.
    pub(crate) fn set_used(&mut self, used: usize, was_refused: bool) {
        self.used = used;
        let Self { limit, .. } = *self;
        if was_refused && !self.is_reached {
            self.is_reached = true;
            tracing::error!(limit, "the store is full: delete something, or raise its limit");
        } else if self.is_reached && used < limit - limit / FREE {
            self.is_reached = false;
            tracing::warn!(used, limit, "there is room in the store again");
        }
    }
}

fn size(record: &Record) -> usize {
    record.key.len() + record.value.len() + OVERHEAD
}
