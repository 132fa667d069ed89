//! [`PriorityQueue`]: the keys that wait, in the order of their priority and age.
//!
//! Each [aging time](PriorityQueue::new) of waiting counts as one step of priority. Many resyncs
//! do not delay a new event, and a stream of new events does not delay a resync for ever.
//!
//! ```text
//! aging 10 s:   low since 0 s       (-1 + 2 = 1 at 25 s)   goes before
//!               normal since 20 s   ( 0 + 0 = 0 at 25 s)
//! ```
//!
//! Keys of one priority belong to groups, which take turns: many keys of one group delay each key of
//! another group by one key. The keys of a group leave in the order of arrival.
//!
//! ```text
//! push(a/1) push(a/2) push(a/3) push(b/1)     a/1 b/1 a/2 a/3
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The priority of a key; the highest is handed out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(pub i32);

impl Priority {
    /// For a resync, and for the objects of the first list.
    pub const LOW: Self = Self(-1);
    /// For a change.
    pub const NORMAL: Self = Self(0);
    /// For keys that overtake changes.
    pub const HIGH: Self = Self(1);
}

/// The group of a key.
pub(super) type GroupOf<K> = fn(&K) -> &str;

/// See the [module documentation](self).
pub(super) struct PriorityQueue<K> {
    aging: Duration,
    group_of: GroupOf<K>,
    /// Some entries are stale.
    levels: BTreeMap<Priority, Level<K>>,
    last_ticket: u64,
    /// The number of keys that wait.
    waiting: usize,
    /// The number of stale entries.
    stale: usize,
}

/// The entries of one priority. Each group has an entry, and stands in `turns` once.
struct Level<K> {
    /// The entries of each group, in the order of arrival.
    groups: HashMap<Arc<str>, VecDeque<Entry<K>>>,
    /// The groups, in the order of their next turns.
    turns: VecDeque<Arc<str>>,
}

/// Identifies the valid entry of a key among its stale ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

struct Entry<K> {
    key: K,
    since: Duration,
    ticket: Ticket,
}

impl<K> PriorityQueue<K> {
    pub(super) fn new(aging: Duration, group_of: GroupOf<K>) -> Self {
        let aging = aging.max(Duration::from_nanos(1));
        let levels = BTreeMap::new();
        Self { aging, group_of, levels, last_ticket: 0, waiting: 0, stale: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Appends a key.
    pub(super) fn push(&mut self, key: K, priority: Priority, since: Duration) -> Ticket {
        self.last_ticket += 1;
        self.waiting += 1;
        let ticket = Ticket(self.last_ticket);
        let level = self.levels.entry(priority).or_default();
        level.push(self.group_of, Entry { key, since, ticket });
        ticket
    }

    /// Appends a key that waits already, with another priority; its earlier entry becomes stale.
    pub(super) fn push_again(&mut self, key: K, priority: Priority, since: Duration) -> Ticket {
        self.waiting -= 1;
        self.stale += 1;
        self.push(key, priority, since)
    }

    /// The next key, and the time since which it has waited. `is_valid` returns whether an entry of a key
    /// is not stale.
    pub(super) fn pop(
        &mut self,
        now: Duration,
        is_valid: impl Fn(&K, Ticket) -> bool,
    ) -> Option<(K, Duration)> {
        let mut next: Option<(i64, Duration, Priority)> = None;
        let Self { levels, aging, stale, .. } = self;
        levels.retain(|priority, level| {
            while *stale > 0 && level.front().is_some_and(|it| !is_valid(&it.key, it.ticket)) {
                level.remove_front();
                *stale -= 1;
            }
            let Some(Entry { since, .. }) = level.front() else { return false };
            let steps = now.saturating_sub(*since).as_nanos() / aging.as_nanos();
            let effective = i64::from(priority.0) + i64::try_from(steps).unwrap_or(i64::MAX / 2);
            let is_next = next.is_none_or(|(best, oldest, _)| {
                effective > best || effective == best && *since <= oldest
            });
            if is_next {
                next = Some((effective, *since, *priority));
            }
            true
        });
        let (_, since, priority) = next?;
        let entry = self.levels.get_mut(&priority)?.pop_front()?;
        self.waiting -= 1;
        Some((entry.key, since))
    }
}

impl<K> Default for Level<K> {
    fn default() -> Self {
        Self { groups: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<K> Level<K> {
    /// Appends an entry to its group. A group that had none takes the last turn.
    fn push(&mut self, group_of: GroupOf<K>, entry: Entry<K>) {
        let group = group_of(&entry.key);
        if let Some(entries) = self.groups.get_mut(group) {
            return entries.push_back(entry);
        }
        let group: Arc<str> = group.into();
        self.turns.push_back(Arc::clone(&group));
        self.groups.insert(group, VecDeque::from([entry]));
    }

    /// The first entry of the group whose turn it is.
    fn front(&self) -> Option<&Entry<K>> {
        self.groups.get(self.turns.front()?)?.front()
    }

    /// Removes the [front](Self::front), and ends the turn of its group.
    fn pop_front(&mut self) -> Option<Entry<K>> {
        let groups = self.turns.len();
        let entry = self.remove_front();
        if self.turns.len() == groups && groups > 1 {
            self.turns.rotate_left(1);
        }
        entry
    }

    /// Removes the [front](Self::front). The turn stays with its group as long as that has entries.
    fn remove_front(&mut self) -> Option<Entry<K>> {
        let group = self.turns.front()?;
        let entries = self.groups.get_mut(group)?;
        let entry = entries.pop_front();
        if entries.is_empty() {
            self.groups.remove(group);
            self.turns.pop_front();
        }
        entry
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
    fn the_highest_priority_is_first_and_equals_keep_their_order() {
        let mut queue = PriorityQueue::new(AGING, |_| "");
        for (key, priority) in [("a", 0), ("b", -1), ("c", 1), ("d", 0)] {
            queue.push(key, Priority(priority), at(0));
        }
        let order: Vec<_> =
            std::iter::from_fn(|| queue.pop(at(1), |_, _| true)).map(|(key, _)| key).collect();
        assert_eq!(order, ["c", "a", "d", "b"]);
    }

    #[test]
    fn a_thousand_resyncs_do_not_delay_an_event() {
        let mut queue = PriorityQueue::new(AGING, |_| "");
        for key in 0..1000 {
            queue.push(key, Priority::LOW, at(0));
        }
        queue.push(1000, Priority::NORMAL, at(5));
        assert_eq!(queue.pop(at(5), |_, _| true).unwrap().0, 1000);
    }

    #[test]
    fn a_stream_of_events_does_not_delay_a_resync_for_ever() {
        let mut queue = PriorityQueue::new(AGING, |_| "");
        queue.push(u64::MAX, Priority::LOW, at(0));
        let handed_out_at = (0..100).find(|second| {
            queue.push(*second, Priority::NORMAL, at(*second));
            queue.pop(at(*second), |_, _| true).unwrap().0 == u64::MAX
        });
        assert_eq!(handed_out_at, Some(10));
    }

    #[test]
    fn a_key_whose_priority_rises_waits_only_once() {
        let mut queue = PriorityQueue::new(AGING, |_| "");
        queue.push("a", Priority::LOW, at(0));
        queue.push("b", Priority::NORMAL, at(0));
        let ticket = queue.push_again("a", Priority::HIGH, at(0));
        let mut pop = || queue.pop(at(0), |key, held| *key != "a" || held == ticket);
        assert_eq!(pop().unwrap().0, "a");
        assert_eq!(pop().unwrap().0, "b");
        assert!(pop().is_none());
        assert_eq!((queue.len(), queue.stale), (0, 0));
    }

    #[test]
    fn the_keys_of_many_groups_leave_in_turns() {
        let mut queue = PriorityQueue::new(AGING, |key: &&str| &key[..1]);
        for key in ["a1", "a2", "a3", "b1", "a4", "c1", "b2"] {
            queue.push(key, Priority::NORMAL, at(0));
        }
        let mut pop = |count| -> Vec<_> {
            (0..count).map_while(|_| queue.pop(at(0), |_, _| true)).map(|(key, _)| key).collect()
        };
        assert_eq!(pop(4), ["a1", "b1", "c1", "a2"]);
        assert_eq!(pop(9), ["b2", "a3", "a4"]);
        assert!(queue.levels.values().all(|it| it.groups.is_empty() && it.turns.is_empty()));
    }

    #[test]
    fn a_stale_entry_does_not_cost_its_group_a_turn() {
        let mut queue = PriorityQueue::new(AGING, |key: &&str| &key[..1]);
        for key in ["a1", "b1", "a2", "b2", "a3"] {
            queue.push(key, Priority::NORMAL, at(0));
        }
        let raised = queue.push_again("b1", Priority::HIGH, at(0));
        let mut pop = || queue.pop(at(0), |key, held| *key != "b1" || held == raised).unwrap().0;
        let order = [pop(), pop(), pop(), pop(), pop()];
        assert_eq!(order, ["b1", "a1", "b2", "a2", "a3"]);
    }
}
