//! [`ByPriority`]: keys that wait, the most urgent first, and among equals the oldest.
//!
//! Waiting makes urgent: each [aging time](ByPriority::new) counts as much as one step of
//! priority. So a flood of resyncs does not hold up a fresh event, and a stream of fresh events
//! does not hold up a resync for ever.
//!
//! ```text
//! aging 10 s:   low since 0 s       (-1 + 2 = 1 at 25 s)   goes before
//!               normal since 20 s   ( 0 + 0 = 0 at 25 s)
//! ```

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// How urgent a key is; higher goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(pub i32);

impl Priority {
    /// For what nobody waits for: a resync, the objects that were there at the start.
    pub const LOW: Self = Self(-1);
    /// For what happens.
    pub const NORMAL: Self = Self(0);
    /// For what must overtake.
    pub const HIGH: Self = Self(1);
}

/// See the [module documentation](self).
pub(super) struct ByPriority<K> {
    aging: Duration,
    /// In the order of arrival. Some places were given up.
    lines: BTreeMap<Priority, VecDeque<Place<K>>>,
    drawn: u64,
    /// How many keys wait.
    waiting: usize,
    /// So many places in the lines were given up.
    given_up: usize,
}

/// Tells the place that a key has now from those that it gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

struct Place<K> {
    key: K,
    since: Duration,
    ticket: Ticket,
}

impl<K> ByPriority<K> {
    pub(super) fn new(aging: Duration) -> Self {
        let aging = aging.max(Duration::from_nanos(1));
        Self { aging, lines: BTreeMap::new(), drawn: 0, waiting: 0, given_up: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Gets in line.
    pub(super) fn push(&mut self, key: K, priority: Priority, since: Duration) -> Ticket {
        self.drawn += 1;
        self.waiting += 1;
        let ticket = Ticket(self.drawn);
        self.lines.entry(priority).or_default().push_back(Place { key, since, ticket });
        ticket
    }

    /// The same for a key that waits already, and gives its place up.
    pub(super) fn push_again(&mut self, key: K, priority: Priority, since: Duration) -> Ticket {
        self.waiting -= 1;
        self.given_up += 1;
        self.push(key, priority, since)
    }

    /// The next key, and since when it has waited. `has` says whether a key has this place still.
    pub(super) fn pop(
        &mut self,
        now: Duration,
        has: impl Fn(&K, Ticket) -> bool,
    ) -> Option<(K, Duration)> {
        let mut next: Option<(i64, Duration, Priority)> = None;
        let Self { lines, aging, given_up, .. } = self;
        lines.retain(|priority, line| {
            while *given_up > 0 && line.front().is_some_and(|it| !has(&it.key, it.ticket)) {
                line.pop_front();
                *given_up -= 1;
            }
            let Some(Place { since, .. }) = line.front() else { return false };
            let steps = now.saturating_sub(*since).as_nanos() / aging.as_nanos();
            let urgency = i64::from(priority.0) + i64::try_from(steps).unwrap_or(i64::MAX / 2);
            let is_next = next.is_none_or(|(best, oldest, _)| {
                urgency > best || urgency == best && *since <= oldest
            });
            if is_next {
                next = Some((urgency, *since, *priority));
            }
            true
        });
        let (_, since, priority) = next?;
        let place = self.lines.get_mut(&priority)?.pop_front()?;
        self.waiting -= 1;
        Some((place.key, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGING: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_urgent_go_first_and_equals_in_order() {
        let mut line = ByPriority::new(AGING);
        for (key, priority) in [("a", 0), ("b", -1), ("c", 1), ("d", 0)] {
            line.push(key, Priority(priority), at(0));
        }
        let order: Vec<_> =
            std::iter::from_fn(|| line.pop(at(1), |_, _| true)).map(|(key, _)| key).collect();
        assert_eq!(order, ["c", "a", "d", "b"]);
    }

    #[test]
    fn a_thousand_resyncs_do_not_hold_up_an_event() {
        let mut line = ByPriority::new(AGING);
        for key in 0..1000 {
            line.push(key, Priority::LOW, at(0));
        }
        line.push(1000, Priority::NORMAL, at(5));
        assert_eq!(line.pop(at(5), |_, _| true).unwrap().0, 1000);
    }

    #[test]
    fn a_stream_of_events_does_not_hold_up_a_resync_for_ever() {
        let mut line = ByPriority::new(AGING);
        line.push(u64::MAX, Priority::LOW, at(0));
        let turn = (0..100).find(|second| {
            line.push(*second, Priority::NORMAL, at(*second));
            line.pop(at(*second), |_, _| true).unwrap().0 == u64::MAX
        });
        assert_eq!(turn, Some(10));
    }

    #[test]
    fn a_key_that_becomes_urgent_waits_only_once() {
        let mut line = ByPriority::new(AGING);
        line.push("a", Priority::LOW, at(0));
        line.push("b", Priority::NORMAL, at(0));
        let ticket = line.push_again("a", Priority::HIGH, at(0));
        let mut pop = || line.pop(at(0), |key, held| *key != "a" || held == ticket);
        assert_eq!(pop().unwrap().0, "a");
        assert_eq!(pop().unwrap().0, "b");
        assert!(pop().is_none());
        assert_eq!((line.len(), line.given_up), (0, 0));
    }
}
