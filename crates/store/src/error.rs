//! Why a store operation failed, sorted by what the caller can do about it.

use std::{io, path::PathBuf, sync::Arc};

use crate::{Record, Revision};

/// A failed store operation. Cloneable, because all writes of a batch share their failure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Look at the record that is there, and try again with its revision.
    #[error("key {key} is {}, which is not what was expected", state(.found.as_ref()))]
    Conflict {
        /// The contested key.
        key: Arc<str>,
        /// What the store holds, so that nobody needs to read it first.
        found: Option<Arc<Record>>,
    },
    /// There is nothing to delete.
    #[error("key {key} does not exist")]
    NotFound {
        /// The missing key.
        key: Arc<str>,
    },
    /// List afresh and watch from there.
    #[error("revision {asked} was compacted; the oldest kept is {oldest}")]
    Compacted {
        /// The revision asked for.
        asked: Revision,
        /// The first one that can still be read, and watched from.
        oldest: Revision,
    },
    /// Wait until the store is there, or give up the revision: it may be of another store.
    #[error("revision {asked} is in the future; the newest is {current}")]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// The newest one.
        current: Revision,
    },
    /// Write less: nothing was written, and the store is well.
    #[error("the value of {key} has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// The key that was to be written.
        key: Arc<str>,
        /// The size of the refused value.
        size: usize,
        /// The largest size allowed.
        limit: usize,
    },
    /// Try again later: the store cannot be reached, or does not answer in time. A write may have
    /// happened.
    #[error("the store is unavailable")]
    Unavailable(#[source] Arc<io::Error>),
    /// Nothing: the store was closed, and the process is about to end.
    #[error("the store is closed")]
    Closed,
    /// Delete something, or free space on the disk, and try again: nothing was written.
    #[error(
        "no space is left on the disk: all writes but deletions are refused until there is some"
    )]
    Full,
    /// Delete something, or raise the limit, and try again: nothing was written.
    #[error(
        "the objects take up {limit} bytes, which is the limit: what adds to them is refused until something is deleted"
    )]
    OverQuota {
        /// The most bytes that all records may have together.
        limit: usize,
    },
    /// Free space on the disk, and try again: nothing was deleted.
    #[error(
        "no space is left on the disk, and none is in reserve for deletions: free some on the disk"
    )]
    FullForDeletions,
    /// Restart the process once the disk is well. Reads go on, but writes are refused: after a
    /// failed write or fsync nobody knows what the disk holds until it is read again.
    #[error("the disk failed; writes are refused until a restart")]
    Broken(#[source] Arc<io::Error>),
    /// Stop the other process, or use another directory.
    #[error("{} is in use by {holder}; stop that, or choose another directory", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
        /// Who has it, as far as is known.
        holder: String,
    },
    /// Nothing to be done here: an operator must restore or remove the file.
    #[error("{} cannot be used: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        detail: String,
    },
    /// See what the operating system says, put it right, and open the store again.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// The error as a field of a log event, which is written with its causes.
    pub fn with_causes(&self) -> &(dyn std::error::Error + 'static) {
        self
    }
}

fn state(found: Option<&Arc<Record>>) -> String {
    match found {
        Some(record) => format!("at revision {}", record.modified),
        None => "absent".to_owned(),
    }
}
