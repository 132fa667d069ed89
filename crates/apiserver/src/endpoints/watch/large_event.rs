//! [`LargeEvent`]: an event that is sent in parts.
//!
//! All watchers of a change share its encoding, which is in memory as long as the log has the
//! change. A watcher that does not read must not keep it longer, so it has a copy of one part, and
//! finds the next one in the log. A change that the log has forgotten meanwhile cannot be sent to
//! its end.

use super::{Step, Watcher};
use crate::watch_cache::{Change, EncodingKey};
use bytes::Bytes;
use std::sync::{Arc, Weak};

/// The size of a part.
const PART: usize = 64 << 10;

/// See the [module documentation](self).
pub(super) struct LargeEvent {
    change: Weak<Change>,
    key: EncodingKey,
    /// How much of it was taken.
    taken: usize,
}

impl LargeEvent {
    /// The encoding `key` of a change.
    pub(super) fn new(change: &Arc<Change>, key: EncodingKey) -> Self {
        Self { change: Arc::downgrade(change), key, taken: 0 }
    }

    /// Takes the next part, and whether others follow; None if the log has forgotten the change.
    fn take(&mut self) -> Option<(Bytes, bool)> {
        let bytes = self.change.upgrade()?.encoding(self.key)?;
        let end = bytes.len().min(self.taken + PART);
        let part = Bytes::copy_from_slice(&bytes[self.taken..end]);
        self.taken = end;
        Some((part, end < bytes.len()))
    }
}

impl Watcher {
    /// The next part of a large event, if there is one to be sent.
    pub(super) fn next_part(&mut self) -> Option<Step> {
        let mut event = self.large_event.take()?;
        let is_begun = event.taken > 0;
        let Some((part, has_more)) = event.take() else {
            self.ended = true;
            return Some(Step::End);
        };
        if has_more {
            self.large_event = Some(event);
        }
        Some(if is_begun { Step::SendPart(part) } else { Step::Send(part) })
    }
}
