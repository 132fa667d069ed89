//! [`HandlerQueue`]: the events that wait for one handler.
//!
//! Up to `capacity` events, every event is kept. When `capacity` events wait, a new event is merged
//! into the waiting event of the same object:
//!
//! | waiting event | new event | result |
//! |---|---|---|
//! | added | updated | added, with the new state |
//! | added | deleted | nothing |
//! | updated | updated | updated, from the first old state to the second new state |
//! | updated | deleted | deleted |
//! | deleted | added | both, since the objects differ |
//!
//! The queue is bounded by `capacity` and two events for each object.

use std::collections::{HashMap, VecDeque};

use crate::ObjectKey;
use crate::event_handler::ObjectEvent;

/// See the [module documentation](self).
pub(super) struct HandlerQueue {
    capacity: usize,
    /// `None` where an event was removed by a merge.
    waiting: VecDeque<Option<Waiting>>,
    /// The number of the first entry in `waiting`; the others have the following numbers.
    first: u64,
    /// The number of the last event of each object; `None` until the queue is full for the first
    /// time.
    last: Option<HashMap<ObjectKey, u64>>,
    /// The number of entries in `waiting` that are `None`.
    holes: usize,
    /// The event that was popped last may still be processed.
    is_processing: bool,
    closed: bool,
}

enum Waiting {
    Event(ObjectEvent),
    Synced,
}

pub(super) enum Popped {
    Event(ObjectEvent),
    Synced,
    Nothing,
    Closed,
}

impl HandlerQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            waiting: VecDeque::new(),
            first: 0,
            last: None,
            holes: 0,
            is_processing: false,
            closed: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() - self.holes
    }

    /// The number of events that wait or are being processed.
    pub(super) fn unprocessed(&self) -> usize {
        self.len() + usize::from(self.is_processing)
    }

    pub(super) fn push(&mut self, event: ObjectEvent) {
        if self.closed {
            return;
        }
        if self.len() < self.capacity {
            return self.append(event);
        }
        let key = event.item().key().clone();
        let last = self.last.get_or_insert_with(|| last_of(&self.waiting, self.first));
        let Some(number) = last.get(&key).copied() else { return self.append(event) };
        let place =
            &mut self.waiting[usize::try_from(number - self.first).expect("the last event waits")];
        let Some(Waiting::Event(waiting)) = place.take() else {
            unreachable!("the last event of an object waits, and is an event");
        };
        match merge(waiting, event) {
            Merged::One(event) => *place = Some(Waiting::Event(event)),
            Merged::Both(waiting, event) => {
                *place = Some(Waiting::Event(waiting));
                self.append(event);
            }
            Merged::Nothing => {
                last.remove(&key);
                self.holes += 1;
                self.compact();
            }
        }
    }

    pub(super) fn push_synced(&mut self) {
        self.waiting.push_back(Some(Waiting::Synced));
    }

    pub(super) fn pop(&mut self) -> Popped {
        self.is_processing = false;
        if self.closed {
            return Popped::Closed;
        }
        while let Some(waiting) = self.waiting.pop_front() {
            let number = self.first;
            self.first += 1;
            match waiting {
                Some(Waiting::Event(event)) => {
                    if let Some(last) = &mut self.last
                        && last.get(event.item().key()) == Some(&number)
                    {
                        last.remove(event.item().key());
                    }
                    self.is_processing = true;
                    return Popped::Event(event);
                }
                Some(Waiting::Synced) => return Popped::Synced,
                None => self.holes -= 1,
            }
        }
        self.last = None;
        Popped::Nothing
    }

    pub(super) fn close(&mut self) {
        *self = Self { closed: true, ..Self::new(0) };
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn append(&mut self, event: ObjectEvent) {
        if let Some(last) = &mut self.last {
            last.insert(event.item().key().clone(), self.first + self.waiting.len() as u64);
        }
        self.waiting.push_back(Some(Waiting::Event(event)));
    }

    /// Removes the holes once half of the entries are holes.
    fn compact(&mut self) {
        if self.holes * 2 < self.waiting.len() {
            return;
        }
        self.holes = 0;
        self.waiting.retain(Option::is_some);
        self.last = Some(last_of(&self.waiting, self.first));
    }
}

fn last_of(waiting: &VecDeque<Option<Waiting>>, first: u64) -> HashMap<ObjectKey, u64> {
    let numbered = (first..).zip(waiting);
    let events = numbered.filter_map(|(number, waiting)| match waiting {
        Some(Waiting::Event(event)) => Some((event.item().key().clone(), number)),
        Some(Waiting::Synced) | None => None,
    });
    events.collect()
}

/// The events that result from two events of one object.
enum Merged {
    One(ObjectEvent),
    Both(ObjectEvent, ObjectEvent),
    Nothing,
}

fn merge(waiting: ObjectEvent, event: ObjectEvent) -> Merged {
    use ObjectEvent::{Added, Deleted, Updated};
    match (waiting, event) {
        (Added { is_initial, .. }, Updated { new, .. }) => {
            Merged::One(Added { item: new, is_initial })
        }
        (Added { .. }, Deleted { .. }) => Merged::Nothing,
        (Updated { old, .. }, Updated { new, .. }) => Merged::One(Updated { old, new }),
        (Updated { .. }, event @ Deleted { .. }) => Merged::One(event),
        (waiting, event) => Merged::Both(waiting, event),
    }
}

#[cfg(test)]
mod tests;
