//! [`Reserve`]: a file that does nothing but take up space, to be given up when the disk is full.
//!
//! A deletion needs space before it frees any: for its frame in the log, and for the pages that the
//! database writes in place of those it changes.

use std::io;

use redb::StorageBackend;

use super::disk::{Disk, Part, translate_io};
use crate::Error;

static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// See the [module documentation](self).
pub(super) struct Reserve {
    backend: Box<dyn StorageBackend>,
    /// How large it should be.
    size: u64,
}

impl Reserve {
    pub(super) fn open(disk: &dyn Disk, size: u64) -> Result<Self, Error> {
        let opened = disk.open(Part::Reserve);
        let backend = opened.map_err(|error| translate_io(&disk.path(Part::Reserve), error))?;
        Ok(Self { backend, size })
    }

    /// Gives all of it up.
    pub(super) fn release(&self) {
        if let Err(error) = self.backend.set_len(0) {
            tracing::warn!(%error, "the reserve of disk space cannot be released");
        }
    }

    /// Takes what is missing, as far as there is room, and says whether nothing is missing now.
    pub(super) fn restore(&self) -> bool {
        match self.fill() {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "the reserve of disk space is not complete");
                false
            }
        }
    }

    /// Zeros are written out: a file that is merely long takes no space.
    fn fill(&self) -> io::Result<()> {
        let mut length = self.backend.len()?;
        if length > self.size {
            self.backend.set_len(self.size)?;
        }
        while length < self.size {
            let missing = usize::try_from(self.size - length).unwrap_or(usize::MAX);
            let zeros = &ZEROS[..missing.min(ZEROS.len())];
            self.backend.write(length, zeros)?;
            length += zeros.len() as u64;
        }
        Ok(())
    }
}
