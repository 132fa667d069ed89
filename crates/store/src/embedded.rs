//! [`Embedded`]: the store on the local disk, and the default.
//!
//! All records are in memory; the disk holds the writes from which they are rebuilt at the start.
//! A write is appended to a log, with one fsync for all concurrent writes. A checkpoint later moves
//! thousands of writes into a redb database: pure Rust, one file, atomic commits.
//!
//! ```text
//! DIR/LOCK         locked while the store is open; names the process
//! DIR/log.even     batches of writes: the newest, and remains of older ones
//! DIR/log.odd
//! DIR/reserve      space for deletions when the disk is full
//! DIR/store.redb   log:  revision → key, value or deletion, checksum
//!                  meta: format, newest revision, number of rows, oldest readable revision,
//!                        the last segment of the log with a checkpoint
//! ```
//!
//! A truncated file, or one with a flipped bit, is refused with [`Error::Damaged`]: a store that has
//! lost writes must not be served. An incomplete batch at the end of the log is dropped.

mod directory;
mod store_files;
mod disk;
mod row;
mod frame;
mod load;
mod checkpoint;
mod database;
mod segment;
mod space_reserve;
mod replay;
mod log;

use std::path::Path;
use std::sync::Arc;

use keel::{Clock, Tasks};

pub use disk::{Disk, StoreFile};
pub use store_files::StoreFiles;

use crate::state::StoreState;
use crate::writer::Writer;
use crate::{Engine, Error, Options};
use directory::Directory;
use log::Log;

/// The backend on the local disk.
pub struct Embedded;

impl Embedded {
    /// The process that has the store in `directory` open, if there is one.
    pub fn holder(directory: &Path) -> Option<String> {
        directory::holder(directory)
    }

    /// Opens the store in `directory`, which is created if it does not exist and is locked until
    /// the store is closed. The store is closed when `tasks` stop: pass tasks that stop after those
    /// of its users. Must be called within a runtime, which runs the deletion of expired records.
    pub fn open(
        directory: &Path,
        options: Options,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Arc<Engine>, Error> {
        let disk = Directory::lock(directory)?.into_disk()?;
        Self::open_on(Box::new(disk), options, clock, tasks)
    }

    /// Opens the store on a [`Disk`] of the caller, for tests with disk failures. An empty disk
    /// becomes an empty store.
    pub fn open_on(
        disk: Box<dyn Disk>,
        options: Options,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Arc<Engine>, Error> {
        let path = disk.path(StoreFile::Database);
        let (log, loaded) = Log::open(disk, options, tasks)?;
        let revision = loaded.revision;
        let state = Arc::new(StoreState::new(loaded.records, revision, loaded.history));
        let journal = Some(Box::new(log) as _);
        let quota = options.quota_bytes;
        let writer = Writer::new(Arc::clone(&state), journal, clock.clone(), revision, quota);
        Engine::threaded(state, writer, clock, tasks).map_err(|error| Error::Io {
            doing: "start the commit thread for",
            path,
            source: Arc::new(error),
        })
    }
}

#[cfg(test)]
mod tests;
