//! Conditions of a status: type, status, reason, message and time of transition.
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
//! A condition may name the generation that was observed. A condition of an older generation does
//! not replace one of a newer generation:
//!
//! ```
//! # use keel::{Clock, Timestamp};
//! # use runtime::conditions::{self, NewCondition};
//! # let (clock, mut all) = (Clock::manual(Timestamp::from_seconds(1_000)), Vec::new());
//! conditions::set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
//! let late = NewCondition::new("Ready", false, "Down").observed(4);
//! assert!(!conditions::set(&mut all, late, Some(5), &clock));
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff;

use keel::Clock;

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// The status is unknown.
    Unknown,
}

impl ConditionStatus {
    /// The value in JSON.
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

/// A condition to be set; [`set`] adds the times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCondition {
    /// The type, such as `Ready`.
    pub type_: String,
    /// The status.
    pub status: ConditionStatus,
    /// The reason for programs, such as `Starting`.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The observed generation; `None` for the present generation of the object.
    pub observed_generation: Option<i64>,
}

impl NewCondition {
    /// A condition without a message, of the present generation.
    pub fn new(type_: &str, status: impl Into<ConditionStatus>, reason: &str) -> Self {
        let (type_, reason) = (type_.to_owned(), reason.to_owned());
        let (status, message) = (status.into(), String::new());
        Self { type_, status, reason, message, observed_generation: None }
    }

    /// Sets the message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the observed generation.
    #[must_use]
    pub fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }
}

/// Sets `new` in `conditions`; returns whether that changed a condition, so that the status need
/// not be written otherwise. The time of transition changes with the status only.
///
/// `generation` is that of the object. A condition of a later generation remains from before the
/// object was restored from a backup, and is replaced.
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
    // A controller with an old state of the object must not replace a newer condition.
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

/// Removes a condition; returns whether it existed.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|it| it.type_ != type_);
    conditions.len() < before
}

/// The present time in whole seconds, as in the API: for a condition or another time in a status.
///
/// ```
/// use keel::{Clock, Timestamp};
///
/// let clock = Clock::manual(Timestamp::from_seconds(1_000));
/// assert_eq!(runtime::conditions::now(&clock).0.as_second(), 1_000);
/// ```
pub fn now(clock: &Clock) -> Time {
    Time(jiff::Timestamp::from_second(clock.now().seconds()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use keel::Timestamp;

    #[test]
    fn the_time_of_transition_changes_with_the_status_only() {
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
    fn a_condition_of_an_older_generation_is_ignored() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut all = Vec::new();
        set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
        let old = NewCondition::new("Ready", false, "Down").observed(4);
        assert!(!set(&mut all, old.clone(), Some(5), &clock));
        assert!(!set(&mut all, old, None, &clock));
        assert!(is_true(&all, "Ready"));
    }

    #[test]
    fn a_condition_of_a_later_generation_is_replaced() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut all = Vec::new();
        set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
        assert!(set(&mut all, NewCondition::new("Ready", false, "Restored"), Some(1), &clock));
        assert_eq!((all[0].reason.as_str(), all[0].observed_generation), ("Restored", Some(1)));
    }

    #[test]
    fn a_condition_without_a_generation_replaces_one_with_a_generation() {
        let clock = Clock::manual(Timestamp::from_seconds(100));
        let mut all = Vec::new();
        set(&mut all, NewCondition::new("Ready", true, "Up"), Some(5), &clock);
        assert!(set(&mut all, NewCondition::new("Ready", false, "Down"), None, &clock));
        assert!(!is_true(&all, "Ready"));
    }
}
