//! What a handler changed, as a JSON patch of the object on the wire.
//!
//! A handler sees its own type, which may know fewer fields than the object has, and may spell out
//! defaults that the object leaves out. So what differs between the type before and after is
//! carried over to the object as it came, and the patch is between that and the object:
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

/// The patch that makes of `raw` what a handler made of `before`.
pub(crate) fn patch<K: Serialize>(
    raw: &Value,
    before: Option<&K>,
    after: &K,
) -> serde_json::Result<Patch> {
    let before = before.map_or(Ok(Value::Null), serde_json::to_value)?;
    let after = serde_json::to_value(after)?;
    let mut wanted = raw.clone();
    carry(&before, &after, &mut wanted);
    Ok(json_patch::diff(raw, &wanted))
}

/// Does to `raw` what was done to `before`.
fn carry(before: &Value, after: &Value, raw: &mut Value) {
    if before == after {
        return;
    }
    match (before, after, &mut *raw) {
        (Value::Object(before), Value::Object(after), Value::Object(raw)) => {
            for name in before.keys().filter(|it| !after.contains_key(*it)) {
                raw.remove(name);
            }
            for (name, value) in after {
                let was = before.get(name).unwrap_or(&Value::Null);
                match raw.get_mut(name) {
                    Some(raw) => carry(was, value, raw),
                    None if was == value => {}
                    None => {
                        raw.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(before), Value::Array(after), Value::Array(raw))
            if before.len() == raw.len() =>
        {
            carry_list(before, after, raw);
        }
        _ => after.clone_into(raw),
    }
}

/// Elements that stay, wherever they go, keep what the type does not know of them.
fn carry_list(before: &[Value], after: &[Value], raw: &mut Vec<Value>) {
    let mut taken: Vec<Value> = std::mem::take(raw);
    for (element, place) in after.iter().zip(pairing::pairs(before, after)) {
        raw.push(match place {
            Some(place) => {
                let mut kept = taken[place].take();
                carry(&before[place], element, &mut kept);
                kept
            }
            None => element.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Applies the computed patch to `raw`, and compares.
    #[track_caller]
    fn check(raw: &Value, before: &Value, after: &Value, expected: &Value) {
        let patch = patch(raw, Some(before), after).unwrap();
        let mut patched = raw.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(&patched, expected, "by {patch}");
    }

    #[test]
    fn fields_that_the_type_does_not_know_stay() {
        check(
            &json!({"spec": {"a": 1, "unknown": 2}}),
            &json!({"spec": {"a": 1, "b": 0}}),
            &json!({"spec": {"a": 5, "b": 0}}),
            &json!({"spec": {"a": 5, "unknown": 2}}),
        );
    }

    #[test]
    fn parents_that_are_not_on_the_wire_are_made() {
        check(
            &json!({"metadata": {}}),
            &json!({"metadata": {}, "spec": {"inner": {"default": 1}}}),
            &json!({"metadata": {"labels": {"a/b": "c"}}, "spec": {"inner": {"default": 2}}}),
            &json!({"metadata": {"labels": {"a/b": "c"}}, "spec": {"inner": {"default": 2}}}),
        );
    }

    #[test]
    fn what_was_removed_goes() {
        check(
            &json!({"a": {"b": 1, "c": 2}, "d": 3}),
            &json!({"a": {"b": 1, "c": 2}, "d": 3}),
            &json!({"a": {"c": 2}}),
            &json!({"a": {"c": 2}}),
        );
    }

    #[test]
    fn a_new_element_leaves_its_neighbors_alone() {
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
    fn a_new_element_beside_a_changed_one_gets_nothing_of_it() {
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
    fn no_change_is_no_patch() {
        let raw = json!({"creationTimestamp": null, "a": 1});
        assert!(patch(&raw, Some(&json!({"a": 1})), &json!({"a": 1})).unwrap().is_empty());
    }
}
