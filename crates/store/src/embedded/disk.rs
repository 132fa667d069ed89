//! [`Disk`]: the files of a durable store. [`FailStopBackend`]: a file that is not used after a failure.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use redb::StorageBackend;

use crate::Error;

const RESTORE: &str =
    "restore the directory from a backup, or move it away to start with an empty store";

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// One of the store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFile {
    /// The database.
    Database,
    /// A segment of the log with an even number, overwritten by each later one.
    EvenLog,
    /// A segment of the log with an odd number.
    OddLog,
}

/// The files of a store, in a directory or in a simulation for tests.
pub trait Disk: Send + Sync {
    /// Opens a file. It is opened again after the disk was full; the earlier backend is dropped by
    /// then.
    fn open(&self, file: StoreFile) -> io::Result<Box<dyn StorageBackend>>;

    /// Creates the empty files of the log, durably. If a file contains writes, it is left unchanged
    /// and the error is `InvalidData`.
    fn create_logs(&self) -> io::Result<()>;

    /// Allocates this many bytes of the disk for the reserve. If the disk has no space for it, the
    /// reserve may have any size afterwards.
    fn resize_reserve(&self, size: u64) -> io::Result<()>;

    /// The largest possible size of the reserve: its present size and the free space.
    fn max_reserve(&self) -> io::Result<u64>;

    /// The path of a file, for error messages.
    fn path(&self, file: StoreFile) -> PathBuf;
}

/// A backend that refuses everything after its first failure.
///
/// After a failed fsync the kernel may mark dirty pages as clean, and a second fsync would succeed
/// without having written them. No operation after a failure can be trusted.
#[derive(Debug)]
pub(super) struct FailStopBackend {
    backend: Box<dyn StorageBackend>,
    failure: FirstFailure,
}

/// The first failure of a [`FailStopBackend`].
#[derive(Clone, Default)]
pub(super) struct FirstFailure(Arc<Mutex<Option<Error>>>);

impl FirstFailure {
    /// The failure, if there was one.
    pub(super) fn get(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, failure: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }
}

impl fmt::Debug for FirstFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FirstFailure {:?}", self.get())
    }
}

impl FailStopBackend {
    pub(super) fn new(backend: Box<dyn StorageBackend>, failure: FirstFailure) -> Self {
        Self { backend, failure }
    }

    fn guard<T>(
        &self,
        operation: impl FnOnce(&dyn StorageBackend) -> io::Result<T>,
        classify: impl FnOnce(Arc<io::Error>) -> Error,
    ) -> io::Result<T> {
        if let Some(failure) = self.failure.get() {
            return Err(io::Error::other(failure));
        }
        operation(&*self.backend).map_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.failure.set(classify(Arc::new(error)));
            copy
        })
    }
}

/// The error of a failed write. A full disk is not a permanent failure: only the commit that the write
/// is part of does not happen.
pub(super) fn write_error(error: Arc<io::Error>) -> Error {
    if is_full(&error) { Error::Full } else { Error::Broken(error) }
}

/// Extends a file of `length` bytes to `size` bytes by writing zeros, which allocates the space.
/// `length` is updated also if the disk is full, so that the extension can be continued.
pub(super) fn extend(backend: &dyn StorageBackend, length: &mut u64, size: u64) -> io::Result<()> {
    while *length < size {
        let missing = usize::try_from(size - *length).unwrap_or(usize::MAX);
        let zeros = &ZEROS[..missing.min(ZEROS.len())];
        backend.write(*length, zeros)?;
        *length += zeros.len() as u64;
    }
    Ok(())
}

/// Whether the disk is full, or as full as the process may make it.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

impl StorageBackend for FailStopBackend {
    fn len(&self) -> io::Result<u64> {
        self.guard(StorageBackend::len, Error::Broken)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.guard(|backend| backend.read(offset, out), Error::Broken)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.guard(|backend| backend.set_len(len), write_error)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.guard(StorageBackend::sync_data, Error::Broken)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.guard(|backend| backend.write(offset, data), write_error)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }
}

/// The error of a failed read.
pub(super) fn read_error(path: &Path, error: io::Error) -> Error {
    if is_content_error(error.kind()) {
        return damaged(path, &error.to_string());
    }
    Error::Io { doing: "read", path: path.to_owned(), source: Arc::new(error) }
}

/// Whether the content of the file is wrong, as opposed to a failed read.
pub(super) fn is_content_error(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::NotFound
    )
}

/// The error of a damaged file.
pub(super) fn damaged(path: &Path, detail: &str) -> Error {
    Error::Damaged { path: path.to_owned(), detail: format!("{detail}; {RESTORE}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_at_the_limit_of_its_size_is_like_a_full_disk() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::FileTooLarge] {
            assert!(matches!(write_error(Arc::new(kind.into())), Error::Full), "{kind}");
        }
        assert!(matches!(write_error(Arc::new(io::ErrorKind::Other.into())), Error::Broken(_)));
    }
}
