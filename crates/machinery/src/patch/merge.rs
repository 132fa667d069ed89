//! JSON merge patch, RFC 7386: what is given replaces, `null` removes, objects are gone through.

use crate::Value;

/// Merges `patch` into `doc`.
pub fn apply(doc: &mut Value, patch: &Value) {
    json_patch::merge(doc, patch);
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
    fn nulls_inside_of_what_is_new_are_dropped() {
        let mut doc = json!({});
        apply(&mut doc, &json!({"a": {"b": null, "c": 1}}));
        assert_eq!(doc, json!({"a": {"c": 1}}));
    }
}
