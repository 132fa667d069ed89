//! [`Record`], [`Event`], [`Expect`] and [`Page`]: the data types of the store.

use std::sync::Arc;

use bytes::Bytes;

use keel::Timestamp;

/// A point in the history of the store: the number of a write. Zero is before the first write.
pub type Revision = u64;

/// A key and its value after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Bytes,
    /// The revision of the write that created the key, after its last deletion.
    pub created: Revision,
    /// The revision of the last write.
    pub modified: Revision,
    /// The time at which the store deletes the record. `None` also if the backend does not know it.
    pub expires: Option<Timestamp>,
}

/// The precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    At(Revision),
    /// No precondition.
    Any,
}

impl Expect {
    /// Whether a key with this record meets the precondition.
    pub(crate) fn is_met_by(self, found: Option<&Arc<Record>>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::At(revision) => found.is_some_and(|record| record.modified == revision),
        }
    }
}

/// The effect of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision of the write.
    pub revision: Revision,
    /// The key.
    pub key: Arc<str>,
    /// The record after the write; `None` for a deletion.
    pub new: Option<Arc<Record>>,
    /// The record before the write; `None` for a creation.
    pub old: Option<Arc<Record>>,
}

/// The result of a range read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records, in the order of their keys.
    pub records: Vec<Arc<Record>>,
    /// The revision of the records. The next page is read at the same revision.
    pub revision: Revision,
    /// The number of records of the range after this page.
    pub remaining: usize,
}

impl Page {
    /// Whether there is another page.
    pub fn more(&self) -> bool {
        self.remaining > 0
    }
}
