//! JSON merge patch, RFC 7386: values replace, `null` removes, objects merge recursively.
//!
//! As in upstream's library, nulls are dropped from new objects even where these are in lists.

use crate::{Map, Value};

/// Merges `patch` into `doc`.
pub fn apply(doc: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *doc = without_nulls(patch);
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(target) = doc else { return };
    for (name, value) in members {
        match (target.get_mut(name), value) {
            (_, Value::Null) => {
                target.remove(name);
            }
            (Some(old @ Value::Object(_)), Value::Object(_)) => apply(old, value),
            (_, value) => {
                target.insert(name.clone(), without_nulls(value));
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(elements) => elements.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn null_removes_objects_merge_and_arrays_replace() {
        let mut doc = json!({"labels": {"a": "1", "b": "2"}, "list": [1, 2], "gone": {"x": 1}});
        apply(&mut doc, &json!({"labels": {"a": null, "c": "3"}, "list": [], "gone": null}));
        assert_eq!(doc, json!({"labels": {"b": "2", "c": "3"}, "list": []}));
    }

    #[test]
    fn nulls_inside_of_new_values_are_dropped() {
        let mut doc = json!({});
        apply(&mut doc, &json!({"a": {"b": null, "c": 1}}));
        assert_eq!(doc, json!({"a": {"c": 1}}));
        apply(&mut doc, &json!({"a": [null, {"b": null, "c": 1}]}));
        assert_eq!(doc, json!({"a": [null, {"c": 1}]}));
    }
}
