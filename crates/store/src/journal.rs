//! [`Journal`]: where a durable store keeps its writes.

use std::path::PathBuf;

use crate::{Error, Event, Revision};

/// Makes batches durable. Only the writer uses it, from one thread.
pub(crate) trait Journal: Send {
    /// Makes a batch durable, as a whole or not at all, before it returns.
    ///
    /// After [`Error::Full`] the journal may be tried again. After any other error it must not be
    /// used any more, and what is on the disk is known only once it is opened again.
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Error>;

    /// A file on the disk, and the number of bytes that a complete reserve has.
    fn reserve(&self) -> (PathBuf, u64);

    /// Gives up the space that is kept in reserve, so that deletions find room on a full disk.
    fn release_reserve(&mut self) -> Result<(), Error>;

    /// Whether the reserve is complete. It takes what space there is towards that. An error means
    /// that the disk failed, not that it is full.
    fn restore_reserve(&mut self) -> Result<bool, Error>;

    /// Whether nothing that [`maintain`](Self::maintain) has begun is under way. What was refused
    /// for want of space begins again.
    fn is_idle(&mut self) -> Result<bool, Error>;

    /// Begins to bring appended batches and garbage to where they belong, and to return unused
    /// space to the file system. Does not wait for that, and does nothing if it is under way.
    fn maintain(&mut self, shrink: Shrink) -> Result<(), Error>;

    /// Releases the files, in a state that opens quickly.
    fn close(self: Box<Self>) -> Result<(), Error>;
}

/// When unused space is returned to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrink {
    /// When it is more than what is used, so that the effort pays.
    IfMuch,
    /// When there is any: somebody waits for it.
    IfAny,
}

/// What one commit changes on the disk.
pub(crate) struct Batch<'a> {
    /// New writes, in the order of their revisions.
    pub(crate) events: &'a [Event],
    /// Writes that no state from `floor` on shows, to be forgotten some time.
    pub(crate) garbage: &'a [Revision],
    /// The oldest revision whose state must remain readable after a restart.
    pub(crate) floor: Revision,
}
