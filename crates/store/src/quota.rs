//! [`Quota`]: the limit on the size of all records together.
//!
//! All records are in memory. Without a limit, one client could write until the process runs out of
//! memory, and the process would run out of memory again at each start.
//!
//! At the limit, keys can still be deleted, and values can be replaced by shorter ones. A value may
//! grow a little above the limit, so that an object can be marked as deleted.

use crate::state::Records;
use crate::{Error, Record};

/// The approximate memory of a record without its key and its value.
const RECORD_OVERHEAD: usize = 256;

/// Writes to existing keys may exceed the limit by the limit divided by this number.
const GROWTH_DIVISOR: usize = 16;

/// A reached limit counts as reached until the limit divided by this number is free.
const FREE_DIVISOR: usize = 20;

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

    /// The size of all records.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The size of all records after one of them is replaced, where `used` is the size before. Fails
    /// if the new record is larger than the old one and exceeds the limit.
    pub(crate) fn after_replacement(
        &self,
        used: usize,
        old: Option<&Record>,
        new: Option<&Record>,
    ) -> Result<usize, Error> {
        let (old_size, new_size) = (old.map_or(0, size), new.map_or(0, size));
        let after = used.saturating_sub(old_size).saturating_add(new_size);
        let growth = if old.is_some() { self.limit / GROWTH_DIVISOR } else { 0 };
        if new_size > old_size && after > self.limit.saturating_add(growth) {
            return Err(Error::OverQuota { limit: self.limit });
        }
        Ok(after)
    }

    /// Sets the size of all records after a batch, and whether a write of it was refused.
    pub(crate) fn set_used(&mut self, used: usize, was_refused: bool) {
        self.used = used;
        let Self { limit, .. } = *self;
        if was_refused && !self.is_reached {
            self.is_reached = true;
            tracing::error!(
                limit,
                "the size limit of the store is reached: delete objects, or raise the limit"
            );
        } else if self.is_reached && used < limit - limit / FREE_DIVISOR {
            self.is_reached = false;
            tracing::warn!(used, limit, "the store accepts new objects again");
        }
    }
}

fn size(record: &Record) -> usize {
    record.key.len() + record.value.len() + RECORD_OVERHEAD
}
