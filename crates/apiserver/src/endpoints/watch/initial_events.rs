//! [`InitialEvents`]: the objects with which a watch starts, until they are sent.
//!
//! An unread watch must not keep replaced objects in memory. Stored objects are therefore referred
//! to weakly: the cache holds them, in its snapshot or, after they are replaced, in its log, whose
//! size is limited. If the log has dropped an object, it has also dropped the history with which
//! the watch would continue, so the watch ends with 410.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::cache::watch_cache::Entry;
use crate::endpoints::context::RequestContext;
use crate::flow_control::AnswerMemory;
use machinery::Status;

/// The maximum total size of the objects that are read for one chunk. Their representation as
/// Tables may be much shorter.
pub(super) const MAX_READ: usize = 256 << 10;

/// See the [module documentation](self).
pub(super) enum InitialEvents {
    /// Objects in the cache.
    Stored(VecDeque<Weak<Entry>>),
    /// Objects that a conversion webhook has converted for this watch. Their memory is accounted
    /// for like that of a list.
    Converted(VecDeque<Arc<Entry>>, Option<AnswerMemory>),
}

/// The cache has dropped the object.
pub(super) struct EntryDropped;

impl InitialEvents {
    /// No initial events.
    pub(super) fn empty() -> Self {
        Self::Stored(VecDeque::new())
    }

    /// Initial events for `entries`, which are in the version of the request.
    pub(super) fn new(cx: &RequestContext, entries: Vec<Arc<Entry>>) -> Result<Self, Status> {
        if cx.scope.served.conversion.serves_stored_bytes() {
            return Ok(Self::Stored(entries.iter().map(Arc::downgrade).collect()));
        }
        let bytes = entries.iter().map(|it| it.len()).sum();
        let memory = cx.plane.flow_control.list_memory(&cx.scope.user, bytes)?;
        Ok(Self::Converted(entries.into(), memory))
    }

    /// Whether all objects have been taken.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Stored(entries) => entries.is_empty(),
            Self::Converted(entries, _) => entries.is_empty(),
        }
    }

    /// Takes the next object.
    pub(super) fn pop(&mut self) -> Option<Result<Arc<Entry>, EntryDropped>> {
        match self {
            Self::Stored(entries) => Some(entries.pop_front()?.upgrade().ok_or(EntryDropped)),
            Self::Converted(entries, memory) => {
                let entry = entries.pop_front()?;
                if entries.is_empty() {
                    *memory = None;
                }
                Some(Ok(entry))
            }
        }
    }
}
