//! The changes of a handler, as a JSON patch of the raw object.
//!
//! A handler has its own type, which may have fewer fields than the object, and may set defaults.
//! Therefore the changes between the type before and after are applied to the raw object, and the
//! patch is the difference of the raw objects:
//!
//! ```text
//! on the wire           {"spec": {"a": 1, "new-in-1.40": 2}}
//! the type, before      {"spec": {"a": 1, "b": 0}}
//! the type, after       {"spec": {"a": 5, "b": 0}}
//! the patch             replace /spec/a by 5
//! ```

mod pairing;

use json_patch::Patch;
use serde::Serialize;
use serde_json::Value;

/// The patch that changes `raw` as a handler changed `before`.
pub(crate) fn patch<K: Serialize>(
    raw: &Value,
    before: Option<&K>,
    after: &K,
) -> serde_json::Result<Patch> {
    let before = before.map_or(Ok(Value::Null), serde_json::to_value)?;
    let after = serde_json::to_value(after)?;
    let mut changed = raw.clone();
    apply_changes(&before, &after, &mut changed);
    Ok(json_patch::diff(raw, &changed))
}

/// Applies the changes from `before` to `after` to `raw`.
fn apply_changes(before: &Value, after: &Value, raw: &mut Value) {
    if before == after {
        return;
    }
    match (before, after, &mut *raw) {
        (Value::Object(before), Value::Object(after), Value::Object(raw)) => {
            for name in before.keys().filter(|it| !after.contains_key(*it)) {
                raw.remove(name);
            }
            for (name, value) in after {
                let old = before.get(name).unwrap_or(&Value::Null);
                match raw.get_mut(name) {
                    Some(raw) => apply_changes(old, value, raw),
                    None if old == value => {}
                    None => {
                        raw.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(before), Value::Array(after), Value::Array(raw))
            if before.len() == raw.len() =>
        {
            apply_list_changes(before, after, raw);
        }
        _ => after.clone_into(raw),
    }
}

/// Applies the changes of a list. Elements that stay in the list keep the fields that the type does not
/// have.
fn apply_list_changes(before: &[Value], after: &[Value], raw: &mut Vec<Value>) {
    let mut old: Vec<Value> = std::mem::take(raw);
    for (element, index) in after.iter().zip(pairing::pairs(before, after)) {
        raw.push(match index {
            Some(index) => {
                let mut kept = old[index].take();
                apply_changes(&before[index], element, &mut kept);
                kept
            }
            None => element.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Applies the computed patch to `raw`, and compares.
    #[track_caller]
    fn check(raw: &Value, before: &Value, after: &Value, expected: &Value) {
        let patch = patch(raw, Some(before), after).unwrap();
        let mut patched = raw.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(&patched, expected, "by {patch}");
    }

    #[test]
    fn unknown_fields_are_preserved() {
        check(
            &json!({"spec": {"a": 1, "unknown": 2}}),
            &json!({"spec": {"a": 1, "b": 0}}),
            &json!({"spec": {"a": 5, "b": 0}}),
            &json!({"spec": {"a": 5, "unknown": 2}}),
        );
    }

    #[test]
    fn missing_parents_are_created() {
        check(
            &json!({"metadata": {}}),
            &json!({"metadata": {}, "spec": {"inner": {"default": 1}}}),
            &json!({"metadata": {"labels": {"a/b": "c"}}, "spec": {"inner": {"default": 2}}}),
            &json!({"metadata": {"labels": {"a/b": "c"}}, "spec": {"inner": {"default": 2}}}),
        );
    }

    #[test]
    fn removed_fields_are_removed() {
        check(
            &json!({"a": {"b": 1, "c": 2}, "d": 3}),
            &json!({"a": {"b": 1, "c": 2}, "d": 3}),
            &json!({"a": {"c": 2}}),
            &json!({"a": {"c": 2}}),
        );
    }

    #[test]
    fn a_new_element_does_not_change_its_neighbors() {
        let raw = json!([{"name": "app", "unknown": 1}, {"name": "log", "unknown": 2}]);
        let before = json!([{"name": "app"}, {"name": "log"}]);
        let app = json!({"name": "app", "unknown": 1});
        let log = json!({"name": "log", "unknown": 2});
        let side = json!({"name": "side"});
        check(
            &raw,
            &before,
            &json!([{"name": "app"}, {"name": "log"}, side]),
            &json!([app, log, side]),
        );
        check(
            &raw,
            &before,
            &json!([side, {"name": "app"}, {"name": "log"}]),
            &json!([side, app, log]),
        );
        check(
            &raw,
            &before,
            &json!([{"name": "app"}, side, {"name": "log"}]),
            &json!([app, side, log]),
        );
        check(&raw, &before, &json!([{"name": "log"}]), &json!([log]));
        let renamed = json!([{"name": "app2"}, {"name": "log"}]);
        check(&raw, &before, &renamed, &json!([{"name": "app2", "unknown": 1}, log]));
        check(&raw, &before, &json!([]), &json!([]));
    }

    #[test]
    fn a_new_element_beside_a_changed_one_has_none_of_its_fields() {
        let raw = json!([
            {"name": "a", "image": "1", "env": [1]}, {"name": "b", "image": "1", "env": [2]},
        ]);
        let before = json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]);
        check(
            &raw,
            &before,
            &json!([
                {"name": "side", "image": "9"}, {"name": "a", "image": "2"},
                {"name": "b", "image": "1"},
            ]),
            &json!([
                {"name": "side", "image": "9"}, {"name": "a", "image": "2", "env": [1]},
                {"name": "b", "image": "1", "env": [2]},
            ]),
        );
        check(
            &raw,
            &before,
            &json!([{"name": "b", "image": "2"}]),
            &json!([{"name": "b", "image": "2", "env": [2]}]),
        );
    }

    #[test]
    fn an_unchanged_object_has_an_empty_patch() {
        let raw = json!({"creationTimestamp": null, "a": 1});
        assert!(patch(&raw, Some(&json!({"a": 1})), &json!({"a": 1})).unwrap().is_empty());
    }
}
