//! The conditions in a CRD's status.

use machinery::fields::{list, list_mut, text, top};
use machinery::{Map, Object, Value, json};

/// One condition without its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Condition<'a> {
    fn of(value: &'a Value) -> Self {
        Self {
            kind: text(value, "type"),
            status: text(value, "status"),
            reason: text(value, "reason"),
            message: text(value, "message"),
        }
    }
}

/// The condition of a type, if it exists.
pub(super) fn find<'a>(status: &'a Value, kind: &str) -> Option<Condition<'a>> {
    list(status, "conditions").iter().map(Condition::of).find(|it| it.kind == kind)
}

/// Whether the CRD's kind is served.
pub fn is_established(crd: &Object) -> bool {
    is_true(crd, "Established")
}

/// Whether the custom resources of the CRD are being deleted.
pub fn is_terminating(crd: &Object) -> bool {
    is_true(crd, "Terminating")
}

fn is_true(crd: &Object, kind: &str) -> bool {
    find(top(crd, "status"), kind).is_some_and(|it| it.status == "True")
}

/// Sets a condition; its time is that of the last change of its status.
pub(super) fn set_condition(status: &mut Map<String, Value>, condition: &Condition<'_>, now: &str) {
    let conditions = list_mut(status, "conditions");
    let old = conditions.iter().position(|it| text(it, "type") == condition.kind);
    let since = old
        .map(|at| &conditions[at])
        .filter(|it| text(it, "status") == condition.status)
        .map(|it| text(it, "lastTransitionTime"))
        .filter(|time| !time.is_empty())
        .unwrap_or(now);
    let value = json!({
        "type": condition.kind,
        "status": condition.status,
        "lastTransitionTime": since,
        "reason": condition.reason,
        "message": condition.message,
    });
    match old {
        Some(at) => conditions[at] = value,
        None => conditions.push(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_changes_with_its_status_only() {
        let mut status = Map::new();
        let on = |reason| Condition { kind: "A", status: "True", reason, message: "" };
        set_condition(&mut status, &on("First"), "1");
        set_condition(&mut status, &on("Second"), "2");
        assert_eq!(
            (&status["conditions"][0]["lastTransitionTime"], &status["conditions"][0]["reason"]),
            (&json!("1"), &json!("Second"))
        );
        set_condition(&mut status, &Condition { status: "False", ..on("Third") }, "3");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "3");
        assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1));
    }
}
