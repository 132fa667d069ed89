//! [`Reserve`]: a file that does nothing but take up space, to be given up when the disk is full.
//!
//! A deletion needs space before it frees any: for its frame in the log, and for the pages that the
//! database writes in place of those it changes.
//!
//! An I/O error on the reserve is a failure of the disk, like one on the log: the same disk is not
//! trusted with writes after it.

use std::{path::PathBuf, sync::Arc};

use super::disk::{Disk, Part, is_full};
use crate::Error;

/// See the [module documentation](self). Deletions on a full disk are refused as long as there is
/// no room for the file.
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    /// How large it should be.
    size: u64,
}

impl Reserve {
    pub(super) fn new(disk: Arc<dyn Disk>, size: u64) -> Self {
        Self { disk, size }
    }

    /// The database, which is on the same disk, and the size of the reserve when it is complete.
    pub(super) fn location(&self) -> (PathBuf, u64) {
        (self.disk.path(Part::Base), self.size)
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
    pub(super) fn restore(&self) -> Result<bool, Error> {
        match self.disk.resize_reserve(self.size) {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(Error::Broken(Arc::new(error))),
        }
    }
}
