//! [`Reserve`]: a file that does nothing but take up space, to be given up when the disk is full.
//!
//! A deletion needs space before it frees any: for its frame in the log, and for the pages that the
//! database writes in place of those it changes.
//!
//! An I/O error on the reserve is a failure of the disk, like one on the log: the same disk is not
//! trusted with writes after it.

use std::{io, path::PathBuf, sync::Arc};

use redb::StorageBackend;

use super::disk::{Disk, Part, extend, is_full, translate_io};
use crate::Error;

/// See the [module documentation](self).
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    /// `None` as long as there is no room for the file itself. Deletions are refused then, too.
    backend: Option<Box<dyn StorageBackend>>,
    /// How large it should be.
    size: u64,
}

impl Reserve {
    pub(super) fn open(disk: Arc<dyn Disk>, size: u64) -> Result<Self, Error> {
        let path = disk.path(Part::Reserve);
        let mut reserve = Self { disk, backend: None, size };
        match reserve.backend() {
            Ok(_) => Ok(reserve),
            Err(error) if is_full(&error) => {
                tracing::warn!(path = %path.display(), "no space is left for a reserve");
                Ok(reserve)
            }
            Err(error) => Err(translate_io(&path, error)),
        }
    }

    /// The file, which is opened now if there was no room for it before.
    fn backend(&mut self) -> io::Result<&dyn StorageBackend> {
        let backend = match self.backend.take() {
            Some(backend) => backend,
            None => self.disk.open(Part::Reserve)?,
        };
        Ok(&**self.backend.insert(backend))
    }

    /// The file, and its size when it is complete.
    pub(super) fn location(&self) -> (PathBuf, u64) {
        (self.disk.path(Part::Reserve), self.size)
    }

    /// Gives all of it up.
    pub(super) fn release(&self) -> Result<(), Error> {
        let Some(backend) = &self.backend else { return Ok(()) };
        match backend.set_len(0) {
            Ok(()) => Ok(()),
            // Some file systems need space in order to free space.
            Err(error) if is_full(&error) => {
                tracing::warn!(%error, "the reserve of disk space cannot be released");
                Ok(())
            }
            Err(error) => Err(Error::Broken(Arc::new(error))),
        }
    }

    /// Takes what is missing, as far as there is room, and returns whether nothing is missing now.
    pub(super) fn restore(&mut self) -> Result<bool, Error> {
        match self.fill() {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(Error::Broken(Arc::new(error))),
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let size = self.size;
        let backend = self.backend()?;
        let mut length = backend.len()?;
        if length > size {
            backend.set_len(size)?;
        }
        extend(backend, &mut length, size)
    }
}
