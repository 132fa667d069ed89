//! Checks that lists with `x-kubernetes-list-type: set` or `map` have no duplicates.

use std::collections::HashMap;

use crate::structural::{List, Node, NodeFlags};
use machinery::{ErrorList, Map, Path, Value, codec, json};

/// Finds duplicates in the lists of an object.
pub(crate) fn validate(node: &Node, object: &Map<String, Value>, errors: &mut ErrorList) {
    check_fields(node, object, &Path::EMPTY, errors);
}

fn check_fields(node: &Node, map: &Map<String, Value>, path: &Path<'_>, errors: &mut ErrorList) {
    for (key, value) in map {
        if let Some(field) = node.property(key) {
            check_value(field, value, &path.child(key), errors);
        } else if let Some(field) = node.field(key) {
            check_value(field, value, &path.key(key), errors);
        }
    }
}

fn check_value(node: &Node, value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if !node.flags.has(NodeFlags::KEYED_LISTS_BELOW) {
        return;
    }
    match value {
        Value::Object(map) => check_fields(node, map, path, errors),
        Value::Array(items) => check_items(node, items, path, errors),
        _ => {}
    }
}

fn check_items(node: &Node, items: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    match &node.list {
        List::Atomic => {}
        List::Set => report_duplicates(items, identity, path, errors),
        List::Map(keys) => check_keys(keys, items, path, errors),
    }
    if let Some(item_node) = &node.items {
        for (index, item) in items.iter().enumerate() {
            check_value(item_node, item, &path.index(index), errors);
        }
    }
}

fn check_keys(keys: &[Box<str>], items: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let not_an_object = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(index) = not_an_object {
        let detail = "must be an object for an array of list-type map";
        errors.invalid(&path.index(index), items[index].clone(), detail);
        return;
    }
    if items.len() < 2 {
        return;
    }
    let key_of = |item: &Value| {
        let mut key = json!({});
        for name in keys {
            if let Some(value) = item.get(&**name) {
                key[&**name] = value.clone();
            }
        }
        key
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    match keys {
        // Upstream: a single key is compared by value, several keys are compared as JSON.
        [key] => {
            let identity = |it: &Value| it.get(&**key).map_or_else(String::new, identity);
            report_duplicates(&found, identity, path, errors);
        }
        _ => report_duplicates(&found, codec::json::to_text, path, errors),
    }
}

/// A text that is equal for equal items. An integer never equals a float: `1` and `1.0` may both be
/// in a set. Lists and objects that contain them are compared as JSON, in which both are `1`.
fn identity(item: &Value) -> String {
    match item {
        Value::Array(_) | Value::Object(_) => codec::json::to_text(item),
        scalar => scalar_identity(scalar),
    }
}

/// A text that is equal for scalars that are equal by Go's `==`: so `0.0` equals `-0.0`.
pub(crate) fn scalar_identity(scalar: &Value) -> String {
    match scalar.as_f64() {
        Some(0.0) if scalar.is_f64() => "0.0".to_owned(),
        _ => scalar.to_string(),
    }
}

/// Reports the second of equal items. As upstream, further ones are not reported.
fn report_duplicates(
    items: &[Value],
    identity: impl Fn(&Value) -> String,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if items.len() < 2 {
        return;
    }
    let mut seen: HashMap<String, u32> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(identity(item)).or_default();
        *times += 1;
        if *times == 2 {
            errors.duplicate(&path.index(index), item.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Structural;

    fn messages(schema: &Value, object: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate(&Structural::compile(schema).root, object.as_object().unwrap(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_set_names_its_duplicates_by_value() {
        let schema = json!({"properties": {"l": {"type": "array", "x-kubernetes-list-type": "set",
            "items": {"type": "string"}}}});
        assert_eq!(
            messages(&schema, &json!({"l": ["x", "y", "x", "x"]})),
            [r#"l[2]: Duplicate value: "x""#]
        );
    }

    #[test]
    fn an_integer_and_a_float_are_different_scalars_but_the_same_in_compounds() {
        let set = |items: Value| {
            let schema = json!({"properties": {"l": {"type": "array", "items": items,
                "x-kubernetes-list-type": "set"}}});
            move |list: Value| messages(&schema, &json!({"l": list}))
        };
        let scalars = set(json!({"type": "number"}));
        assert!(scalars(json!([1, 1.0])).is_empty());
        assert_eq!(scalars(json!([1.0, 1.0])), ["l[1]: Duplicate value: 1"]);
        let lists = set(json!({"type": "array", "items": {"type": "number"}}));
        assert_eq!(lists(json!([[1], [1.0]])), ["l[1]: Duplicate value: [1]"]);
    }

    #[test]
    fn the_two_zeros_of_floats_are_one_scalar() {
        let set = |items: Value, list: Value| {
            let schema = json!({"properties": {"l": {"type": "array", "items": items,
                "x-kubernetes-list-type": "set"}}});
            messages(&schema, &json!({"l": list}))
        };
        let number = json!({"type": "number"});
        assert_eq!(set(number.clone(), json!([0.0, -0.0])), ["l[1]: Duplicate value: -0"]);
        assert!(set(number, json!([0, 0.0])).is_empty());
        let map = json!({"properties": {"l": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["p"], "items": {"type": "object"}}}});
        assert_eq!(
            messages(&map, &json!({"l": [{"p": -0.0}, {"p": 0.0}]})),
            [r#"l[1]: Duplicate value: {"p":0}"#]
        );
    }

    #[test]
    fn one_key_of_a_map_is_compared_as_a_scalar_and_several_as_json() {
        let map = |keys: Value| {
            json!({"properties": {"l": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys, "items": {"type": "object"}}}})
        };
        let object = json!({"l": [{"p": 1, "q": 2}, {"p": 1.0, "q": 2}]});
        assert!(messages(&map(json!(["p"])), &object).is_empty());
        assert_eq!(
            messages(&map(json!(["p", "q"])), &object),
            [r#"l[1]: Duplicate value: {"p":1,"q":2}"#]
        );
    }

    #[test]
    fn a_map_names_its_duplicates_by_key() {
        let schema = json!({"properties": {"l": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["p", "q"], "items": {"type": "object"}}}});
        assert_eq!(
            messages(&schema, &json!({"l": [{"p": 1, "q": "T"}, {"p": 1}, {"p": 1, "q": "T"}]})),
            [r#"l[2]: Duplicate value: {"p":1,"q":"T"}"#]
        );
        assert_eq!(
            messages(&schema, &json!({"l": [3]})),
            ["l[0]: Invalid value: 3: must be an object for an array of list-type map"]
        );
    }

    #[test]
    fn lists_in_maps_are_named_by_the_key_in_brackets() {
        let schema = json!({"properties": {"m": {"type": "object", "additionalProperties":
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}}}});
        assert_eq!(
            messages(&schema, &json!({"m": {"k": [1, 1]}})),
            ["m[k][1]: Duplicate value: 1"]
        );
    }
}
