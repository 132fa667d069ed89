//! Fields of untyped objects, with the errors of upstream's `unstructured.Nested*` functions for a
//! value of another type.

use crate::{Map, Value, go_value};

/// The value at `path`, or None.
pub fn nested<'a>(
    object: &'a Map<String, Value>,
    path: &[String],
) -> Result<Option<&'a Value>, String> {
    let Some((first, rest)) = path.split_first() else { return Ok(None) };
    let mut found = object.get(first);
    for (index, field) in rest.iter().enumerate() {
        found = match found {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(map)) => map.get(field),
            Some(other) => {
                // Upstream names the field below the value that is not a map.
                return Err(accessor_error(&path[..index + 2], other, "map[string]interface{}"));
            }
        };
    }
    Ok(found)
}

/// The integer at `path`, or None where there is nothing.
pub fn nested_integer(object: &Map<String, Value>, path: &[String]) -> Result<Option<i64>, String> {
    let found = nested(object, path)?;
    found.map(|it| it.as_i64().ok_or_else(|| accessor_error(path, it, "int64"))).transpose()
}

/// The text at `path`, or None where there is nothing.
pub fn nested_text<'a>(
    object: &'a Map<String, Value>,
    path: &[String],
) -> Result<Option<&'a str>, String> {
    let found = nested(object, path)?;
    found.map(|it| it.as_str().ok_or_else(|| accessor_error(path, it, "string"))).transpose()
}

/// The message for a value at `path` that is not of the type `expected`.
pub fn accessor_error(path: &[String], found: &Value, expected: &str) -> String {
    let shown = match found {
        Value::Number(number) if !number.is_f64() => number.to_string(),
        other => go_value::format_v(other),
    };
    let ty = type_name(found);
    format!(".{} accessor error: {shown} is of the type {ty}, expected {expected}", path.join("."))
}

/// Go's name (`%T`) for the type of a value in an untyped object, where integers are `int64`.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn replicas(object: &Value) -> Result<Option<i64>, String> {
        let path = ["spec", "replicas"].map(str::to_owned);
        nested_integer(object.as_object().unwrap(), &path)
    }

    #[test]
    fn missing_fields_are_no_error() {
        assert_eq!(replicas(&json!({})), Ok(None));
        assert_eq!(replicas(&json!({"spec": null})), Ok(None));
        assert_eq!(replicas(&json!({"spec": {"replicas": 3}})), Ok(Some(3)));
    }

    #[test]
    fn values_of_another_type_are_reported_in_the_words_of_go() {
        let message = |it: &Value| replicas(it).unwrap_err();
        assert_eq!(
            message(&json!({"spec": {"replicas": {"a": [1, null]}}})),
            ".spec.replicas accessor error: map[a:[1 <nil>]] is of the type map[string]interface {}, expected int64"
        );
        assert_eq!(
            message(&json!({"spec": 7_000_000})),
            ".spec.replicas accessor error: 7000000 is of the type int64, expected map[string]interface{}"
        );
    }
}
