//! Reads and sets JSON fields as Go does with structs: a value that is missing, null or of another
//! type counts as the zero value.

use crate::{Map, Object, Value};

static NULL: Value = Value::Null;

/// The value at `key`, unless it is missing or null.
pub fn part<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|found| !found.is_null())
}

/// The value at a path of keys, or null.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().try_fold(value, |found, key| found.get(key)).unwrap_or(&NULL)
}

/// A top-level part of an object, or null.
pub fn top<'a>(object: &'a Object, key: &str) -> &'a Value {
    object.map().get(key).unwrap_or(&NULL)
}

/// The text at `key`, or "".
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The number at `key`, if there is one.
pub fn integer(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

/// The number at `key`, or 0.
pub fn number(value: &Value, key: &str) -> i64 {
    integer(value, key).unwrap_or(0)
}

/// The boolean at `key`, if there is one.
pub fn boolean(value: &Value, key: &str) -> Option<bool> {
    value.get(key).and_then(Value::as_bool)
}

/// The boolean at `key`, or false.
pub fn flag(value: &Value, key: &str) -> bool {
    boolean(value, key).unwrap_or(false)
}

/// The items at `key`; none if there is no list.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts of the list at `key`.
pub fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    list(value, key).iter().filter_map(Value::as_str)
}

/// The entries of the map at `key`; none if there is no map.
pub fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map = value.get(key).and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, entry)| (name.as_str(), entry))
}

/// The annotation `key` of an object's or a template's metadata.
pub fn annotation<'a>(metadata: &'a Value, key: &str) -> Option<&'a str> {
    at(metadata, &["annotations", key]).as_str()
}

/// Sets a text that is missing or empty.
pub fn default_text(map: &mut Map<String, Value>, key: &str, value: &str) {
    if map.get(key).and_then(Value::as_str).unwrap_or_default().is_empty() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a number that is missing or 0.
pub fn default_number(map: &mut Map<String, Value>, key: &str, value: i64) {
    if map.get(key).and_then(Value::as_i64).unwrap_or(0) == 0 {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a value that is missing or null.
pub fn default_value(map: &mut Map<String, Value>, key: &str, value: Value) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value);
    }
}

/// The maps of the list at `key`, mutable.
pub fn maps_mut<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// The map at `key`, mutable, if there is one.
pub fn map_mut<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

/// The list at `key`. A missing list is created; another value in its place is replaced.
pub fn list_mut<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = map.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("it was made a list above")
}

/// Resets a top-level field of `new` to the value in `old`; removes it if `old` does not have it.
pub fn keep(new: &mut Object, old: &Object, key: &str) {
    match old.map().get(key) {
        Some(value) => new.map_mut().insert(key.to_owned(), value.clone()),
        None => new.map_mut().remove(key),
    };
}

/// Upstream's `equality.Semantic.DeepEqual`: null, empty lists and empty maps count as absent.
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.iter().all(|(key, value)| same(value, right.get(key).unwrap_or(&NULL)))
                && right.iter().all(|(key, value)| left.contains_key(key) || is_empty(value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (left, right) => left == right || (is_empty(left) && is_empty(right)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn empty_values_count_as_absent() {
        assert!(same(&json!({"a": [], "b": 1}), &json!({"b": 1, "c": null})));
        assert!(!same(&json!({"a": 0}), &json!({"a": 1})));
        assert!(!same(&json!([1]), &json!([1, 2])));
    }

    #[test]
    fn another_type_reads_as_the_zero_value() {
        let value = json!({"a": 3, "b": "x"});
        assert_eq!((text(&value, "a"), number(&value, "b"), list(&value, "a").len()), ("", 0, 0));
    }
}
