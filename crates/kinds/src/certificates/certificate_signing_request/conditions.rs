//! The conditions of a request, and the subresources that may change them: `/approval` approves and
//! denies, `/status` sets the others.

use std::collections::HashSet;

use super::issued_certificate;
use crate::validation::rules::{required, supported_only};
use machinery::field_path::quote;
use machinery::fields::{keep, list, same, text, top};
use machinery::{ErrorList, Object, Path, Value};

/// The conditions that are final: they are true and cannot be removed.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];
/// The conditions that only `/approval` may set.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

fn of_type<'a>(object: &'a Object, kind: &str) -> Vec<&'a Value> {
    all(object).iter().filter(|it| text(it, "type") == kind).collect()
}

fn all(object: &Object) -> &[Value] {
    list(top(object, "status"), "conditions")
}

/// Prepares a change of `/status`, which leaves the decisions as they are.
pub(super) fn prepare_status(new: &mut Object, old: &Object) {
    keep(new, old, "spec");
    for kind in DECISIONS {
        let stored: Vec<Value> = of_type(old, kind).into_iter().cloned().collect();
        if stored.len() != of_type(new, kind).len() {
            continue;
        }
        let mut stored = stored.into_iter();
        for condition in conditions_mut(new).filter(|it| text(it, "type") == kind) {
            if let Some(stored) = stored.next() {
                *condition = stored;
            }
        }
    }
}

/// Prepares a change of `/approval`, which changes nothing but conditions.
pub(super) fn prepare_approval(new: &mut Object, old: &Object) {
    let conditions = all(new).to_vec();
    keep(new, old, "spec");
    keep(new, old, "status");
    if conditions.is_empty() {
        new.map_at(&["status"]).remove("conditions");
    } else {
        new.map_at(&["status"]).insert("conditions".to_owned(), conditions.into());
    }
}

/// Sets the missing times of conditions. The transition time of a condition that has the same status
/// as before is kept.
pub(super) fn set_times(new: &mut Object, old: &Object, now: &str) {
    let transition = |kind: &str, status: &str| {
        let mut same = all(old).iter().filter(|it| text(it, "type") == kind);
        same.find(|it| text(it, "status") == status && !text(it, "lastTransitionTime").is_empty())
            .map_or(now, |it| text(it, "lastTransitionTime"))
    };
    for condition in conditions_mut(new) {
        let since = transition(text(condition, "type"), text(condition, "status")).to_owned();
        let Some(condition) = condition.as_object_mut() else { continue };
        for (field, time) in [("lastUpdateTime", now), ("lastTransitionTime", &since)] {
            if condition.get(field).is_none_or(Value::is_null) {
                condition.insert(field.to_owned(), time.into());
            }
        }
    }
}

fn conditions_mut(object: &mut Object) -> impl Iterator<Item = &mut Value> {
    object.get_mut(&["status", "conditions"]).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Validates the conditions by themselves.
pub(super) fn validate(object: &Object, errors: &mut ErrorList) {
    let status = Path::root("status");
    let path = status.child("conditions");
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, condition) in all(object).iter().enumerate() {
        let kind = text(condition, "type");
        let type_path = path.index(index);
        let type_path = type_path.child("type");
        required(errors, &type_path, kind);
        let statuses: &[&str] =
            if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        let item = path.index(index);
        match text(condition, "status") {
            "" => errors.required(&item.child("status"), ""),
            value => supported_only(errors, &item.child("status"), value, statuses),
        }
        let other = DECISIONS.iter().find(|it| **it != kind);
        if DECISIONS.contains(&kind) && other.is_some_and(|other| seen.contains(other)) {
            let message = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&path, kind, message);
        }
        if seen.contains(&kind) {
            errors.duplicate(&type_path, kind);
        }
        seen.insert(kind);
    }
}

/// Validates a change of the object itself, which must not change decisions or the certificate.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_change(new, old, errors);
    validate_same_decisions(new, old, errors);
    if certificate(new) != certificate(old) {
        let message = "updates may not set certificate content";
        errors.forbidden(&Path::root("status").child("certificate"), message);
    }
}

/// Validates a change of `/status`: the certificate may be set once.
pub(super) fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_change(new, old, errors);
    validate_same_decisions(new, old, errors);
    if certificate(new) != certificate(old) && !certificate(old).is_empty() {
        let message = "updates may not modify existing certificate content";
        errors.forbidden(&Path::root("status").child("certificate"), message);
    }
}

/// Validates a change of `/approval`.
pub(super) fn validate_approval(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_change(new, old, errors);
}

fn certificate(object: &Object) -> &str {
    object.str_at(&["status", "certificate"])
}

fn validate_change(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    issued_certificate::validate_change(certificate(new), certificate(old), errors);
    for kind in FINAL {
        if of_type(new, kind).len() < of_type(old, kind).len() {
            let message = format!("updates may not remove a condition of type {}", quote(kind));
            errors.forbidden(&Path::root("status").child("conditions"), &message);
        }
    }
}

fn validate_same_decisions(new: &Object, old: &Object, errors: &mut ErrorList) {
    for kind in DECISIONS {
        let (now, before) = (of_type(new, kind), of_type(old, kind));
        let what = if now.len() > before.len() {
            "add"
        } else if now.len() == before.len()
            && now.iter().zip(&before).any(|(now, before)| !same(now, before))
        {
            "modify"
        } else {
            continue;
        };
        let message = format!("updates may not {what} a condition of type {}", quote(kind));
        errors.forbidden(&Path::root("status").child("conditions"), &message);
    }
}
