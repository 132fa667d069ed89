//! Validation of the counters in the status of workloads: none may be negative, and none may be
//! greater than the counter of which it is a part.

use crate::validation::rules::at_least_zero;
use machinery::fields::{integer, number};
use machinery::{ErrorList, Path, Value};

static STATUS: Path<'static> = Path::root("status");

/// None of these counters may be negative.
pub(crate) fn not_negative(errors: &mut ErrorList, status: &Value, fields: &[&str]) {
    for field in fields {
        if let Some(count) = integer(status, field) {
            at_least_zero(errors, &STATUS.child(field), count);
        }
    }
}

/// None of these counters may be greater than `replicas`.
pub(crate) fn at_most_replicas(errors: &mut ErrorList, status: &Value, fields: &[&str]) {
    at_most(errors, status, fields, "replicas", "cannot be greater than status.replicas");
}

/// The available replicas may not be more than the ready ones; the messages differ by kind.
pub(crate) fn available_are_ready(errors: &mut ErrorList, status: &Value, message: &str) {
    at_most(errors, status, &["availableReplicas"], "readyReplicas", message);
}

fn at_most(errors: &mut ErrorList, status: &Value, fields: &[&str], whole: &str, message: &str) {
    for field in fields {
        let count = number(status, field);
        if count > number(status, whole) {
            errors.invalid(&STATUS.child(field), count, message);
        }
    }
}

/// The collision count must never decrease, since it makes the names of dependents unique.
pub(crate) fn collisions_only_grow(errors: &mut ErrorList, new: &Value, old: &Value) {
    const FIELD: &str = "collisionCount";
    let is_less = match (integer(new, FIELD), integer(old, FIELD)) {
        (Some(new), Some(old)) => new < old,
        (None, old) => old.is_some(),
        (Some(_), None) => false,
    };
    if is_less {
        errors.invalid(&STATUS.child(FIELD), number(new, FIELD), "cannot be decremented");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    #[test]
    fn negative_counters_and_more_ready_replicas_than_replicas_are_refused() {
        let mut errors = ErrorList::new();
        let status = json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": -3});
        not_negative(&mut errors, &status, &["replicas", "availableReplicas"]);
        at_most_replicas(&mut errors, &status, &["readyReplicas", "availableReplicas"]);
        assert_eq!(
            lines(&errors),
            [
                "status.availableReplicas: Invalid value: -3: must be greater than or equal to 0",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ]
        );
    }

    #[test]
    fn the_collision_count_may_not_decrease() {
        let check = |new: Value, old: Value| {
            let mut errors = ErrorList::new();
            collisions_only_grow(&mut errors, &new, &old);
            errors.len()
        };
        assert_eq!(check(json!({"collisionCount": 2}), json!({"collisionCount": 1})), 0);
        assert_eq!(check(json!({}), json!({})), 0);
        assert_eq!(check(json!({}), json!({"collisionCount": 1})), 1);
        assert_eq!(check(json!({"collisionCount": 0}), json!({"collisionCount": 1})), 1);
    }
}
