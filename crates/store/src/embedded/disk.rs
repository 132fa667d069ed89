//! [`Disk`]: what the store's files lie on, and [`Guarded`], which stops using one when it fails.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use redb::StorageBackend;

use crate::Error;

const RESTORE: &str =
    "restore the directory from a backup, or move it away to start with an empty store";

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// One of the store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The database.
    Base,
    /// The segments of the log with even numbers, one at a time.
    EvenLog,
    /// Those with odd numbers.
    OddLog,
}

/// Where the files are: in a directory, or in a test's idea of one.
pub trait Disk: Send + Sync {
    /// The content of a file as it is now. Called again to go on after the disk was full; what an
    /// earlier call returned is dropped by then.
    fn open(&self, part: Part) -> io::Result<Box<dyn StorageBackend>>;

    /// Makes the files of the log, empty, so that they are still there after a crash. Files that
    /// hold writes are left alone, and the error is `InvalidData`.
    fn make_logs(&self) -> io::Result<()>;

    /// Gives the reserve this many bytes of the disk, which nothing else can use until it is made
    /// smaller. If there is no room for all of it, it may have any size afterwards.
    fn resize_reserve(&self, size: u64) -> io::Result<()>;

    /// The number of bytes that the reserve could have: those that are free, and those it has.
    fn reserve_room(&self) -> io::Result<u64>;

    /// Names a file in errors.
    fn path(&self, part: Part) -> PathBuf;
}

/// A backend that refuses everything after its first failure.
///
/// After a failed fsync the kernel may call dirty pages clean, and a second fsync would succeed
/// without having written them. Nothing that comes after a failure can be trusted, so nothing
/// comes after it.
#[derive(Debug)]
pub(super) struct Guarded {
    backend: Box<dyn StorageBackend>,
    health: Health,
}

/// What is known of the first failure of a [`Guarded`] backend.
#[derive(Clone, Default)]
pub(super) struct Health(Arc<Mutex<Option<Error>>>);

impl Health {
    /// The first failure, in our terms.
    pub(super) fn failure(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, failure: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Health {:?}", self.failure())
    }
}

impl Guarded {
    pub(super) fn new(backend: Box<dyn StorageBackend>, health: Health) -> Self {
        Self { backend, health }
    }

    fn guard<T>(
        &self,
        operation: impl FnOnce(&dyn StorageBackend) -> io::Result<T>,
        judge: impl FnOnce(Arc<io::Error>) -> Error,
    ) -> io::Result<T> {
        if let Some(failure) = self.health.failure() {
            return Err(io::Error::other(failure));
        }
        operation(&*self.backend).map_err(|error| {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.health.fail(judge(Arc::new(error)));
            copy
        })
    }
}

/// A write that found no room has changed nothing that counts, as the commit that would have
/// made it count did not happen.
pub(super) fn judge_write(error: Arc<io::Error>) -> Error {
    if is_full(&error) { Error::Full } else { Error::Broken(error) }
}

/// Extends a file of `length` bytes to `size` bytes. Zeros are written out: a file that is merely
/// long takes no space. `length` is kept up to date, so that an extension that found no room can be
/// continued.
pub(super) fn extend(backend: &dyn StorageBackend, length: &mut u64, size: u64) -> io::Result<()> {
    while *length < size {
        let missing = usize::try_from(size - *length).unwrap_or(usize::MAX);
        let zeros = &ZEROS[..missing.min(ZEROS.len())];
        backend.write(*length, zeros)?;
        *length += zeros.len() as u64;
    }
    Ok(())
}

/// Whether an error says that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl StorageBackend for Guarded {
    fn len(&self) -> io::Result<u64> {
        self.guard(StorageBackend::len, Error::Broken)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.guard(|backend| backend.read(offset, out), Error::Broken)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.guard(|backend| backend.set_len(len), judge_write)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.guard(StorageBackend::sync_data, Error::Broken)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.guard(|backend| backend.write(offset, data), judge_write)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }
}

/// What an error that a file could not be read with means.
pub(super) fn translate_io(path: &Path, error: io::Error) -> Error {
    if is_about_content(error.kind()) {
        return damaged(path, &error.to_string());
    }
    Error::Io { doing: "read", path: path.to_owned(), source: Arc::new(error) }
}

/// Whether an error says that the file is wrong, rather than that it could not be read.
pub(super) fn is_about_content(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::NotFound
    )
}

/// The file at `path` cannot be used.
pub(super) fn damaged(path: &Path, detail: &str) -> Error {
    Error::Damaged { path: path.to_owned(), detail: format!("{detail}; {RESTORE}") }
}
