//! [`Recent`]: states that came lately. They are not packed yet, since an object that has just
//! changed is about to be read, and may well change again before packing it has paid.
//!
//! ```text
//! event a@7   plain, noted          a@7
//! event a@8   plain, noted          a@8   and a@7 is gone, without ever having been packed
//! later       a@8 is packed         -
//! ```
//!
//! Invariants:
//! - nothing is kept in memory from here;
//! - there are no more than [`MOST_BYTES`] here, and a batch.

use std::{collections::VecDeque, time::Duration};

use keel::{Clock, Moment};

use crate::{Item, item::Trace};

/// What stays as it is for so long is packed.
const LATELY: Duration = Duration::from_secs(10);
/// What does not fit is packed before that, the oldest first.
const MOST_BYTES: usize = 16 << 20;
/// So many states have one time, that of the first of them.
const BATCH: usize = 64;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Recent {
    /// The oldest first.
    batches: VecDeque<Batch>,
    bytes: usize,
}

struct Batch {
    since: Moment,
    states: Vec<Trace>,
    bytes: usize,
}

impl Recent {
    /// Notes a state that has just come. True if it is time to look for some that settled.
    pub(crate) fn note(&mut self, item: &Item, clock: &Clock) -> bool {
        let is_full = self.batches.back().is_none_or(|batch| batch.states.len() == BATCH);
        if is_full {
            let states = Vec::with_capacity(BATCH);
            self.batches.push_back(Batch { since: clock.moment(), states, bytes: 0 });
        }
        let batch = self.batches.back_mut().expect("one was there or was added");
        let size = item.size();
        batch.states.push(item.trace());
        batch.bytes += size;
        self.bytes += size;
        is_full
    }

    /// Takes out those that are not recent any more and are still of interest to somebody.
    pub(crate) fn take_settled(&mut self, clock: &Clock) -> Vec<Item> {
        let mut settled = Vec::new();
        while let Some(batch) = self.batches.front()
            && (self.bytes > MOST_BYTES || clock.passed_since(&batch.since) >= LATELY)
        {
            settled.extend(batch.states.iter().filter_map(Trace::item));
            self.bytes -= batch.bytes;
            self.batches.pop_front();
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Storage, Transform, transform::Transformer};
    use keel::Timestamp;

    fn item(name: &str, notes: &str) -> Item {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","managedFields":[{{}}]}},"spec":{{"notes":"{notes}"}}}}"#
        );
        Item::parse(json).unwrap()
    }

    #[test]
    fn what_stays_as_it_is_gets_packed_for_all_who_have_it() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let transformer = Transformer::new(vec![Transform::StripManagedFields], Storage::Packed);
        for teacher in ["a", "b", "c"] {
            transformer.transform(item(teacher, "much the same in all of them"));
        }
        let recent =
            transformer.transform_recent(item("d", "much the same in all of them"), &clock);
        let (json, clone) = (recent.json(), recent.clone());
        assert_eq!(recent.size(), json.len());
        clock.advance(LATELY / 2);
        transformer.settle(&clock);
        assert_eq!(recent.size(), json.len(), "it may change again");
        clock.advance(LATELY / 2);
        transformer.settle(&clock);
        assert!(clone.size() < json.len());
        assert_eq!(clone.json(), json);
        assert!(!json.windows(13).any(|text| text == b"managedFields"));
    }

    #[test]
    fn what_nobody_has_any_more_is_not_kept_and_not_packed() {
        let (mut recent, clock) = (Recent::default(), Clock::manual(Timestamp::from_seconds(100)));
        let (replaced, stays) = (item("a", "1"), item("a", "2"));
        recent.note(&replaced, &clock);
        recent.note(&stays, &clock);
        drop(replaced);
        clock.advance(LATELY);
        let settled = recent.take_settled(&clock);
        assert_eq!(settled.len(), 1);
        assert_eq!(settled[0].json(), stays.json());
        assert_eq!((recent.bytes, recent.batches.len()), (0, 0));
    }

    #[test]
    fn there_is_room_for_so_much_and_the_oldest_goes_first() {
        let (mut recent, clock) = (Recent::default(), Clock::manual(Timestamp::from_seconds(100)));
        let notes = "x".repeat(MOST_BYTES / 200);
        let items: Vec<Item> = (0..300).map(|number| item(&number.to_string(), &notes)).collect();
        let mut settled = Vec::new();
        for item in &items {
            if recent.note(item, &clock) {
                settled.extend(recent.take_settled(&clock));
            }
            assert!(recent.bytes <= MOST_BYTES + (BATCH + 1) * item.size());
        }
        assert_eq!(settled.len() % BATCH, 0);
        assert!(settled.len() >= BATCH && settled.len() < items.len());
        assert_eq!(settled[0].name(), "0");
    }
}
