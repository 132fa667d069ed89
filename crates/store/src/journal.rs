//! [`Journal`]: the durable storage of writes.

use std::path::PathBuf;

use crate::{Error, Event, Revision};

/// Makes batches durable. Only the writer uses it, from one thread.
pub(crate) trait Journal: Send {
    /// Makes a batch durable, atomically, before it returns.
    ///
    /// After [`Error::Full`] the journal may be used again. After any other error it must not be used,
    /// and the content of the disk is unknown until the journal is opened again.
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Error>;

    /// The path of a file on the disk, and the size of a complete reserve.
    fn reserve_location(&self) -> (PathBuf, u64);

    /// Releases the reserved space, for deletions on a full disk.
    fn release_reserve(&mut self) -> Result<(), Error>;

    /// Allocates the missing part of the reserve, and returns whether it is complete. An error is a
    /// failure of the disk; a full disk is none.
    fn restore_reserve(&mut self) -> Result<bool, Error>;

    /// Whether no work of [`maintain`](Self::maintain) is running. Work that was refused on a full
    /// disk begins again.
    fn is_idle(&mut self) -> Result<bool, Error>;

    /// Begins a checkpoint of appended batches and garbage, and returns unused space to the file
    /// system. Does not wait for it, and does nothing if one is running.
    fn maintain(&mut self, shrink: Shrink) -> Result<(), Error>;

    /// Closes the files in a state that opens quickly.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// When unused space is returned to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrink {
    /// If it is more than the used space.
    IfLarge,
    /// If there is any: the disk is full.
    IfAny,
}

/// The changes of one commit on the disk.
pub(crate) struct Batch<'a> {
    /// New writes, in the order of their revisions.
    pub(crate) events: &'a [Event],
    /// Writes that no state from `floor` on contains, to be removed by a checkpoint.
    pub(crate) garbage: &'a [Revision],
    /// The oldest revision whose state must remain readable after a restart.
    pub(crate) floor: Revision,
}
