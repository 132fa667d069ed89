//! [`Embedded`]: the store on the local disk, and the default.
//!
//! All records live in memory; the disk holds the writes from which they are rebuilt at the start.
//! A write goes to a log, with one fsync for all that come at the same time, and later, with
//! thousands of others, into a redb database: pure Rust, one file, commits that survive a crash as
//! a whole or not at all.
//!
//! ```text
//! DIR/LOCK         held while the store is open; says by whom
//! DIR/log.even     batches of writes: the newest, and what is left of older ones
//! DIR/log.odd
//! DIR/reserve      space for deletions when the disk is full
//! DIR/store.redb   log:  revision → key, value or deletion, checksum
//!                  meta: format, newest revision, number of rows, oldest readable revision,
//!                        how far the log was folded
//! ```
//!
//! A file that was cut off, or in which a bit flipped, is refused with [`Error::Damaged`]: better
//! no store than one that lost something. A batch that a crash cut short is undone.

mod directory;
mod disk;
mod row;
mod frame;
mod load;
mod fold;
mod base;
mod segment;
mod reserve;
mod replay;
mod log;

use std::{path::Path, sync::Arc};

use keel::{Clock, Tasks};

pub use disk::{Disk, Part};

use crate::{Engine, Error, Options, shared::Shared, writer::Writer};
use directory::Directory;
use log::Log;

/// The backend on the local disk.
pub struct Embedded;

impl Embedded {
    /// The process that has the store in `directory` open, if there is one.
    pub fn holder(directory: &Path) -> Option<String> {
        directory::holder(directory)
    }

    /// Opens the store in `directory`, which is made if it does not exist and belongs to this
    /// store alone until it is closed. It is closed when `tasks` stop: give it tasks that stop
    /// after those of its users. Must be called within a runtime, which runs the sweeper.
    pub fn open(
        directory: &Path,
        options: Options,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Arc<Engine>, Error> {
        let disk = Directory::claim(directory)?.into_disk()?;
        Self::open_on(Box::new(disk), options, clock, tasks)
    }

    /// Opens the store on a disk of the caller's, for tests in which that disk fails. An empty
    /// disk becomes an empty store.
    pub fn open_on(
        disk: Box<dyn Disk>,
        options: Options,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<Arc<Engine>, Error> {
        let path = disk.path(Part::Base);
        let (log, loaded) = Log::open(disk, options, tasks)?;
        let revision = loaded.revision;
        let shared = Arc::new(Shared::new(loaded.records, revision, loaded.history));
        let journal = Some(Box::new(log) as _);
        let quota = options.quota_bytes;
        let writer = Writer::new(Arc::clone(&shared), journal, clock.clone(), revision, quota);
        Engine::threaded(shared, writer, clock, tasks).map_err(|error| Error::Io {
            doing: "start the commit thread for",
            path,
            source: Arc::new(error),
        })
    }
}

#[cfg(test)]
mod tests;
