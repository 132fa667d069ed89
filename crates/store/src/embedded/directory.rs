//! [`Directory`]: the directory of a store. It is private, locked by one process, and never holds a
//! database that is only partly created.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io, process};

use redb::StorageBackend;
use redb::backends::FileBackend;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use super::database::Database;
use super::disk::{Disk, StoreFile, damaged, extend};
use crate::Error;
use keel::{create_private_directory, open_private};

const DATABASE: &str = "store.redb";
/// A new database is created under this name and renamed once it is complete. An empty or partial
/// `store.redb` is therefore always damage.
const UNFINISHED: &str = "store.redb.new";
const EVEN_LOG: &str = "log.even";
const ODD_LOG: &str = "log.odd";
const RESERVE: &str = "reserve";
const LOCK: &str = "LOCK";

/// The files that an open store has at all times.
pub(super) const FILES: [&str; 4] = [LOCK, DATABASE, EVEN_LOG, ODD_LOG];

/// The process that has the store in a directory open, if there is one.
pub(super) fn holder(path: &Path) -> Option<String> {
    let mut lock = File::open(path.join(LOCK)).ok()?;
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| holder_name(&mut lock))
}

/// The process that has locked a file, as it is written in the file.
fn holder_name(lock: &mut File) -> String {
    let mut holder = String::new();
    let _ = lock.read_to_string(&mut holder);
    let known = holder.trim();
    if known.is_empty() { "another process".to_owned() } else { known.to_owned() }
}

/// A directory that is locked until this value is dropped.
pub(super) struct Directory {
    path: PathBuf,
    /// The operating system releases the lock after a crash.
    lock: File,
}

impl Drop for Directory {
    /// Closing the file is not enough: a child process that is being started has a copy of it until it
    /// runs its program.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Directory {
    /// Creates the directory if it does not exist, and locks it.
    pub(super) fn lock(path: &Path) -> Result<Self, Error> {
        create_private_directory(path).map_err(io_error("create the directory", path))?;
        let lock_path = path.join(LOCK);
        let mut lock = open_private(OpenOptions::new().create(true), &lock_path)
            .map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked {
                    path: path.to_owned(),
                    holder: holder_name(&mut lock),
                });
            }
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &lock_path)(error)),
        }
        // For the error message of a process that finds the directory locked.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "process {}", process::id()));
        Ok(Self { path: path.to_owned(), lock })
    }

    /// The files of the directory. They are created if there is no database.
    pub(super) fn into_disk(self) -> Result<FileDisk, Error> {
        let path = self.path.join(DATABASE);
        let disk = FileDisk { database: DATABASE, directory: self };
        let exists = path.try_exists().map_err(io_error("look for", &path))?;
        if exists {
            return Ok(disk);
        }
        // The log is written only after the database is renamed. An empty log without a database
        // is an interrupted first start; a log with writes means that the database was lost.
        disk.create_logs().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => damaged(&path, &format!("it is missing, but {error}")),
            _ => io_error("create the log beside", &path)(error),
        })?;
        let new = FileDisk { database: UNFINISHED, ..disk };
        let unfinished = new.path(StoreFile::Database);
        open_private(OpenOptions::new().create(true).truncate(true), &unfinished)
            .map_err(io_error("create", &unfinished))?;
        Database::create(&new)?;
        fs::rename(&unfinished, &path).map_err(io_error("rename", &unfinished))?;
        new.directory.sync().map_err(io_error("sync", &new.directory.path))?;
        Ok(FileDisk { database: DATABASE, ..new })
    }

    /// Makes the entries of new files durable.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |error| Error::Io { doing, path, source: Arc::new(error) }
}

/// Allocates space on a file system without `fallocate`.
fn write_zeros(file: File, size: u64) -> io::Result<()> {
    extend(&FileBackend::new(file).map_err(io::Error::other)?, &mut 0, size)
}

/// The files in a locked directory.
pub(super) struct FileDisk {
    database: &'static str,
    directory: Directory,
}

impl Disk for FileDisk {
    fn open(&self, file: StoreFile) -> io::Result<Box<dyn StorageBackend>> {
        let opened = open_private(&mut OpenOptions::new(), &self.path(file))?;
        let backend = FileBackend::new(opened).map_err(io::Error::other)?;
        if file == StoreFile::Database && self.database == DATABASE && backend.len()? == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
        }
        Ok(Box::new(backend))
    }

    fn create_logs(&self) -> io::Result<()> {
        for file in [StoreFile::EvenLog, StoreFile::OddLog] {
            let path = self.path(file);
            let opened = open_private(OpenOptions::new().create(true), &path)?;
            if opened.metadata()?.len() > 0 {
                let detail = format!("{} holds writes", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
            }
        }
        self.directory.sync()
    }

    fn resize_reserve(&self, size: u64) -> io::Result<()> {
        let path = self.directory.path.join(RESERVE);
        let file = match open_private(OpenOptions::new().create(size > 0), &path) {
            Err(error) if size == 0 && error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        if file.metadata()?.len() >= size {
            return file.set_len(size);
        }
        match fallocate(&file, FallocateFlags::empty(), 0, size) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, size),
            allocated => Ok(allocated?),
        }
    }

    fn max_reserve(&self) -> io::Result<u64> {
        let reserved = match fs::metadata(self.directory.path.join(RESERVE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            found => found?.len(),
        };
        let system = statvfs(&self.directory.path)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize).saturating_add(reserved))
    }

    fn path(&self, file: StoreFile) -> PathBuf {
        let name = match file {
            StoreFile::Database => self.database,
            StoreFile::EvenLog => EVEN_LOG,
            StoreFile::OddLog => ODD_LOG,
        };
        self.directory.path.join(name)
    }
}
