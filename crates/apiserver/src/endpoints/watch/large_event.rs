//! [`LargeEvent`]: an event that is sent in parts.
//!
//! All watchers of a change share its encoding, which is in memory as long as the log has the
//! change. An unread watch must not keep it longer: it has a copy of one part, and finds the next
//! part in the log. If the log has dropped the change in the meantime, the event cannot be
//! completed.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::{WatchAction, Watcher, event};
use crate::cache::watch_cache::{Change, EncodingKey};
use crate::flow_control::{STREAM_OVERHEAD, check_room};

/// The size of a part.
const PART_SIZE: usize = 64 << 10;

/// See the [module documentation](self).
pub(super) struct LargeEvent {
    change: Weak<Change>,
    key: EncodingKey,
    /// The number of bytes that have been taken.
    taken: usize,
}

impl LargeEvent {
    /// The event with the encoding `key` of a change.
    pub(super) fn new(change: &Arc<Change>, key: EncodingKey) -> Self {
        Self { change: Arc::downgrade(change), key, taken: 0 }
    }

    /// Takes the next part, and whether more parts follow; None if the log has dropped the change.
    fn take(&mut self) -> Option<(Bytes, bool)> {
        let bytes = self.change.upgrade()?.encoding(self.key)?;
        let end = bytes.len().min(self.taken + PART_SIZE);
        let part = Bytes::copy_from_slice(&bytes[self.taken..end]);
        self.taken = end;
        Some((part, end < bytes.len()))
    }
}

impl Watcher {
    /// The action that sends the next part of a large event, if there is one.
    pub(super) fn next_part(&mut self) -> Option<WatchAction<Bytes>> {
        let mut event = self.large_event.take()?;
        let is_begun = event.taken > 0;
        let Some((part, has_more)) = event.take() else {
            self.ended = true;
            return Some(WatchAction::End);
        };
        if has_more {
            self.large_event = Some(event);
        }
        Some(if is_begun { WatchAction::SendPart(part) } else { WatchAction::Send(part) })
    }

    /// Returns `bytes`, or an error event that ends the watch if the user has too many unread
    /// responses. Small events are covered by the charge for a stream.
    pub(super) fn limit_unread(&mut self, bytes: Bytes) -> Bytes {
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
