//! [`FieldSet`]: a set of field paths in JSON, as structured-merge-diff sorts it.
//!
//! Names come first, then the elements of lists by their keys, values and indices: these are
//! compared as values, so that port 80 comes before port 443.

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
            // The sort is stable, and names are sorted by their text already.
            members.sort_by(|((class, one), ..), ((other_class, other), ..)| {
                class.cmp(other_class).then_with(|| compare(one, other))
            });
            members.iter().try_for_each(|(_, name, value)| write(name, value))?;
        }
        out.end()
    }
}

/// The class of an element of a list, and the JSON by which it is known.
fn element(name: &str) -> Option<(u8, &str)> {
    let (letter, json) = name.split_once(':')?;
    let class = match letter {
        "k" => 1,
        "v" => 2,
        "i" => 3,
        _ => return None,
    };
    Some((class, json))
}

/// The class of a member and the value by which it is sorted in it. All names are of the first
/// class and have the same value, and so has what cannot be read.
fn parsed(name: &str) -> (u8, Value) {
    let read =
        element(name).and_then(|(class, json)| Some((class, serde_json::from_str(json).ok()?)));
    read.unwrap_or((0, Value::Null))
}

/// Upstream: structured-merge-diff's value.Compare.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let floats = one.as_f64().partial_cmp(&other.as_f64());
            let integers = || one.as_i64().cmp(&other.as_i64());
            floats.unwrap_or(Ordering::Equal).then_with(integers)
        }
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
    fn many_elements_are_sorted_by_value_and_names_come_first() {
        let mut names = vec![".".to_owned()];
        names.extend((0..30).map(|it| format!("f:name{it:02}")));
        names.extend((0..200).map(|it| format!(r#"k:{{"port":{it}}}"#)));
        names.extend((0..50).map(|it| format!("v:{it}")));
        let set: Map<String, Value> = names.iter().map(|it| (it.clone(), json!({}))).collect();
        let text = serde_json::to_string(&FieldSet(&set)).unwrap();
        let expected: Vec<String> = names.iter().map(|it| format!("{}:{{}}", json!(it))).collect();
        assert_eq!(text, format!("{{{}}}", expected.join(",")));
    }

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
