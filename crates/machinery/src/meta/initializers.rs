//! `metadata.initializers`: the initializers that must run on a new object before it is visible.
//!
//! ```text
//! created    {pending: [{name: a.b.c}, {name: d.e.f}]}     a.b.c is first
//!            {pending: [{name: d.e.f}]}                    a.b.c has done its work
//!            (nothing)                                     the object is visible to all
//! failed     {pending: […], result: {status: Failure, …}}  the object is deleted
//! ```
//!
//! Invariant: an object without the field is initialized. A list that has become empty is dropped
//! ([`remove_if_done`]), and the field never comes back.

use std::collections::BTreeSet;

use super::METADATA;
use crate::field_path::quote;
use crate::{ErrorList, Object, Reason, Status, Value, names};

const FIELD: &str = "initializers";

/// Whether initializers are pending.
pub fn is_uninitialized(object: &Object) -> bool {
    field(object).is_some()
}

/// The names of the pending initializers, in order.
pub fn pending(object: &Object) -> Vec<&str> {
    let list = field(object).and_then(|it| it["pending"].as_array());
    list.into_iter().flatten().map(|it| it["name"].as_str().unwrap_or_default()).collect()
}

/// Prepares the field of a new object: the creator may set pending initializers, but no result.
pub fn prepare_for_create(object: &mut Object) {
    if let Some(Value::Object(field)) = object.get_mut(&["metadata", FIELD]) {
        field.remove("result");
        remove_if_done(object);
    }
}

/// Removes the field if no initializer is pending and none has failed.
pub fn remove_if_done(object: &mut Object) {
    if is_uninitialized(object) && pending(object).is_empty() && result(object).is_none() {
        object.remove_meta(FIELD);
    }
}

/// The status for the creator if an initializer has failed.
pub fn failure(object: &Object) -> Option<Status> {
    let result = result(object)?;
    let code = result["code"].as_u64().and_then(|it| u16::try_from(it).ok());
    let code = code.filter(|it| (400..600).contains(it)).unwrap_or(500);
    let mut full = result.clone();
    full["kind"] = "Status".into();
    full["code"] = code.into();
    let mut status = Status::from_value(&full)?;
    let reason = result["reason"].as_str().filter(|it| !it.is_empty());
    if status.reason == Reason::Unknown {
        status.custom_reason = reason.map(Into::into);
    }
    Some(status)
}

/// Validates the list of a new object or of a changed one.
pub(super) fn validate(object: &Object, errors: &mut ErrorList) {
    let names = pending(object);
    let field = METADATA.child(FIELD);
    let path = field.child("pending");
    let mut seen = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("name");
        for message in names::qualified_name(name) {
            errors.invalid(&path, *name, &message);
        }
        if !seen.insert(name) {
            errors.duplicate(&path, *name);
        }
    }
    if let Some(result) = result(object)
        && result["status"] != "Failure"
    {
        let path = field.child("result");
        errors.not_supported(&path.child("status"), result["status"].clone(), &["Failure"]);
    }
}

/// Validates a change: only the first pending initializer may be removed, one per update.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    let path = METADATA.child(FIELD);
    let Some(before) = field(old) else {
        if is_uninitialized(new) {
            let detail = "field is immutable once initialization has completed";
            errors.invalid(&path, Value::Null, detail);
        }
        return;
    };
    if !before["result"].is_null() && result(new) != Some(&before["result"]) {
        let path = path.child("result");
        errors.invalid(&path, result(new).cloned().unwrap_or_default(), super::IMMUTABLE);
    }
    let (new_names, old_names) = (pending(new), pending(old));
    if new_names != old_names && old_names.get(1..) != Some(&new_names) {
        let first = quote(old_names.first().copied().unwrap_or_default());
        let detail =
            format!("pending must stay as it is or lose its first initializer, {first}, alone");
        errors.invalid(&path, field(new).cloned().unwrap_or_default(), &detail);
    }
}

fn field(object: &Object) -> Option<&Value> {
    object.metadata()?.get(FIELD).filter(|it| !it.is_null())
}

fn result(object: &Object) -> Option<&Value> {
    field(object)?.get("result").filter(|it| !it.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn object(initializers: &Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "a", "initializers": initializers}}))
            .unwrap()
    }

    fn waiting(names: &[&str]) -> Value {
        json!({"pending": names.iter().map(|it| json!({"name": it})).collect::<Vec<_>>()})
    }

    fn messages(new: &Value, old: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate(&object(new), &mut errors);
        validate_update(&object(new), &object(old), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_the_first_initializer_may_be_removed() {
        let old = waiting(&["a.b.c", "d.e.f"]);
        assert!(messages(&old, &old).is_empty());
        assert!(messages(&waiting(&["d.e.f"]), &old).is_empty());
        for wrong in [
            waiting(&["a.b.c"]),
            waiting(&["d.e.f", "a.b.c"]),
            waiting(&["a.b.c", "d.e.f", "g.h.i"]),
            waiting(&[]),
            Value::Null,
        ] {
            let found = messages(&wrong, &old);
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].starts_with("metadata.initializers: Invalid value: "), "{found:?}");
            assert!(
                found[0].ends_with(
                    "pending must stay as it is or lose its first initializer, \"a.b.c\", alone"
                ),
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_field_may_be_removed_with_the_last_initializer_and_not_added_again() {
        assert!(messages(&Value::Null, &waiting(&["a.b.c"])).is_empty());
        assert!(messages(&waiting(&[]), &waiting(&["a.b.c"])).is_empty());
        assert_eq!(
            messages(&waiting(&["a.b.c"]), &Value::Null),
            [
                "metadata.initializers: Invalid value: null: field is immutable once initialization has completed"
            ]
        );
    }

    #[test]
    fn an_empty_list_is_dropped_unless_an_initializer_failed() {
        let mut done = object(&waiting(&[]));
        remove_if_done(&mut done);
        assert!(!is_uninitialized(&done));
        let mut failed = object(&json!({"pending": [], "result": {"status": "Failure"}}));
        remove_if_done(&mut failed);
        assert!(is_uninitialized(&failed));
        prepare_for_create(&mut failed);
        assert!(!is_uninitialized(&failed), "a new object has not failed");
    }

    #[test]
    fn a_failure_is_final_and_returned_unchanged() {
        let failed = |code: u32| {
            let result = json!({"status": "Failure", "code": code, "reason": "NoEnvoy",
                "message": "there is no envoy"});
            json!({"pending": [{"name": "a.b.c"}], "result": result})
        };
        assert!(messages(&failed(409), &waiting(&["a.b.c"])).is_empty());
        let found = messages(&failed(400), &failed(409));
        assert!(found[0].starts_with("metadata.initializers.result: Invalid value: "), "{found:?}");
        let status = failure(&object(&failed(409))).unwrap();
        assert_eq!((status.code, status.message.as_str()), (409, "there is no envoy"));
        assert_eq!(status.custom_reason.as_deref(), Some("NoEnvoy"));
        assert_eq!(failure(&object(&failed(7))).unwrap().code, 500);
        assert_eq!(failure(&object(&waiting(&["a.b.c"]))), None);
    }

    #[test]
    fn the_status_of_a_result_must_be_failure() {
        let done = json!({"pending": [{"name": "a.b.c"}], "result": {"status": "Success"}});
        assert_eq!(
            messages(&done, &waiting(&["a.b.c"])),
            [
                r#"metadata.initializers.result.status: Unsupported value: "Success": supported values: "Failure""#
            ]
        );
    }
}
