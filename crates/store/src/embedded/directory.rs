//! [`Directory`]: the store's directory: made private, claimed for one process, and never left with
//! half a database in it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

use redb::{StorageBackend, backends::FileBackend};

use super::{disk::Disk, log::Log};
use crate::Error;

const DATABASE: &str = "store.redb";
/// Under this name a new database is made, to be renamed once it is whole: an empty or partial
/// `store.redb` is then always damage, and never mistaken for a new store.
const UNFINISHED: &str = "store.redb.new";
const LOCK: &str = "LOCK";

/// A directory that is ours for as long as this lives.
pub(super) struct Directory {
    path: PathBuf,
    /// The operating system unlocks it when it is closed, even if we crash.
    _lock: File,
}

impl Directory {
    /// Makes the directory if need be, and claims it.
    pub(super) fn claim(path: &Path) -> Result<Self, Error> {
        make_private(path).map_err(io_error("create the directory", path))?;
        let lock_path = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                let known = holder.trim().to_owned();
                let holder = if known.is_empty() { "another process".to_owned() } else { known };
                return Err(Error::Locked { path: path.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &lock_path)(error)),
        }
        // For whoever finds it locked; nothing depends on it.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "process {}", process::id()));
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The database file, made first if there is none.
    pub(super) fn into_disk(self) -> Result<FileDisk, Error> {
        let path = self.path.join(DATABASE);
        let exists = path.try_exists().map_err(io_error("look for", &path))?;
        if !exists {
            let unfinished = self.path.join(UNFINISHED);
            File::create(&unfinished).map_err(io_error("create", &unfinished))?;
            Log::create(&PlainFile(unfinished.clone()))?;
            fs::rename(&unfinished, &path).map_err(io_error("rename", &unfinished))?;
            let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
            synced.map_err(io_error("sync", &self.path))?;
        }
        Ok(FileDisk { file: PlainFile(path), _directory: self })
    }
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |error| Error::Io { doing, path, source: Arc::new(error) }
}

/// The database file in a claimed directory.
pub(super) struct FileDisk {
    file: PlainFile,
    _directory: Directory,
}

impl Disk for FileDisk {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let backend = self.file.open()?;
        if backend.len()? == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
        }
        Ok(backend)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

struct PlainFile(PathBuf);

impl Disk for PlainFile {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let file = OpenOptions::new().read(true).write(true).open(&self.0)?;
        Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}
