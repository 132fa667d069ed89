//! [`Directory`]: the store's directory: made private, claimed for one process, and never left with
//! half a database in it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

use keel::{create_private_directory, open_private};
use redb::{StorageBackend, backends::FileBackend};
use rustix::{
    fs::{FallocateFlags, fallocate, statvfs},
    io::Errno,
};

use super::{
    base::Base,
    disk::{Disk, Part, damaged, extend},
};
use crate::Error;

const DATABASE: &str = "store.redb";
/// Under this name a new database is made, to be renamed once it is whole: an empty or partial
/// `store.redb` is then always damage, and never mistaken for a new store.
const UNFINISHED: &str = "store.redb.new";
const EVEN_LOG: &str = "log.even";
const ODD_LOG: &str = "log.odd";
const RESERVE: &str = "reserve";
const LOCK: &str = "LOCK";

/// The process that has the store in a directory open, if there is one.
pub(super) fn holder(path: &Path) -> Option<String> {
    let mut lock = File::open(path.join(LOCK)).ok()?;
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| named(&mut lock))
}

/// What the process that has locked a file says of itself in it.
fn named(lock: &mut File) -> String {
    let mut holder = String::new();
    let _ = lock.read_to_string(&mut holder);
    let known = holder.trim();
    if known.is_empty() { "another process".to_owned() } else { known.to_owned() }
}

/// A directory that is ours for as long as this lives.
pub(super) struct Directory {
    path: PathBuf,
    /// The operating system unlocks it when it is closed, even if we crash.
    _lock: File,
}

impl Directory {
    /// Makes the directory if need be, and claims it.
    pub(super) fn claim(path: &Path) -> Result<Self, Error> {
        create_private_directory(path).map_err(io_error("create the directory", path))?;
        let lock_path = path.join(LOCK);
        let mut lock = open_private(OpenOptions::new().create(true), &lock_path)
            .map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked { path: path.to_owned(), holder: named(&mut lock) });
            }
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &lock_path)(error)),
        }
        // For whoever finds it locked; nothing depends on it.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "process {}", process::id()));
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The files, made first if there are none.
    pub(super) fn into_disk(self) -> Result<FileDisk, Error> {
        let path = self.path.join(DATABASE);
        let disk = FileDisk { database: DATABASE, directory: self };
        let exists = path.try_exists().map_err(io_error("look for", &path))?;
        if exists {
            return Ok(disk);
        }
        // The log is written only once the database has its name: an empty log is that of a first
        // start that was interrupted, and in any other the database was lost.
        disk.make_logs().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => damaged(&path, &format!("it is missing, but {error}")),
            _ => io_error("create the log beside", &path)(error),
        })?;
        let new = FileDisk { database: UNFINISHED, ..disk };
        let unfinished = new.path(Part::Base);
        open_private(OpenOptions::new().create(true).truncate(true), &unfinished)
            .map_err(io_error("create", &unfinished))?;
        Base::create(&new)?;
        fs::rename(&unfinished, &path).map_err(io_error("rename", &unfinished))?;
        new.directory.sync().map_err(io_error("sync", &new.directory.path))?;
        Ok(FileDisk { database: DATABASE, ..new })
    }

    /// Makes the names of new files survive a crash.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |error| Error::Io { doing, path, source: Arc::new(error) }
}

/// Makes a file take up space on a file system that cannot allocate it otherwise.
fn write_zeros(file: File, size: u64) -> io::Result<()> {
    extend(&FileBackend::new(file).map_err(io::Error::other)?, &mut 0, size)
}

/// The files in a claimed directory.
pub(super) struct FileDisk {
    database: &'static str,
    directory: Directory,
}

impl Disk for FileDisk {
    fn open(&self, part: Part) -> io::Result<Box<dyn StorageBackend>> {
        let file = open_private(&mut OpenOptions::new(), &self.path(part))?;
        let backend = FileBackend::new(file).map_err(io::Error::other)?;
        if part == Part::Base && self.database == DATABASE && backend.len()? == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
        }
        Ok(Box::new(backend))
    }

    fn make_logs(&self) -> io::Result<()> {
        for part in [Part::EvenLog, Part::OddLog] {
            let path = self.path(part);
            let file = open_private(OpenOptions::new().create(true), &path)?;
            if file.metadata()?.len() > 0 {
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

    fn reserve_room(&self) -> io::Result<u64> {
        let reserved = match fs::metadata(self.directory.path.join(RESERVE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            found => found?.len(),
        };
        let system = statvfs(&self.directory.path)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize).saturating_add(reserved))
    }

    fn path(&self, part: Part) -> PathBuf {
        let name = match part {
            Part::Base => self.database,
            Part::EvenLog => EVEN_LOG,
            Part::OddLog => ODD_LOG,
        };
        self.directory.path.join(name)
    }
}
