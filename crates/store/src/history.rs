//! [`History`]: the recent events, oldest first, bounded by their number and their memory.
//!
//! ```text
//! floor 4      events: 5 put /a   6 put /b   8 delete /a       (the append of 7 failed)
//! ```
//!
//! Every state from the floor on can be rebuilt from the present one by undoing events, newest
//! first. The weight of an event is the size of the record that it replaced, which only the history
//! references.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Error, Event, Record, Revision};

/// An estimate of the memory of an event without the replaced value: the event, two records, a key.
const EVENT_WEIGHT: usize = 256;

/// See the [module documentation](self).
pub(crate) struct History {
    /// In the order of revisions; all of them above `floor`.
    events: VecDeque<Event>,
    /// The oldest revision whose state can be rebuilt, and after which a watch can start.
    floor: Revision,
    weight: usize,
    bounds: Bounds,
}

/// The limits beyond which a history removes its oldest events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

impl History {
    pub(crate) fn new(floor: Revision, bounds: Bounds) -> Self {
        Self { events: VecDeque::new(), floor, weight: 0, bounds }
    }

    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// The size of the replaced values at which a batch ends, so that a watch that reads the events of
    /// each batch is never overtaken by the next one.
    pub(crate) fn max_batch_bytes(&self) -> usize {
        self.bounds.bytes / 4
    }

    /// Adds an event that is newer than all others.
    pub(crate) fn push(&mut self, event: Event) {
        debug_assert!(event.revision > self.events.back().map_or(self.floor, |last| last.revision));
        self.weight += weight(&event);
        self.events.push_back(event);
    }

    /// Removes the events that exceed the bounds, oldest first.
    pub(crate) fn trim(&mut self) -> Vec<Event> {
        let mut removed = Vec::new();
        while self.events.len() > self.bounds.events || self.weight > self.bounds.bytes {
            removed.extend(self.pop());
        }
        removed
    }

    /// Removes all events up to `upto`, oldest first. `upto` becomes the floor.
    pub(crate) fn compact(&mut self, upto: Revision) -> Vec<Event> {
        let mut removed = Vec::new();
        while self.events.front().is_some_and(|event| event.revision <= upto) {
            removed.extend(self.pop());
        }
        self.floor = self.floor.max(upto);
        removed
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.weight -= weight(&event);
        self.floor = event.revision;
        Some(event)
    }

    /// Fails if events after `revision` were removed.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), Error> {
        if revision < self.floor {
            return Err(Error::Compacted { asked: revision, oldest: self.floor });
        }
        Ok(())
    }

    /// The events after `revision` on keys with `prefix`, oldest first.
    pub(crate) fn after<'a>(
        &'a self,
        revision: Revision,
        prefix: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a Event> {
        let first = self.events.partition_point(|event| event.revision <= revision);
        self.events.range(first..).filter(move |event| event.key.starts_with(prefix))
    }

    /// The records of keys with `prefix` before each change after `revision`, newest change first.
    /// Applied in this order to the present state, they give the state at `revision`.
    pub(crate) fn undo(&self, revision: Revision, prefix: &str) -> Vec<PreviousRecord> {
        let changes = self.after(revision, prefix).rev();
        changes.map(|event| (Arc::clone(&event.key), event.old.clone())).collect()
    }
}

/// A key, and its record before a change.
pub(crate) type PreviousRecord = (Arc<str>, Option<Arc<Record>>);

fn weight(event: &Event) -> usize {
    EVENT_WEIGHT + event.old.as_ref().map_or(0, |old| old.value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: Revision, key: &str) -> Event {
        Event { revision, key: key.into(), new: None, old: None }
    }

    fn history(events: usize, bytes: usize) -> History {
        let mut history = History::new(4, Bounds { events, bytes });
        for (revision, key) in [(5, "/a"), (6, "/b"), (8, "/a")] {
            history.push(event(revision, key));
        }
        history
    }

    fn revisions<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Revision> {
        events.into_iter().map(|event| event.revision).collect()
    }

    #[test]
    fn the_number_of_events_is_bounded() {
        let mut history = history(2, usize::MAX);
        assert_eq!(revisions(&history.trim()), [5]);
        assert_eq!(history.floor(), 5);
    }

    #[test]
    fn the_weight_of_events_is_bounded() {
        let mut history = history(usize::MAX, EVENT_WEIGHT);
        assert_eq!(revisions(&history.trim()), [5, 6]);
        assert_eq!((history.floor(), history.weight), (6, EVENT_WEIGHT));
    }

    #[test]
    fn a_revision_without_an_event_can_be_read() {
        let history = history(9, usize::MAX);
        assert_eq!(revisions(history.after(7, "/")), [8]);
        assert_eq!(revisions(history.after(4, "/a")), [5, 8]);
    }

    #[test]
    fn compaction_raises_the_floor_also_between_events() {
        let mut history = history(9, usize::MAX);
        assert_eq!(revisions(&history.compact(7)), [5, 6]);
        assert!(matches!(history.check(6), Err(Error::Compacted { asked: 6, oldest: 7 })));
        assert!(history.check(7).is_ok());
        assert!(history.compact(3).is_empty());
        assert_eq!(history.floor(), 7);
    }
}
