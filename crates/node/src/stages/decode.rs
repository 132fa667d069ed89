//! [`decode`]: decodes an object, with errors that name the field.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Decodes an object, all fields of which are optional. The error names the first wrong field.
pub(super) fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    T::deserialize(object).map_err(|error| {
        let path = wrong_field(object, &|value| T::deserialize(value).is_err());
        let path = path.trim_start_matches('.');
        if path.is_empty() { error.to_string() } else { format!("{path}: {error}") }
    })
}

/// The path of the first wrong field of a value: that which is wrong without its neighbors. Empty if
/// it is the value itself.
fn wrong_field(value: &Value, is_wrong: &dyn Fn(&Value) -> bool) -> String {
    match value {
        Value::Object(map) if !is_wrong(&json!({})) => {
            let alone = |key: &str, child: &Value| json!({key: child});
            let wrong = map.iter().find(|(key, child)| is_wrong(&alone(key, child)));
            wrong.map_or_else(String::new, |(key, child)| {
                let below = wrong_field(child, &|it| is_wrong(&alone(key, it)));
                format!(".{key}{below}")
            })
        }
        Value::Array(list) if !is_wrong(&json!([])) => {
            let wrong = list.iter().position(|child| is_wrong(&json!([child])));
            wrong.map_or_else(String::new, |index| {
                let below = wrong_field(&list[index], &|it| is_wrong(&json!([it])));
                format!("[{index}]{below}")
            })
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Outer {
        inner: Option<Inner>,
        list: Vec<Inner>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Inner {
        number: u64,
        map: BTreeMap<String, String>,
    }

    #[test]
    fn an_error_names_the_field() {
        let check = |object: Value, expect: &str| {
            assert_eq!(decode::<Outer>(&object).unwrap_err(), expect, "{object}");
        };
        let not_a_number = "invalid type: string \"abc\", expected u64";
        check(
            json!({"inner": {"map": {"a": "b"}, "number": "abc"}, "list": [{"number": "abc"}]}),
            &format!("inner.number: {not_a_number}"),
        );
        check(
            json!({"inner": {"number": 1}, "list": [{}, {"number": "abc"}]}),
            &format!("list[1].number: {not_a_number}"),
        );
        check(
            json!({"inner": {"map": {"a": "b", "c": 1}}}),
            "inner.map.c: invalid type: integer `1`, expected a string",
        );
        check(json!({"list": {"a": 1}}), "list: invalid type: map, expected a sequence");
    }
}
