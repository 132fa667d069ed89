//! [`LargeEvent`]: an event that is sent in parts.
//!
//! All watchers of a change share its encoding, which is in memory as long as the log has the
//! change. A watcher that does not read must not keep it longer, so it has a copy of one part, and
//! finds the next one in the log. A change that the log has forgotten meanwhile cannot be sent to
//! its end.

use super::{Step, Watcher, event};
use crate::cache::watch_cache::{Change, EncodingKey};
use crate::flow_control::{STREAM_OVERHEAD, check_room};
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

    /// The first part of an event or events, or an error that ends the watch, if the user has too
    /// many answers that are not read. Small events are covered by what a stream counts.
    pub(super) fn within_limits(&mut self, bytes: Bytes) -> Bytes {
        if bytes.len() < STREAM_OVERHEAD / 2 {
            return bytes;
        }
        let Err(status) = check_room(self.cx.account.as_deref(), bytes.len()) else {
            return bytes;
        };
        self.ended = true;
        self.large_event = None;
        event::error(&self.cx, &status)
    }
}
