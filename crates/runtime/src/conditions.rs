//! Conditions of a status: what is the case, why, and since when.
//!
//! ```
//! use keel::{Clock, Timestamp};
//! use runtime::conditions::{self, NewCondition, ConditionStatus};
//!
//! let clock = Clock::manual(Timestamp::from_seconds(1_000));
//! let mut all = Vec::new();
//! let ready = NewCondition::new("Ready", ConditionStatus::False, "Starting").message("1 of 3 pods");
//! assert!(conditions::set(&mut all, ready.clone(), Some(1), &clock));
//! assert!(!conditions::set(&mut all, ready, Some(1), &clock)); // nothing to write
//! assert!(!conditions::is_true(&all, "Ready"));
//! assert_eq!(conditions::find(&all, "Ready").unwrap().message, "1 of 3 pods");
//! assert!(conditions::remove(&mut all, "Ready"));
//! ```
//!
//! Who found something out while the object changed says of which generation that is true; then it
//! does not take back what was found out since:
//!
//! ```
//! # use keel::{Clock, Timestamp};
//! # use runtime::conditions::{self, NewCondition};
//! # let (clock, mut all) = (Clock::manual(Timestamp::from_seconds(1_000)), Vec::new());
//! conditions::set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
//! let late = NewCondition::new("Ready", false, "Down").observed(4);
//! assert!(!conditions::set(&mut all, late, Some(5), &clock));
//! ```

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff,
};
use keel::Clock;

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not.
    False,
    /// Nobody can tell.
    Unknown,
}

impl ConditionStatus {
    /// As the wire has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(truth: bool) -> Self {
        if truth { Self::True } else { Self::False }
    }
}

/// What is to be said; the times are [`set`]'s business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCondition {
    /// What it is about, such as `Ready`.
    pub type_: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Why, for programs, such as `Starting`.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Of which generation of the object it is true; None for that of the object as it is.
    pub observed_generation: Option<i64>,
}

impl NewCondition {
    /// One without a message, about the object as it is.
    pub fn new(type_: &str, status: impl Into<ConditionStatus>, reason: &str) -> Self {
        let (type_, reason) = (type_.to_owned(), reason.to_owned());
        let (status, message) = (status.into(), String::new());
        Self { type_, status, reason, message, observed_generation: None }
    }

    /// The same with a message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same about a generation that may not be the last one.
    #[must_use]
    pub fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }
}

/// Says `new` among `conditions`; whether that changed anything, so that a status is written only
/// when there is news. The time of transition moves only with the status, as everybody who waits
/// "for ten minutes" relies on.
///
/// `generation` is that of the object that has these conditions. What was said about a later one
/// is left from another life of the object, which was restored since, and does not count.
pub fn set(
    conditions: &mut Vec<Condition>,
    new: NewCondition,
    generation: Option<i64>,
    clock: &Clock,
) -> bool {
    let observed_generation = new.observed_generation.or(generation);
    let status = new.status.as_str();
    let Some(present) = conditions.iter_mut().find(|it| it.type_ == new.type_) else {
        conditions.push(Condition {
            last_transition_time: now(clock),
            message: new.message,
            observed_generation,
            reason: new.reason,
            status: status.to_owned(),
            type_: new.type_,
        });
        return true;
    };
    // A controller with an old view of the object must not take back what a newer one said.
    if let (Some(observed), Some(known)) = (observed_generation, present.observed_generation)
        && observed < known
        && generation.is_none_or(|generation| known <= generation)
    {
        return false;
    }
    let before = present.clone();
    if present.status != status {
        status.clone_into(&mut present.status);
        present.last_transition_time = now(clock);
    }
    present.reason = new.reason;
    present.message = new.message;
    present.observed_generation = observed_generation;
    *present != before
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

/// Whether there is a condition of this type that is true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|it| it.status == ConditionStatus::True.as_str())
}

/// Takes a condition away; whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|it| it.type_ != type_);
    conditions.len() < before
}

/// The time as the API has it: whole seconds.
fn now(clock: &Clock) -> Time {
    Time(jiff::Timestamp::from_second(clock.now().seconds()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;
    use std::time::Duration;

    #[test]
    fn the_time_of_transition_moves_with_the_status_only() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut all = Vec::new();
        assert!(set(&mut all, NewCondition::new("Ready", false, "Starting"), Some(1), &clock));
        clock.advance(Duration::from_secs(10));
        let waiting = NewCondition::new("Ready", false, "Waiting").message("for a volume");
        assert!(set(&mut all, waiting, Some(2), &clock));
        assert_eq!(all[0].last_transition_time.0.as_second(), 100);
        assert_eq!((all[0].reason.as_str(), all[0].observed_generation), ("Waiting", Some(2)));
        assert!(set(&mut all, NewCondition::new("Ready", true, "Up"), Some(2), &clock));
        assert_eq!(all[0].last_transition_time.0.as_second(), 110);
        assert!(is_true(&all, "Ready"));
        assert!(remove(&mut all, "Ready") && !remove(&mut all, "Ready"));
    }

    #[test]
    fn an_old_view_does_not_overwrite_a_newer_one() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut all = Vec::new();
        set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
        let old = NewCondition::new("Ready", false, "Down").observed(4);
        assert!(!set(&mut all, old.clone(), Some(5), &clock));
        assert!(!set(&mut all, old, None, &clock));
        assert!(is_true(&all, "Ready"));
    }

    #[test]
    fn what_was_said_in_another_life_of_the_object_does_not_freeze_it() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut all = Vec::new();
        set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
        assert!(set(&mut all, NewCondition::new("Ready", false, "Restored"), Some(1), &clock));
        assert_eq!((all[0].reason.as_str(), all[0].observed_generation), ("Restored", Some(1)));
    }

    #[test]
    fn an_object_without_a_generation_is_told_about_all_the_same() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut all = Vec::new();
        set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
        assert!(set(&mut all, NewCondition::new("Ready", false, "Down"), None, &clock));
        assert!(!is_true(&all, "Ready"));
    }
}
