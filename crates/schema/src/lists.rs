//! Lists that are sets or maps have no duplicates.

use crate::structural::{List, Marks, Node};
use machinery::{Faults, Map, Path, Value, json};
use std::collections::HashMap;

/// Finds duplicates in the lists of an object.
pub(crate) fn validate(node: &Node, object: &Map<String, Value>, faults: &mut Faults) {
    check_fields(node, object, &Path::EMPTY, faults);
}

fn check_fields(node: &Node, map: &Map<String, Value>, path: &Path<'_>, faults: &mut Faults) {
    for (key, value) in map {
        if let Some(field) = node.property(key) {
            check_value(field, value, &path.child(key), faults);
        } else if let Some(field) = node.field(key) {
            check_value(field, value, &path.key(key), faults);
        }
    }
}

fn check_value(node: &Node, value: &Value, path: &Path<'_>, faults: &mut Faults) {
    if !node.marks.has(Marks::KEYED_LISTS_BELOW) {
        return;
    }
    match value {
        Value::Object(map) => check_fields(node, map, path, faults),
        Value::Array(items) => check_items(node, items, path, faults),
        _ => {}
    }
}

fn check_items(node: &Node, items: &[Value], path: &Path<'_>, faults: &mut Faults) {
    match &node.list {
        List::Atomic => {}
        List::Set => report_duplicates(items, path, faults),
        List::Map(keys) => check_keys(keys, items, path, faults),
    }
    if let Some(item_node) = &node.items {
        for (index, item) in items.iter().enumerate() {
            check_value(item_node, item, &path.index(index), faults);
        }
    }
}

fn check_keys(keys: &[Box<str>], items: &[Value], path: &Path<'_>, faults: &mut Faults) {
    let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(index) = odd {
        let detail = "must be an object for an array of list-type map";
        faults.invalid(&path.index(index), items[index].clone(), detail);
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
    report_duplicates(&items.iter().map(key_of).collect::<Vec<_>>(), path, faults);
}

/// Reports the second of each kind; further ones go unmentioned.
fn report_duplicates(items: &[Value], path: &Path<'_>, faults: &mut Faults) {
    if items.len() < 2 {
        return;
    }
    let mut seen: HashMap<String, u32> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            faults.duplicate(&path.index(index), item.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Structural;

    fn complaints(schema: &Value, object: &Value) -> Vec<String> {
        let mut faults = Faults::new();
        validate(&Structural::compile(schema).root, object.as_object().unwrap(), &mut faults);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_set_names_its_duplicates_by_value() {
        let schema = json!({"properties": {"l": {"type": "array", "x-kubernetes-list-type": "set",
            "items": {"type": "string"}}}});
        assert_eq!(
            complaints(&schema, &json!({"l": ["x", "y", "x", "x"]})),
            [r#"l[2]: Duplicate value: "x""#]
        );
    }

    #[test]
    fn a_map_names_its_duplicates_by_key() {
        let schema = json!({"properties": {"l": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["p", "q"], "items": {"type": "object"}}}});
        assert_eq!(
            complaints(&schema, &json!({"l": [{"p": 1, "q": "T"}, {"p": 1}, {"p": 1, "q": "T"}]})),
            [r#"l[2]: Duplicate value: {"p":1,"q":"T"}"#]
        );
        assert_eq!(
            complaints(&schema, &json!({"l": [3]})),
            ["l[0]: Invalid value: 3: must be an object for an array of list-type map"]
        );
    }

    #[test]
    fn lists_in_maps_are_named_by_the_key_in_brackets() {
        let schema = json!({"properties": {"m": {"type": "object", "additionalProperties":
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}}}});
        assert_eq!(
            complaints(&schema, &json!({"m": {"k": [1, 1]}})),
            ["m[k][1]: Duplicate value: 1"]
        );
    }
}
