//! [`Initial`]: the objects that a watch begins with, until they are sent.
//!
//! A client that does not read must not keep the objects of that time in memory while others
//! replace them. Stored objects are therefore referred to weakly: the cache has them, in its
//! snapshot or, once they are replaced, in its log, which counts them. An object that the log has
//! forgotten is gone, and so is the history that the watch would go on with: it ends with 410.

use crate::cache::watch_cache::Entry;
use crate::endpoints::context::RequestContext;
use crate::flow_control::AnswerMemory;
use machinery::Status;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// The bytes of objects that are read for one piece of the answer: as Tables they may be much
/// shorter.
pub(super) const MAX_READ: usize = 256 << 10;

/// See the [module documentation](self).
pub(super) enum Initial {
    /// As they are in the cache.
    Stored(VecDeque<Weak<Entry>>),
    /// As others have converted them, which only this watch has. Their memory is counted like that
    /// of a list.
    Converted(VecDeque<Arc<Entry>>, Option<AnswerMemory>),
}

/// The object is no longer known.
pub(super) struct Forgotten;

impl Initial {
    /// None.
    pub(super) fn empty() -> Self {
        Self::Stored(VecDeque::new())
    }

    /// These, in the version of the request.
    pub(super) fn new(cx: &RequestContext, entries: Vec<Arc<Entry>>) -> Result<Self, Status> {
        if cx.scope.served.conversion.serves_stored_bytes() {
            return Ok(Self::Stored(entries.iter().map(Arc::downgrade).collect()));
        }
        let bytes = entries.iter().map(|it| it.len()).sum();
        let memory = cx.plane.flow.list_memory(&cx.scope.user, bytes)?;
        Ok(Self::Converted(entries.into(), memory))
    }

    /// Whether all of them were taken.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Stored(entries) => entries.is_empty(),
            Self::Converted(entries, _) => entries.is_empty(),
        }
    }

    /// Takes the next one.
    pub(super) fn pop(&mut self) -> Option<Result<Arc<Entry>, Forgotten>> {
        match self {
            Self::Stored(entries) => Some(entries.pop_front()?.upgrade().ok_or(Forgotten)),
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
