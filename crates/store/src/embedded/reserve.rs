//! [`Reserve`]: a file that does nothing but take up space, to be given up when the disk is full.
//!
//! A deletion needs space before it frees any: for its frame in the log, and for the pages that the
//! database writes in place of those it changes. How much depends on the size of the log, which is
//! therefore smaller where the reserve is.
//!
//! ```text
//! free at the start   200 MiB   60 MiB   12 MiB    2 MiB
//! reserve              24 MiB   15 MiB    3 MiB    1 MiB
//! segment of the log    8 MiB    5 MiB    1 MiB  341 KiB
//! ```
//!
//! An I/O error on the reserve is a failure of the disk, like one on the log: the same disk is not
//! trusted with writes after it.

use std::{io, path::PathBuf, sync::Arc};

use super::disk::{Disk, Part, is_full};
use crate::Error;

/// The reserve has at most the part of the free space that this number divides it into.
const SHARE: u64 = 4;

/// A smaller reserve would not be enough for one deletion and its fold.
const LEAST: u64 = 1 << 20;

/// With a smaller log every few writes would wait for a fold.
const LEAST_LOG: u64 = 64 << 10;

/// See the [module documentation](self). Deletions on a full disk are refused as long as there is
/// no room for the file.
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    /// The size on a disk with enough space.
    size: u64,
    /// The size on this disk. It grows with the free space, and never shrinks: otherwise each time
    /// that the disk is full would leave less for the next.
    target: u64,
}

impl Reserve {
    /// A reserve of `size` bytes, or of what fits.
    pub(super) fn new(disk: Arc<dyn Disk>, size: u64) -> io::Result<Self> {
        let mut reserve = Self { disk, size, target: 0 };
        reserve.adapt()?;
        Ok(reserve)
    }

    fn adapt(&mut self) -> io::Result<()> {
        if self.target < self.size {
            let fitting = (self.disk.reserve_room()? / SHARE).max(LEAST).min(self.size);
            self.target = self.target.max(fitting);
        }
        Ok(())
    }

    /// The database, which is on the same disk, and the size of the reserve when it is complete.
    pub(super) fn location(&self) -> (PathBuf, u64) {
        (self.disk.path(Part::Base), self.target)
    }

    /// The size of a segment of the log for which the reserve is enough, if `limit` is that for a
    /// reserve of full size.
    pub(super) fn log_limit(&self, limit: u64) -> u64 {
        let share = limit.saturating_mul(self.target).checked_div(self.size);
        share.map_or(limit, |share| share.max(LEAST_LOG).min(limit))
    }

    /// Gives all of it up.
    pub(super) fn release(&self) -> Result<(), Error> {
        match self.disk.resize_reserve(0) {
            Ok(()) => Ok(()),
            // Some file systems need space in order to free space.
            Err(error) if is_full(&error) => {
                tracing::warn!(%error, "the reserve of disk space cannot be released");
                Ok(())
            }
            Err(error) => Err(Error::Broken(Arc::new(error))),
        }
    }

    /// Takes what is missing, and returns whether there was room for it.
    pub(super) fn restore(&mut self) -> Result<bool, Error> {
        match self.adapt().and_then(|()| self.disk.resize_reserve(self.target)) {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(Error::Broken(Arc::new(error))),
        }
    }
}
