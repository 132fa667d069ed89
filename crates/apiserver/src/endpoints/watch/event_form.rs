//! [`EventForm`]: the form in which a watcher sends its events.

use std::sync::Arc;

use super::initial_events::EntryDropped;
use super::{Bookmark, WatchAction, Watcher};
use crate::cache::watch_cache::Change;
use crate::registry::conversion::ConvertedChange;
use machinery::Status;

/// See the [module documentation](self). A value is one or more events.
pub(super) trait EventForm: Sized {
    /// The events of the next objects that existed before the watch.
    fn initial(watcher: &mut Watcher) -> Result<Self, EntryDropped>;

    /// The events of the first of `changes`; None if none of these is selected. Advances the cursor
    /// of the watcher. `converted` are the changes in the version of the request, if they had to be
    /// converted.
    fn changes(
        watcher: &mut Watcher,
        changes: &[Arc<Change>],
        converted: &[ConvertedChange],
    ) -> Option<Self>;

    /// A bookmark with the cursor of the watcher.
    fn bookmark(watcher: &mut Watcher, bookmark: Bookmark) -> Self;

    /// The event that ends a watch.
    fn error(watcher: &Watcher, status: &Status) -> Self;

    /// The action that sends the next part of a large event, if there is one.
    fn next_part(watcher: &mut Watcher) -> Option<WatchAction<Self>>;

    /// The same events, or an error that ends the watch if the user has too many unread responses.
    fn limited(self, watcher: &mut Watcher) -> Self;
}
