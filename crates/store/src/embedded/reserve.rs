//! [`Reserve`]: a file that does nothing but take up space, to be given up when the disk is full.
//!
//! A deletion needs space before it frees any: for its frame in the log, and for the pages that the
//! database writes in place of those it changes.

use std::io;

use redb::StorageBackend;

use super::disk::{Disk, Part, extend, is_full, translate_io};
use crate::Error;

/// See the [module documentation](self).
pub(super) struct Reserve {
    /// `None` if there was no room for the file itself. Deletions are refused then, too.
    backend: Option<Box<dyn StorageBackend>>,
    /// How large it should be.
    size: u64,
}

impl Reserve {
    pub(super) fn open(disk: &dyn Disk, size: u64) -> Result<Self, Error> {
        let path = disk.path(Part::Reserve);
        match disk.open(Part::Reserve) {
            Ok(backend) => Ok(Self { backend: Some(backend), size }),
            Err(error) if is_full(&error) => {
                tracing::warn!(path = %path.display(), "no space is left for a reserve");
                Ok(Self { backend: None, size })
            }
            Err(error) => Err(translate_io(&path, error)),
        }
    }

    /// Gives all of it up.
    pub(super) fn release(&self) {
        let Some(backend) = &self.backend else { return };
        if let Err(error) = backend.set_len(0) {
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

    fn fill(&self) -> io::Result<()> {
        let Some(backend) = &self.backend else { return Ok(()) };
        let mut length = backend.len()?;
        if length > self.size {
            backend.set_len(self.size)?;
        }
        extend(&**backend, &mut length, self.size)
    }
}
