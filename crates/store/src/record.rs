//! The vocabulary of the store: what is kept, what happened to it, and what a write may expect.

use std::sync::Arc;

use bytes::Bytes;
use keel::Timestamp;

/// A point in the store's history: the number of a write. Zero is before the first one.
pub type Revision = u64;

/// One key and its value, as some write left them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Bytes,
    /// The write that made the key, after the last deletion if there was one.
    pub created: Revision,
    /// The write that left the value.
    pub modified: Revision,
    /// When the store will delete the record.
    pub expires: Option<Timestamp>,
}

/// What must be true of a key for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    At(Revision),
    /// Nothing is expected.
    Any,
}

impl Expect {
    /// Whether a key with this record is as expected.
    pub(crate) fn is_met_by(self, found: Option<&Arc<Record>>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::At(revision) => found.is_some_and(|record| record.modified == revision),
        }
    }
}

/// One write, seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of the write.
    pub revision: Revision,
    /// The key written.
    pub key: Arc<str>,
    /// What the write left; `None` for a deletion.
    pub new: Option<Arc<Record>>,
    /// What was there before; `None` for a creation.
    pub old: Option<Arc<Record>>,
}

/// The answer to a range read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records, in the order of their keys.
    pub records: Vec<Arc<Record>>,
    /// The revision whose state this shows; asking for the next page at it continues this one.
    pub revision: Revision,
    /// How many more records of the range follow after this page.
    pub remaining: usize,
}

impl Page {
    /// Whether the limit cut the range short.
    pub fn more(&self) -> bool {
        self.remaining > 0
    }
}
