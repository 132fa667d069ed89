//! [`PackQueue`]: items of recent events, which are packed after some seconds: a changed object is
//! read at once, and often changed again.
//!
//! ```text
//! event a@7   plain, queued         a@7
//! event a@8   plain, queued         a@8   and a@7 is dropped without being packed
//! later       a@8 is packed         -
//! ```
//!
//! Invariants:
//! - the queue keeps no item in memory;
//! - the items of the queue have at most [`MAX_BYTES`] plus the size of one batch.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Item;
use crate::item::WeakItem;
use keel::{Clock, ClockInstant};

/// The age at which an item is packed.
const MIN_AGE: Duration = Duration::from_secs(10);
/// If the items have more bytes, the oldest are packed earlier.
const MAX_BYTES: usize = 16 << 20;
/// The number of items that share the time of the first of them.
const BATCH: usize = 64;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct PackQueue {
    /// The oldest first.
    batches: VecDeque<Batch>,
    bytes: usize,
}

struct Batch {
    /// The time of the first item.
    since: ClockInstant,
    items: Vec<WeakItem>,
    bytes: usize,
}

impl PackQueue {
    /// Adds an item. Returns whether [`pop_due`](Self::pop_due) should be called.
    pub(crate) fn push(&mut self, item: &Item, clock: &Clock) -> bool {
        let is_full = self.batches.back().is_none_or(|batch| batch.items.len() == BATCH);
        if is_full {
            let items = Vec::with_capacity(BATCH);
            self.batches.push_back(Batch { since: clock.instant(), items, bytes: 0 });
        }
        let batch = self.batches.back_mut().expect("there is a batch, or one was added");
        let size = item.size();
        batch.items.push(item.downgrade());
        batch.bytes += size;
        self.bytes += size;
        is_full
    }

    /// Removes the items that are due, and returns those that were not dropped.
    pub(crate) fn pop_due(&mut self, clock: &Clock) -> Vec<Item> {
        let mut due = Vec::new();
        while let Some(batch) = self.batches.front()
            && (self.bytes > MAX_BYTES || clock.elapsed_since(&batch.since) >= MIN_AGE)
        {
            due.extend(batch.items.iter().filter_map(WeakItem::upgrade));
            self.bytes -= batch.bytes;
            self.batches.pop_front();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::Transformer;
    use crate::{Storage, Transform};
    use keel::Timestamp;

    fn item(name: &str, notes: &str) -> Item {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","managedFields":[{{}}]}},"spec":{{"notes":"{notes}"}}}}"#
        );
        Item::parse(json).unwrap()
    }

    #[test]
    fn an_item_that_does_not_change_is_packed_with_its_clones() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let transformer = Transformer::new(vec![Transform::StripManagedFields], Storage::Packed);
        for name in ["a", "b", "c"] {
            transformer.transform(item(name, "the same text in all objects"));
        }
        let recent =
            transformer.transform_unpacked(item("d", "the same text in all objects"), &clock);
        let (json, clone) = (recent.json(), recent.clone());
        assert_eq!(recent.size(), json.len());
        clock.advance(MIN_AGE / 2);
        transformer.pack_due(&clock);
        assert_eq!(recent.size(), json.len(), "it may change again");
        clock.advance(MIN_AGE / 2);
        transformer.pack_due(&clock);
        assert!(clone.size() < json.len());
        assert_eq!(clone.json(), json);
        assert!(!json.windows(13).any(|text| text == b"managedFields"));
    }

    #[test]
    fn an_item_that_was_dropped_is_not_packed() {
        let (mut queue, clock) =
            (PackQueue::default(), Clock::manual(Timestamp::from_seconds(100)));
        let (replaced, stays) = (item("a", "1"), item("a", "2"));
        queue.push(&replaced, &clock);
        queue.push(&stays, &clock);
        drop(replaced);
        clock.advance(MIN_AGE);
        let due = queue.pop_due(&clock);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].json(), stays.json());
        assert_eq!((queue.bytes, queue.batches.len()), (0, 0));
    }

    #[test]
    fn the_oldest_items_are_packed_when_there_are_too_many_bytes() {
        let (mut queue, clock) =
            (PackQueue::default(), Clock::manual(Timestamp::from_seconds(100)));
        let notes = "x".repeat(MAX_BYTES / 200);
        let items: Vec<Item> = (0..300).map(|number| item(&number.to_string(), &notes)).collect();
        let mut due = Vec::new();
        for item in &items {
            if queue.push(item, &clock) {
                due.extend(queue.pop_due(&clock));
            }
            assert!(queue.bytes <= MAX_BYTES + (BATCH + 1) * item.size());
        }
        assert_eq!(due.len() % BATCH, 0);
        assert!(due.len() >= BATCH && due.len() < items.len());
        assert_eq!(due[0].name(), "0");
    }
}
