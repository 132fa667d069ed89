//! Formats values as the verbs of Go's `fmt` do, for error messages.

use serde_json::Number;

use crate::field_path::quote;
use crate::{Value, codec};

/// `%v`: `map[a:1 b:[x <nil>]]`.
pub(crate) fn format_v(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => float(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_v).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}:{}", format_v(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// `%#v`: `map[string]interface {}{"a":1, "b":[]interface {}{"x"}}`.
pub(crate) fn format_sharp_v(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_sharp_v).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{}:{}", quote(key), format_sharp_v(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => format_v(scalar),
    }
}

/// `%T` of a value that `encoding/json` decoded without a type: every number is a `float64`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        other => codec::json::kind_name(other),
    }
}

/// `%v` of a number that Go holds as a `float64`: with an exponent below 1e-4 and from 1e6 on.
fn float(number: &Number) -> String {
    let Some(float) = number.as_f64() else { return number.to_string() };
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(power) if !(-4..6).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", power.abs())
        }
        _ if number.is_f64() => float.to_string(),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn values_are_formatted_as_in_go() {
        let it = json!({"b": ["x", null, 1_000_000], "a": true});
        assert_eq!(format_v(&it), "map[a:true b:[x <nil> 1e+06]]");
        assert_eq!(
            format_sharp_v(&it),
            r#"map[string]interface {}{"a":true, "b":[]interface {}{"x", interface {}(nil), 1e+06}}"#
        );
        assert_eq!(format_v(&json!(1e-7)), "1e-07");
    }
}
