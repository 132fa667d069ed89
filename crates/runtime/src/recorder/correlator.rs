//! [`Correlator`]: aggregates and filters events, as client-go does.
//!
//! ```text
//! the same event again                     one object, its count goes up
//! an event with another message            from the tenth on within ten minutes: one object, whose
//!                                          message is "(combined from similar events): " and the latest
//! more than 25 about one object            spam: one more write every five minutes
//! ```
//!
//! Events that are not written are counted, so that the next write has the number of occurrences.
//!
//! ```
//! use keel::Timestamp;
//! use runtime::recorder::{EventType, correlator::{Correlator, Decision, NewEvent}};
//!
//! let mut correlator = Correlator::default();
//! let new_event = NewEvent {
//!     regarding: Default::default(),
//!     event_type: EventType::Normal,
//!     reason: "Made".to_owned(),
//!     message: "the bucket is there".to_owned(),
//!     at: Timestamp::from_seconds(0),
//!     host: String::new(),
//! };
//! let Decision::Create { key, first, .. } = correlator.decide(&new_event) else { panic!("not a new event") };
//! correlator.was_created(&key, "bucket.1".to_owned(), first);
//! assert!(matches!(correlator.decide(&new_event), Decision::Update { count: 2, .. }));
//! ```
//!
//! Upstream: client-go `tools/record/events_cache.go`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;

use super::EventType;
use keel::Timestamp;

/// From this number of similar events on, they are aggregated.
const AGGREGATE_MAX_EVENTS: usize = 10;
/// Similar events are aggregated within this time.
const AGGREGATE_INTERVAL: Duration = Duration::from_mins(10);
/// The number of events about one object that may be written without a pause.
const SPAM_BURST: u32 = 25;
/// The time after which one more event about an object is written.
const SPAM_REFILL_INTERVAL: Duration = Duration::from_mins(5);
/// The number of remembered objects and events; those not used for the longest time are removed.
const MAX_CACHE_ENTRIES: usize = 4096;

/// An event to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// The object.
    pub regarding: ObjectReference,
    /// The type.
    pub event_type: EventType,
    /// The reason, for programs.
    pub reason: String,
    /// The message, for people.
    pub message: String,
    /// The time.
    pub at: Timestamp,
    /// The node that reports it, or empty.
    pub host: String,
}

/// The decision about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Create an event.
    Create {
        /// The key for [`Correlator::was_created`].
        key: String,
        /// The message of the event.
        message: String,
        /// The number of occurrences; more than one if the event could not be written before.
        count: i32,
        /// The time of the first occurrence.
        first: Timestamp,
    },
    /// Update the count of an event that exists.
    Update {
        /// The key for [`Correlator::was_created`].
        key: String,
        /// The name of the event.
        name: String,
        /// The number of occurrences.
        count: i32,
        /// The time of the first occurrence.
        first: Timestamp,
        /// The message of the event.
        message: String,
    },
    /// Too many events: it is counted and not written.
    Spam,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Correlator {
    written: BoundedMap<WrittenEvent>,
    similar: BoundedMap<SimilarEvents>,
    budgets: BoundedMap<TokenBucket>,
}

#[derive(Debug)]
struct WrittenEvent {
    /// Empty until the event was created.
    name: String,
    count: i32,
    first: Timestamp,
}

#[derive(Debug)]
struct SimilarEvents {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct TokenBucket {
    left: u32,
    refilled: Timestamp,
}

impl Default for Correlator {
    fn default() -> Self {
        Self { written: BoundedMap::new(), similar: BoundedMap::new(), budgets: BoundedMap::new() }
    }
}

impl Correlator {
    /// Decides about `new_event`. Upstream: aggregate, count, and then filter.
    pub fn decide(&mut self, new_event: &NewEvent) -> Decision {
        let object = object_key(new_event);
        let aggregate_key = format!("{object}\n{}", new_event.reason);
        let (key, message) = if self.is_aggregated(&aggregate_key, new_event) {
            (aggregate_key, format!("(combined from similar events): {}", new_event.message))
        } else {
            let field = new_event.regarding.field_path.as_deref().unwrap_or_default();
            (format!("{aggregate_key}\n{field}\n{}", new_event.message), new_event.message.clone())
        };
        let fresh = || WrittenEvent { name: String::new(), count: 0, first: new_event.at };
        let written = self.written.entry(&key, fresh);
        written.count = written.count.saturating_add(1);
        let WrittenEvent { name, count, first } = written;
        let (name, count, first) = (name.clone(), *count, *first);
        if !self.take_token(&object, new_event.at) {
            return Decision::Spam;
        }
        if name.is_empty() {
            return Decision::Create { key, message, count, first };
        }
        Decision::Update { key, name, count, first, message }
    }

    /// The event was created with this name.
    pub fn was_created(&mut self, key: &str, name: String, first: Timestamp) {
        let fresh = || WrittenEvent { name: String::new(), count: 1, first };
        self.written.entry(key, fresh).name = name;
    }

    fn take_token(&mut self, object: &str, now: Timestamp) -> bool {
        let budget = self.budgets.entry(object, || TokenBucket { left: SPAM_BURST, refilled: now });
        let earned = now.since(budget.refilled).as_secs() / SPAM_REFILL_INTERVAL.as_secs();
        if earned > 0 {
            budget.left = SPAM_BURST
                .min(budget.left.saturating_add(u32::try_from(earned).unwrap_or(SPAM_BURST)));
            budget.refilled =
                budget.refilled + SPAM_REFILL_INTERVAL * u32::try_from(earned).unwrap_or(u32::MAX);
        }
        if budget.left == SPAM_BURST {
            budget.refilled = now;
        }
        let allowed = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        allowed
    }

    fn is_aggregated(&mut self, aggregate_key: &str, new_event: &NewEvent) -> bool {
        let fresh = || SimilarEvents { messages: BTreeSet::new(), last: new_event.at };
        let similar = self.similar.entry(aggregate_key, fresh);
        if new_event.at.since(similar.last) > AGGREGATE_INTERVAL {
            similar.messages.clear();
        }
        similar.last = new_event.at;
        if similar.messages.len() < AGGREGATE_MAX_EVENTS {
            similar.messages.insert(new_event.message.clone());
        }
        similar.messages.len() >= AGGREGATE_MAX_EVENTS
    }
}

/// The key of the object, for the rate limit.
fn object_key(new_event: &NewEvent) -> String {
    let it = &new_event.regarding;
    let parts = [&it.api_version, &it.kind, &it.namespace, &it.name, &it.uid];
    let parts: Vec<&str> = parts.iter().map(|it| it.as_deref().unwrap_or_default()).collect();
    format!("{}\n{}", parts.join("\n"), new_event.event_type.as_str())
}

/// A bounded map, from which the entries not used for the longest time are removed.
#[derive(Debug)]
struct BoundedMap<V> {
    /// With the number of uses of the map at the last use of the entry.
    entries: HashMap<String, (u64, V)>,
    /// The number of uses of the map.
    uses: u64,
}

impl<V> BoundedMap<V> {
    fn new() -> Self {
        Self { entries: HashMap::new(), uses: 0 }
    }

    fn entry(&mut self, key: &str, make: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if self.entries.len() >= MAX_CACHE_ENTRIES && !self.entries.contains_key(key) {
            self.remove_older_half();
        }
        let (last_use, value) = self.entries.entry(key.to_owned()).or_insert_with(|| (0, make()));
        *last_use = self.uses;
        value
    }

    /// Removes half of the entries at once, so that the search is rare.
    fn remove_older_half(&mut self) {
        let mut last_uses: Vec<u64> =
            self.entries.values().map(|(last_use, _)| *last_use).collect();
        last_uses.sort_unstable();
        let median = last_uses[last_uses.len() / 2];
        self.entries.retain(|_, (last_use, _)| *last_use > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_event(object: &str, reason: &str, message: &str, at: i64) -> NewEvent {
        NewEvent {
            regarding: ObjectReference { name: Some(object.to_owned()), ..Default::default() },
            event_type: EventType::Normal,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: Timestamp::from_seconds(at),
            host: String::new(),
        }
    }

    /// Decides, and marks a new event as created with the name `event`.
    fn process(correlator: &mut Correlator, new_event: &NewEvent) -> String {
        match correlator.decide(new_event) {
            Decision::Create { key, message, count, first } => {
                correlator.was_created(&key, "event".to_owned(), first);
                if count > 1 { format!("new x{count} {message}") } else { format!("new {message}") }
            }
            Decision::Update { count, message, .. } => format!("x{count} {message}"),
            Decision::Spam => "spam".to_owned(),
        }
    }

    #[test]
    fn the_same_event_is_counted() {
        let mut correlator = Correlator::default();
        assert_eq!(process(&mut correlator, &new_event("a", "Up", "it is up", 0)), "new it is up");
        assert_eq!(process(&mut correlator, &new_event("a", "Up", "it is up", 1)), "x2 it is up");
        assert_eq!(process(&mut correlator, &new_event("a", "Up", "it is up", 2)), "x3 it is up");
        assert_eq!(process(&mut correlator, &new_event("b", "Up", "it is up", 3)), "new it is up");
        assert_eq!(
            process(&mut correlator, &new_event("a", "Down", "it is up", 4)),
            "new it is up"
        );
    }

    #[test]
    fn an_event_that_failed_is_written_later_with_its_count() {
        let mut correlator = Correlator::default();
        let first = new_event("a", "Up", "it is up", 0);
        assert!(matches!(correlator.decide(&first), Decision::Create { count: 1, .. }));
        let second = correlator.decide(&new_event("a", "Up", "it is up", 9));
        let Decision::Create { count, first, .. } = second else { panic!("{second:?}") };
        assert_eq!((count, first), (2, Timestamp::from_seconds(0)));
    }

    #[test]
    fn similar_events_are_combined_from_the_tenth_on() {
        let mut correlator = Correlator::default();
        for n in 0..9 {
            let outcome = process(&mut correlator, &new_event("a", "Pull", &format!("try {n}"), n));
            assert_eq!(outcome, format!("new try {n}"));
        }
        let combined = "(combined from similar events)";
        let outcome = process(&mut correlator, &new_event("a", "Pull", "try 9", 9));
        assert_eq!(outcome, format!("new {combined}: try 9"));
        let outcome = process(&mut correlator, &new_event("a", "Pull", "try 10", 10));
        assert_eq!(outcome, format!("x2 {combined}: try 10"));
        let outcome = process(&mut correlator, &new_event("a", "Pull", "try 11", 10 + 601));
        assert_eq!(outcome, "new try 11", "after ten quiet minutes");
    }

    #[test]
    fn events_about_one_object_are_limited() {
        let mut correlator = Correlator::default();
        let outcome: Vec<String> =
            (0..30).map(|_| process(&mut correlator, &new_event("a", "Up", "up", 0))).collect();
        assert_eq!(outcome.iter().filter(|it| *it != "spam").count(), 25);
        assert_eq!(process(&mut correlator, &new_event("b", "Up", "up", 0)), "new up");
        assert_eq!(process(&mut correlator, &new_event("a", "Up", "up", 299)), "spam");
        assert_eq!(process(&mut correlator, &new_event("a", "Up", "up", 300)), "x32 up");
        assert_eq!(process(&mut correlator, &new_event("a", "Up", "up", 301)), "spam");
    }

    #[test]
    fn events_that_are_not_written_are_counted() {
        let mut correlator = Correlator::default();
        let outcome: Vec<String> =
            (0..3600).map(|at| process(&mut correlator, &new_event("a", "Up", "up", at))).collect();
        assert_eq!(outcome.iter().filter(|it| *it != "spam").count(), 25 + 11);
        assert_eq!(process(&mut correlator, &new_event("a", "Up", "up", 3600)), "x3601 up");
        assert_eq!(process(&mut correlator, &new_event("a", "Down", "down", 3601)), "spam");
        assert_eq!(process(&mut correlator, &new_event("a", "Down", "down", 3900)), "new x2 down");
    }

    #[test]
    fn the_number_of_remembered_events_is_bounded() {
        let mut correlator = Correlator::default();
        for n in 0..3 * MAX_CACHE_ENTRIES {
            process(&mut correlator, &new_event(&n.to_string(), "Up", "up", 0));
        }
        assert!(correlator.written.entries.len() <= MAX_CACHE_ENTRIES);
        let last = (3 * MAX_CACHE_ENTRIES - 1).to_string();
        assert_eq!(process(&mut correlator, &new_event(&last, "Up", "up", 0)), "x2 up");
    }
}
