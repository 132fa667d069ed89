//! [`Error`]: a failed store operation. The variants differ in what the caller can do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Record, Revision};

/// A failed store operation. Cloneable, since all writes of a batch share a failure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Try again with the revision of the found record.
    #[error("key {key} is {}, which is not what was expected", describe(.found.as_ref()))]
    Conflict {
        /// The contested key.
        key: Arc<str>,
        /// The present record, so that it need not be read again.
        found: Option<Arc<Record>>,
    },
    /// The key to delete does not exist.
    #[error("key {key} does not exist")]
    NotFound {
        /// The missing key.
        key: Arc<str>,
    },
    /// List again, and watch from the revision of the list.
    #[error("revision {asked} was compacted; the oldest kept is {oldest}")]
    Compacted {
        /// The requested revision.
        asked: Revision,
        /// The oldest revision that can be read, and watched from.
        oldest: Revision,
    },
    /// Wait until the store reaches the revision, or list again: it may be of another store.
    #[error("revision {asked} is in the future; the newest is {current}")]
    Future {
        /// The requested revision.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// Write a smaller value: nothing was written.
    #[error("the value of {key} has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// The key of the value.
        key: Arc<str>,
        /// The size of the refused value.
        size: usize,
        /// The largest allowed size.
        limit: usize,
    },
    /// A layer above the backend cannot transform the value: nothing was written.
    #[error("{0}")]
    Transform(Arc<str>),
    /// Try again later: the store cannot be reached, or does not answer in time. A write may have
    /// happened.
    #[error("the store is unavailable")]
    Unavailable(#[source] Arc<io::Error>),
    /// The store was closed; the process is about to end.
    #[error("the store is closed")]
    Closed,
    /// Delete records, or free space on the disk, and try again: nothing was written.
    #[error(
        "no space is left on the disk: all writes but deletions are refused until space is free"
    )]
    Full,
    /// Delete records, or raise the limit, and try again: nothing was written.
    #[error(
        "the limit of {limit} bytes for all objects is reached: writes that add to them are refused until objects are deleted"
    )]
    OverQuota {
        /// The limit on the size of all records together.
        limit: usize,
    },
    /// Free space on the disk, and try again: nothing was deleted.
    #[error(
        "no space is left on the disk, and none is in reserve for deletions: free some space on the disk"
    )]
    FullForDeletions,
    /// Restart the process once the disk works. Reads continue, but writes are refused: after a failed
    /// write or fsync the content of the disk is unknown until it is read again.
    #[error("the disk failed; writes are refused until a restart")]
    Broken(#[source] Arc<io::Error>),
    /// Stop the other process, or use another directory.
    #[error("{} is in use by {holder}; stop that, or choose another directory", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that has it open, if known.
        holder: String,
    },
    /// An operator must restore or remove the file.
    #[error("{} cannot be used: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage, and what to do about it.
        detail: String,
    },
    /// Correct the cause that the operating system reports, and open the store again.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The operation, as a verb.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
}

impl Error {
    /// The error as a field of a log event, which includes its causes.
    pub fn with_causes(&self) -> &(dyn std::error::Error + 'static) {
        self
    }
}

fn describe(found: Option<&Arc<Record>>) -> String {
    match found {
        Some(record) => format!("at revision {}", record.modified),
        None => "absent".to_owned(),
    }
}
