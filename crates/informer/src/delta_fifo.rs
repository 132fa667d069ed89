//! [`DeltaFifo`]: what the Reflector saw, waiting for the Informer to act on it.
//!
//! One entry per object, holding everything that happened to it since it was last popped; entries
//! leave in the order in which their object first changed.
//!
//! ```text
//! add(a) add(b) update(a)      queue: a b      a → [Added, Updated]   b → [Added]
//! pop()  = a, [Added, Updated] queue: b        one call, the whole story of `a`
//! ```
//!
//! Invariants:
//! - a key is in `order` exactly once if and only if `stories` holds a non-empty list for it;
//! - two deletions of one object never follow each other: the one that was watched stays, or else
//!   the later one;
//! - a story that grows past [`LONGEST_STORY`] keeps only the last of its updates;
//! - all that has happened up to `reached` is in the indexer or waits here.
//!
//! Whoever puts something in also has the Informer act on all that waits, at the latest before it
//! waits itself. So what comes in a burst is acted on together, and there is never more in here than
//! a list, which goes in whole, or [`LARGEST_BURST`] events.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    Indexer, Item, ObjectKey, event_handler::HandlerId, item::version_number, own_writes::Listing,
};

/// So many deltas are put in at most before they are acted on, but for those of a list.
pub(crate) const LARGEST_BURST: usize = 256;
/// The length from which on updates of one object are merged.
pub(crate) const LONGEST_STORY: usize = 16;

/// Something that happened to an object, with its state thereafter.
#[derive(Debug, Clone)]
pub(crate) enum Delta {
    Added(Item),
    Updated(Item),
    /// The watch has shown the end and the last state.
    Deleted(Item),
    /// A list shows this state; whether it is new, the indexer knows.
    Replaced(Item, Listing),
    /// A list does not show the object any more, so its end was missed. This is the last state
    /// that was seen, not the last one there was.
    Missed(Item, Listing),
    /// Nothing happened; this handler wants to look at all objects again.
    Sync(Item, HandlerId),
}

impl Delta {
    fn item(&self) -> &Item {
        match self {
            Self::Added(item)
            | Self::Updated(item)
            | Self::Deleted(item)
            | Self::Replaced(item, _)
            | Self::Missed(item, _)
            | Self::Sync(item, _) => item,
        }
    }

    fn is_end(&self) -> bool {
        matches!(self, Self::Deleted(_) | Self::Missed(..))
    }
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct DeltaFifo {
    /// Locked before the indexer.
    queue: Mutex<Queue>,
}

/// What waits, as it is while the lock is held.
#[derive(Default)]
pub(crate) struct Queue {
    order: VecDeque<ObjectKey>,
    stories: HashMap<ObjectKey, Vec<Delta>>,
    /// All deltas of all stories.
    length: usize,
    /// How many stories are left to pop until the first list was; None before that list.
    initial: Option<usize>,
    /// The last resourceVersion that was put in, if it is a number.
    reached: Option<u64>,
}

impl DeltaFifo {
    /// Appends what a watch has shown. True if it is time to act on what waits.
    pub(crate) fn push(&self, delta: Delta) -> bool {
        let mut queue = self.lock();
        queue.reach(delta.item().resource_version());
        queue.push(delta);
        queue.length >= LARGEST_BURST
    }

    /// Notes that nothing has happened up to `version` but what was put in.
    pub(crate) fn reach(&self, version: &str) {
        self.lock().reach(version);
    }

    /// Lets `act` act before anything else is put in or taken out.
    pub(crate) fn hold<T>(&self, act: impl FnOnce(&Queue) -> T) -> T {
        act(&self.lock())
    }

    /// Appends a resync of `item`, unless something that this handler will be told waits already.
    pub(crate) fn sync(&self, item: Item, handler: HandlerId) {
        let mut queue = self.lock();
        let story = queue.stories.get(item.key());
        let is_told = |delta: &Delta| !matches!(delta, Delta::Sync(_, other) if *other != handler);
        if !story.is_some_and(|story| story.iter().any(is_told)) {
            queue.push(Delta::Sync(item, handler));
        }
    }

    /// Appends a whole list, and the end of everything that is known and not in it.
    pub(crate) fn replace(&self, items: Vec<Item>, listing: Listing, indexer: &Indexer) {
        let mut queue = self.lock();
        queue.reached = listing.version.or(queue.reached);
        let missed = queue.missed(&items, indexer.list());
        for item in items {
            queue.push(Delta::Replaced(item, listing));
        }
        // Whatever waits now leaves before anything that comes later.
        let listed = queue.order.len();
        queue.initial.get_or_insert(listed);
        for item in missed {
            queue.push(Delta::Missed(item, listing));
        }
        indexer.settle_writes(listing, |key| queue.stories.contains_key(key));
    }

    /// Takes the oldest story and lets `act` act on it before anything else can be put in: what is
    /// neither queued nor in the indexer is nowhere. False if there is no story.
    pub(crate) fn pop(&self, act: impl FnOnce(Vec<Delta>)) -> bool {
        let mut queue = self.lock();
        let Some(key) = queue.order.pop_front() else { return false };
        let story = queue.stories.remove(&key).expect("a queued key has deltas");
        queue.length -= story.len();
        act(story);
        if let Some(initial) = &mut queue.initial {
            *initial = initial.saturating_sub(1);
        }
        true
    }

    /// Whether all of the first list was popped.
    pub(crate) fn has_synced(&self) -> bool {
        self.lock().initial == Some(0)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// How far the watch has got.
    pub(crate) fn reached(&self) -> Option<u64> {
        self.reached
    }

    /// Whether there is news of this object that was not popped.
    pub(crate) fn tells_of(&self, key: &ObjectKey) -> bool {
        self.stories.contains_key(key)
    }

    /// Whether all news up to this state of an object was put in and popped.
    pub(crate) fn has_passed(&self, item: &Item) -> bool {
        let version = version_number(item.resource_version());
        let is_reached = version.zip(self.reached).is_some_and(|(own, reached)| own <= reached);
        is_reached && !self.tells_of(item.key())
    }

    fn reach(&mut self, version: &str) {
        self.reached = version_number(version).or(self.reached);
    }

    /// The last states of what is cached, or waits and has not ended, and is not in `list`; by
    /// their keys.
    fn missed(&self, list: &[Item], cached: Vec<Item>) -> Vec<Item> {
        if cached.is_empty() && self.stories.is_empty() {
            return Vec::new();
        }
        let listed: HashSet<&ObjectKey> = list.iter().map(Item::key).collect();
        let cached = cached.into_iter().map(|item| (item.key().clone(), item));
        let mut missed: BTreeMap<ObjectKey, Item> =
            cached.filter(|(key, _)| !listed.contains(key)).collect();
        for (key, story) in self.stories.iter().filter(|(key, _)| !listed.contains(key)) {
            let last = story.last().expect("a queued key has deltas");
            // A newer state than the indexer's, or none that anybody needs to be told of.
            if last.is_end() {
                missed.remove(key);
            } else {
                missed.insert(key.clone(), last.item().clone());
            }
        }
        missed.into_values().collect()
    }

    fn push(&mut self, delta: Delta) {
        let key = delta.item().key();
        let Some(story) = self.stories.get_mut(key) else {
            self.order.push_back(key.clone());
            self.stories.insert(key.clone(), vec![delta]);
            self.length += 1;
            return;
        };
        let last = story.last_mut().expect("a queued key has deltas");
        if last.is_end() && delta.is_end() {
            // What a list did not show says less than what the watch has shown.
            if !matches!((&*last, &delta), (Delta::Deleted(_), Delta::Missed(..))) {
                *last = delta;
            }
            return;
        }
        if story.len() >= LONGEST_STORY
            && let (Some(Delta::Updated(last)), Delta::Updated(item)) = (story.last_mut(), &delta)
        {
            *last = item.clone();
            return;
        }
        story.push(delta);
        self.length += 1;
    }
}

#[cfg(test)]
mod tests;
