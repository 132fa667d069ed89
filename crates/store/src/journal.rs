//! [`Journal`]: where a durable store keeps its writes.

use crate::{Error, Event, Revision};

/// Makes batches durable. Only the writer uses it, from one thread.
pub(crate) trait Journal: Send {
    /// Makes a batch durable, as a whole or not at all, before it returns.
    ///
    /// After [`Error::Full`] the journal may be tried again. After any other error it must not be
    /// used any more, and what is on the disk is known only once it is opened again.
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Error>;

    /// Releases the files, in a state that opens quickly.
    fn close(self: Box<Self>) -> Result<(), Error>;
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
