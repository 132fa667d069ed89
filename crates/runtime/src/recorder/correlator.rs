//! [`Correlator`]: which events are worth a write, as client-go has it.
//!
//! ```text
//! the same event again                     one object, its count goes up
//! like it, but for the message             from the tenth on within ten minutes: one object, whose
//!                                          message is "(combined from similar events): " and the latest
//! more than 25 about one object            spam: one more write every five minutes
//! ```
//!
//! What is not written is counted all the same, so the next write tells how often it has happened.
//!
//! ```
//! use keel::Timestamp;
//! use runtime::recorder::{Severity, correlator::{Correlator, Decision, News}};
//!
//! let mut correlator = Correlator::default();
//! let news = News {
//!     regarding: Default::default(),
//!     severity: Severity::Normal,
//!     reason: "Made".to_owned(),
//!     message: "the bucket is there".to_owned(),
//!     at: Timestamp::from_seconds(0),
//! };
//! let Decision::New { key, first, .. } = correlator.decide(&news) else { panic!("it is new") };
//! correlator.was_created(&key, "bucket.1".to_owned(), first);
//! assert!(matches!(correlator.decide(&news), Decision::Again { count: 2, .. }));
//! ```
//!
//! Upstream: client-go `tools/record/events_cache.go`.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use keel::Timestamp;

use super::Severity;

/// Similar events are told apart up to this many.
const APART: usize = 10;
/// Events are similar if they follow each other this closely.
const TOGETHER: Duration = Duration::from_mins(10);
/// About one object, at once.
const BURST: u32 = 25;
/// About one object, one more for each of these.
const REFILL: Duration = Duration::from_mins(5);
/// How many objects and events are remembered; the one not heard of for longest is forgotten.
const MEMORY: usize = 4096;

/// Something to be told.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// About what.
    pub regarding: ObjectReference,
    /// Whether somebody should worry.
    pub severity: Severity,
    /// For programs.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// What to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// An event of its own.
    New {
        /// What [`Correlator::was_created`] is to be told.
        key: String,
        /// To be shown.
        message: String,
        /// How often it has happened: more than once if it could not be written before.
        count: i32,
        /// When it happened first.
        first: Timestamp,
    },
    /// One more of an event that was written.
    Again {
        /// As for a new one.
        key: String,
        /// Of the event.
        name: String,
        /// So often.
        count: i32,
        /// When it happened first.
        first: Timestamp,
        /// To be shown.
        message: String,
    },
    /// Too much: counted, and not worth a write.
    Spam,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Correlator {
    written: Recent<Written>,
    similar: Recent<Similar>,
    budgets: Recent<Budget>,
}

#[derive(Debug)]
struct Written {
    /// Empty until the event is on the server.
    name: String,
    count: i32,
    first: Timestamp,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Budget {
    left: u32,
    refilled: Timestamp,
}

impl Default for Correlator {
    fn default() -> Self {
        Self { written: Recent::new(), similar: Recent::new(), budgets: Recent::new() }
    }
}

impl Correlator {
    /// What to do with `news`. Upstream: combine, count, and only then drop.
    pub fn decide(&mut self, news: &News) -> Decision {
        let object = object_key(news);
        let kin = format!("{object}\n{}", news.reason);
        let (key, message) = if self.is_one_of_many(&kin, news) {
            (kin, format!("(combined from similar events): {}", news.message))
        } else {
            let field = news.regarding.field_path.as_deref().unwrap_or_default();
            (format!("{kin}\n{field}\n{}", news.message), news.message.clone())
        };
        let fresh = || Written { name: String::new(), count: 0, first: news.at };
        let written = self.written.entry(&key, fresh);
        written.count = written.count.saturating_add(1);
        let Written { name, count, first } = written;
        let (name, count, first) = (name.clone(), *count, *first);
        if !self.spend(&object, news.at) {
            return Decision::Spam;
        }
        if name.is_empty() {
            return Decision::New { key, message, count, first };
        }
        Decision::Again { key, name, count, first, message }
    }

    /// The event is on the server, by this name.
    pub fn was_created(&mut self, key: &str, name: String, first: Timestamp) {
        let fresh = || Written { name: String::new(), count: 1, first };
        self.written.entry(key, fresh).name = name;
    }

    fn spend(&mut self, object: &str, now: Timestamp) -> bool {
        let budget = self.budgets.entry(object, || Budget { left: BURST, refilled: now });
        let earned = now.since(budget.refilled).as_secs() / REFILL.as_secs();
        if earned > 0 {
            budget.left =
                BURST.min(budget.left.saturating_add(u32::try_from(earned).unwrap_or(BURST)));
            budget.refilled = budget.refilled + REFILL * u32::try_from(earned).unwrap_or(u32::MAX);
        }
        if budget.left == BURST {
            budget.refilled = now;
        }
        let allowed = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        allowed
    }

    fn is_one_of_many(&mut self, kin: &str, news: &News) -> bool {
        let fresh = || Similar { messages: BTreeSet::new(), last: news.at };
        let similar = self.similar.entry(kin, fresh);
        if news.at.since(similar.last) > TOGETHER {
            similar.messages.clear();
        }
        similar.last = news.at;
        if similar.messages.len() < APART {
            similar.messages.insert(news.message.clone());
        }
        similar.messages.len() >= APART
    }
}

/// What is counted together whatever its reason.
fn object_key(news: &News) -> String {
    let it = &news.regarding;
    let parts = [&it.api_version, &it.kind, &it.namespace, &it.name, &it.uid];
    let parts: Vec<&str> = parts.iter().map(|it| it.as_deref().unwrap_or_default()).collect();
    format!("{}\n{}", parts.join("\n"), news.severity.as_str())
}

/// A map that forgets what was not asked for longest.
#[derive(Debug)]
struct Recent<V> {
    entries: HashMap<String, (u64, V)>,
    asked: u64,
}

impl<V> Recent<V> {
    fn new() -> Self {
        Self { entries: HashMap::new(), asked: 0 }
    }

    fn entry(&mut self, key: &str, make: impl FnOnce() -> V) -> &mut V {
        self.asked += 1;
        if self.entries.len() >= MEMORY && !self.entries.contains_key(key) {
            self.forget_half();
        }
        let (asked, value) = self.entries.entry(key.to_owned()).or_insert_with(|| (0, make()));
        *asked = self.asked;
        value
    }

    /// Half at once, so that a full memory does not cost a search per event.
    fn forget_half(&mut self) {
        let mut ages: Vec<u64> = self.entries.values().map(|(asked, _)| *asked).collect();
        ages.sort_unstable();
        let median = ages[ages.len() / 2];
        self.entries.retain(|_, (asked, _)| *asked > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(object: &str, reason: &str, message: &str, at: i64) -> News {
        News {
            regarding: ObjectReference { name: Some(object.to_owned()), ..Default::default() },
            severity: Severity::Normal,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: Timestamp::from_seconds(at),
        }
    }

    /// Decides, and writes what is new under the name `event`.
    fn tell(correlator: &mut Correlator, news: &News) -> String {
        match correlator.decide(news) {
            Decision::New { key, message, count, first } => {
                correlator.was_created(&key, "event".to_owned(), first);
                if count > 1 { format!("new x{count} {message}") } else { format!("new {message}") }
            }
            Decision::Again { count, message, .. } => format!("x{count} {message}"),
            Decision::Spam => "spam".to_owned(),
        }
    }

    #[test]
    fn the_same_event_is_counted() {
        let mut correlator = Correlator::default();
        assert_eq!(tell(&mut correlator, &news("a", "Up", "it is up", 0)), "new it is up");
        assert_eq!(tell(&mut correlator, &news("a", "Up", "it is up", 1)), "x2 it is up");
        assert_eq!(tell(&mut correlator, &news("a", "Up", "it is up", 2)), "x3 it is up");
        assert_eq!(tell(&mut correlator, &news("b", "Up", "it is up", 3)), "new it is up");
        assert_eq!(tell(&mut correlator, &news("a", "Down", "it is up", 4)), "new it is up");
    }

    #[test]
    fn an_event_that_could_not_be_written_is_written_the_next_time_with_its_count() {
        let mut correlator = Correlator::default();
        let first = news("a", "Up", "it is up", 0);
        assert!(matches!(correlator.decide(&first), Decision::New { count: 1, .. }));
        let second = correlator.decide(&news("a", "Up", "it is up", 9));
        let Decision::New { count, first, .. } = second else { panic!("{second:?}") };
        assert_eq!((count, first), (2, Timestamp::from_seconds(0)));
    }

    #[test]
    fn similar_events_are_combined_from_the_tenth_on() {
        let mut correlator = Correlator::default();
        for n in 0..9 {
            let told = tell(&mut correlator, &news("a", "Pull", &format!("try {n}"), n));
            assert_eq!(told, format!("new try {n}"));
        }
        let combined = "(combined from similar events)";
        let told = tell(&mut correlator, &news("a", "Pull", "try 9", 9));
        assert_eq!(told, format!("new {combined}: try 9"));
        let told = tell(&mut correlator, &news("a", "Pull", "try 10", 10));
        assert_eq!(told, format!("x2 {combined}: try 10"));
        let told = tell(&mut correlator, &news("a", "Pull", "try 11", 10 + 601));
        assert_eq!(told, "new try 11", "after ten quiet minutes");
    }

    #[test]
    fn one_object_does_not_fill_the_server() {
        let mut correlator = Correlator::default();
        let told: Vec<String> =
            (0..30).map(|_| tell(&mut correlator, &news("a", "Up", "up", 0))).collect();
        assert_eq!(told.iter().filter(|it| *it != "spam").count(), 25);
        assert_eq!(tell(&mut correlator, &news("b", "Up", "up", 0)), "new up");
        assert_eq!(tell(&mut correlator, &news("a", "Up", "up", 299)), "spam");
        assert_eq!(tell(&mut correlator, &news("a", "Up", "up", 300)), "x32 up");
        assert_eq!(tell(&mut correlator, &news("a", "Up", "up", 301)), "spam");
    }

    #[test]
    fn what_is_not_written_is_counted() {
        let mut correlator = Correlator::default();
        let told: Vec<String> =
            (0..3600).map(|at| tell(&mut correlator, &news("a", "Up", "up", at))).collect();
        assert_eq!(told.iter().filter(|it| *it != "spam").count(), 25 + 11);
        assert_eq!(tell(&mut correlator, &news("a", "Up", "up", 3600)), "x3601 up");
        assert_eq!(tell(&mut correlator, &news("a", "Down", "down", 3601)), "spam");
        assert_eq!(tell(&mut correlator, &news("a", "Down", "down", 3900)), "new x2 down");
    }

    #[test]
    fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        for n in 0..3 * MEMORY {
            tell(&mut correlator, &news(&n.to_string(), "Up", "up", 0));
        }
        assert!(correlator.written.entries.len() <= MEMORY);
        let last = (3 * MEMORY - 1).to_string();
        assert_eq!(tell(&mut correlator, &news(&last, "Up", "up", 0)), "x2 up");
    }
}
