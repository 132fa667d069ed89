//! [`SpaceReserve`]: a file that occupies disk space, which is released when the disk is full.
//!
//! A deletion needs space before it frees any: for its frame in the log, and for the pages that the
//! database writes in place of those it changes. The needed space depends on the size of a segment of
//! the log. With a smaller reserve, segments are therefore smaller, too.
//!
//! ```text
//! free at the start   200 MiB   60 MiB   12 MiB    2 MiB
//! reserve              24 MiB   15 MiB    3 MiB    1 MiB
//! segment of the log    8 MiB    5 MiB    1 MiB  341 KiB
//! ```
//!
//! An I/O error on the reserve is a failure of the disk, like one on the log: all writes are refused
//! after it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{Disk, StoreFile, is_full};
use crate::Error;

/// The reserve takes at most the free space divided by this number.
const FREE_SPACE_DIVISOR: u64 = 4;

/// A smaller reserve is not enough for one deletion and its checkpoint.
const MIN_RESERVE: u64 = 1 << 20;

/// With a smaller log every few writes would wait for a checkpoint.
const MIN_LOG: u64 = 64 << 10;

/// See the [module documentation](self). Without space for the file, deletions on a full disk are
/// refused.
pub(super) struct SpaceReserve {
    disk: Arc<dyn Disk>,
    /// The size on a disk with enough space.
    size: u64,
    /// The size on this disk. It grows with the free space and never shrinks: otherwise the reserve
    /// would become smaller each time that the disk is full.
    actual_size: u64,
}

impl SpaceReserve {
    /// A reserve of `size` bytes, or less on a small disk.
    pub(super) fn new(disk: Arc<dyn Disk>, size: u64) -> io::Result<Self> {
        let mut reserve = Self { disk, size, actual_size: 0 };
        reserve.adjust_size()?;
        Ok(reserve)
    }

    fn adjust_size(&mut self) -> io::Result<()> {
        if self.actual_size < self.size {
            let fitting =
                (self.disk.max_reserve()? / FREE_SPACE_DIVISOR).max(MIN_RESERVE).min(self.size);
            self.actual_size = self.actual_size.max(fitting);
        }
        Ok(())
    }

    /// The path of the database, which is on the same disk, and the size of a complete reserve.
    pub(super) fn location(&self) -> (PathBuf, u64) {
        (self.disk.path(StoreFile::Database), self.actual_size)
    }

    /// The size of a segment of the log that this reserve suffices for, where `limit` is the size
    /// that a reserve of full size suffices for.
    pub(super) fn log_limit(&self, limit: u64) -> u64 {
        let share = limit.saturating_mul(self.actual_size).checked_div(self.size);
        share.map_or(limit, |share| share.max(MIN_LOG).min(limit))
    }

    /// Releases the space.
    pub(super) fn release(&self) -> Result<(), Error> {
        match self.disk.resize_reserve(0) {
            Ok(()) => Ok(()),
            // Some file systems need space to free space.
            Err(error) if is_full(&error) => {
                tracing::warn!(%error, "the reserve of disk space cannot be released");
                Ok(())
            }
            Err(error) => Err(Error::Broken(Arc::new(error))),
        }
    }

    /// Allocates the missing space, and returns whether the disk has it.
    pub(super) fn restore(&mut self) -> Result<bool, Error> {
        match self.adjust_size().and_then(|()| self.disk.resize_reserve(self.actual_size)) {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(Error::Broken(Arc::new(error))),
        }
    }
}
