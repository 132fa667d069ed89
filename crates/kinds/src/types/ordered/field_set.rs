//! [`FieldSet`]: a set of field paths in JSON, as structured-merge-diff sorts it.
//!
//! Names come first, then the elements of lists by their keys or values: these are compared as
//! values, so that port 80 comes before port 443.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// See the [module documentation](self).
pub(super) struct FieldSet<'a>(pub(super) &'a Map<String, Value>);

impl Serialize for FieldSet<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.0.len()))?;
        let mut write = |name: &String, value: &Value| match value {
            Value::Object(set) => out.serialize_entry(name, &FieldSet(set)),
            other => out.serialize_entry(name, other),
        };
        // The map is sorted by text, which is right but for the values of two such elements.
        if self.0.keys().filter(|name| element(name).is_some()).count() < 2 {
            self.0.iter().try_for_each(|(name, value)| write(name, value))?;
        } else {
            let mut members: Vec<_> =
                self.0.iter().map(|(name, value)| (parsed(name), name, value)).collect();
            members.sort_by(|(one, ..), (other, ..)| match (one, other) {
                (Some((one_kind, one)), Some((kind, other))) if one_kind == kind => {
                    compare(one, other)
                }
                // The sort is stable, and names and kinds of elements are sorted by their text.
                _ => Ordering::Equal,
            });
            members.iter().try_for_each(|(_, name, value)| write(name, value))?;
        }
        out.end()
    }
}

/// The JSON that tells an element of a list, after the letter that says how.
fn element(name: &str) -> Option<(u8, &str)> {
    let (letter, json) = name.split_once(':')?;
    matches!(letter, "k" | "v" | "i").then(|| (letter.as_bytes()[0], json))
}

fn parsed(name: &str) -> Option<(u8, Value)> {
    let (letter, json) = element(name)?;
    Some((letter, serde_json::from_str(json).ok()?))
}

/// Upstream: structured-merge-diff's value.Compare.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other).map(|(one, other)| compare(one, other));
            first_difference(pairs).then(one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one
                .iter()
                .zip(other)
                .map(|(one, other)| one.0.cmp(other.0).then_with(|| compare(one.1, other.1)));
            first_difference(pairs).then(one.len().cmp(&other.len()))
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

fn first_difference(mut orderings: impl Iterator<Item = Ordering>) -> Ordering {
    orderings.find(|it| it.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn elements_are_sorted_by_value_and_names_come_first() {
        let set = json!({".": {}, "f:b": {}, "f:a": {"v:10": {}, "v:9": {}},
            r#"k:{"containerPort":443,"protocol":"TCP"}"#: {},
            r#"k:{"containerPort":80,"protocol":"UDP"}"#: {},
            r#"k:{"containerPort":80,"protocol":"TCP"}"#: {}});
        assert_eq!(
            serde_json::to_string(&FieldSet(set.as_object().unwrap())).unwrap(),
            r#"{".":{},"f:a":{"v:9":{},"v:10":{}},"f:b":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{},"k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{},"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{}}"#
        );
    }
}
